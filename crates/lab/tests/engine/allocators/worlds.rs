//! Worlds for tests of allocators, and the cost of allocators there.

use tidewatch_core::engine::params::Allocator;
use tidewatch_core::engine::undiscovered_lower_bounds::{SourceRate, theorem_1, tight};
use tidewatch_lab::fleet::estimators::Estimate;
use tidewatch_lab::fleet::shapes::FleetShape;
use tidewatch_lab::fleet::{AllocatorTrial, FleetWorld, Sim};

/// Rates that do not change.
pub fn still(rates: Vec<f64>, per_step: usize) -> FleetWorld {
    FleetWorld { rates, per_step, change: None }
}

pub fn shaped(shape: FleetShape, sources: usize, per_step: usize) -> FleetWorld {
    still(shape.rates(sources, 7), per_step)
}

/// The cost with known rates, except for Adaptive, which learns them. The first half is not counted.
pub fn settled(world: &FleetWorld, allocator: Allocator, steps: u64) -> f64 {
    let learns = (allocator == Allocator::Adaptive).then_some(Estimate::Counted);
    let mut sim = Sim::new(world, AllocatorTrial { allocator, learns, warm_up: steps / 2, seed: 1 });
    sim.advance(steps);
    sim.cost()
}

/// Theorem 1's bound and the tighter one.
pub fn bounds(world: &FleetWorld) -> (f64, f64) {
    let per_step = world.per_step as f64;
    let sources: Vec<SourceRate> = world.rates.iter().copied().map(SourceRate::of).collect();
    (theorem_1(world.rates.iter().copied(), per_step), tight(&sources, per_step).cost)
}
