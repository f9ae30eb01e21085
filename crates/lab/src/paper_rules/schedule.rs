//! The input of a paper's rule, and schedules that only depend on a probe rate.

use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// Hours of a week.
pub(super) const WEEK_HOURS: f64 = 168.0;

/// A span of hours.
pub(super) fn hours(hours: f64) -> Span {
    Span::from_hours(1).scaled(hours)
}

/// The state of a source after a probe.
#[derive(Debug, Clone, Copy)]
pub(super) struct PaperInput<'r> {
    /// Time of the probe.
    pub last: Timestamp,
    /// λ as last fitted.
    pub rate: &'r Rate,
    /// Time of that fit.
    pub fitted: Timestamp,
    /// The mean gap at the limit of the source.
    pub least_gap: Span,
}

impl PaperInput<'_> {
    /// Δ: the mean of λ, in updates per hour.
    pub fn change_rate(&self) -> f64 {
        self.rate.per_week() / WEEK_HOURS
    }

    /// The gap of evenly spaced probes at a rate per hour, within the limit; `None` for a rate of 0.
    fn even_gap(&self, probe_rate: f64) -> Option<Span> {
        (probe_rate > 0.0).then(|| hours(1.0 / probe_rate).max(self.least_gap))
    }
}

/// The rule for the next probe.
pub(super) trait PaperSchedule {
    /// The next probe; `None` if the rule wants none.
    fn next(&mut self, known: &PaperInput<'_>) -> Option<Timestamp>;
}

/// ρ of a change rate and a price, both in hours.
pub(super) type ProbeRate = fn(f64, f64) -> f64;

/// Evenly spaced probes.
pub(super) struct Even {
    pub price: f64,
    pub probe_rate: ProbeRate,
}

impl PaperSchedule for Even {
    fn next(&mut self, known: &PaperInput<'_>) -> Option<Timestamp> {
        let gap = known.even_gap((self.probe_rate)(known.change_rate(), self.price))?;
        Some(known.last + gap)
    }
}

/// A Poisson process of probes: exponential gaps.
pub(super) struct Memoryless {
    pub price: f64,
    pub probe_rate: ProbeRate,
    pub chance: Stream,
}

impl PaperSchedule for Memoryless {
    fn next(&mut self, known: &PaperInput<'_>) -> Option<Timestamp> {
        let mean = known.even_gap((self.probe_rate)(known.change_rate(), self.price))?;
        Some(known.last + mean.scaled(-(1.0 - self.chance.unit()).ln()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gaps(schedule: &mut dyn PaperSchedule, least_gap: Span, count: usize) -> Vec<Span> {
        let (rate, fitted) = (Rate::constant(0.5), Timestamp::from_secs(0));
        let mut last = fitted;
        let next = |_| {
            let next = schedule.next(&PaperInput { last, rate: &rate, fitted, least_gap }).unwrap();
            let gap = next - last;
            last = next;
            gap
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn even_gaps_are_the_reciprocal_of_the_rate_within_the_limit() {
        // Four times the change rate of 0.5 an hour.
        let mut even = Even { price: 1.0, probe_rate: |change_rate, _| 4.0 * change_rate };
        assert_eq!(gaps(&mut even, Span::ZERO, 3), [Span::from_mins(30); 3]);
        assert_eq!(gaps(&mut even, Span::from_hours(2), 2), [Span::from_hours(2); 2]);
        let mut never = Even { price: 1.0, probe_rate: |_, _| 0.0 };
        let rate = Rate::constant(0.5);
        let (last, least_gap) = (Timestamp::from_secs(0), Span::ZERO);
        assert_eq!(never.next(&PaperInput { last, rate: &rate, fitted: last, least_gap }), None);
    }

    #[test]
    fn memoryless_gaps_are_exponential_and_repeat_with_the_seed() {
        let memoryless =
            || Memoryless { price: 1.0, probe_rate: |_, _| 2.0, chance: Stream::new(1, "gaps") };
        let drawn = gaps(&mut memoryless(), Span::ZERO, 20_000);
        assert_eq!(drawn, gaps(&mut memoryless(), Span::ZERO, 20_000));
        let mean = drawn.iter().map(|gap| gap.as_secs_f64()).sum::<f64>() / drawn.len() as f64;
        assert!((mean / 1800.0 - 1.0).abs() < 0.03, "{mean}");
        let longer = |by: f64| {
            drawn.iter().filter(|gap| gap.as_secs_f64() > by * 1800.0).count() as f64 / drawn.len() as f64
        };
        for by in [0.5, 1.0, 2.0] {
            assert!((longer(by) - (-by).exp()).abs() < 0.01, "{by}: {}", longer(by));
        }
    }
}
