//! Killed repeatedly while it sends as many probes as it can: batches of starts and ends are then in every
//! stage. What must hold does not depend on how many those are.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tidewatch::clock::real_pause;
use tokio::task::JoinSet;

use super::daemon::Home;
use crate::waiting::{soon, until};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, SeenRequest};
use tidewatch_fixtures::source_list::source_table;

const HOSTS: usize = 100;
const FEEDS_PER_HOST: usize = 4;
const ROUNDS: usize = 40;

/// Budgets of the feeds of a host. The daemon spends the first, and cannot spend all together.
const PROBES: [usize; FEEDS_PER_HOST] = [5, 10, 20, 40];
const PER: Duration = Duration::from_secs(2);
const SPACING: Duration = Duration::from_millis(20);

/// The daemon counts in whole milliseconds of the wall clock and the server on the monotonic one,
/// which run apart while the wall clock is being disciplined (half a millisecond a second at most).
const READING: Duration = Duration::from_millis(5);

/// More items than come while answers are lost: a kill loses at most one answer of a source.
const WINDOW: usize = ROUNDS + 10;

fn item(n: usize) -> String {
    format!("item {n}")
}

fn feed_of(seen: &SeenRequest) -> usize {
    seen.path.trim_start_matches('/').parse().expect("a number")
}

/// A feed shows one more item with every request.
async fn start_host(total: Arc<AtomicUsize>) -> LoopbackServer {
    let requests: [AtomicUsize; FEEDS_PER_HOST] = Default::default();
    LoopbackServer::start(move |seen| {
        let newest = requests[feed_of(seen)].fetch_add(1, Ordering::SeqCst);
        let all = total.fetch_add(1, Ordering::SeqCst);
        let reply = Reply::ok(rss((newest.saturating_sub(WINDOW)..=newest).map(item)));
        match all % 5 {
            0 => reply.slowly(Duration::from_millis(20)),
            _ => reply,
        }
    })
    .await
}

/// Waits until all requests that were sent have arrived, so that none is logged later.
async fn settled(hosts: &Arc<Vec<LoopbackServer>>) {
    let mut all = JoinSet::new();
    for host in 0..HOSTS {
        let hosts = Arc::clone(hosts);
        all.spawn(async move { hosts[host].settled().await });
    }
    soon("the servers are quiet", all.join_all()).await;
}

/// The requests for each feed, by the name of its source.
fn by_source(hosts: &[LoopbackServer]) -> HashMap<String, Vec<SeenRequest>> {
    let mut all: HashMap<String, Vec<SeenRequest>> = HashMap::new();
    for (number, host) in hosts.iter().enumerate() {
        for seen in host.requests() {
            all.entry(format!("s{number}{}", seen.path)).or_default().push(seen);
        }
    }
    all
}

#[tokio::test]
async fn kills_at_full_rate_lose_no_item_repeat_none_and_exceed_no_budget() {
    let total = Arc::new(AtomicUsize::new(0));
    let mut hosts = Vec::new();
    for _ in 0..HOSTS {
        hosts.push(start_host(Arc::clone(&total)).await);
    }
    let hosts = Arc::new(hosts);
    let home = Home::new();
    let source = |n: usize| {
        let (host, feed) = (n / FEEDS_PER_HOST, n % FEEDS_PER_HOST);
        let budget = format!("probes = {}, per = \"2s\", min_spacing = \"20ms\"", PROBES[feed]);
        let settings = format!("policy = \"uniform\"\nbudget = {{ {budget} }}");
        source_table(&format!("s{host}/{feed}"), &hosts[host].url(&format!("/{feed}")), &settings)
    };
    let sources: Vec<String> = (0..HOSTS * FEEDS_PER_HOST).map(source).collect();
    home.write_with_steps("step = \"20ms\"\nprobes_per_step = 10000", &sources);
    let requests = || total.load(Ordering::SeqCst);
    let mut daemon = home.start();
    // The first contacts are history; they are let through, so that they are the same in every run.
    home.until("SELECT count(DISTINCT source_id) FROM items", |known| known == sources.len() as i64).await;
    for round in 0..ROUNDS {
        // Other stages of a start, and then of the probes, in every round.
        let wanted = requests() + [1, 150, 10, 400][round % 4];
        until("further requests", || requests() >= wanted).await;
        real_pause(Duration::from_millis((round * 7 % 40) as u64)).await;
        if round % 2 == 0 {
            until("a request is in progress", || hosts.iter().any(|host| host.in_flight() > 0)).await;
        }
        daemon.kill();
        settled(&hosts).await;
        daemon = home.start();
    }
    let before: HashMap<String, usize> =
        by_source(&hosts).into_iter().map(|(name, seen)| (name, seen.len())).collect();
    let probed_twice = || by_source(&hosts).iter().all(|(name, seen)| seen.len() >= before[name] + 2);
    soon("two more probes of each source", async {
        while !probed_twice() {
            real_pause(Duration::from_millis(100)).await;
        }
    })
    .await;
    daemon.stop().await;

    assert_eq!(home.number("SELECT count(*) FROM flights").await, 0);
    assert_eq!(home.number("SELECT count(*) FROM gaps").await, 0);
    assert_eq!(home.number("SELECT count(*) FROM updates WHERE kind <> 'new'").await, 0);
    let probes = home.number("SELECT count(*) FROM probes").await;
    assert!(probes >= requests() as i64, "{probes} probes are in the log, of {} requests", requests());
    let interrupted = home.number("SELECT count(*) FROM probes WHERE error LIKE 'interrupted%'").await;
    assert!(interrupted >= ROUNDS as i64 / 2, "{interrupted} probes were interrupted");
    let updates: Vec<(String, String)> =
        home.rows("SELECT s.name, u.key FROM updates u JOIN sources s ON s.id = u.source_id").await;
    let mut keys: HashMap<String, Vec<String>> = HashMap::new();
    for (name, key) in updates {
        keys.entry(name).or_default().push(key);
    }
    let all = by_source(&hosts);
    assert_eq!(all.len(), sources.len());
    for (name, requests) in all {
        let found = keys.remove(&name).unwrap_or_default();
        assert_eq!(found.len(), requests.len() - 1, "{name}: each item that was shown, once");
        assert_eq!(found.into_iter().collect::<HashSet<_>>(), (1..requests.len()).map(item).collect());
        let probes = PROBES[feed_of(&requests[0])];
        for (count, least) in [(2, SPACING), (probes + 1, PER)] {
            for window in requests.windows(count) {
                let taken = window[count - 1].at - window[0].at;
                assert!(taken + READING >= least, "{name}: {count} requests within {taken:?}");
            }
        }
    }
    for host in hosts.iter() {
        assert_eq!(host.most_in_flight(), 1, "one request at a time");
    }
}
