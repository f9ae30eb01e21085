//! Signals, and the messages to the service manager about them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidewatch::clock::Clock;
use tidewatch_core::observe::compare::key_hash;
use tidewatch_core::time::{Span, Timestamp};

use tokio::sync::Notify;

use super::daemon::{BRISK, Home, LAZY};
use crate::waiting::{soon, until};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, ServerStep};
use tidewatch_fixtures::source_list::source_with_budget;

#[tokio::test]
async fn the_service_manager_gets_ready_status_and_watchdog_messages() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_as_service();
    let messages = daemon.wait_for_message("READY=1").await;
    assert!(messages.last().unwrap().contains("STATUS=watching 1 sources"), "{messages:?}");
    // Until it was ready, it asked for more time.
    assert!(messages[0].contains("EXTEND_TIMEOUT_USEC=300000000"), "{messages:?}");
    // Watchdog messages are sent as long as the scheduler runs.
    for _ in 0..3 {
        daemon.wait_for_message("WATCHDOG=1").await;
    }
    daemon.signal("TERM");
    daemon.wait_for_message("STOPPING=1").await;
    assert_eq!(daemon.ended().await.0.code(), Some(0));
    let events: Vec<(String,)> =
        home.rows("SELECT kind FROM events WHERE kind IN ('started', 'stopped') ORDER BY id").await;
    assert_eq!(events, [("started".to_owned(),), ("stopped".to_owned(),)]);
}

#[tokio::test]
async fn a_service_manager_that_does_not_read_delays_nothing() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_as_service();
    let manager = home.path("notify");
    let sender = std::os::unix::net::UnixDatagram::unbound().unwrap();
    sender.set_nonblocking(true).unwrap();
    // The socket is not read, so that its buffer fills up.
    until("its socket is full", || sender.send_to(b"X=1", &manager).is_err()).await;
    let asked = web.requests().len();
    until("probes go on", || web.requests().len() > asked + 10).await;
    daemon.signal("HUP");
    home.until("SELECT count(*) FROM events WHERE kind = 'reloaded'", |n| n == 1).await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_hangup_applies_the_changed_list_and_causes_no_probe() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    let of = |name: &str, budget| source_with_budget(name, &web.url(&format!("/{name}")), budget);
    let stays = [of("lazy", LAZY), of("brisk", BRISK)];
    home.write(&[stays[0].clone(), stays[1].clone(), of("leaves", BRISK)]);
    let asked = |path: &str| web.requests().iter().filter(|seen| seen.path == format!("/{path}")).count();
    let mut daemon = home.start_as_service();
    daemon.wait_for_message("READY=1").await;
    until("both brisk ones were asked", || asked("brisk") > 1 && asked("leaves") > 1).await;
    home.until("SELECT last_probe_at FROM sources WHERE name = 'lazy'", |at| at > 0).await;
    let due = "SELECT next_probe_at FROM sources WHERE name = 'lazy'";
    let (due_before, asked_before) = (home.number(due).await, asked("lazy"));

    home.write(&[stays[0].clone(), stays[1].clone(), of("comes", LAZY)]);
    daemon.signal("HUP");
    let messages = daemon.wait_for_message("READY=1").await;
    let reloading = messages.iter().find(|message| message.contains("RELOADING=1")).expect("before READY");
    let when = reloading.lines().find_map(|line| line.strip_prefix("MONOTONIC_USEC=")).expect("when");
    assert!(when.parse::<u64>().unwrap() > 0);
    let status = messages.last().unwrap();
    assert!(status.contains("STATUS=reloaded: "), "{status}");
    assert!(status.contains("comes") || status.contains("added"), "{status}");

    home.until("SELECT count(*) FROM events WHERE kind = 'reloaded'", |n| n == 1).await;
    home.until("SELECT next_probe_at FROM sources WHERE name = 'comes'", |due| due > 0).await;
    until("the new one is probed when due", || asked("comes") == 1).await;
    assert_eq!(home.number(due).await, due_before);
    let state: Vec<(String, Option<i64>)> =
        home.rows("SELECT state, next_probe_at FROM sources WHERE name = 'leaves'").await;
    assert_eq!(state[0].0, "removed");
    // A probe that was under way at the reload may still arrive; no later one does.
    home.until(
        "SELECT count(*) FROM flights WHERE source_id = (SELECT id FROM sources WHERE name = 'leaves')",
        |n| n == 0,
    )
    .await;
    let (left, brisk) = (asked("leaves"), asked("brisk"));
    until("the brisk one goes on", || asked("brisk") > brisk + 4).await;
    assert_eq!(asked("leaves"), left);
    assert_eq!((asked("lazy"), asked_before), (1, 1));
    daemon.stop().await;
}

#[tokio::test]
async fn a_hangup_with_a_faulty_file_changes_nothing() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_as_service();
    daemon.wait_for_message("READY=1").await;
    soon("a first probe", web.arrived(1)).await;
    std::fs::write(home.config(), "[fleet]\nstep = \"0s\"\n").unwrap();
    daemon.signal("HUP");
    let messages = daemon.wait_for_message("READY=1").await;
    assert!(messages.iter().any(|message| message.contains("RELOADING=1")), "{messages:?}");
    assert!(messages.last().unwrap().contains("STATUS=reload refused"), "{messages:?}");
    let place = format!("{}:2:8", home.config().display());
    // The log has a thread of its own.
    until("the place of the fault", || daemon.log().contains(&place)).await;
    home.until("SELECT count(*) FROM events WHERE kind = 'reload_refused'", |n| n == 1).await;
    let before = web.requests().len();
    soon("the old list goes on", web.arrived(before + 3)).await;
    let messages = daemon.wait_for_message("STATUS=watching").await;
    assert!(messages.last().unwrap().contains("last reload: REFUSED"), "it stays: {messages:?}");
    // A valid file is accepted again.
    home.write(&[
        source_with_budget("s", &web.url("/feed"), BRISK),
        source_with_budget("t", &web.url("/other"), BRISK),
    ]);
    daemon.signal("HUP");
    daemon.wait_for_message("STATUS=reloaded").await;
    let messages = daemon.wait_for_message("STATUS=watching").await;
    assert!(!messages.last().unwrap().contains("REFUSED"), "{messages:?}");
    until("the new one is asked", || web.requests().iter().any(|seen| seen.path == "/other")).await;
    daemon.stop().await;
}

/// A feed with three items a day for ten weeks, and six a day in the last ten days.
fn dated_feed(now: Timestamp) -> String {
    let hours = (0..70 * 24_i64).filter(|hour| hour % if *hour < 240 { 4 } else { 8 } == 0);
    let entry = |hour: i64| {
        let at = (now - Span::from_hours(hour + 1)).iso();
        format!("<entry><id>urn:{hour}</id><title>{hour}</title><published>{at}</published></entry>")
    };
    let entries: String = hours.map(entry).collect();
    format!("<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>t</title><id>urn:f</id>{entries}</feed>")
}

#[tokio::test]
async fn a_hangup_with_another_half_life_or_zone_learns_again() {
    let now = Clock::wall().now();
    let web = LoopbackServer::start(move |_| Reply::ok(dated_feed(now))).await;
    let write = |home: &Home, half_life: &str, zone: &str| {
        let rate = format!("[rate]\nhalf_life = '{half_life}'\n[importance]\ntime_zone = '{zone}'\n");
        home.write(&[source_with_budget("s", &web.url("/feed"), LAZY), rate]);
    };
    let learned = "SELECT count(*) FROM histories";
    // The rate of a daemon that had the settings from its start; it is fitted at the end.
    let fresh = async |half_life: &str, zone: &str| -> f64 {
        let home = Home::new();
        write(&home, half_life, zone);
        let mut daemon = home.start();
        home.until(learned, |n| n == 1).await;
        daemon.stop().await;
        home.rows::<(f64,)>("SELECT per_week FROM fits").await[0].0
    };
    let home = Home::new();
    write(&home, "8w", "UTC");
    let mut daemon = home.start_as_service();
    daemon.wait_for_message("READY=1").await;
    home.until(learned, |n| n == 1).await;
    write(&home, "1w", "Asia/Tokyo");
    daemon.signal("HUP");
    let fitted = "SELECT count(*) FROM fits WHERE time_zone = 'Asia/Tokyo'";
    home.until(fitted, |n| n == 1).await;
    let changed = home.rows::<(f64,)>("SELECT per_week FROM fits").await[0].0;
    until("the line", || daemon.log().contains("rates were learned again")).await;
    let (short, long) = (fresh("1w", "Asia/Tokyo").await, fresh("8w", "UTC").await);
    assert!((changed / short - 1.0).abs() < 0.01, "{changed} {short} {long}");
    assert!(changed > 1.1 * long, "{changed} {long}");
    daemon.stop().await;
    // The same at a start.
    write(&home, "8w", "Europe/Paris");
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM fits WHERE time_zone = 'Europe/Paris'", |n| n == 1).await;
    let changed = home.rows::<(f64,)>("SELECT per_week FROM fits").await[0].0;
    assert!((changed / long - 1.0).abs() < 0.01, "{changed} {long}");
    daemon.stop().await;
}

/// The items that a feed shows when it is asked for the n-th time.
fn shown(name: usize, asked: usize) -> Vec<String> {
    (0..=asked).map(|item| format!("{name}/{item}")).collect()
}

#[tokio::test]
async fn answers_before_the_end_are_in_the_store() {
    let mut webs = Vec::new();
    for name in 0..24 {
        let asked = AtomicUsize::new(0);
        webs.push(
            LoopbackServer::start(move |_| {
                let n = asked.fetch_add(1, Ordering::SeqCst);
                Reply::ok(rss(shown(name, n))).slowly(Duration::from_millis(300))
            })
            .await,
        );
    }
    let home = Home::new();
    let sources: Vec<String> = webs
        .iter()
        .enumerate()
        .map(|(name, web)| source_with_budget(&format!("s{name}"), &web.url("/feed"), BRISK))
        .collect();
    home.write(&sources);
    let mut daemon = home.start();
    until("many requests are under way", || {
        let total: usize = webs.iter().map(|web| web.requests().len()).sum();
        let under_way: usize = webs.iter().map(LoopbackServer::in_flight).sum();
        total > 60 && under_way > 8
    })
    .await;
    daemon.stop().await;
    for web in &webs {
        web.settled().await;
    }
    let stored: Vec<(String, i64)> =
        home.rows("SELECT s.name, i.key_hash FROM items i JOIN sources s ON s.id = i.source_id").await;
    let news: Vec<(String, String)> =
        home.rows("SELECT s.name, u.key FROM updates u JOIN sources s ON s.id = u.source_id").await;
    for (name, web) in webs.iter().enumerate() {
        let answered = web.answered().into_iter().max().expect("each was answered");
        let source = format!("s{name}");
        for (n, item) in shown(name, answered).into_iter().enumerate() {
            let hash = key_hash(&item) as i64;
            assert!(stored.contains(&(source.clone(), hash)), "{item} was shown and is not remembered");
            let reported = news.iter().filter(|row| **row == (source.clone(), item.clone())).count();
            assert_eq!(reported, usize::from(n > 0), "{item}");
        }
        let probes = web.requests().len();
        assert_eq!(web.answered().len(), probes, "nothing was cut short");
    }
    assert_eq!(home.number("SELECT count(*) FROM flights").await, 0);
    let probes = home.number("SELECT count(*) FROM probes WHERE outcome <> 'failed'").await;
    assert_eq!(probes, webs.iter().map(|web| web.requests().len() as i64).sum::<i64>());
}

#[tokio::test]
async fn a_silent_server_delays_the_end_by_ten_seconds_at_most() {
    let web = LoopbackServer::start(|_| Reply::raw(vec![ServerStep::Stall])).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    soon("a request", web.arrived(1)).await;
    daemon.stop().await;
    // It was sent, so it counts: the next start records the open attempt as a probe.
    assert_eq!(home.number("SELECT count(*) FROM flights").await, 1);
    let mut daemon = home.start();
    home.until("SELECT count(*) FROM probes WHERE error LIKE 'interrupted%'", |n| n == 1).await;
    daemon.kill();
}

#[tokio::test]
async fn a_second_signal_aborts_at_once() {
    let web = LoopbackServer::start(|_| Reply::raw(vec![ServerStep::Stall])).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_as_service();
    soon("a request", web.arrived(1)).await;
    daemon.signal("TERM");
    daemon.wait_for_message("STOPPING=1").await;
    daemon.signal("INT");
    let (status, taken) = daemon.ended().await;
    assert_eq!(status.code(), Some(1), "{}", daemon.log());
    assert!(taken < Duration::from_secs(5), "the drain alone would take longer: {taken:?}");
    assert!(daemon.log().contains("second signal"), "{}", daemon.log());
}

#[tokio::test]
async fn many_hangups_at_once_do_no_harm() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_as_service();
    daemon.wait_for_message("READY=1").await;
    for _ in 0..20 {
        daemon.signal("HUP");
    }
    daemon.wait_for_message("STATUS=reloaded").await;
    let before = web.requests().len();
    soon("it goes on", web.arrived(before + 2)).await;
    daemon.stop().await;
}

#[tokio::test]
async fn the_watchdog_expects_commits_or_a_known_stall_and_a_hangup_meanwhile_is_carried_out_afterwards() {
    let answer = Arc::new(Notify::new());
    let of_server = Arc::clone(&answer);
    let web = LoopbackServer::start(move |seen| match seen.order {
        0 => Reply::ok(rss(["a"])).after(Arc::clone(&of_server)),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), LAZY)]);
    let mut daemon = home.start_as_service();
    soon("a request", web.arrived(1)).await;
    daemon.wait_for_message("WATCHDOG=1").await;
    // Another program holds the store, and then the probe ends.
    let mut other = home.connection().await;
    sqlx::query("BEGIN IMMEDIATE").execute(&mut other).await.unwrap();
    answer.notify_one();
    web.settled().await;
    daemon.messages();
    let messages = daemon.wait_for_message("THE STORE CANNOT BE WRITTEN").await;
    // A ping every 0.4 s, for 0.75 s; the store is known to be stalled after five seconds.
    let pings = messages.iter().filter(|message| message.contains("WATCHDOG=1")).count();
    assert!(pings <= 7, "{messages:?}");
    // A restart would not help then.
    for _ in 0..3 {
        daemon.wait_for_message("WATCHDOG=1").await;
    }
    for _ in 0..3 {
        daemon.signal("HUP");
    }
    // The files are read when the store can be written again.
    daemon.wait_for_message("WATCHDOG=1").await;
    home.write(&[
        source_with_budget("s", &web.url("/feed"), LAZY),
        source_with_budget("t", &web.url("/other"), LAZY),
    ]);
    sqlx::query("ROLLBACK").execute(&mut other).await.unwrap();
    daemon.wait_for_message("STATUS=reloaded").await;
    until("the new one is asked", || web.requests().iter().any(|seen| seen.path == "/other")).await;
    daemon.stop().await;
    assert_eq!(home.number("SELECT count(*) FROM events WHERE kind = 'reloaded'").await, 1);
}
