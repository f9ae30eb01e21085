//! Threshold and first arrival without a horizon: the level at which a running source is probed next.
//!
//! On a horizon both are brought to n probes by the level that takes n (Eckstein, Gal, Reiner, §5.2).
//! A running source has none, so the level is taken from the span T
//! around the last probe in which most is to be done: the one after it, or where the rhythm is longer
//! than T, one that began before. By the time ahead alone the level would sink with what is left of a
//! busy day, and the last hour before a quiet weekend would be given n probes again and again. So a
//! rhythm that repeats within T is given n probes per T, and any span T about n at most; politeness
//! itself is the gate's.
//!
//! First arrival probes when P(new) ≥ π, which is when the expected updates reach −ln(1 − π); they are
//! Λ_T/n. Threshold probes when the expected cost reaches Π, which is near (∫√(aλ)/n)²/2 and searched
//! from there.
//!
//! Knows one source's rate, importance and budget. Must not know what was spent.

use crate::model::obsolescence::Obsolescence;
use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

use super::budget::Budget;
use super::pile::suffices;

/// The longest rhythm.
const CYCLE: Span = Span::from_days(7);

/// Levels are found to this share of themselves.
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

/// Π: the expected cost at which the next probe is due. `None` if nothing is expected that matters.
pub fn threshold(rate: &Steps, importance: &Steps, budget: &Budget, last: Timestamp) -> Option<f64> {
    spans(budget).into_iter().flatten().find_map(|(probes, per)| {
        let (from, roots) = busiest(rate, importance, |rate, weight| (rate * weight).sqrt(), per, last);
        let guess = (roots / f64::from(probes)).powi(2) / 2.0;
        let cost = Obsolescence::new(rate, importance, from, from + per);
        (guess > 0.0).then(|| least(guess, |level| suffices(&cost, level, probes)))
    })
}

/// n and T; where nothing is to be done for T either way, as much of them as a cycle has.
fn spans(budget: &Budget) -> [Option<(u32, Span)>; 2] {
    let (probes, per) = (budget.probes.max(1), budget.per);
    let cycles = CYCLE.as_secs_f64() / per.as_secs_f64();
    let longer = (per < CYCLE).then(|| ((f64::from(probes) * cycles).round() as u32, CYCLE));
    [Some((probes, per)), longer]
}

/// Of the spans of this length that begin at or before `last` and do not end before it, the one with the
/// most of something, and how much; of several the latest. The most is where a span begins or ends
/// with a cell, or at either extreme.
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
        // Equal but for the last digits is equal.
        if other.1 > best.1 * (1.0 + PRECISION) { other } else { best }
    });
    (starts + begin, amount)
}

/// The least level that is enough, from a guess above 0.
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
