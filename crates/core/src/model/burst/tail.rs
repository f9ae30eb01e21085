//! The scan: whether so many updates are too improbable under the rhythm, in any of a few windows.
//!
//! At each update the counts of the windows that end with it are held against their Poisson tails.
//! That update itself is no evidence, since it is why we ask: at an update of a Poisson source the
//! *others* of the window are Poisson with mean Λ (Slivnyak), so the tail is P(N ≥ observed − 1 | Λ).
//! It must be at most ε over the number of windows (Bonferroni): then each update raises a false
//! alarm with probability at most ε, for every rhythm, with no simulation to trust. The price is that
//! there are fewer than ε: counts are whole numbers, the windows overlap, and alarms come in clumps
//! of which only the first counts.
//!
//! An alarm ends when its window's count is one that a quiet source shows once in ten windows.
//!
//! A window that reaches back before the watch began counts nothing there, so it is blind at first
//! rather than wrong.
//!
//! Knows tails. Must not know of looks or where rates come from.

use crate::model::poisson::at_least;

/// The windows, as multiples of W.
pub const WINDOWS: [f64; 4] = [0.25, 1.0, 4.0, 24.0];
/// An alarm is over when its count is no rarer than this.
const ORDINARY: f64 = 0.1;

/// Whether an update that makes it `observed` in a window raises an alarm.
pub fn is_alarming(observed: u32, expected: f64, false_alarms: f64) -> bool {
    let others = observed.saturating_sub(1);
    // Less than expected is never rare; and 0 is the probability of much where nothing is expected.
    f64::from(others) > expected
        && false_alarms > 0.0
        && at_least(expected, others) <= false_alarms / WINDOWS.len() as f64
}

/// Whether an alarm that a window raised is over.
pub fn is_ordinary(observed: u32, expected: f64) -> bool {
    f64::from(observed) <= expected || at_least(expected, observed) > ORDINARY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_update_itself_is_no_evidence() {
        assert!(!is_alarming(1, 0.0, 0.001) && !is_alarming(1, 1e-12, 0.001));
        // 1 − e^(−Λ) ≤ 0.001/4
        assert!(is_alarming(2, 0.000_25, 0.001) && !is_alarming(2, 0.000_26, 0.001));
        assert!(!is_alarming(100, 0.1, 0.0));
    }

    #[test]
    fn an_alarm_ends_well_below_where_it_begins() {
        for expected in [0.001, 0.1, 1.0, 10.0, 300.0] {
            let begins = (1..).find(|&count| is_alarming(count, expected, 0.001)).unwrap();
            let ends = (0..begins).rev().find(|&count| is_ordinary(count, expected)).unwrap();
            assert!(ends + 2 <= begins, "{expected}: {begins} {ends}");
        }
    }
}
