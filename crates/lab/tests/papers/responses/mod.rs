//! The gain of `auto` on sources whose rhythm a burst breaks once a week, and its cost on those
//! that keep it: simulated, with fixed seeds, watched as the daemon watches.

#[allow(dead_code, reason = "shared with an example, which uses all of it")]
mod world;

use tidewatch_core::engine::params::Response;
use tidewatch_core::planning::budget::Budget;
use world::{KINDS, Kind, Score, Source, TestedPolicy, at_equal_probes, run, ttl_at};

const SOURCES: u64 = 3;

fn sources(kind: Kind) -> Vec<Source> {
    (0..SOURCES).map(|number| Source::new(kind, number)).collect()
}

fn auto(sources: &[Source], response: Response) -> Score {
    run(sources, TestedPolicy::Auto(response), Budget::default())
}

/// The rhythm is never broken. The occasional false alarm costs almost nothing.
#[test]
fn a_source_that_keeps_its_rhythm_has_the_delay_of_its_plan_alone() {
    let sources = sources(KINDS[0]);
    let plan = run(&sources, TestedPolicy::Plan, Budget::default());
    for response in Response::ALL {
        let auto = auto(&sources, response);
        assert!(auto.delay <= 1.02 * plan.delay, "{response:?}: {auto:?} {plan:?}");
        assert!(auto.probes <= plan.probes + 0.1, "{response:?}: {auto:?} {plan:?}");
    }
}

fn is_worth_it(kind: Kind) {
    let sources = sources(kind);
    let informed = run(&sources, TestedPolicy::KnowsBegunBursts, Budget::default());
    for response in Response::ALL {
        let auto = auto(&sources, response);
        let plan = at_equal_probes(&sources, TestedPolicy::Plan, Budget::default(), auto.probes);
        assert!(auto.delay <= 1.02 * plan.delay, "{response:?}: {auto:?} {plan:?}");
        assert!(auto.burst_delay < plan.burst_delay, "{response:?}: {auto:?} {plan:?}");
        let ttl = ttl_at(&sources, Budget::default(), auto.probes);
        assert!((ttl.probes / auto.probes - 1.0).abs() < 0.05, "{ttl:?} {auto:?}");
        assert!(auto.delay < ttl.delay, "{response:?}: {auto:?} {ttl:?}");
        if response == Response::Replan {
            // In proportion to the probes that each took: they hardly differ.
            assert!((informed.probes / auto.probes - 1.0).abs() < 0.03, "{informed:?} {auto:?}");
            assert!(auto.delay <= 1.1 * informed.delay, "{auto:?} {informed:?}");
        }
        if response == Response::Ttl {
            assert!(auto.by_ttl > 1.0, "{auto:?}");
        }
    }
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
