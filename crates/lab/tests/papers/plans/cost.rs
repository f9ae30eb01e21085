//! The closed form of C̄ against its integral, and against updates that are drawn.

use proptest::prelude::*;
use tidewatch_core::model::obsolescence::{CostCell, Obsolescence, hours};
use tidewatch_core::planning::horizon::Horizon;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::Span;
use tidewatch_lab::plans::baselines::uniform;

use super::world::{cost, dbworld, horizon, micronet};

/// ∫ of a value of the cells from s to f, both in hours, by adding up pieces.
fn integral(cells: &[CostCell], s: f64, f: f64, value: impl Fn(&CostCell) -> f64) -> f64 {
    cells
        .iter()
        .map(|cell| value(cell) * (f.min(hours(cell.until)) - s.max(hours(cell.from))).max(0.0))
        .sum()
}

/// ∫ λ(t)·A(t, f) dt by the midpoint rule.
fn by_midpoints(cost: &Obsolescence, s: Span, f: Span) -> f64 {
    let parts = 4000;
    let (s, f) = (hours(s), hours(f));
    let width = (f - s) / f64::from(parts);
    (0..parts)
        .map(|part| {
            let t = s + (f64::from(part) + 0.5) * width;
            let at = |cell: &&CostCell| hours(cell.from) <= t && t < hours(cell.until);
            let rate = cost.cells().iter().find(at).map_or(0.0, |cell| cell.rate);
            rate * integral(cost.cells(), t, f, |cell| cell.weight) * width
        })
        .sum()
}

/// The cost of one history of updates with probes at these times, in hours, ending with the horizon.
fn drawn(cost: &Obsolescence, probes: &[f64], stream: &mut Stream) -> f64 {
    let mut total = 0.0;
    for cell in cost.cells().iter().filter(|cell| cell.rate > 0.0) {
        let mut at = hours(cell.from);
        loop {
            at -= (1.0 - stream.unit()).ln() / cell.rate;
            if at >= hours(cell.until) {
                break;
            }
            let found = probes[probes.partition_point(|&probe| probe < at)];
            total += integral(cost.cells(), at, found, |cell| cell.weight);
        }
    }
    total
}

/// The mean of many histories, and its standard error.
fn simulated(horizon: &Horizon, times: &[Span], runs: u32, label: &str) -> (f64, f64) {
    let probes: Vec<f64> = times.iter().copied().chain([horizon.length()]).map(hours).collect();
    let mut stream = Stream::new(20_261_116, label);
    let costs: Vec<f64> = (0..runs).map(|_| drawn(&horizon.cost, &probes, &mut stream)).collect();
    let mean = costs.iter().sum::<f64>() / f64::from(runs);
    let variance = costs.iter().map(|cost| (cost - mean).powi(2)).sum::<f64>() / (f64::from(runs) - 1.0);
    (mean, (variance / f64::from(runs)).sqrt())
}

#[test]
fn drawn_updates_cost_what_is_expected_on_the_papers_traces() {
    for (name, horizon) in [("DBWorld", dbworld(3.0, 28)), ("MicroNet", micronet(3.0, 28))] {
        let times = uniform(&horizon).unwrap();
        let expected = horizon.cost.cost_of(&times);
        let (mean, error) = simulated(&horizon, &times, 400, name);
        assert!((mean - expected).abs() <= 4.0 * error, "{name}: {mean} ± {error}, expected {expected}");
        // Small enough for the comparison.
        assert!(error < 0.02 * expected, "{name}: {mean} ± {error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_closed_form_is_the_integral(cost in cost(), a in 0.0_f64..1.0, b in 0.0_f64..1.0) {
        let (s, f) = (cost.length().scaled(a.min(b)), cost.length().scaled(a.max(b)));
        let direct = by_midpoints(&cost, s, f);
        // A cell's border is met to half a part: λ and A are at most 4 and 4·hours.
        let borders = cost.cells().len() as f64 * 16.0 * hours(f - s).powi(2) / 4000.0;
        prop_assert!((cost.cost(s, f) - direct).abs() <= borders + 1e-9, "{} {direct}", cost.cost(s, f));
    }

    #[test]
    fn a_schedule_costs_the_sum_of_its_gaps(horizon in horizon(12)) {
        let times = uniform(&horizon).unwrap();
        let mut last = Span::ZERO;
        let mut total = 0.0;
        for at in times.iter().copied().chain([horizon.length()]) {
            total += horizon.cost.cost(last, at);
            last = at;
        }
        prop_assert!((horizon.cost.cost_of(&times) - total).abs() <= 1e-10 * (1.0 + total));
    }

    #[test]
    fn drawn_updates_cost_what_is_expected(horizon in horizon(6)) {
        let times = uniform(&horizon).unwrap();
        let expected = horizon.cost.cost_of(&times);
        let updates = horizon.cost.expected_updates(Span::ZERO, horizon.length());
        // If hardly any update is drawn, the draws do not give the error.
        prop_assume!(updates > 0.5);
        let (mean, error) = simulated(&horizon, &times, 600, "any");
        prop_assert!((mean - expected).abs() <= 4.0 * error + 1e-9, "{mean} ± {error}, expected {expected}");
    }
}
