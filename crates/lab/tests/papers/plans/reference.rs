//! Algorithms 1, 2 and 4: the paper's instances, and every subset of small grids.

use proptest::prelude::*;
use tidewatch_core::planning::horizon::{Grid, Horizon, HorizonEnd};
use tidewatch_core::time::Span;
use tidewatch_lab::plans::reference::solve;

use super::world::{cost_in_days, horizon, papers};

/// Measured with another program, in update·days.
#[test]
fn the_papers_instances_on_the_hourly_grid() {
    for ((name, horizon), expected) in papers().into_iter().zip([46.7536, 80.5915, 6.2165, 15.4918]) {
        let schedule = solve(&horizon, Grid::every(Span::from_hours(1))).unwrap();
        let cost = cost_in_days(&horizon, &schedule.times);
        assert!((cost - expected).abs() < 1e-4, "{name}: {cost}");
        assert_eq!(schedule.times.len(), 28, "{name}");
    }
}

/// The least cost of all allowed subsets of the grid; infinite where there is none.
fn by_trying(horizon: &Horizon, slots: &[Span]) -> f64 {
    (0..1_u32 << slots.len())
        .map(|set| {
            let chosen = (0..slots.len()).filter(|index| set >> index & 1 == 1).map(|index| slots[index]);
            chosen.collect::<Vec<Span>>()
        })
        .filter(|times| horizon.verify(times).is_ok())
        .map(|times| horizon.cost.cost_of(&times))
        .fold(f64::INFINITY, f64::min)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_subset_of_the_grid_is_better(
        horizon in horizon(6), parts in 1_i64..9, first in 0.0_f64..1.0,
    ) {
        let step = Span::from_millis((horizon.length().as_millis() / parts).max(1));
        let grid = Grid { step, first: step.scaled(first), coarser: None };
        let slots = horizon.slots(grid).unwrap();
        prop_assume!(slots.len() <= 10);
        let schedule = solve(&horizon, grid).unwrap();
        prop_assert_eq!(horizon.verify(&schedule.times), Ok(()));
        prop_assert!(schedule.times.iter().all(|at| slots.contains(at)));
        let best = by_trying(&horizon, &slots);
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1.0 + best);
        prop_assert!(near(schedule.expected_cost, best), "{} against {best}", schedule.expected_cost);
        prop_assert_eq!(schedule.lower_bound, schedule.expected_cost);

        let with = |probes: u32| by_trying(&Horizon { probes, ..horizon.clone() }, &slots);
        let fewer = with(horizon.probes - 1);
        let saved = if fewer.is_finite() { fewer - best } else { best - with(horizon.probes + 1) };
        prop_assert!(near(schedule.price, saved), "{} against {saved}", schedule.price);
        if horizon.end == HorizonEnd::Open {
            prop_assert!(schedule.times.iter().all(|&at| at < horizon.length()));
        }
    }
}
