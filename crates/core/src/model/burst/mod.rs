//! Whether a source breaks its rhythm: more updates than its history foretells, or none where some
//! were due.
//!
//! A [`watch::Watch`] per source is shown what every probe saw and says when a burst begins and
//! ends, how probable one is and how fast it runs. Three tests exist: the paper's [`ratio`]
//! (Bright, Gal, Raschid, §8.2.1), a scan of Poisson tails ([`tail`]) and a two-state [`filter`],
//! the default, which finds most for the same false alarms.
//!
//! Knows the rate λ(t) that was believed *before* the updates under test: a rate fitted with them
//! would explain them away (the paper uses the updates of [t₀, t − W] only). Must not know what is
//! done about a burst, nor how the rate was fitted.

pub mod excess;
pub mod filter;
pub mod ratio;
mod recent;
pub mod tail;
pub mod watch;

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// How a burst is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Test {
    /// The paper's: observed over expected updates in one window.
    Ratio,
    /// Poisson tails in a few windows.
    Tail,
    /// The probability of a burst, carried from update to update.
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

/// What a test goes by.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BurstParams {
    /// Which test.
    pub test: Test,
    /// W, of the ratio test; the tail test's windows are multiples of it. The filter has no window.
    pub window: Span,
    /// T_burst of the ratio test.
    pub threshold: f64,
    /// ε: how many false alarms the tail test and the filter may raise per update, at most.
    pub false_alarms: f64,
}

impl Default for BurstParams {
    fn default() -> Self {
        Self { test: Test::default(), window: Span::from_hours(1), threshold: 2.0, false_alarms: 0.001 }
    }
}

/// What one probe saw: the updates in (from, until].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ProbeWindow<'u> {
    /// The probe before, or the oldest item that a feed still shows, if that is later.
    pub from: Timestamp,
    /// This probe.
    pub until: Timestamp,
    /// What came between.
    pub seen: WindowUpdates<'u>,
}

/// Updates, as well as they are known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WindowUpdates<'u> {
    /// Their times, in any order; none for a look that found nothing.
    Dated(&'u [Timestamp]),
    /// Their number only. They are taken as spread evenly, which no burst is: so a burst within one
    /// look shows by its number alone.
    Counted(u32),
    /// One or more: a page that changed.
    Changed,
}

/// A burst begins or ends.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum BurstChange {
    /// It was off and is on.
    Began(BurstEvidence),
    /// It was on and is off.
    Ended(BurstEvidence),
    /// It began and ended within one look.
    Passed(BurstEvidence),
}

impl BurstChange {
    /// What it rests on.
    pub fn evidence(&self) -> BurstEvidence {
        match *self {
            Self::Began(evidence) | Self::Ended(evidence) | Self::Passed(evidence) => evidence,
        }
    }
}

/// The updates of [since, at] against those that the rhythm foretells. For the filter, `since` is the
/// update from which on a burst was thought of; for the other tests, where the window that raised the
/// alarm begins.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BurstEvidence {
    /// Where counting begins.
    pub since: Timestamp,
    /// The look that showed it; for a burst that ended before the look did, the update before which
    /// it was over.
    pub at: Timestamp,
    /// Λ*: updates seen.
    pub observed: u32,
    /// Λ: updates expected.
    pub expected: f64,
}

/// Whether a source is suspiciously quiet: it should have updated since its last update with
/// probability 1 − ε, and has not. So a healthy source is called quiet after one in 1/ε updates.
///
/// ```
/// # use tidewatch_core::model::burst::is_quiet;
/// // ln 1000 = 6.9
/// assert!(is_quiet(7.0, 0.001) && !is_quiet(6.8, 0.001));
/// ```
pub fn is_quiet(expected_since_update: f64, false_alarms: f64) -> bool {
    (-expected_since_update).exp() < false_alarms
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back() {
        for test in Test::ALL {
            assert_eq!(Test::from_name(test.name()), Some(test));
        }
        assert_eq!(Test::from_name("Ratio"), None);
    }

    #[test]
    fn silence_needs_an_expectation() {
        assert!(!is_quiet(0.0, 0.001) && !is_quiet(0.0, 1.0) && !is_quiet(700.0, 0.0));
        assert!(is_quiet(1e6, 1e-9));
    }
}
