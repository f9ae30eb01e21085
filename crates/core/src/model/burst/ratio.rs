//! The paper's test: how many times the expected updates came (Bright, Gal, Raschid, §8.2.1).
//!
//! Memoryless: at each look a burst is on or not. Kept as the paper has it, though it fires on a
//! single update wherever less than 1/T_burst is expected in the window: in 9.5 %, 33 %, 26 % and
//! 14 % of the looks at a steady source with Λ(W) = 0.1, 0.4, 1 and 2.
//!
//! Knows the rule. Must not know of time.

/// Whether a burst is on, f(λ, λ*) ≥ T_burst, with
///
/// - (a) f = Λ*(W, t)/Λ(W, t) if any update was expected,
/// - (b) f = T_burst if none was and one came,
/// - (c) f = 0 otherwise.
///
/// At T_burst = 0 a burst is always on, at ∞ never: then (b) would give ∞ ≥ ∞, against what the
/// paper says of ∞ a few lines on, so it does not count.
///
/// ```
/// # use tidewatch_core::model::burst::ratio::is_burst;
/// assert!(is_burst(4, 2.0, 2.0) && !is_burst(3, 2.0, 2.0));
/// assert!(is_burst(1, 0.0, 2.0) && !is_burst(0, 0.0, 2.0));
/// ```
pub fn is_burst(observed: u32, expected: f64, threshold: f64) -> bool {
    if threshold == f64::INFINITY {
        return false;
    }
    let distance = if expected > 0.0 {
        f64::from(observed) / expected
    } else if observed > 0 {
        threshold
    } else {
        0.0
    };
    distance >= threshold
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rules_by_hand() {
        // (a)
        assert!(is_burst(1, 0.5, 2.0));
        assert!(!is_burst(1, 0.51, 2.0));
        assert!(is_burst(1, 0.01, 2.0));
        assert!(!is_burst(0, 0.01, 2.0));
        assert!(is_burst(100, 50.0, 2.0) && !is_burst(99, 50.0, 2.0));
        assert!(is_burst(3, 2.0, 1.5));
        // (b)
        assert!(is_burst(1, 0.0, 2.0) && is_burst(7, 0.0, 1e9));
        // (c)
        assert!(!is_burst(0, 0.0, 2.0));
    }

    #[test]
    fn nothing_and_everything() {
        for observed in [0, 1, 1000] {
            for expected in [0.0, 1e-9, 1.0, 50.0] {
                assert!(is_burst(observed, expected, 0.0));
                assert!(!is_burst(observed, expected, f64::INFINITY));
            }
        }
    }
}
