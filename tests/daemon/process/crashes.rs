//! A daemon that dies: the source that is the cause is found and backed off, and no other is.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tidewatch::clock::real_pause;

use super::daemon::{BRISK, Daemon, Home, LAZY};
use crate::waiting::soon;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, ServerStep};
use tidewatch_fixtures::source_list::source_with_budget;

/// Starts the daemon and gives its number to the server that kills it.
fn start(home: &Home, pid: &AtomicU32) -> Daemon {
    pid.store(0, Ordering::SeqCst);
    let daemon = home.start();
    pid.store(daemon.pid(), Ordering::SeqCst);
    daemon
}

/// Kills the daemon while it waits for the answer.
fn kill(pid: &AtomicU32) {
    let number = loop {
        match pid.load(Ordering::SeqCst) {
            0 => std::thread::yield_now(),
            number => break number,
        }
    };
    let killed = std::process::Command::new("kill").args(["-9", &number.to_string()]).status();
    assert!(killed.unwrap().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_source_at_which_the_daemon_dies_is_found_and_backed_off() {
    let mut good = Vec::new();
    for _ in 0..6 {
        let web = LoopbackServer::start(|_| Reply::ok(rss(["a"])).slowly(Duration::from_millis(50)));
        good.push(web.await);
    }
    let good = Arc::new(good);
    let (pid, deadly) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(true)));
    // The requests that were in progress at each death beside the deadly one.
    let beside: Arc<Mutex<Vec<usize>>> = Arc::default();
    let (to_kill, kills, seen, others) =
        (Arc::clone(&pid), Arc::clone(&deadly), Arc::clone(&beside), Arc::clone(&good));
    let bad = LoopbackServer::start(move |_| {
        if kills.load(Ordering::SeqCst) {
            seen.lock().unwrap().push(others.iter().map(LoopbackServer::in_flight).sum());
            kill(&to_kill);
        }
        Reply::ok(rss(["a"]))
    })
    .await;
    let home = Home::new();
    let mut sources = vec![source_with_budget("deadly", &bad.url("/feed"), BRISK)];
    let of_good = good.iter().enumerate();
    sources
        .extend(of_good.map(|(n, web)| source_with_budget(&format!("good {n}"), &web.url("/feed"), BRISK)));
    home.write(&sources);

    let mut daemon = start(&home, &pid);
    soon("a source is backed off", async {
        while home.number("SELECT count(*) FROM events WHERE kind = 'daemon_died'").await < 1 {
            if daemon.has_ended() {
                daemon = start(&home, &pid);
            }
            real_pause(Duration::from_millis(10)).await;
        }
    })
    .await;
    let deaths = beside.lock().unwrap().clone();
    assert!((2..=4).contains(&deaths.len()), "{deaths:?}");
    let before_backoff = deaths.iter().rposition(|&beside| beside == 0);
    assert!(before_backoff > Some(0), "it was alone at a second or third death: {deaths:?}");
    let named = |line: &str| {
        line.contains("ERROR") && line.contains("deadly") && line.contains("not probed before")
    };
    assert!(daemon.log().lines().any(named), "{}", daemon.log());
    // From now on the daemon survives it.
    deadly.store(false, Ordering::SeqCst);
    if daemon.has_ended() {
        daemon = start(&home, &pid);
    }
    home.until(
        "SELECT count(*) FROM probes p JOIN sources s ON s.id = source_id WHERE name = 'deadly' AND outcome <> 'failed'",
        |answered| answered > 0,
    )
    .await;
    home.until("SELECT count(*) FROM crash_suspects", |left| left == 0).await;
    daemon.stop().await;
    let blamed: Vec<(String,)> = home
        .rows("SELECT DISTINCT name FROM events JOIN sources ON sources.id = source_id WHERE events.kind = 'daemon_died'")
        .await;
    assert_eq!(blamed, [("deadly".to_owned(),)]);
    let failed = "SELECT count(*) FROM sources WHERE error_streak > 0 AND name <> 'deadly'";
    assert_eq!(home.number(failed).await, 0);
}

const INTERRUPTED: &str = "SELECT count(*) FROM probes WHERE error LIKE 'interrupted%'";
const CORRECTIONS: &str = "SELECT count(*) FROM clock_corrections";
/// The daemon saw another time of the boot.
const CLOCK_SET: &str = "UPDATE clock_seen SET booted_at = booted_at + 60000, at = at + 60000";
const SUSPECTS: &str = "SELECT count(*) FROM crash_suspects";

async fn execute(home: &Home, statement: &'static str) {
    sqlx::query(statement).execute(&mut home.connection().await).await.unwrap();
}

#[tokio::test]
async fn a_stop_by_the_operator_or_of_the_machine_makes_no_source_suspect() {
    let web = LoopbackServer::start(|_| Reply::raw(vec![ServerStep::Stall])).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), BRISK)]);
    // The service manager kills a daemon that was asked to stop and takes too long.
    let mut daemon = home.start();
    soon("a request", web.arrived(1)).await;
    daemon.signal("TERM");
    home.until("SELECT count(*) FROM running", |running| running == 0).await;
    daemon.kill();
    let mut daemon = home.start();
    soon("another request", web.arrived(2)).await;
    assert_eq!((home.number(INTERRUPTED).await, home.number(SUSPECTS).await), (1, 0));
    // The machine stops with the daemon, and is booted later.
    daemon.kill();
    execute(&home, "UPDATE running SET boot = 'another boot'").await;
    let mut daemon = home.start();
    soon("another request", web.arrived(3)).await;
    assert_eq!((home.number(INTERRUPTED).await, home.number(SUSPECTS).await), (2, 0));
    // The clock is set while the daemon is stopped for good reason.
    daemon.kill();
    execute(&home, "DELETE FROM running").await;
    execute(&home, CLOCK_SET).await;
    let mut daemon = home.start();
    soon("another request", web.arrived(4)).await;
    assert_eq!((home.number(INTERRUPTED).await, home.number(SUSPECTS).await), (3, 0));
    assert_eq!(home.number(CORRECTIONS).await, 1);
    // Only the daemon dies, and then the clock is set: that is no excuse.
    daemon.kill();
    execute(&home, CLOCK_SET).await;
    let mut daemon = home.start();
    soon("another request", web.arrived(5)).await;
    assert_eq!((home.number(INTERRUPTED).await, home.number(SUSPECTS).await), (4, 1));
    assert_eq!(home.number(CORRECTIONS).await, 2);
    daemon.kill();
    for command in [&["explain", "s"][..], &["status"]] {
        let shown = home.run(command).await.stdout;
        let shown = String::from_utf8_lossy(&shown);
        assert!(shown.contains("tidewatch died once while this source was probed"), "{shown}");
    }
}

#[tokio::test]
async fn a_task_that_panics_ends_the_daemon_with_an_error_that_names_it() {
    let web = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let home = Home::new();
    home.write(&[source_with_budget("s", &web.url("/feed"), LAZY)]);
    let mut daemon = home.start();
    soon("a request", web.arrived(1)).await;
    // Another program has changed the store so that a row of it cannot be read.
    for statement in [
        "DROP TABLE requests",
        "CREATE TABLE requests (id TEXT, source_id INTEGER, asked_at INTEGER, answer TEXT)",
        "INSERT INTO requests VALUES ('no number', 1, 0, NULL)",
    ] {
        execute(&home, statement).await;
    }
    assert_eq!(daemon.ended().await.0.code(), Some(69));
    let named =
        |line: &str| line.contains("the reader of requests ended by itself") && line.contains("panicked");
    assert!(daemon.log().lines().any(named), "{}", daemon.log());
}
