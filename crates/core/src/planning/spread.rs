//! The simplest schedule: the budget spread evenly, with jitter.
//!
//! Applies to a source without evidence. The jitter separates sources that were added together. The caller
//! draws it, so this is pure arithmetic.

use crate::planning::budget::Budget;
use crate::time::{Span, Timestamp};

/// Maximum jitter to either side, as a share of the gap.
const JITTER: f64 = 0.05;

/// The next probe after one at `last`: one gap later, moved by `unit` in [0, 1) within ±5 %, and at least
/// the spacing δ later.
pub fn next(last: Timestamp, gap: Span, budget: &Budget, unit: f64) -> Timestamp {
    let factor = 1.0 + JITTER * (2.0 * unit - 1.0);
    last + gap.scaled(factor).max(budget.min_spacing)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn stays_near_the_gap_and_above_the_spacing(
            gap in 1_i64..10_000_000, spacing in 0_i64..10_000_000, unit in 0.0_f64..1.0,
        ) {
            let budget = Budget { min_spacing: Span::from_millis(spacing), ..Budget::default() };
            let last = Timestamp::from_secs(1_000);
            let waited = next(last, Span::from_millis(gap), &budget, unit) - last;
            prop_assert!(waited >= budget.min_spacing);
            prop_assert!(waited.as_millis() <= spacing.max((gap as f64 * 1.05).round() as i64));
            prop_assert!(waited.as_millis() >= (gap as f64 * 0.95).floor() as i64);
        }
    }
}
