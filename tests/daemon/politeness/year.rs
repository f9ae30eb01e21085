//! Months of feeds that have only fresh or only edited items at every probe.
//!
//! The clock stops for each probe and for each turn of the daemon's other tasks, so a year takes some minutes. A run of
//! all tests has four months of it, twice as long as anything is kept.

use std::process::Command;

use super::world::{Site, World, monday};
use tidewatch_core::time::Span;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_table;

/// Probes of each source per day.
const PROBES: i64 = 2;

/// Items of each document.
const ITEMS: usize = 20;

/// Days for which probes, and updates and events, are kept.
const PROBES_KEPT: i64 = 30;
const UPDATES_KEPT: i64 = 60;

/// Known items of each source at most: four documents of `max_items`.
const MAX_ITEMS: i64 = 100;

/// Bytes of key, title and link of an update.
const TEXTS: i64 = 20;

/// The formula of docs/store.md, for two sources.
fn predicted_bytes(probes: i64, updates: i64, items: i64) -> i64 {
    310_000 + 2 * 5_000 + probes * 100 + updates * (110 + TEXTS) + items * 70 + 24 * PROBES_KEPT * 90
}

/// The memory of this process, in bytes.
fn memory() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<i64>().unwrap() * 1024
}

/// In a process of its own, whose memory no other test takes.
#[test]
fn fresh_and_edited_items_are_stored_as_predicted_in_flat_memory() {
    let test = "politeness::year::four_months";
    let mut command = Command::new(std::env::current_exe().unwrap());
    let output = command.args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("1 passed"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[tokio::test]
#[ignore = "the test above runs it in a process of its own"]
async fn four_months() {
    run([75, 120]).await;
}

#[tokio::test]
#[ignore = "takes some minutes"]
async fn a_year() {
    run([150, 365]).await;
}

/// Runs until the second of these days. Store and memory are measured on both.
async fn run(days: [i64; 2]) {
    let mut world = World::new(10_000_000.0);
    world.settings = format!(
        "retain_probes = \"{PROBES_KEPT}d\"\nretain_updates = \"{UPDATES_KEPT}d\"\nretain_events = \"{UPDATES_KEPT}d\"\n\
         {}[fetch]\nmax_items = {MAX_ITEMS}\n",
        world.settings
    );
    let fresh = Site::start(&world, |visit| {
        Reply::ok(rss((0..ITEMS).map(|number| format!("{}-{number}", visit.seen.order))))
    })
    .await;
    let edited = Site::start(&world, |visit| {
        let feed = rss((0..ITEMS).map(|number| number.to_string()));
        Reply::ok(feed.replace("About", &format!("{} about", visit.seen.order)))
    })
    .await;
    let settings = format!(
        "budget = {{ probes = {PROBES}, per = \"1d\", min_spacing = \"1h\" }}\npolicy = \"uniform\"\n"
    );
    let sources = [("fresh", &fresh), ("edited", &edited)]
        .map(|(name, site)| source_table(name, &site.url("/feed"), &settings));
    let daemon = world.start(&sources).await;
    let mut sizes = Vec::new();
    // What is kept longest has its age after some months.
    for day in days {
        while world.clock.now() < monday() + Span::from_days(day) {
            world.pass(Span::from_days(5)).await;
        }
        let pages =
            world.number("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").await;
        sizes.push((pages, memory()));
    }
    daemon.stop().await;
    assert!(fresh.visits().len() as i64 >= days[1] * PROBES * 9 / 10, "{}", fresh.visits().len());
    // Retention runs every hour, and a part at a time.
    let probes = world.number("SELECT count(*) FROM probes").await;
    assert!(probes <= 2 * PROBES * (PROBES_KEPT + 1), "{probes} probes");
    let updates = world.number("SELECT count(*) FROM updates").await;
    assert!(updates <= 2 * PROBES * ITEMS as i64 * (UPDATES_KEPT + 1), "{updates} updates");
    let items = world.number("SELECT count(*) FROM items").await;
    assert!(items <= 4 * MAX_ITEMS + ITEMS as i64 * 2, "{items} items");
    let predicted = predicted_bytes(
        2 * PROBES * PROBES_KEPT,
        2 * PROBES * UPDATES_KEPT * ITEMS as i64,
        4 * MAX_ITEMS + ITEMS as i64,
    );
    println!("bytes of store and memory: {sizes:?}; predicted {predicted}");
    for (stored, _) in &sizes {
        assert!(
            (predicted * 7 / 10..predicted * 14 / 10).contains(stored),
            "{stored} bytes, predicted {predicted}"
        );
    }
    let grown = sizes[1].1 - sizes[0].1;
    assert!(grown < 16 << 20, "memory grew by {grown} bytes");
}
