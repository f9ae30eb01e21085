//! A factor on the rate for the change of a source's level since the last fit.
//!
//! A rate is fitted from weeks of evidence. If a source doubles its updates within a day, the rate and its
//! predictions are wrong until the next fit. SUP(λ) of Venu Gopal et al. adjusts the model locally; the
//! paper does not define how. Here it is a factor φ on the rate, updated at each probe. Takes counts and
//! expected counts. May not know times or the use of the factor.
//!
//! Counts are Poisson with mean φ·Λ. φ has a Gamma prior with mean 1 and a weight of k updates. After a
//! updates where b were expected, its mean is (k + a)/(k + b). Both decay by exp(−Λ/span) at each probe, so
//! the memory is about `SPAN` updates. The tests cover sources that match the prediction, publish twice or
//! half as much, and change in between.

use serde::{Deserialize, Serialize};

/// k: after this many missing updates the factor is one half. Of 1, 2, 4, 8 and 16 it has the smallest error
/// over the first twenty updates. In that test (below) half of the sources match their rate; the others
/// publish twice or half as much.
const BELIEF: f64 = 4.0;

/// After this many expected updates, 1/e of the counts is left.
const SPAN: f64 = 40.0;

/// Largest factor. A larger deviation requires a new fit.
const MOST: f64 = 8.0;

/// A learned factor on a rate. Resets to the default, 1, at a new fit.
///
/// ```
/// # use tidewatch_core::model::drift::Drift;
/// let mut drift = Drift::default();
/// assert_eq!(drift.factor(), 1.0);
/// // Nine where four were expected.
/// drift.learn(9, 4.0);
/// assert_eq!(drift.factor(), 13.0 / 8.0);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Drift {
    /// a, with decay.
    found: f64,
    /// b, with decay.
    expected: f64,
}

impl Drift {
    /// Updates the factor: a probe found `found` updates since the previous probe, and the rate without the
    /// factor expects `expected`.
    pub fn learn(&mut self, found: u32, expected: f64) {
        if !expected.is_finite() || expected < 0.0 {
            return;
        }
        let left = (-expected / SPAN).exp();
        self.found = self.found * left + f64::from(found);
        self.expected = self.expected * left + expected;
    }

    /// φ: the factor on the rate.
    pub fn factor(self) -> f64 {
        self.believing(BELIEF)
    }

    /// φ with another k.
    fn believing(self, belief: f64) -> f64 {
        ((belief + self.found) / (belief + self.expected)).clamp(1.0 / MOST, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// A Poisson number with this mean.
    fn drawn(mean: f64, chance: &mut Stream) -> u32 {
        let (mut passed, mut count) = (0.0, 0);
        loop {
            passed -= (1.0 - chance.unit()).ln();
            if passed >= mean {
                return count;
            }
            count += 1;
        }
    }

    /// The factor after each probe, with half an update expected between two.
    fn factors(truth: f64, probes: usize, drift: &mut Drift, chance: &mut Stream) -> Vec<f64> {
        let mut after = || {
            drift.learn(drawn(truth * 0.5, chance), 0.5);
            drift.factor()
        };
        (0..probes).map(|_| after()).collect()
    }

    fn mean(of: &[f64]) -> f64 {
        of.iter().sum::<f64>() / of.len() as f64
    }

    #[test]
    fn the_factor_converges_to_the_true_one() {
        let chance = &mut Stream::new(1, "drift");
        for truth in [1.0, 2.0, 0.5] {
            let (mut middle, mut off) = (Vec::new(), Vec::new());
            for _ in 0..200 {
                let all = factors(truth, 400, &mut Drift::default(), chance);
                middle.push(mean(&all[200..]));
                off.push((all[399] / truth).ln().abs());
            }
            // The prior shifts the factor by a tenth towards 1.
            assert!((mean(&middle) / truth).ln().abs() < 0.12, "{truth}: {}", mean(&middle));
            assert!(mean(&off) < 0.25, "{truth}: {}", mean(&off));
        }
    }

    #[test]
    fn the_chosen_prior_weight_has_the_smallest_error() {
        let beliefs = [1.0, 2.0, BELIEF, 8.0, 16.0];
        let mut off = [0.0; 5];
        for truth in [1.0, 2.0, 1.0, 0.5] {
            let chance = &mut Stream::new(3, "drift");
            for _ in 0..1000 {
                let mut drift = Drift::default();
                for _ in 0..40 {
                    drift.learn(drawn(truth * 0.5, chance), 0.5);
                    for (off, belief) in off.iter_mut().zip(beliefs) {
                        *off += (drift.believing(belief) / truth).ln().abs() / 160_000.0;
                    }
                }
            }
        }
        assert!(off.iter().all(|&other| other >= off[2]), "{off:.3?}");
    }

    #[test]
    fn the_factor_follows_a_change_within_one_span() {
        let chance = &mut Stream::new(2, "drift");
        let (mut doubled, mut back) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            let mut drift = Drift::default();
            factors(1.0, 400, &mut drift, chance);
            doubled.push(factors(2.0, 80, &mut drift, chance)[79]);
            back.push(factors(1.0, 160, &mut drift, chance)[159]);
        }
        assert!((1.5..1.75).contains(&mean(&doubled)), "{}", mean(&doubled));
        assert!((0.97..1.15).contains(&mean(&back)), "{}", mean(&back));
    }

    #[test]
    fn the_factor_is_bounded_and_invalid_expectations_are_ignored() {
        let mut drift = Drift::default();
        drift.learn(7, f64::NAN);
        drift.learn(7, -1.0);
        assert_eq!(drift, Drift::default());
        drift.learn(1000, 0.0);
        assert_eq!(drift.factor(), MOST);
        drift.learn(0, 1e9);
        assert_eq!(drift.factor(), 1.0 / MOST);
    }
}
