//! The number of files and sockets that the daemon may open.

use super::daemon::{BRISK, Home};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

const ALL_SUCCEEDED: &str = "SELECT count(DISTINCT source_id) FROM probes WHERE outcome <> 'failed'";

#[tokio::test]
async fn more_hosts_than_the_soft_limit_permits_are_probed() {
    let mut webs = Vec::new();
    for _ in 0..80 {
        webs.push(LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await);
    }
    let sources = webs.iter().enumerate();
    let sources = sources.map(|(n, web)| source_with_budget(&format!("s{n}"), &web.url("/feed"), BRISK));
    let home = Home::new();
    home.write(&sources.collect::<Vec<_>>());
    let mut daemon = home.start_after("ulimit -S -n 64");
    home.until(ALL_SUCCEEDED, |succeeded| succeeded == 80).await;
    assert_eq!(home.number("SELECT count(*) FROM probes WHERE outcome = 'failed'").await, 0);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", daemon.pid())).unwrap();
    let files = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let words: Vec<&str> = files.split_whitespace().collect();
    assert_eq!(words[3], words[4], "{files}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_limit_that_cannot_be_raised_is_no_error() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start_after("ulimit -n 100");
    home.until(ALL_SUCCEEDED, |succeeded| succeeded == 1).await;
    daemon.stop().await;
}
