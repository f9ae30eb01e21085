//! The fast planner against plain dynamic programming and, where that is possible, against every
//! possible schedule.

use proptest::prelude::*;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::planning::horizon::{Grid, Horizon, HorizonEnd};
use tidewatch_core::planning::optimal;
use tidewatch_core::time::Span;
use tidewatch_lab::plans::{bound, exact_descent, reference};

/// The least cost of at most n probes on the grid, by the recursion written out.
fn by_recursion(horizon: &Horizon, grid: Grid, probes: u32) -> f64 {
    let Ok(slots) = horizon.slots(grid) else { return f64::INFINITY };
    let (cost, length) = (&horizon.cost, horizon.length());
    let mut nodes = vec![Span::ZERO];
    nodes.extend(slots);
    let mut least = vec![f64::INFINITY; nodes.len()];
    least[0] = 0.0;
    let mut best =
        if horizon.end == HorizonEnd::Open { cost.cost(Span::ZERO, length) } else { f64::INFINITY };
    for number in 0..probes {
        let mut next = vec![f64::INFINITY; nodes.len()];
        for (j, &to) in nodes.iter().enumerate().skip(1) {
            if number >= horizon.may_be_sent(to) {
                continue;
            }
            for (i, &from) in nodes[..j].iter().enumerate() {
                if to - from >= horizon.min_spacing {
                    next[j] = next[j].min(least[i] + cost.cost(from, to));
                }
            }
        }
        least = next;
        best = match horizon.end {
            HorizonEnd::Probed => best.min(*least.last().unwrap()),
            HorizonEnd::Open => {
                nodes.iter().zip(&least).fold(best, |b, (&at, l)| b.min(l + cost.cost(at, length)))
            }
        };
    }
    best
}

prop_compose! {
    fn horizons()(
        cells in prop::collection::vec((1_i64..40, prop_oneof![Just(0.0), 0.01_f64..8.0], prop_oneof![Just(0.0), Just(1.0), 0.1_f64..4.0]), 1..9),
        repeat in 1_usize..4,
        probes in 1_u32..30,
        spacing in prop_oneof![Just(0_i64), 0_i64..25],
        closed in prop::collection::vec((0_i64..200, 1_i64..30), 0..3),
        spent in prop::collection::vec((0_i64..200, 0_u32..4), 0..4),
        open in any::<bool>(),
    ) -> Horizon {
        let minute = Span::from_mins;
        let mut at = 0;
        let mut pieces = Vec::new();
        for _ in 0..repeat {
            for &(length, rate, weight) in &cells {
                at += length;
                if at <= 200 {
                    pieces.push((minute(at), rate, weight));
                }
            }
        }
        if pieces.is_empty() {
            pieces.push((minute(17), 1.0, 1.0));
        }
        let cost = Obsolescence::of_cells(pieces);
        let mut shut: Vec<(Span, Span)> = Vec::new();
        let mut sorted = closed;
        sorted.sort_unstable();
        for (from, length) in sorted {
            if shut.last().is_none_or(|last| last.1 < minute(from)) {
                shut.push((minute(from), minute(from + length)));
            }
        }
        let mut allowance = Vec::new();
        let mut steps = spent;
        steps.sort_unstable();
        let mut most = 0;
        for (before, more) in steps {
            if allowance.last().is_none_or(|&(last, _)| last < minute(before)) {
                allowance.push((minute(before), most));
                most += more;
            }
        }
        let end = if open { HorizonEnd::Open } else { HorizonEnd::Probed };
        Horizon { cost, probes, min_spacing: minute(spacing), closed: shut, allowance, longest_gap: None, end }
    }
}

fn plain(pieces: &[(i64, f64, f64)], probes: u32, min_spacing: Span, closed: Vec<(Span, Span)>) -> Horizon {
    let cells = pieces.iter().map(|&(hours, rate, weight)| (Span::from_hours(hours), rate, weight));
    let (cost, allowance) = (Obsolescence::of_cells(cells), Vec::new());
    Horizon { cost, probes, min_spacing, closed, allowance, longest_gap: None, end: HorizonEnd::Probed }
}

/// A closed time whose edges lie between the grid's times: a probe at its end is better than any on
/// the grid, and the bound must know.
#[test]
fn closed_times_off_the_grid_lower_the_bound() {
    let closed = vec![(Span::from_mins(30), Span::from_mins(90))];
    let horizon = plain(&[(2, 1.0, 1.0)], 2, Span::ZERO, closed);
    let grid = Grid::every(Span::from_hours(1));
    let found = optimal::solve(&horizon, grid).unwrap();
    let bound = bound::continuous(&horizon, grid, &found).unwrap();
    let better = [Span::from_mins(90), Span::from_hours(2)];
    assert_eq!(horizon.verify(&better), Ok(()));
    assert!(bound <= horizon.cost.cost_of(&better), "{bound}");
}

/// Where a probe gains nothing, none is planned.
#[test]
fn probes_that_gain_nothing_are_not_sent() {
    let grid = Grid::every(Span::from_mins(1));
    let idle = plain(&[(24, 1.0, 0.0)], 48, Span::ZERO, Vec::new());
    assert_eq!(optimal::solve(&idle, grid).unwrap().times, [Span::from_hours(24)]);
    // Nine hours count, and no more than 36 probes and the end fit into them.
    let spacing = Span::from_mins(15);
    let office = plain(&[(9, 0.0, 1.0), (18, 2.0, 1.0), (24, 0.0, 1.0)], 60, spacing, Vec::new());
    let best = optimal::solve(&office, grid).unwrap();
    assert!(best.times.len() <= 38, "{}", best.times.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn no_schedule_on_the_grid_is_better(horizon in horizons()) {
        let grid = Grid::every(Span::from_mins(1));
        let least = by_recursion(&horizon, grid, horizon.probes);
        match optimal::solve(&horizon, grid) {
            Ok(found) => {
                prop_assert_eq!(horizon.verify(&found.times), Ok(()));
                let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * (1e-6 + a.abs());
                prop_assert!(near(found.expected_cost, least), "{} against {least}", found.expected_cost);
                let paper = reference::solve(&horizon, grid).unwrap().expected_cost;
                prop_assert!(near(found.expected_cost, paper), "{} against {paper}", found.expected_cost);
                prop_assert!(found.lower_bound <= found.expected_cost);
                prop_assert!(near(found.lower_bound, least), "bound {} of {least}", found.lower_bound);
            }
            Err(why) => prop_assert!(least == f64::INFINITY || horizon.check().is_err(), "{why}"),
        }
    }

    /// Where probes are counted within a band only, the schedule found is allowed, and its bound holds.
    #[test]
    fn counting_within_a_band_misses_nothing(horizon in horizons()) {
        let grid = Grid::every(Span::from_mins(1));
        let least = by_recursion(&horizon, grid, horizon.probes);
        if let Ok(found) = optimal::solve_fast(&horizon, grid) {
            prop_assert_eq!(horizon.verify(&found.times), Ok(()));
            let slack = 1e-9 * (1e-6 + least);
            prop_assert!(found.expected_cost >= least - slack);
            prop_assert!(found.lower_bound <= least + slack, "bound {} above {least}", found.lower_bound);
            // This is not proven, but no case is known where the band misses the best.
            prop_assert!(found.expected_cost <= least + slack, "{} above {least}", found.expected_cost);
        }
    }

    /// No schedule off the grid, however it was improved, falls below the bound for all times.
    #[test]
    fn the_bound_without_a_grid_holds_for_improved_schedules(horizon in horizons(), coarse in 1_i64..7) {
        let horizon = Horizon { allowance: Vec::new(), ..horizon };
        let grid = Grid::every(Span::from_mins(coarse));
        if let Ok(found) = optimal::solve(&horizon, grid) {
            let bound = bound::continuous(&horizon, grid, &found).unwrap();
            let fine = optimal::solve(&horizon, Grid::every(Span::from_secs(20))).unwrap();
            for start in [found.times, fine.times] {
                let improved = exact_descent::descend(&horizon, start);
                let cost = horizon.cost.cost_of(&improved.times);
                prop_assert!(bound <= cost * (1.0 + 1e-9) + 1e-12, "bound {bound} above {cost}");
            }
        }
    }
}
