//! The renewal correction: how the rate depends on the time since the last update.
//!
//! A rate alone assumes independent updates. A daily report would be as likely right after an update as
//! before, and a stopped job would be expected for weeks. Time is u = ∫λ_0 since the last update, where λ_0
//! is the rate of the predictors. Gaps u of independent updates would be exponential. Here most gaps are
//! Erlang distributed, with k stages of mean 1/(kc): more stages mean more regular gaps. A share ε are
//! pauses, exponential with mean 1/b. May not know the current time.
//!
//! The corrected rate is
//!
//! λ(t) = λ_0(t)·(1 − φ + φ·h(u)), h = f/S, S(u) = (1 − ε)·e^(−kcu) Σ_(j<k) (kcu)^j/j! + ε·e^(−bu),
//!
//! where c makes the mean gap 1: (1 − ε)/c + ε/b = 1. k, ε, b and φ have maximum likelihood, if the gain
//! exceeds a threshold. The rate ahead follows from the probabilities of each stage and of a pause,
//! dp_j/du = kc(p_(j−1) − p_j), with a restart at every update. The implicit Euler method solves it piece by
//! piece. (It is a renewal process in rescaled time with phase-type gaps, so a vector of stages is
//! sufficient.)

/// Parameters of the renewal correction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Regularity {
    /// k.
    pub stages: u8,
    /// φ.
    pub share: f32,
    /// ε.
    pub pauses: f32,
    /// b.
    pub slow: f32,
}

/// A gap between two updates, and the predictions for its end.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpdateGap {
    /// u, without self-exciting predictors.
    pub expected: f64,
    /// The rate that those predictors give for the end of the gap, in updates per hour …
    pub predicted_rate: f64,
    /// … and that of the self-exciting predictors.
    pub self_exciting_rate: f64,
    /// Its weight.
    pub weight: f64,
}

/// Maximum number of stages; more change little.
pub(super) const MOST: u8 = 14;
const STAGES: [u8; 7] = [1, 2, 3, 4, 6, 9, MOST];
const SHARES: [f32; 4] = [0.98, 0.93, 0.8, 0.5];
/// ε and b. ε is never 0 here: the most regular job can stop.
const PAUSES: [(f32, f32); 7] =
    [(0.01, 0.03), (0.02, 0.1), (0.05, 0.1), (0.05, 0.3), (0.15, 0.3), (0.1, 0.5), (0.3, 0.5)];

/// Minimum gain in log-likelihood over no correction.
const LEAST_GAIN: f64 = 2.0;

impl Regularity {
    /// No correction: updates are independent.
    pub const NONE: Self = Self { stages: 1, share: 0.0, pauses: 0.0, slow: 1.0 };

    /// The parameters of maximum likelihood.
    pub fn of(gaps: &[UpdateGap]) -> Self {
        let mut best = (Self::NONE, Self::NONE.likelihood(gaps) + LEAST_GAIN);
        let mut try_one = |one: Self| {
            let likelihood = one.likelihood(gaps);
            if likelihood > best.1 {
                best = (one, likelihood);
            }
            (best.0, likelihood)
        };
        // Coordinate search: the optimum of each parameter depends little on the others.
        for (pauses, slow) in [PAUSES[0], PAUSES[3]] {
            let (mut most, mut worse) = (f64::NEG_INFINITY, 0);
            for stages in STAGES {
                let (_, likelihood) = try_one(Self { stages, share: SHARES[1], pauses, slow });
                // Stop after two decreases in a row.
                worse = if likelihood > most { 0 } else { worse + 1 };
                most = most.max(likelihood);
                if worse == 2 {
                    break;
                }
            }
        }
        let (mut found, _) = try_one(Self::NONE);
        for (pauses, slow) in PAUSES {
            (found, _) = try_one(Self { share: SHARES[1], stages: found.stages, pauses, slow });
        }
        if found != Self::NONE {
            for share in SHARES {
                (found, _) = try_one(Self { share, ..found });
            }
        }
        found
    }

    /// c.
    fn pace(self) -> f64 {
        let (pauses, slow) = (f64::from(self.pauses), f64::from(self.slow));
        (1.0 - pauses) / (1.0 - pauses / slow)
    }

    /// The log-likelihood of these gaps.
    fn likelihood(self, gaps: &[UpdateGap]) -> f64 {
        let share = f64::from(self.share);
        let of = |gap: &UpdateGap| {
            let (hazard, survival) = self.hazard(gap.expected);
            let rate = gap.predicted_rate * (1.0 - share + share * hazard) + gap.self_exciting_rate;
            let expected = (1.0 - share) * gap.expected - share * survival;
            gap.weight * (rate.max(f64::MIN_POSITIVE).ln() - expected)
        };
        gaps.iter().map(of).sum()
    }

    /// The logarithm of the probability of a gap longer than `expected`.
    pub fn ln_silence(self, expected: f64) -> f64 {
        let share = f64::from(self.share);
        let (_, survival) = self.hazard(expected);
        share * survival - (1.0 - share) * expected
    }

    /// h and ln S.
    fn hazard(self, expected: f64) -> (f64, f64) {
        let (pauses, slow) = (f64::from(self.pauses), f64::from(self.slow));
        let speed = f64::from(self.stages) * self.pace();
        let passed = (speed * expected).min(LONGEST);
        let (mut term, mut sum) = (1.0, 1.0);
        for stage in 1..self.stages {
            term *= passed / f64::from(stage);
            sum += term;
        }
        let usual = (1.0 - pauses) * (-passed).exp();
        let paused = pauses * (-slow * expected).exp();
        let survival = (usual * sum + paused).max(f64::MIN_POSITIVE);
        ((usual * speed * term + slow * paused) / survival, survival.ln())
    }
}

/// Upper bound on the exponent.
const LONGEST: f64 = 500.0;

/// The distribution over the stages until the next update.
#[derive(Debug, Clone)]
pub(super) struct Stages {
    of: Regularity,
    likely: Vec<f64>,
    paused: f64,
}

impl Stages {
    /// The distribution after `expected` expected updates since the last one.
    pub fn after(of: Regularity, expected: f64) -> Self {
        let stages = usize::from(of.stages);
        let passed = (stages as f64 * of.pace() * expected).clamp(0.0, LONGEST);
        let mut likely = vec![(1.0 - f64::from(of.pauses)) * (-passed).exp(); stages];
        for stage in 1..stages {
            likely[stage] = likely[stage - 1] * passed / stage as f64;
        }
        let mut paused = f64::from(of.pauses) * (-f64::from(of.slow) * expected.min(LONGEST)).exp();
        let sum = likely.iter().sum::<f64>() + paused;
        likely.iter_mut().for_each(|part| *part /= sum);
        paused /= sum;
        Self { of, likely, paused }
    }

    /// Advances by `expected` expected updates. Returns the factor on the rate at the end of that.
    pub fn go_on(&mut self, expected: f64) -> f64 {
        let (pauses, slow, share) =
            (f64::from(self.of.pauses), f64::from(self.of.slow), f64::from(self.of.share));
        // A positive step avoids 0/0.
        let expected = expected.max(1e-9);
        let step = self.likely.len() as f64 * self.of.pace() * expected;
        let (stay, pass) = (1.0 / (1.0 + step), step / (1.0 + step));
        let wakes = slow * expected / (1.0 + slow * expected);
        // Updates without restarts, and the share that each restart adds.
        let straight = self.likely.iter().fold(0.0, |before, part| stay * part + pass * before);
        let anew = (1.0 - pauses) * pass.powi(self.likely.len() as i32) + pauses * wakes;
        let updates = (step * straight + wakes * self.paused) / (1.0 - anew).max(1e-9);
        let mut before = (1.0 - pauses) * updates / step;
        for part in &mut self.likely {
            *part = stay * *part + pass * before;
            before = *part;
        }
        self.paused = (self.paused + pauses * updates) / (1.0 + slow * expected);
        1.0 - share + share * updates / expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    fn all() -> impl Iterator<Item = Regularity> {
        let with = |stages, (pauses, slow)| SHARES.map(|share| Regularity { stages, share, pauses, slow });
        STAGES.into_iter().flat_map(move |stages| PAUSES.into_iter().flat_map(move |p| with(stages, p)))
    }

    #[test]
    fn survival_is_the_exponential_of_the_integrated_hazard() {
        for one in all() {
            let (mut sum, step) = (0.0, 1e-3);
            for n in 0..5000 {
                sum += step * one.hazard((f64::from(n) + 0.5) * step).0;
            }
            let (_, survival) = one.hazard(5.0);
            assert!((sum + survival).abs() < 1e-3 * sum.max(1.0), "{one:?}: {sum} {survival}");
        }
    }

    #[test]
    fn a_short_step_yields_the_hazard_and_many_steps_the_mean() {
        for one in all() {
            let share = f64::from(one.share);
            for waited in [0.0, 0.3, 1.0, 3.0, 20.0] {
                let soon = Stages::after(one, waited).go_on(1e-7);
                let wanted = 1.0 - share + share * one.hazard(waited).0;
                assert!(
                    (soon - wanted).abs() < 1e-3 * wanted.max(1.0),
                    "{one:?} at {waited}: {soon} {wanted}"
                );
            }
            let mut stages = Stages::after(one, 0.0);
            for _ in 0..4000 {
                stages.go_on(0.1);
            }
            let later = stages.go_on(0.1);
            assert!((later - 1.0).abs() < 0.02, "{one:?}: {later}");
            // One very long step converges as well.
            assert!((Stages::after(one, 0.0).go_on(1e6) - 1.0).abs() < 0.02, "{one:?}");
        }
    }

    /// Gaps with mean 1, drawn by `draw`.
    fn gaps(seed: u64, draw: impl Fn(&mut Stream) -> f64) -> Vec<UpdateGap> {
        let mut chance = Stream::new(seed, "gaps");
        let gap =
            |expected| UpdateGap { expected, predicted_rate: 1.0, self_exciting_rate: 0.0, weight: 1.0 };
        (0..200).map(|_| gap(draw(&mut chance))).collect()
    }

    fn exponential(chance: &mut Stream) -> f64 {
        -(1.0 - chance.unit()).ln()
    }

    #[test]
    fn regular_pausing_and_independent_gaps_are_distinguished() {
        for seed in 0..5 {
            let regular = Regularity::of(&gaps(seed, |chance| 0.8 + 0.4 * chance.unit()));
            assert!(regular.stages >= 9 && regular.share > 0.8, "{regular:?}");
            let pausing = Regularity::of(&gaps(seed, |chance| {
                let mean = if chance.unit() < 0.05 { 10.0 } else { 0.53 };
                mean * exponential(chance)
            }));
            assert!(pausing.stages == 1 && pausing.pauses > 0.0, "{pausing:?}");
            let neither = Regularity::of(&gaps(seed, exponential));
            let most = (0..40).map(|n| neither.hazard(f64::from(n) * 0.05).0).fold(0.0, f64::max);
            assert!(neither == Regularity::NONE || most < 1.5, "{neither:?}");
        }
        assert_eq!(Regularity::of(&[]), Regularity::NONE);
    }
}
