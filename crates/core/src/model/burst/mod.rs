//! Burst detection: more updates than the rate predicts, or none where some were expected.
//!
//! A [`detector::BurstDetector`] per source processes every probe. It reports the start and end of a burst,
//! its probability and its excess rate. Three tests exist: the [`ratio`] of Bright, Gal, Raschid (§8.2.1), a
//! scan of Poisson tails ([`tail`]) and a two-state [`filter`], the default, which detects most at equal
//! false alarms. Uses the rate λ(t) from *before* the tested updates: a rate fitted with them would include
//! the burst (the paper uses the updates of [t₀, t − W] only). May not know the reaction to a burst or how
//! the rate was fitted.

pub mod detector;
pub mod excess;
pub mod filter;
pub mod ratio;
mod recent;
pub mod tail;

use serde::{Deserialize, Serialize};

use crate::model::cyclic::Rate;
use crate::model::habits::mixture::PredictorMix;
use crate::model::habits::update_times::UpdateTimes;
use crate::time::{Span, Timestamp};

/// The test for a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Test {
    /// The test of the paper: observed over expected updates in one window.
    Ratio,
    /// Poisson tails in a few windows.
    Tail,
    /// The probability of a burst, computed recursively at each update.
    #[default]
    Filter,
}

impl Test {
    /// Every test.
    pub const ALL: [Self; 3] = [Self::Ratio, Self::Tail, Self::Filter];

    /// The name in configuration and store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ratio => "ratio",
            Self::Tail => "tail",
            Self::Filter => "filter",
        }
    }

    /// The test of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|test| test.name() == name)
    }
}

/// Parameters of a test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstParams {
    /// Which test.
    pub test: Test,
    /// W, of the ratio test; the tail test's windows are multiples of it. The filter has no window.
    pub window: Span,
    /// T_burst of the ratio test, from 0 to ∞.
    pub threshold: f64,
    /// Whether the updates of the last window are kept for the ratio test also if another test is selected.
    pub with_ratio: bool,
    /// ε: upper bound on false alarms per update of the tail test and the filter.
    pub false_alarms: f64,
}

impl BurstParams {
    /// ε, the stated probability of a false burst and of a false silence per update; 0 for the ratio test, which
    /// states none.
    pub fn stated_false_alarms(&self) -> f64 {
        if self.test == Test::Ratio { 0.0 } else { self.false_alarms }
    }
}

impl Default for BurstParams {
    fn default() -> Self {
        Self {
            test: Test::default(),
            window: Span::from_hours(1),
            threshold: 2.0,
            with_ratio: false,
            false_alarms: 0.001,
        }
    }
}

/// The result of one probe: the updates in (from, until].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeWindow<'u> {
    /// The previous probe, or the oldest item that a feed still shows, if that is later.
    pub from: Timestamp,
    /// This probe.
    pub until: Timestamp,
    /// The updates in between.
    pub seen: WindowUpdates<'u>,
}

/// Updates with the precision that the source provides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowUpdates<'u> {
    /// Their times, in any order; empty if there are none.
    Dated(&'u [Timestamp]),
    /// Their number only. They are assumed to be evenly spread, so only their number can reveal a burst
    /// within one gap.
    Counted(u32),
    /// One or more: a page that changed.
    Changed,
}

/// The start or end of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum BurstChange {
    /// The burst began.
    Began(BurstEvidence),
    /// The burst ended.
    Ended(BurstEvidence),
    /// The burst began and ended between two probes.
    Passed(BurstEvidence),
}

impl BurstChange {
    /// Its evidence.
    pub fn evidence(&self) -> BurstEvidence {
        match *self {
            Self::Began(evidence) | Self::Ended(evidence) | Self::Passed(evidence) => evidence,
        }
    }
}

/// The updates of [since, at] and their expected number. For the filter, `since` is the first update that
/// raised the probability of the burst. For the other tests it is the start of the window that raised the
/// alarm.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BurstEvidence {
    /// Start of the count.
    pub since: Timestamp,
    /// The probe that showed it. For a burst that ended earlier, the update before which it was over.
    pub at: Timestamp,
    /// Λ*: updates observed.
    pub observed: u32,
    /// Λ: updates expected.
    pub expected: f64,
}

/// The rate from before a probe, to which its updates are compared.
#[derive(Debug, Clone, Copy)]
pub struct UsualRate<'r> {
    /// λ(t), the weekly rate.
    pub weekly: &'r Rate,
    /// The predictors and the last updates, if known: updates that earlier ones trigger are usual too.
    pub habits: Option<(&'r PredictorMix, &'r UpdateTimes)>,
    /// Number of updates behind the rate; `None` if the rate is certain.
    pub evidence: Option<u32>,
}

impl<'r> From<&'r Rate> for UsualRate<'r> {
    fn from(weekly: &'r Rate) -> Self {
        Self { weekly, habits: None, evidence: None }
    }
}

impl UsualRate<'_> {
    /// The number of independent updates behind the rate; infinite if it is certain.
    fn independent_updates(&self) -> f64 {
        // A process in which each update triggers ρ others has counts with a dispersion of 1/(1 − ρ)².
        let independent = self.habits.map_or(1.0, |(habits, _)| habits.spontaneous().powi(2));
        self.evidence.map_or(f64::INFINITY, |updates| independent * f64::from(updates.max(1)))
    }

    /// The rate just before an update at `at`, where the weekly rate is `per_hour`: a standard deviation above
    /// its estimate.
    pub(super) fn before(&self, at: Timestamp, per_hour: f64) -> f64 {
        let per_hour = per_hour * (1.0 + self.independent_updates().sqrt().recip());
        self.habits.map_or(per_hour, |(habits, times)| habits.rate_before(times, per_hour, at))
    }

    /// Whether a source is overdue at `now` after its newest update: it should have updated since with
    /// probability 1 − ε, and has not. A source that follows its rate is reported after one in 1/ε updates.
    /// Returns the expected number of updates since.
    pub fn overdue(&self, newest: Timestamp, now: Timestamp, false_alarms: f64) -> Option<f64> {
        let expected = self.weekly.expected(newest, now);
        let spontaneous = self.habits.map_or(1.0, |(habits, _)| habits.spontaneous()) * expected;
        // With a Gamma distributed rate, a silence of u expected updates has the probability (1 + u/a)^(−a).
        let updates = self.independent_updates();
        let certain = match updates.is_finite() {
            true => updates * (spontaneous / updates).ln_1p(),
            false => spontaneous,
        };
        let ln_silence = self.habits.map_or(-certain, |(habits, _)| habits.ln_silence(certain));
        (ln_silence < false_alarms.ln()).then_some(expected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_name_inverts_name() {
        for test in Test::ALL {
            assert_eq!(Test::from_name(test.name()), Some(test));
        }
        assert_eq!(Test::from_name("Ratio"), None);
    }

    #[test]
    fn a_source_is_overdue_when_its_silence_is_improbable() {
        let rate = Rate::constant(1.0);
        let overdue = |hours: f64, false_alarms: f64| {
            let newest = Timestamp::from_secs(0);
            let now = newest + Span::from_hours(1).scaled(hours);
            UsualRate::from(&rate).overdue(newest, now, false_alarms).is_some()
        };
        // ln 1000 = 6.9
        assert!(overdue(7.0, 0.001) && !overdue(6.8, 0.001));
        assert!(!overdue(0.0, 0.001) && !overdue(0.0, 1.0) && !overdue(700.0, 0.0));
        assert!(overdue(1e6, 1e-9));
    }
}
