//! The test of the paper: the ratio of observed to expected updates (Bright, Gal, Raschid, §8.2.1).
//!
//! Stateless: each probe decides independently. Implemented as published, although it fires on a single
//! update where less than 1/T_burst is expected in the window. That is in 9.5 %, 33 %, 26 % and 14 % of the
//! probes of a steady source with Λ(W) = 0.1, 0.4, 1 and 2. Holds the rule. May not know time.

/// Whether a burst is on, f(λ, λ*) ≥ T_burst, with
///
/// - (a) f = Λ*(W, t)/Λ(W, t) if any update was expected,
/// - (b) f = T_burst if none was expected and at least one was observed,
/// - (c) f = 0 otherwise.
///
/// At T_burst = 0 a burst is always on, at ∞ never. With ∞, (b) would give ∞ ≥ ∞, which contradicts the
/// paper's statement on ∞ a few lines later; so (b) does not apply then.
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
    fn rules_a_b_and_c_match_hand_computed_cases() {
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
    fn zero_threshold_always_fires_and_infinite_never() {
        for observed in [0, 1, 1000] {
            for expected in [0.0, 1e-9, 1.0, 50.0] {
                assert!(is_burst(observed, expected, 0.0));
                assert!(!is_burst(observed, expected, f64::INFINITY));
            }
        }
    }
}
