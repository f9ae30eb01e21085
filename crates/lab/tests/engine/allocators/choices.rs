//! No source is chosen twice in a step or while it is closed, and equal seeds give equal choices.

use std::collections::BTreeSet;

use tidewatch_core::engine::allocate::{Allocation, OpenSource};
use tidewatch_core::engine::params::Allocator;
use tidewatch_lab::fleet::estimators::Estimate;
use tidewatch_lab::fleet::shapes::FleetShape;
use tidewatch_lab::fleet::{AllocatorTrial, Sim};

use super::worlds::shaped;

fn choices(allocator: Allocator, learns: Option<Estimate>, seed: u64) -> Vec<Vec<u32>> {
    let world = shaped(FleetShape::Pareto(1.2), 60, 12);
    let mut sim = Sim::new(&world, AllocatorTrial { allocator, learns, warm_up: 0, seed });
    (0..500).map(|_| sim.step().to_vec()).collect()
}

#[test]
fn a_step_has_as_many_sources_as_probes() {
    for allocator in Allocator::ALL {
        for learns in [None, Some(Estimate::Counted), Some(Estimate::Forgetting)] {
            for step in choices(allocator, learns, 1) {
                let different: BTreeSet<&u32> = step.iter().collect();
                assert_eq!(different.len(), step.len(), "{allocator:?}: {step:?}");
                // D leaves the slots unused that its powers of two do not fill.
                let enough =
                    if allocator == Allocator::Cyclic { step.len() <= 12 } else { step.len() == 12 };
                assert!(enough, "{allocator:?}: {step:?}");
            }
        }
    }
}

#[test]
fn equal_seeds_choose_alike() {
    for allocator in Allocator::ALL {
        let learns = Some(Estimate::usual(allocator));
        assert_eq!(choices(allocator, learns, 1), choices(allocator, learns, 1), "{allocator:?}");
    }
    for allocator in [Allocator::Memoryless, Allocator::Adaptive] {
        assert_ne!(choices(allocator, None, 1), choices(allocator, None, 2), "{allocator:?}");
    }
}

/// Many sources that open at the same time are chosen once each, before any is chosen twice.
#[test]
fn sources_opened_together_are_each_chosen_once() {
    const CROWD: u32 = 100_000;
    const PER_STEP: usize = 100;
    for allocator in [Allocator::Index, Allocator::Greedy, Allocator::RoundRobin] {
        let mut allocation = Allocation::new(allocator, 1);
        (0..CROWD).for_each(|place| allocation.open(place, OpenSource { root: 0.1, last: 0.0 }));
        let mut times_chosen = vec![0_u32; CROWD as usize];
        let mut chosen = Vec::new();
        for step in 1..=CROWD as usize / PER_STEP {
            chosen.clear();
            allocation.choose(step as f64, PER_STEP, &mut chosen);
            assert_eq!(chosen.len(), PER_STEP, "{allocator:?} at {step}");
            for &place in &chosen {
                times_chosen[place as usize] += 1;
                allocation.open(place, OpenSource { root: 0.1, last: step as f64 });
            }
        }
        assert!(times_chosen.iter().all(|&times| times == 1), "{allocator:?}");
    }
}

/// A new source gets its share and does not displace the others.
#[test]
fn a_new_source_gets_its_share_and_no_more() {
    for allocator in Allocator::ALL {
        let mut allocation = Allocation::new(allocator, 1);
        let mut probes = vec![0; 101];
        let mut chosen = Vec::new();
        (0..100).for_each(|place| allocation.open(place, OpenSource { root: 0.5, last: 0.0 }));
        for step in 1..=2_000 {
            if step == 1_000 {
                allocation.open(100, OpenSource { root: 0.5, last: 999.0 });
            }
            chosen.clear();
            allocation.choose(f64::from(step), 1, &mut chosen);
            for &place in &chosen {
                probes[place as usize] += u32::from(step > 1_000);
                allocation.open(place, OpenSource { root: 0.5, last: f64::from(step) });
            }
        }
        assert!((3..=20).contains(&probes[100]), "{allocator:?}: {}", probes[100]);
    }
}
