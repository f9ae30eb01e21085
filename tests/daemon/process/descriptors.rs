//! The number of files and sockets that the daemon may open.

use std::collections::BTreeSet;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

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

/// Sets the soft limit of open files of a process.
fn limit(pid: u32, files: u32) {
    let arguments = [format!("--pid={pid}"), format!("--nofile={files}:")];
    assert!(Command::new("prlimit").args(arguments).status().unwrap().success());
}

/// Leaves a process the files that it has open.
fn leave_no_descriptor(pid: u32) {
    let open = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
    let open: BTreeSet<u32> =
        open.filter_map(|file| file.unwrap().file_name().to_str()?.parse().ok()).collect();
    limit(pid, (0..).find(|number| !open.contains(number)).unwrap());
}

#[tokio::test]
async fn the_lack_of_descriptors_at_a_redirect_is_no_failure_of_the_source() {
    let there = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let (pid, full) = (Arc::new(OnceLock::new()), Arc::new(AtomicBool::new(true)));
    let (of_daemon, is_full, target) = (Arc::clone(&pid), Arc::clone(&full), there.url("/there"));
    // The connection is kept, so that its descriptor is not free for the next one.
    let web = LoopbackServer::start(move |_| {
        if is_full.load(Ordering::Relaxed) {
            leave_no_descriptor(*of_daemon.get().unwrap());
        }
        Reply::redirect(302, &target).keep_open()
    })
    .await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    let mut daemon = home.start();
    pid.set(daemon.pid()).unwrap();
    let lacking = "SELECT count(*) FROM probes WHERE error LIKE '%no file descriptor left%'";
    home.until(lacking, |lacking| lacking > 0).await;
    full.store(false, Ordering::Relaxed);
    limit(daemon.pid(), 1024);
    assert_eq!(home.number("SELECT max(error_streak) FROM sources").await, 0, "{}", daemon.log());
    let charged =
        "SELECT count(*) FROM probes WHERE error LIKE '%no file descriptor left%' AND uncharged IS NULL";
    assert!(home.number(charged).await > 0, "a request was sent");
    assert!(home.number("SELECT count(*) FROM events WHERE kind = 'no_descriptors'").await > 0);
    home.until(ALL_SUCCEEDED, |succeeded| succeeded == 1).await;
    daemon.stop().await;
}
