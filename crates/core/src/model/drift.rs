//! How far a source has drifted from its rate since that was fitted.
//!
//! A rate is fitted from weeks. When a source publishes twice as much from one day to the next, that rate
//! is wrong until the next fit, and what is foretold by it with it. SUP(λ) of Venu Gopal et al. adjusts the
//! model locally; the paper does not say how. Here it is a factor φ on the rate, learned from look to look.
//!
//! Counts are Poisson of mean φ·Λ, and φ is Gamma with k updates' worth of belief in 1: then after a counts
//! where b were expected its mean is (k + a)/(k + b). Both fade by exp(−Λ/span) at each look, so that what was
//! learned is forgotten after about `SPAN` updates. Tests hold it against sources that are as foretold, that
//! publish twice and half as much, and that change in between.
//!
//! Knows counts and what was expected. Must not know times, nor what the factor is used for.

use serde::{Deserialize, Serialize};

/// k: so many updates would have to be missing before half of the rate is believed. Of 1, 2, 4, 8 and 16 it is
/// the nearest over the first twenty updates when every second source is as foretold, and the others publish
/// twice or half as much (tested below).
const BELIEF: f64 = 4.0;

/// After so many expected updates, 1/e of what was learned is left.
const SPAN: f64 = 40.0;

/// What is further off than this is a matter for a fit.
const MOST: f64 = 8.0;

/// A factor on a rate, which it learns. At a new fit it begins again as the default, 1.
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
    /// a, faded.
    found: f64,
    /// b, faded.
    expected: f64,
}

impl Drift {
    /// A look found so many updates since the look before, where the rate, without the factor, has so many.
    pub fn learn(&mut self, found: u32, expected: f64) {
        if !expected.is_finite() || expected < 0.0 {
            return;
        }
        let left = (-expected / SPAN).exp();
        self.found = self.found * left + f64::from(found);
        self.expected = self.expected * left + expected;
    }

    /// φ: what to multiply the rate with.
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

    /// Updates of a Poisson number of this mean.
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

    /// The factor after each of so many looks, half an update expected between two.
    fn factors(truth: f64, looks: usize, drift: &mut Drift, chance: &mut Stream) -> Vec<f64> {
        let mut after = || {
            drift.learn(drawn(truth * 0.5, chance), 0.5);
            drift.factor()
        };
        (0..looks).map(|_| after()).collect()
    }

    fn mean(of: &[f64]) -> f64 {
        of.iter().sum::<f64>() / of.len() as f64
    }

    #[test]
    fn it_finds_the_truth_and_stays_near_it() {
        let chance = &mut Stream::new(1, "drift");
        for truth in [1.0, 2.0, 0.5] {
            let (mut middle, mut off) = (Vec::new(), Vec::new());
            for _ in 0..200 {
                let all = factors(truth, 400, &mut Drift::default(), chance);
                middle.push(mean(&all[200..]));
                off.push((all[399] / truth).ln().abs());
            }
            // Belief in 1 draws it a tenth that way.
            assert!((mean(&middle) / truth).ln().abs() < 0.12, "{truth}: {}", mean(&middle));
            assert!(mean(&off) < 0.25, "{truth}: {}", mean(&off));
        }
    }

    #[test]
    fn its_belief_is_the_nearest() {
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
    fn it_follows_within_a_span_and_forgets() {
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
    fn it_is_bounded_and_ignores_nonsense() {
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
