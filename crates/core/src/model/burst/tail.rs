//! The scan test: whether the count in one of a few windows is too improbable under the rate.
//!
//! Each update evaluates the counts of the windows that end with it against their Poisson tails. The update
//! itself is not evidence: at an update of a Poisson source the *others* of the window are Poisson with mean
//! Λ (Slivnyak), so the tail is P(N ≥ observed − 1 | Λ). It must be at most ε over the number of windows
//! (Bonferroni). Then each update raises a false alarm with probability at most ε, for every rate and
//! without simulation. May not know probes or the origin of rates.
//!
//! The actual number is below ε: counts are integers, the windows overlap, and only the first of a cluster
//! of alarms counts.
//!
//! An alarm ends when the count of its window is one that a quiet source shows once in ten windows.
//!
//! A window that begins before the first probe counts nothing there. So the test misses bursts at first and
//! raises no false alarms.

use crate::model::poisson::at_least;

/// The windows, as multiples of W.
pub const WINDOWS: [f64; 4] = [0.25, 1.0, 4.0, 24.0];
/// An alarm ends when the tail probability of its count exceeds this.
const ORDINARY: f64 = 0.1;

/// Whether an update that raises the count of a window to `observed` raises an alarm.
pub fn is_alarming(observed: u32, expected: f64, false_alarms: f64) -> bool {
    let others = observed.saturating_sub(1);
    // A count below the expectation is never rare. The check also covers an expectation of 0.
    f64::from(others) > expected
        && false_alarms > 0.0
        && at_least(expected, others) <= false_alarms / WINDOWS.len() as f64
}

/// Whether an alarm of a window is over.
pub fn is_ordinary(observed: u32, expected: f64) -> bool {
    f64::from(observed) <= expected || at_least(expected, observed) > ORDINARY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_current_update_is_not_counted_as_evidence() {
        assert!(!is_alarming(1, 0.0, 0.001) && !is_alarming(1, 1e-12, 0.001));
        // 1 − e^(−Λ) ≤ 0.001/4
        assert!(is_alarming(2, 0.000_25, 0.001) && !is_alarming(2, 0.000_26, 0.001));
        assert!(!is_alarming(100, 0.1, 0.0));
    }

    #[test]
    fn the_count_that_ends_an_alarm_is_at_least_two_below_the_one_that_raises_it() {
        for expected in [0.001, 0.1, 1.0, 10.0, 300.0] {
            let begins = (1..).find(|&count| is_alarming(count, expected, 0.001)).unwrap();
            let ends = (0..begins).rev().find(|&count| is_ordinary(count, expected)).unwrap();
            assert!(ends + 2 <= begins, "{expected}: {begins} {ends}");
        }
    }
}
