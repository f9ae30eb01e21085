//! Two hundred hostile sources among a thousand good ones.

use std::collections::HashSet;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::daemon::{Daemon, Home, allocator_settings};
use crate::waiting::{until, until_found};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::hostile::{HOSTILE_DOCUMENTS, HostileDocument, ReadAs};
use tidewatch_fixtures::hostile_servers::{HOSTILE_SERVERS, HostileServer};
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, SeenRequest};
use tidewatch_fixtures::source_list::source_table;
use tokio::sync::oneshot;

const GOOD: usize = 1_000;
const HOSTILE: usize = 200;

/// Size of the hostile documents, in bytes.
const DOCUMENT: usize = 1_000_000;

/// What a hostile source does.
enum Behaviour {
    Document { read_as: ReadAs, body: String },
    Server(&'static HostileServer),
}

impl Behaviour {
    fn all() -> Vec<Self> {
        let written = |document: &HostileDocument| Self::Document {
            read_as: document.read_as,
            body: (document.write)(DOCUMENT),
        };
        let documents = HOSTILE_DOCUMENTS.iter().filter(|document| document.read_as != ReadAs::Robots);
        documents.map(written).chain(HOSTILE_SERVERS.iter().map(Self::Server)).collect()
    }

    fn answer(&self, seen: &SeenRequest) -> Reply {
        match self {
            Self::Document { body, .. } => Reply::ok(body.clone()),
            Self::Server(server) => (server.answer)(seen),
        }
    }

    /// Whether it asks for a pause that is longer than the test.
    fn wants_long_pause(&self) -> bool {
        matches!(self, Self::Server(server) if
            (server.name.starts_with("wants") && server.name != "wants a pause of three seconds")
                || server.name.starts_with("has no requests left"))
    }

    fn wants_three_seconds(&self) -> bool {
        matches!(self, Self::Server(server) if server.name == "wants a pause of three seconds")
    }
}

/// The number at the beginning of a path.
fn number(path: &str) -> usize {
    let digits = path[1..].split(|c: char| !c.is_ascii_digit()).next().unwrap();
    digits.parse().unwrap()
}

/// An address of this machine for each number: each is a host by itself.
fn address(network: u8, number: usize) -> String {
    format!("127.{network}.{}.{}", number / 250, number % 250 + 1)
}

fn source(name: &str, url: &url::Url, budget: &str, kind: &str) -> String {
    let settings =
        format!("budget = {{ {budget} }}\npolicy = \"uniform\"\nkind = \"{kind}\"\nrobots = false\n");
    source_table(name, url, &settings)
}

/// A server for all addresses of this machine. On its own thread, so that one cannot delay another.
async fn server(script: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static) -> LoopbackServer {
    let (started, server) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let _ = started.send(LoopbackServer::start_on(Ipv4Addr::UNSPECIFIED.into(), script).await);
            std::future::pending::<()>().await;
        });
    });
    server.await.unwrap()
}

/// A daemon with all of these sources.
struct Fleet {
    home: Home,
    daemon: Daemon,
    hostile: LoopbackServer,
    _good: LoopbackServer,
}

impl Fleet {
    async fn start() -> Self {
        let behaviours = Behaviour::all();
        assert!(behaviours.len() >= 60 && behaviours.len() <= HOSTILE, "{}", behaviours.len());
        let of = |n: usize| n % behaviours.len();
        let kind = |n: usize| match behaviours[of(n)] {
            Behaviour::Document { read_as: ReadAs::Page, .. } => "page",
            _ => "feed",
        };
        let kinds: Vec<&str> = (0..HOSTILE).map(kind).collect();
        let hostile =
            server(move |seen| behaviours[number(&seen.path) % behaviours.len()].answer(seen)).await;
        // Each has one more item at each probe.
        let probed: Vec<AtomicUsize> = (0..GOOD).map(|_| AtomicUsize::new(0)).collect();
        let good = server(move |seen| {
            let first = probed[number(&seen.path)].fetch_add(1, Ordering::Relaxed);
            Reply::ok(rss((first..first + 10).map(|n| n.to_string())))
        })
        .await;
        let good_sources = (0..GOOD).map(|n| {
            let url = good.url_as(&address(2, n), &format!("/{n}"));
            source(&format!("good-{n}"), &url, "probes = 3, per = \"30s\", min_spacing = \"5s\"", "feed")
        });
        let hostile_sources = (0..HOSTILE).map(|n| {
            let url = hostile.url_as(&address(3, n), &format!("/{n}"));
            let budget = "probes = 20, per = \"10s\", min_spacing = \"500ms\"";
            source(&format!("hostile-{n}"), &url, budget, kinds[n])
        });
        let sources = good_sources.chain(hostile_sources);
        // Longer than a good server takes on a busy machine.
        let patient = "[fetch]\nconnect_timeout = \"1m\"\nread_timeout = \"1m\"\ntotal_timeout = \"4m\"\n";
        let sources: Vec<String> = std::iter::once(patient.to_owned()).chain(sources).collect();
        let home = Home::new();
        home.write_with_steps("step = \"100ms\"\nprobes_per_step = 1000", &sources);
        let daemon = home.start_after(&format!("export {}", allocator_settings()));
        Self { home, daemon, hostile, _good: good }
    }

    /// Waits until each hostile source was probed, and each good one some times.
    async fn probed(&self, times: i64) {
        until("all hostile ones are asked", || {
            let asked =
                self.hostile.requests().iter().map(|seen| number(&seen.path)).collect::<HashSet<_>>();
            asked.len() == HOSTILE
        })
        .await;
        let least = "SELECT min(probes) FROM (SELECT count(probes.id) AS probes FROM sources
             LEFT JOIN probes ON source_id = sources.id WHERE name LIKE 'good%' GROUP BY sources.id)";
        until_found("the good ones go on", async || self.home.number(least).await >= times).await;
    }

    fn store_bytes(&self) -> u64 {
        ["tidewatch.db", "tidewatch.db-wal"]
            .iter()
            .filter_map(|name| std::fs::metadata(self.home.path(name)).ok())
            .map(|file| file.len())
            .sum()
    }
}

#[tokio::test]
async fn hostile_sources_harm_no_good_one_and_take_bounded_memory() {
    let mut fleet = Fleet::start().await;
    fleet.probed(3).await;
    let peak = fleet.daemon.peak_memory();
    assert!(peak < 256 << 20, "{} MB", peak >> 20);
    let stored = fleet.store_bytes();
    assert!(stored < 128 << 20, "{} MB in the store", stored >> 20);
    let home = &fleet.home;
    let errors: Vec<(String, i64)> = home
        .rows(
            "SELECT error, count(*) FROM probes JOIN sources ON sources.id = source_id
             WHERE outcome = 'failed' AND name LIKE 'good%' GROUP BY error LIMIT 5",
        )
        .await;
    assert_eq!(errors, []);
    // The first document is history, and each other one has one new item.
    let missed = "SELECT count(*) FROM sources WHERE name LIKE 'good%'
         AND (SELECT count(*) FROM updates WHERE source_id = sources.id)
             <> (SELECT count(*) - 1 FROM probes WHERE source_id = sources.id)";
    assert_eq!(home.number(missed).await, 0);
    assert_eq!(home.number("SELECT count(*) FROM probes WHERE error LIKE '%panic%'").await, 0);
    let behaviours = Behaviour::all();
    let requests = fleet.hostile.requests();
    for n in 0..HOSTILE {
        let behaviour = &behaviours[n % behaviours.len()];
        let asked: Vec<_> =
            requests.iter().filter(|seen| number(&seen.path) == n).map(|seen| seen.at).collect();
        if behaviour.wants_long_pause() {
            assert_eq!(asked.len(), 1, "{n} wants a pause");
        }
        if behaviour.wants_three_seconds() {
            assert!(asked.windows(2).all(|pair| (pair[1] - pair[0]).as_secs() >= 3), "{asked:?}");
        }
    }
    fleet.daemon.kill();
}

/// In a release build: docs/benchmarks.md has the command.
#[tokio::test]
#[ignore = "measures time"]
async fn good_sources_are_probed_in_time_among_hostile_ones() {
    let mut fleet = Fleet::start().await;
    fleet.probed(10).await;
    let late = "SELECT started_at - due_at FROM probes JOIN sources ON sources.id = source_id
         WHERE name LIKE 'good%' ORDER BY 1 DESC LIMIT 1 OFFSET (
             SELECT count(*) / 100 FROM probes JOIN sources ON sources.id = source_id WHERE name LIKE 'good%')";
    let (late, peak) = (fleet.home.number(late).await, fleet.daemon.peak_memory() >> 20);
    println!("99 of 100 probes of good sources start within {late} ms; {peak} MB");
    fleet.daemon.kill();
    assert!(late <= 1_000, "{late} ms");
}
