//! The cost of unknown rates, when they change.

use tidewatch_core::engine::params::Allocator;
use tidewatch_lab::fleet::estimators::Estimate;
use tidewatch_lab::fleet::shapes::FleetShape;
use tidewatch_lab::fleet::{AllocatorTrial, FleetWorld, RateChange, Sim};

use super::worlds::shaped;

const STEPS: u64 = 40_000;

/// Zipf rates of a thousand sources, some exchanged halfway.
fn upheaval(share: f64) -> FleetWorld {
    let change = Some(RateChange { at: STEPS / 2, share });
    FleetWorld { change, ..shaped(FleetShape::Zipf(1.0), 1_000, 10) }
}

fn cost(world: &FleetWorld, allocator: Allocator, learns: Option<Estimate>) -> f64 {
    let mut sim = Sim::new(world, AllocatorTrial { allocator, learns, warm_up: 0, seed: 1 });
    sim.advance(STEPS);
    sim.cost()
}

/// The excess cost over an index that knows the rates and their changes.
fn regret(world: &FleetWorld, allocator: Allocator, estimate: Estimate) -> f64 {
    cost(world, allocator, Some(estimate)) / cost(world, Allocator::Index, None) - 1.0
}

#[test]
fn the_index_learns_and_learns_again() {
    let usual = Estimate::usual(Allocator::Index);
    assert_eq!(usual, Estimate::Forgetting);
    let all = regret(&upheaval(1.0), Allocator::Index, usual);
    assert!((0.0..0.05).contains(&all), "{all}");
    let fifth = regret(&upheaval(0.2), Allocator::Index, usual);
    assert!((0.0..0.03).contains(&fifth), "{fifth}");
}

/// Both the allocator and the estimator make a difference.
#[test]
fn the_papers_allocator_loses_more() {
    let world = upheaval(1.0);
    let paper = regret(&world, Allocator::Adaptive, Estimate::usual(Allocator::Adaptive));
    assert!(paper > 1.0, "{paper}");
    let counting = regret(&world, Allocator::Index, Estimate::Counted);
    assert!((0.10..0.30).contains(&counting), "{counting}");
    let sampling = regret(&world, Allocator::Adaptive, Estimate::Forgetting);
    assert!(sampling < paper - 0.1, "{sampling} {paper}");
}

/// Updates from before a change are counted at the old rate, so an exchange of equal rates has no effect.
#[test]
fn a_change_that_changes_nothing_costs_nothing() {
    let still = shaped(FleetShape::Equal, 100, 3);
    let changed = FleetWorld { change: Some(RateChange { at: 500, share: 1.0 }), ..still.clone() };
    for allocator in [Allocator::Index, Allocator::RoundRobin, Allocator::Greedy] {
        let [one, other] = [&still, &changed].map(|world| {
            let mut sim = Sim::new(world, AllocatorTrial { allocator, learns: None, warm_up: 0, seed: 1 });
            sim.advance(1000);
            sim.cost()
        });
        assert!((one / other - 1.0).abs() < 1e-3, "{allocator:?}: {one} {other}");
    }
}

/// An allocator that knows of a change soon has the same cost as if the rates had never changed.
#[test]
fn an_allocator_that_knows_of_a_change_adapts_to_it() {
    for share in [0.2, 1.0] {
        for allocator in [Allocator::Index, Allocator::Cyclic, Allocator::Memoryless] {
            let costs = [None, Some(RateChange { at: STEPS / 4, share })].map(|change| {
                let world = FleetWorld { change, ..shaped(FleetShape::Zipf(1.0), 1_000, 10) };
                let trial = AllocatorTrial { allocator, learns: None, warm_up: STEPS / 2, seed: 1 };
                let mut sim = Sim::new(&world, trial);
                sim.advance(STEPS);
                sim.cost()
            });
            assert!((costs[1] / costs[0] - 1.0).abs() < 0.02, "{allocator:?} {share}: {costs:?}");
        }
    }
}
