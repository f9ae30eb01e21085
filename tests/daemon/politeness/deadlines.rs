//! Deadlines on a fast clock: sources with a `max_gap` next to planned and sampled ones that would take
//! every slot. They are in time while the capacity is above Ω, late together when a reload cuts it below
//! Ω, and in time again when another reload restores it.

use std::collections::HashMap;

use tidewatch_core::time::{Span, Timestamp};

use super::world::{Site, World, monday};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;

/// Eight every hour, eight every two hours: Ω = 8·2/60 + 8·2/120 = 0.4 of a probe in a step of two minutes.
fn bound(sites: &[Site]) -> Vec<String> {
    let policies = ["uniform", "adaptive", "auto", "ttl"];
    let one = |(nth, site): (usize, &Site)| {
        let gap = if nth < 8 { "1h" } else { "2h" };
        // Twice as many probes as its deadline needs; its policy uses the others.
        let budget = "probes = 48, per = \"1d\", min_spacing = \"2m\"";
        source_with_budget(&format!("bound{nth}"), &site.url("/feed"), budget)
            + &format!("policy = \"{}\"\nmax_gap = \"{gap}\"\ncost = 1.0\n", policies[nth % 4])
    };
    sites.iter().enumerate().map(one).collect()
}

/// Sources that want a probe every ten minutes, more than the capacity allows.
fn greedy(sites: &[Site]) -> Vec<String> {
    let one = |(nth, site): (usize, &Site)| {
        let policy = if nth % 2 == 0 { "plan" } else { "adaptive" };
        source_with_budget(
            &format!("greedy{nth}"),
            &site.url("/feed"),
            "probes = 144, per = \"1d\", min_spacing = \"5m\"",
        ) + &format!("policy = \"{policy}\"\ncost = 1.0\n")
    };
    sites.iter().enumerate().map(one).collect()
}

/// Tardiness of answered probes that began in a span, in milliseconds, by source.
async fn tardiness(world: &World, from: Timestamp, until: Timestamp) -> HashMap<String, Vec<i64>> {
    let rows: Vec<(String, i64, i64)> = world
        .rows(
            "SELECT s.name, p.started_at, p.tardy_ms FROM probes p JOIN sources s ON s.id = p.source_id
             WHERE p.tardy_ms IS NOT NULL ORDER BY p.started_at",
        )
        .await;
    let mut all: HashMap<String, Vec<i64>> = HashMap::new();
    for (name, started, tardy) in rows {
        if (from.as_millis()..until.as_millis()).contains(&started) {
            all.entry(name).or_default().push(tardy);
        }
    }
    all
}

#[tokio::test]
async fn deadlines_are_met_with_enough_capacity_and_equally_late_without() {
    let fleet = |capacity: &str| {
        format!(
            "step = \"2m\"\nprobes_per_step = 2\nallocator = \"index\"\nhost_spacing = \"0s\"\ncapacity = {capacity}"
        )
    };
    let mut world = World::new(1500.0).fleet(&fleet("1.0"));
    let mut sites = Vec::new();
    for _ in 0..24 {
        sites.push(Site::start(&world, |visit| Reply::ok(rss([visit.at.as_millis().to_string()]))).await);
    }
    let sources: Vec<String> = bound(&sites[..16]).into_iter().chain(greedy(&sites[16..])).collect();
    let daemon = world.start(&sources).await;
    // All are met within the first hour.
    world.pass(Span::from_hours(4)).await;
    let cut = world.clock.now();
    let at_first = tardiness(&world, monday(), cut).await;
    assert_eq!(at_first.len(), 16, "every source with a deadline, and no other: {at_first:?}");
    assert!(at_first.values().flatten().all(|&late| late == 0), "{at_first:?}");
    let work = world.number("SELECT CAST(1000 * sum(work) AS INTEGER) FROM loads").await;
    let steps = (cut - monday()).as_secs_f64() / 120.0;
    assert!(work as f64 >= 800.0 * steps, "capacity is the limit: {work} in {steps} steps");
    assert_eq!(world.number("SELECT count(*) FROM events WHERE kind = 'tardy_began'").await, 0);

    // Half of Ω.
    world.settings = world.settings.replace("capacity = 1.0", "capacity = 0.2");
    world.reload(&daemon, &sources).await;
    world.pass(Span::from_hours(6)).await;
    let back = world.clock.now();
    let short = tardiness(&world, back - Span::from_hours(4), back).await;
    let mean = |of: std::ops::Range<usize>| {
        let some: Vec<i64> =
            of.filter_map(|nth| short.get(&format!("bound{nth}"))).flatten().copied().collect();
        some.iter().sum::<i64>() as f64 / some.len() as f64 / 60_000.0
    };
    // The latest source goes first, so that lateness does not depend on the window.
    let (one, two) = (mean(0..8), mean(8..16));
    assert!(one > 20.0 && (one - two).abs() < 0.5 * one.max(two), "{one} and {two} minutes late");
    let began = "SELECT count(DISTINCT source_id) FROM events WHERE kind = 'tardy_began'";
    assert_eq!(world.number(began).await, 16);
    assert!(world.number("SELECT max(overdue) FROM loads").await > 4);
    let greedy = "SELECT count(*) FROM events e JOIN sources s ON s.id = e.source_id
                  WHERE e.kind LIKE 'tardy%' AND s.name LIKE 'greedy%'";
    assert_eq!(world.number(greedy).await, 0);

    world.settings = world.settings.replace("capacity = 0.2", "capacity = 1.0");
    world.reload(&daemon, &sources).await;
    world.pass(Span::from_hours(6)).await;
    let end = world.clock.now();
    let after = tardiness(&world, end - Span::from_hours(5), end).await;
    assert_eq!(after.len(), 16);
    assert!(after.values().flatten().all(|&late| late == 0), "{after:?}");
    let open = "SELECT count(*) FROM sources s WHERE
        (SELECT count(*) FROM events e WHERE e.source_id = s.id AND e.kind = 'tardy_began') <>
        (SELECT count(*) FROM events e WHERE e.source_id = s.id AND e.kind = 'tardy_ended')";
    assert_eq!(world.number(open).await, 0, "each that began has ended");
    daemon.stop().await;
}
