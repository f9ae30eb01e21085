//! Killed repeatedly at any time: no item that was shown is lost or reported twice, and no server gets
//! more requests than its budget allows.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidewatch::clock::real_pause;

use super::daemon::Home;
use crate::waiting::{soon, until};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply};
use tidewatch_fixtures::source_list::source_with_budget;

const ROUNDS: usize = 50;
const PROBES: usize = 5;
const PER: Duration = Duration::from_secs(2);
const SPACING: Duration = Duration::from_millis(100);

/// The daemon counts in whole milliseconds of the wall clock and the server on the monotonic one,
/// which run apart while the wall clock is being disciplined (half a millisecond a second at most).
const READING: Duration = Duration::from_millis(5);

/// More items than come while a probe is missed.
const WINDOW: usize = 100;

fn item(n: usize) -> String {
    format!("item {n}")
}

#[tokio::test]
async fn fifty_kills_lose_no_item_repeat_none_and_exceed_no_budget() {
    let mut webs = Vec::new();
    for _ in 0..3 {
        let asked = AtomicUsize::new(0);
        webs.push(
            LoopbackServer::start(move |_| {
                // One more with every request; the answer takes a varying moment.
                let newest = asked.fetch_add(1, Ordering::SeqCst);
                let pause = Duration::from_millis([0, 2, 10, 25][newest % 4]);
                Reply::ok(rss((newest.saturating_sub(WINDOW)..=newest).map(item))).slowly(pause)
            })
            .await,
        );
    }
    let home = Home::new();
    let budget = format!("probes = {PROBES}, per = \"2s\", min_spacing = \"100ms\"");
    let sources: Vec<String> = webs
        .iter()
        .enumerate()
        .map(|(n, web)| source_with_budget(&format!("s{n}"), &web.url("/feed"), &budget))
        .collect();
    home.write(&sources);
    let total = || webs.iter().map(|web| web.requests().len()).sum::<usize>();
    let mut daemon = home.start();
    // The first contact is history; it is let through, so that it is the same one in every run.
    home.until("SELECT count(DISTINCT source_id) FROM items", |known| known == 3).await;
    for round in 0..ROUNDS {
        let before = total();
        until("another request", || total() > before).await;
        // A different moment of a probe in every round; it waits for nothing.
        real_pause(Duration::from_millis((round * 7 % 40) as u64)).await;
        daemon.kill();
        // All requests that were sent have arrived, so that none is logged later.
        for web in &webs {
            soon("the servers are quiet", web.settled()).await;
        }
        daemon = home.start();
    }
    let newest: Vec<usize> = webs.iter().map(|web| web.requests().len()).collect();
    for (web, newest) in webs.iter().zip(newest) {
        soon("more requests", web.arrived(newest + 2)).await;
    }
    daemon.stop().await;

    assert_eq!(home.number("SELECT count(*) FROM flights").await, 0);
    assert_eq!(home.number("SELECT count(*) FROM gaps").await, 0);
    let updates: Vec<(String, String, String)> = home
        .rows("SELECT s.name, u.kind, u.key FROM updates u JOIN sources s ON s.id = u.source_id ORDER BY u.id")
        .await;
    for (n, web) in webs.iter().enumerate() {
        let requests = web.requests();
        let keys: Vec<&str> = updates
            .iter()
            .filter(|(name, kind, _)| *name == format!("s{n}") && kind == "new")
            .map(|(_, _, key)| key.as_str())
            .collect();
        let wanted: Vec<String> = (1..requests.len()).map(item).collect();
        let mut sorted = keys.clone();
        sorted.sort_by_key(|key| key.trim_start_matches("item ").parse::<usize>().unwrap());
        assert_eq!(sorted, wanted, "each item that was shown, once");
        for (i, seen) in requests.iter().enumerate() {
            if let Some(next) = requests.get(i + 1) {
                let gap = next.at - seen.at;
                assert!(gap + READING >= SPACING, "requests {i} and {} are {gap:?} apart", i + 1);
            }
            if let Some(next) = requests.get(i + PROBES) {
                let span = next.at - seen.at;
                assert!(span + READING >= PER, "{} requests within {span:?}, from {i}", PROBES + 1);
            }
        }
    }
    assert_eq!(updates.iter().filter(|(_, kind, _)| kind != "new").count(), 0);
    let probes = home.number("SELECT count(*) FROM probes").await;
    assert!(probes >= total() as i64, "every request is in the log");
    let interrupted = home.number("SELECT count(*) FROM probes WHERE error LIKE 'interrupted%'").await;
    assert!(interrupted > 0, "some probes were interrupted");
}
