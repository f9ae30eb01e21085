//! The probability that a feed loses items between two probes.
//!
//! A feed shows its newest M items. If more than M arrive between two probes, some are never seen, and no
//! later probe recovers them. With Λ expected updates in the gap, their number is negative binomial, with the
//! dispersion of the source's counts (Poisson at 1), and P(more than M) grows with Λ. So a bound on that
//! probability is a bound on the expected updates between two probes. May not know schedules.

use crate::model::negative_binomial::at_least;

/// P(N > most) of a number N with this mean and dispersion.
///
/// ```
/// # use tidewatch_core::planning::feed_overflow::exceeds;
/// // 1 − e⁻¹
/// assert!((exceeds(1.0, 0, 1.0) - 0.632_120_558_828_557_7).abs() < 1e-12);
/// ```
pub fn exceeds(mean: f64, most: u32, dispersion: f64) -> f64 {
    at_least(mean, dispersion, most.saturating_add(1))
}

/// The largest mean with P(N > most) ≤ risk.
pub fn most_expected(most: u32, risk: f64, dispersion: f64) -> f64 {
    let (mut low, mut high) = (0.0, f64::from(most) + 1.0);
    while exceeds(high, most, dispersion) < risk {
        high *= 2.0;
    }
    // Half a per mille is finer than the precision of any rate.
    while high - low > 5e-4 * high {
        let middle = f64::midpoint(low, high);
        if exceeds(middle, most, dispersion) <= risk { low = middle } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_expected_meets_the_risk() {
        for most in [1, 10, 20, 100, 1000] {
            for dispersion in [1.0, 2.0, 7.0] {
                let mean = most_expected(most, 0.01, dispersion);
                assert!(exceeds(mean, most, dispersion) <= 0.01, "{most}");
                assert!(exceeds(mean * 1.002, most, dispersion) > 0.01, "{most}");
            }
        }
    }
}
