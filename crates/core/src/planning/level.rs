//! Threshold and first arrival without a horizon: the level that triggers the next probe of a running
//! source.
//!
//! On a horizon both reach n probes by the matching level (Eckstein, Gal, Reiner, §5.2). A running source
//! has no horizon. So the level is computed from the busiest span T around the last probe: the one after it,
//! or an earlier one if the cycle is longer than T. From the time ahead alone, the level would fall with the
//! rest of a busy day, and the last hour before a quiet weekend would repeatedly receive n probes. So a
//! cycle within T has n probes per T, and any span T about n at most; the gate enforces the budget. Takes
//! rate, importance and budget of one source. May not know spent probes.
//!
//! First arrival probes when P(new) ≥ π, which is when the expected updates reach −ln(1 − π); they are
//! Λ_T/n. Threshold probes when the expected cost reaches Π, which is near (∫√(aλ)/n)²/2; the search starts
//! there.

use crate::model::obsolescence::Obsolescence;
use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

use super::budget::Budget;
use super::cost_accumulator::suffices;

/// The longest cycle.
const CYCLE: Span = Span::from_days(7);

/// The relative precision of levels.
const PRECISION: f64 = 1e-9;

/// The expected updates at which the next probe is due by first arrival. `None` if none are expected.
///
/// ```
/// # use tidewatch_core::model::steps::Steps;
/// # use tidewatch_core::planning::{budget::Budget, level::first_arrival};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let budget = Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::ZERO };
/// let rate = Steps::constant(2.0).unwrap();
/// assert_eq!(first_arrival(&rate, &budget, Timestamp::from_secs(0)), Some(1.0));
/// ```
pub fn first_arrival(rate: &Steps, budget: &Budget, last: Timestamp) -> Option<f64> {
    let even = Steps::constant(1.0).ok()?;
    spans(budget).into_iter().flatten().find_map(|(probes, per)| {
        let (_, updates) = busiest(rate, &even, |rate, _| rate, per, last);
        (updates > 0.0).then(|| updates / f64::from(probes))
    })
}

/// Π: the expected cost at which the next probe is due. `None` if no cost is expected.
pub fn threshold(rate: &Steps, importance: &Steps, budget: &Budget, last: Timestamp) -> Option<f64> {
    spans(budget).into_iter().flatten().find_map(|(probes, per)| {
        let (from, roots) = busiest(rate, importance, |rate, weight| (rate * weight).sqrt(), per, last);
        let guess = (roots / f64::from(probes)).powi(2) / 2.0;
        let cost = Obsolescence::new(rate, importance, from, from + per);
        (guess > 0.0).then(|| least(guess, |level| suffices(&cost, level, probes)))
    })
}

/// n and T; if nothing is expected within T, the same budget over a full cycle.
fn spans(budget: &Budget) -> [Option<(u32, Span)>; 2] {
    let (probes, per) = (budget.probes.max(1), budget.per);
    let cycles = CYCLE.as_secs_f64() / per.as_secs_f64();
    let longer = (per < CYCLE).then(|| ((f64::from(probes) * cycles).round() as u32, CYCLE));
    [Some((probes, per)), longer]
}

/// The span of this length around `last` with the largest integral of the density, and that integral; of
/// equal ones the latest. The maximum is where a span begins or ends with a cell, or at either extreme.
fn busiest(
    rate: &Steps,
    importance: &Steps,
    density: impl Fn(f64, f64) -> f64,
    per: Span,
    last: Timestamp,
) -> (Timestamp, f64) {
    let starts = last - per;
    let both = Obsolescence::new(rate, importance, starts, last + per);
    let cells = both.cells().iter().map(|cell| (cell.until, density(cell.rate, cell.weight), 0.0));
    let sums = Obsolescence::of_cells(cells);
    let ends = sums.cells().iter().map(|cell| cell.until);
    let begins = ends.flat_map(|end| [end, end - per]).chain([Span::ZERO]);
    let within = begins.filter(|&begin| (Span::ZERO..per).contains(&begin));
    let most = |begin: Span| (begin, sums.expected_updates(begin, begin + per));
    let (begin, amount) = within.map(most).fold(most(per), |best, other| {
        // Differences in the last digits are ignored.
        if other.1 > best.1 * (1.0 + PRECISION) { other } else { best }
    });
    (starts + begin, amount)
}

/// The smallest sufficient level, searched from a positive estimate.
fn least(guess: f64, enough: impl Fn(f64) -> bool) -> f64 {
    let mut high = guess;
    while !enough(high) {
        high *= 2.0;
    }
    let mut low = high / 2.0;
    while low > 0.0 && enough(low) {
        (low, high) = (low / 2.0, low);
    }
    while high - low > PRECISION * high {
        let middle = f64::midpoint(low, high);
        if enough(middle) { high = middle } else { low = middle }
    }
    high
}
