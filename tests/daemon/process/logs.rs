//! The log of a daemon: what its lines say, and that nothing waits for its reader.

use std::sync::{Arc, Mutex};

use super::daemon::{BRISK, Home, LAZY};
use crate::waiting::{soon, until};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

#[tokio::test]
async fn a_log_that_is_not_read_stops_no_probe() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["x"]))).await;
    let home = Home::new();
    let source = |n| source_with_budget(&format!("source {n}"), &web.url(&format!("/{n}")), BRISK);
    home.write(&(0..20).map(source).collect::<Vec<_>>());
    let (_unread, log) = std::io::pipe().unwrap();
    let mut daemon = home.start_with_log("debug,sqlx::query=trace", log);
    // Their lines are several times what a pipe holds.
    soon("probes go on", web.arrived(200)).await;
    daemon.stop().await;
}

#[tokio::test]
async fn lines_say_which_source_and_why_and_end_with_the_stop() {
    let items = Arc::new(Mutex::new(vec!["one".to_owned(), "two".to_owned()]));
    let shown = Arc::clone(&items);
    let web = LoopbackServer::start(move |seen| match seen.path.as_str() {
        "/bad" => Reply::new(503),
        _ => Reply::ok(rss(shown.lock().unwrap().iter().rev())),
    })
    .await;
    let home = Home::new();
    home.write(&[
        source_with_budget("good", &web.url("/good"), BRISK),
        source_with_budget("bad", &web.url("/bad"), LAZY),
    ]);
    let mut daemon = home.start();
    until("the first lines", || {
        let log = daemon.log();
        log.contains("good: first answer: 2 items known") && log.contains("bad: probe failed: HTTP 503")
    })
    .await;
    // As references, because XML allows no such characters.
    items.lock().unwrap().push("three &#x9b;31m\r\n&#x202e;ERROR a false line".to_owned());
    until("the line of the update", || daemon.log().contains("good: new: About three")).await;
    daemon.stop().await;
    let log = daemon.log();
    assert!(log.lines().last().unwrap().ends_with(" INFO stopped"), "{log}");
    assert!(!log.contains(['\u{9b}', '\u{202e}', '\u{1b}', '\r']), "{log:?}");
    let times = log.lines().filter(|line| line.starts_with("20") && line.as_bytes()[23] == b'Z').count();
    assert_eq!(times, log.lines().count(), "each line is one of ours: {log}");
    assert!(!log.contains("not_modified") && !log.contains("unchanged"), "{log}");
}

#[tokio::test]
async fn lines_about_repaired_feeds_are_bounded() {
    let web = LoopbackServer::start(|_| Reply::ok(format!("junk{}", rss(["x"])))).await;
    let home = Home::new();
    let source = |n| source_with_budget(&format!("source {n}"), &web.url(&format!("/{n}")), LAZY);
    home.write(&(0..200).map(source).collect::<Vec<_>>());
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM probes", |probes| probes == 200).await;
    daemon.stop().await;
    let log = daemon.log();
    let lines = log.lines().filter(|line| line.contains("junk before") || line.contains("first answer"));
    // Sixty per minute, of four hundred.
    let lines = lines.count();
    assert!(log.contains("junk before the feed") && lines <= 180, "{lines}: {log}");
}
