//! Whether a count agrees with its expectation.
//!
//! Two tests. [`CountCheck`] asks whether updates were found as expected, neither more nor fewer. [`at_most`]
//! asks whether an event that must be rare was more frequent than stated. Both are exact on counts. May not
//! know the counted quantity.

use super::negative_binomial;
use super::poisson;

/// An expectation that is off by up to this share counts as right. Without it, any model fails once enough is
/// counted.
pub const TOLERANCE: f64 = 0.1;

/// A count with a smaller probability than this does not fit. A right model fails one check in a hundred.
pub const LEVEL: f64 = 0.01;

/// A count and its stated distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct CountCheck {
    /// The sum of the expected numbers.
    pub expected: f64,
    /// The sum of their variances.
    pub variance: f64,
    /// The number that was found.
    pub found: u64,
}

impl CountCheck {
    /// The probability, both tails together, of a count at least this far off. The count is negative binomial
    /// with the stated variance, around the mean that is nearest to it within [`TOLERANCE`].
    ///
    /// ```
    /// # use tidewatch_core::model::count_check::CountCheck;
    /// let check = |found| CountCheck { expected: 104.0, variance: 150.0, found };
    /// assert!(check(95).probability() == 1.0 && check(125).fits());
    /// assert!(!check(212).fits() && !check(52).fits());
    /// // The same counts of a source that clusters more.
    /// assert!(CountCheck { variance: 104.0 * 30.0, ..check(212) }.fits());
    /// ```
    pub fn probability(&self) -> f64 {
        let dispersion = (self.variance / self.expected.max(f64::MIN_POSITIVE)).max(1.0);
        let found = u32::try_from(self.found).unwrap_or(u32::MAX - 1);
        let least = |mean: f64, found: u32| negative_binomial::at_least(mean, dispersion, found);
        let above = least(self.expected * (1.0 + TOLERANCE), found);
        let below = 1.0 - least(self.expected * (1.0 - TOLERANCE), found + 1);
        (2.0 * above.min(below)).clamp(0.0, 1.0)
    }

    /// Whether the count agrees with the expectation.
    pub fn fits(&self) -> bool {
        self.probability() >= LEVEL
    }
}

/// Whether `found` events agree with a statement by which at most `stated` are expected.
///
/// ```
/// # use tidewatch_core::model::count_check::at_most;
/// assert!(at_most(1.2, 0) && at_most(1.2, 4) && !at_most(1.2, 6));
/// ```
pub fn at_most(stated: f64, found: u64) -> bool {
    poisson::at_least(stated, u32::try_from(found).unwrap_or(u32::MAX)) >= LEVEL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// A Poisson number with this mean.
    fn drawn(mean: f64, chance: &mut Stream) -> u64 {
        let (mut passed, mut count) = (0.0, 0);
        loop {
            passed -= (1.0 - chance.unit()).ln();
            if passed >= mean {
                return count;
            }
            count += 1;
        }
    }

    /// Failures of 2,000 checks of a source with this many updates, of which `stated` times as many are expected.
    fn failures(updates: f64, stated: f64, cluster: u64) -> usize {
        let chance = &mut Stream::new(7, "count check");
        let expected = updates * stated;
        let check = |_: &u32| {
            let found = cluster * drawn(updates / cluster as f64, chance);
            !CountCheck { expected, variance: cluster as f64 * expected, found }.fits()
        };
        (0..2_000).filter(check).count()
    }

    #[test]
    fn a_right_rate_fits_and_a_wrong_one_does_not() {
        for (updates, cluster) in [(3.0, 1), (20.0, 1), (100.0, 1), (1000.0, 1), (100.0, 4), (1000.0, 10)] {
            let right = failures(updates, 1.0, cluster);
            // A hundredth is 20.
            assert!(right <= 32, "{updates} {cluster}: {right}");
        }
        for stated in [2.0, 0.5] {
            let found = [failures(100.0, stated, 1), failures(1000.0, stated, 10)];
            assert!(found.iter().all(|&failures| failures > 1_900), "{stated}: {found:?}");
        }
        // Too few for a verdict.
        assert!(failures(3.0, 2.0, 1) < 200);
    }

    #[test]
    fn an_expectation_within_the_tolerance_fits_at_any_count() {
        assert_eq!(failures(20_000.0, 1.09, 1) + failures(20_000.0, 0.92, 1), 0);
        let nothing = CountCheck::default();
        assert!(nothing.fits() && !CountCheck { found: 5, ..nothing }.fits());
        assert!(at_most(0.0, 0) && !at_most(0.0, 1));
    }
}
