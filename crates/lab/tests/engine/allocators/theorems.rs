//! Lemma 2 and Theorem 4 of Mahmoody et al., as far as they can be seen.

use proptest::prelude::*;
use tidewatch_core::engine::allocate::{Allocation, OpenSource};
use tidewatch_core::engine::params::Allocator;
use tidewatch_lab::fleet::estimators::Estimate;
use tidewatch_lab::fleet::shapes::FleetShape;
use tidewatch_lab::fleet::{AllocatorTrial, FleetWorld, Sim};

use super::worlds::{settled, shaped};

/// rᵢ of §4.3: 2^r ≥ Σ√π/√πᵢ > 2^(r−1).
fn log_periods(roots: &[f32]) -> Vec<u32> {
    let sum: f64 = roots.iter().copied().map(f64::from).sum();
    let log = |&root: &f32| (0..).find(|&r| 2_f64.powi(r) >= sum / f64::from(root));
    roots.iter().map(|root| log(root).unwrap() as u32).collect()
}

fn each_is_chosen_exactly_when_due(rates: &[f64]) {
    let roots: Vec<f32> = rates.iter().map(|rate| rate.sqrt() as f32).collect();
    let periods: Vec<u64> = log_periods(&roots).into_iter().map(|r| 1 << r).collect();
    let mut allocation = Allocation::new(Allocator::Cyclic, 1);
    let entry = |place: usize, last| OpenSource { root: roots[place], last };
    (0..rates.len()).for_each(|place| allocation.open(place as u32, entry(place, 0.0)));
    let mut last: Vec<Option<u64>> = vec![None; rates.len()];
    let mut chosen = Vec::new();
    for step in 0..3 * periods.iter().max().unwrap() {
        chosen.clear();
        allocation.choose(step as f64, 1, &mut chosen);
        for &place in &chosen {
            let place = place as usize;
            let due = last[place].map_or(step % periods[place], |last| last + periods[place]);
            assert_eq!(step, due, "source {place} of {rates:?}");
            last[place] = Some(step);
            allocation.open(place as u32, entry(place, step as f64));
        }
    }
    assert!(last.iter().all(Option::is_some), "{rates:?}");
}

#[test]
fn lemma_2_where_periods_are_round() {
    each_is_chosen_exactly_when_due(&[0.3]);
    each_is_chosen_exactly_when_due(&[0.3, 0.3]);
    each_is_chosen_exactly_when_due(&[0.25; 64]);
    each_is_chosen_exactly_when_due(&[0.25; 65]);
    each_is_chosen_exactly_when_due(&FleetShape::Powers.rates(24, 1));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lemma_2(rates in prop::collection::vec(1e-4..1.0, 1..80)) {
        each_is_chosen_exactly_when_due(&rates);
    }
}

/// ‖p(t) − p*‖ of Corollary 6.
fn variation(sim: &Sim, world: &FleetWorld) -> f64 {
    let shares = |rates: Vec<f64>| {
        let sum: f64 = rates.iter().map(|rate| rate.sqrt()).sum();
        rates.into_iter().map(move |rate| rate.sqrt() / sum)
    };
    let estimated = (0..world.rates.len() as u32).map(|place| sim.estimated_rate(place)).collect();
    shares(estimated).zip(shares(world.rates.clone())).map(|(p, best)| (p - best).abs()).sum::<f64>() / 2.0
}

/// Theorem 4. At the start all are equal. Each tenfold time brings p(t) nearer, by the √10 of counting once
/// every source has had an update.
#[test]
fn adaptive_converges_to_the_memoryless_schedule() {
    let world = shaped(FleetShape::Zipf(1.0), 100, 1);
    let learns = Some(Estimate::Counted);
    let trial = AllocatorTrial { allocator: Allocator::Adaptive, learns, warm_up: 200_000, seed: 3 };
    let mut sim = Sim::new(&world, trial);
    let mut before = variation(&sim, &world);
    for until in [1_000, 10_000, 100_000, 1_000_000] {
        sim.advance(until - sim.steps());
        let now = variation(&sim, &world);
        assert!(now < before / 1.8, "{before} → {now} at {until}");
        before = now;
    }
    assert!(before < 0.005, "{before}");
    let memoryless = settled(&world, Allocator::Memoryless, 1_000_000);
    let expected = world.rates.iter().map(|rate| rate.sqrt()).sum::<f64>().powi(2);
    assert!((memoryless / expected - 1.0).abs() < 0.01, "{memoryless} {expected}");
    assert!((sim.cost() / memoryless - 1.0).abs() < 0.02, "{} {memoryless}", sim.cost());
}
