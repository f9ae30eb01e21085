//! The gain of `auto` on sources whose rhythm a burst breaks once a week, and its cost on those
//! that keep it: simulated, with fixed seeds, watched as the daemon watches.

#[allow(dead_code, reason = "shared with an example, which uses all of it")]
mod world;

use tidewatch_core::planning::budget::Budget;
use world::{KINDS, Kind, Score, Source, TestedPolicy, at_equal_probes, run, ttl_at};

const SOURCES: u64 = 3;

fn sources(kind: Kind) -> Vec<Source> {
    (0..SOURCES).map(|number| Source::new(kind, number)).collect()
}

fn auto(sources: &[Source]) -> Score {
    run(sources, TestedPolicy::Auto, Budget::default())
}

/// The rhythm is never broken. The occasional false alarm costs almost nothing.
#[test]
fn a_source_that_keeps_its_rhythm_has_the_delay_of_its_plan_alone() {
    let sources = sources(KINDS[0]);
    let plan = run(&sources, TestedPolicy::Plan, Budget::default());
    let auto = auto(&sources);
    assert!(auto.delay <= 1.02 * plan.delay, "{auto:?} {plan:?}");
    assert!(auto.probes <= plan.probes + 0.1, "{auto:?} {plan:?}");
}

fn is_worth_it(kind: Kind) {
    let sources = sources(kind);
    let auto = auto(&sources);
    assert!(auto.by_ttl > 1.0, "{auto:?}");
    let plan = at_equal_probes(&sources, TestedPolicy::Plan, Budget::default(), auto.probes);
    assert!(auto.delay <= 1.02 * plan.delay, "{auto:?} {plan:?}");
    assert!(auto.burst_delay < plan.burst_delay, "{auto:?} {plan:?}");
    let ttl = ttl_at(&sources, Budget::default(), auto.probes);
    assert!((ttl.probes / auto.probes - 1.0).abs() < 0.05, "{ttl:?} {auto:?}");
    assert!(auto.delay < ttl.delay, "{auto:?} {ttl:?}");
    // A planner that knows all bursts beforehand is the bound.
    let known = at_equal_probes(&sources, TestedPolicy::KnowsAllBursts, Budget::default(), auto.probes);
    assert!(known.delay < auto.delay, "{known:?} {auto:?}");
}

#[test]
fn bursts_of_ten_an_hour_are_followed() {
    is_worth_it(KINDS[1]);
}

#[test]
fn bursts_of_thirty_an_hour_are_followed() {
    is_worth_it(KINDS[2]);
}

#[test]
fn bursts_of_a_source_that_seldom_updates_are_followed() {
    is_worth_it(KINDS[3]);
}
