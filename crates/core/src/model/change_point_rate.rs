//! Estimates of a source's rate from the counts that its probes found.
//!
//! Two estimates of π. The one of the paper, max(1, found)/t (Mahmoody et al., Algorithm 1), has no decay:
//! after a change it is wrong for as long as it was right before. The other is Bayesian online change-point
//! detection (Adams and MacKay, 2007) with a few hypotheses on the last change of the rate. Kept small,
//! because every source has one. Counts updates per time in any unit. May not know calendars.
//!
//! Each hypothesis is a Gamma posterior over the time since its change point. The count of a probe is
//! negative binomial under each and updates the weights. Each probe adds the hypothesis "since this gap" in
//! place of the least likely one, if it is likelier.

use serde::{Deserialize, Serialize};

/// The estimate of the paper.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CountedRate {
    found: u64,
}

impl CountedRate {
    /// Adds the count of a probe at time `t`. Returns π̃ = max(1, found so far)/t.
    pub fn learn(&mut self, found: u64, t: f64) -> f64 {
        self.found += found;
        self.found.max(1) as f64 / t
    }
}

/// The prior, in the same unit of time as the counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatePrior {
    /// The expected rate, such as the mean of all sources.
    pub rate: f64,
    /// Permanent changes of a source's rate per unit of time.
    pub changes: f64,
}

/// The weight of the prior, in updates: an exponential distribution. Over Zipf, Pareto and uniform rates it
/// loses less than ½ or 2, above all with few updates.
const PRIOR_SHAPE: f64 = 1.0;

/// Number of hypotheses. Two lose up to a third more after a change than four; eight gain little.
const KEPT: usize = 4;

/// Hypotheses below this log-likelihood are ignored.
const NEGLIGIBLE: f32 = -15.0;

/// The estimate with change points.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePointRate {
    runs: [RateRun; KEPT],
}

/// One hypothesis: a Gamma posterior over the time since its change point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct RateRun {
    /// Log-likelihood relative to the likeliest hypothesis.
    likely: f32,
    /// Updates, including those of the prior.
    shape: f32,
    /// Time of those updates.
    span: f32,
}

impl Default for ChangePointRate {
    fn default() -> Self {
        Self { runs: [RateRun { likely: f32::NEG_INFINITY, shape: 1.0, span: 1.0 }; KEPT] }
    }
}

impl ChangePointRate {
    /// An estimate of this rate with the weight of a count over `span`.
    pub fn seeded(rate: f64, span: f64) -> Self {
        let mut belief = Self::default();
        belief.runs[0] = RateRun { likely: 0.0, shape: (rate * span) as f32, span: span as f32 };
        belief
    }

    /// Adds the count of a probe: `found` updates over `span`.
    pub fn learn(&mut self, found: u64, span: f64, prior: RatePrior) {
        let (found, span) = (found as f64, span.max(f64::MIN_POSITIVE));
        // The odds of a change within the gap. A second change within it is ignored.
        let odds = (span * prior.changes).max(f64::MIN_POSITIVE);
        let mut most = f32::NEG_INFINITY;
        let mut least = 0;
        for at in 0..KEPT {
            let run = &mut self.runs[at];
            if run.likely > NEGLIGIBLE {
                run.likely += run.chance(found, span) as f32;
                most = most.max(run.likely);
            }
            least = if self.runs[at].likely < self.runs[least].likely { at } else { least };
        }
        let mut new = RateRun {
            likely: 0.0,
            shape: PRIOR_SHAPE as f32,
            span: (PRIOR_SHAPE / prior.rate.max(f64::MIN_POSITIVE)) as f32,
        };
        // Initially there is no other hypothesis.
        let nothing = most == f32::NEG_INFINITY;
        new.likely = (new.chance(found, span) + if nothing { 0.0 } else { odds.ln() }) as f32;
        if nothing || new.likely > self.runs[least].likely {
            self.runs[least] = new;
        }
        most = most.max(new.likely);
        for run in &mut self.runs {
            run.likely -= most;
            run.shape += found as f32;
            run.span += span as f32;
        }
    }

    /// Adds time in which probes found no update, without the hypothesis of a change within it.
    pub fn learn_silence(&mut self, span: f64) {
        if span <= 0.0 {
            return;
        }
        let mut most = f32::NEG_INFINITY;
        for run in self.runs.iter_mut().filter(|run| run.likely > NEGLIGIBLE) {
            run.likely += run.chance(0.0, span) as f32;
            most = most.max(run.likely);
        }
        if most > f32::NEG_INFINITY {
            for run in &mut self.runs {
                run.likely -= most;
                run.span += span as f32;
            }
        }
    }

    /// The stored form: log-likelihood, updates and time of each hypothesis.
    pub fn to_text(&self) -> String {
        let likely = self.runs.iter().filter(|run| run.likely > NEGLIGIBLE);
        let runs: Vec<String> =
            likely.map(|run| format!("{} {} {}", run.likely, run.shape, run.span)).collect();
        runs.join(";")
    }

    /// Decodes a stored text; `None` if it is invalid.
    pub fn from_text(text: &str) -> Option<Self> {
        let mut belief = Self::default();
        for (at, run) in text.split(';').enumerate() {
            let mut numbers =
                run.split(' ').map(|number| number.parse::<f32>().ok().filter(|n| n.is_finite()));
            let (likely, shape, span) = (numbers.next()??, numbers.next()??, numbers.next()??);
            if likely > 0.0 || shape <= 0.0 || span <= 0.0 || numbers.next().is_some() {
                return None;
            }
            *belief.runs.get_mut(at)? = RateRun { likely, shape, span };
        }
        Some(belief)
    }

    /// The expected rate; that of the prior before the first probe.
    pub fn rate(&self, prior: RatePrior) -> f64 {
        self.known_rate().unwrap_or(prior.rate)
    }

    /// The expected rate; `None` before the first probe.
    pub fn known_rate(&self) -> Option<f64> {
        let (mut sum, mut weights) = (0.0, 0.0);
        for run in self.runs.iter().filter(|run| run.likely > NEGLIGIBLE) {
            let weight = run.likely.exp();
            sum += weight * run.shape / run.span;
            weights += weight;
        }
        (weights > 0.0).then(|| f64::from(sum / weights))
    }
}

impl RateRun {
    /// The log-probability of this count over `span`, without the terms that all hypotheses share.
    fn chance(&self, found: f64, span: f64) -> f64 {
        let (shape, time) = (f64::from(self.shape), f64::from(self.span));
        let silent = -shape * (1.0 + span / time).ln();
        if found == 0.0 {
            return silent;
        }
        silent + ln_rising(shape, found) + found * (span / (time + span)).ln()
    }
}

/// ln of Γ(a + k)/Γ(a), the rising factorial, for whole k.
pub(super) fn ln_rising(a: f64, k: f64) -> f64 {
    if k < 16.0 {
        let mut product = 1.0;
        let mut factor = a;
        while factor < a + k - 0.5 {
            product *= factor;
            factor += 1.0;
        }
        return product.ln();
    }
    // Stirling's series; two terms are accurate to seven digits.
    let series = |x: f64| (x - 0.5) * x.ln() - x + (12.0 * x).recip() - (360.0 * x * x * x).recip();
    let mut product = 1.0;
    let mut low = a;
    while low < 8.0 {
        product *= low;
        low += 1.0;
    }
    series(a + k) - series(low) + product.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRIOR: RatePrior = RatePrior { rate: 0.1, changes: 1.0 / 20_000.0 };

    #[test]
    fn silent_probes_together_are_as_silent_probes_one_by_one() {
        let mut nothing = ChangePointRate::default();
        nothing.learn_silence(5.0);
        assert_eq!(nothing, ChangePointRate::default());
        let mut each = ChangePointRate::default();
        for n in 0..400 {
            each.learn(u64::from(n % 10 == 0), 1.0, PRIOR);
        }
        let mut together = each;
        // Longer than the silence that is ever left out at a stored rate within three per cent.
        for _ in 0..40 {
            each.learn(0, 0.5, PRIOR);
        }
        together.learn_silence(20.0);
        let [each, together] = [each, together].map(|estimate| estimate.rate(PRIOR));
        assert!((together / each - 1.0).abs() < 1e-3, "{together} {each}");
    }

    #[test]
    fn the_counted_rate_matches_algorithm_1() {
        let mut counted = CountedRate::default();
        assert_eq!(counted.learn(0, 4.0), 0.25);
        assert_eq!(counted.learn(3, 6.0), 0.5);
        assert_eq!(counted.learn(0, 12.0), 0.25);
    }

    #[test]
    fn without_changes_the_rate_is_the_gamma_posterior_mean() {
        let mut belief = ChangePointRate::default();
        assert_eq!(belief.rate(PRIOR), 0.1);
        let still = RatePrior { changes: 0.0, ..PRIOR };
        for (found, span) in [(2, 10.0), (0, 30.0), (20, 50.0), (1, 10.0)] {
            belief.learn(found, span, still);
        }
        // (1 + 23)/(10 + 100)
        assert!((belief.rate(still) - 24.0 / 110.0).abs() < 1e-6, "{}", belief.rate(still));
    }

    #[test]
    fn the_stored_form_round_trips_and_invalid_text_is_rejected() {
        let mut belief = ChangePointRate::default();
        for found in [3, 0, 0, 9] {
            belief.learn(found, 20.0, PRIOR);
            let again = ChangePointRate::from_text(&belief.to_text()).unwrap();
            assert_eq!(again.rate(PRIOR), belief.rate(PRIOR));
            assert_eq!(again.to_text(), belief.to_text());
        }
        for invalid in ["", "0", "0 1", "0 1 NaN", "1 1 1", "0 0 1", "0 1 1;", "0 1 1;;", "0 1 1 1", "x"] {
            assert_eq!(ChangePointRate::from_text(invalid), None, "{invalid}");
        }
        let many = ["0 1 1"; KEPT + 1].join(";");
        assert_eq!(ChangePointRate::from_text(&many), None);
    }

    #[test]
    fn the_estimate_follows_a_change_within_three_probes() {
        let mut belief = ChangePointRate::default();
        let mut paper = CountedRate::default();
        let mut counted = 0.0;
        // A hundred probes at one update per ten steps, then three at none.
        for probe in 1..=100 {
            belief.learn(10, 100.0, PRIOR);
            counted = paper.learn(10, f64::from(probe) * 100.0);
        }
        assert!((belief.rate(PRIOR) - 0.1).abs() < 0.005, "{}", belief.rate(PRIOR));
        assert!((counted - 0.1).abs() < 1e-9);
        for probe in 101..=103 {
            belief.learn(0, 100.0, PRIOR);
            counted = paper.learn(0, f64::from(probe) * 100.0);
        }
        assert!(belief.rate(PRIOR) < 0.01, "{}", belief.rate(PRIOR));
        assert!(counted > 0.09, "{counted}");
    }

    #[test]
    fn rising_factorials_agree_on_both_sides_of_the_switch() {
        for a in [0.3_f64, 1.0, 5.5, 40.0] {
            let by_hand: f64 = (0..40).map(|j| (a + f64::from(j)).ln()).sum();
            assert!((ln_rising(a, 40.0) - by_hand).abs() < 1e-7, "{a}");
            let by_hand: f64 = (0..9).map(|j| (a + f64::from(j)).ln()).sum();
            assert!((ln_rising(a, 9.0) - by_hand).abs() < 1e-7, "{a}");
        }
    }
}
