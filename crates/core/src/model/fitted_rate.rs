//! A fitted rate with what the evidence says about its precision, as the test for a change of rhythm needs it.
//!
//! Holds the scale of the test: the share of time outside bursts, the clumping, the updates behind the rate.
//! May not know how rates are fitted.

use crate::model::cyclic::Rate;
use crate::model::evidence_totals::EvidenceTotals;
use crate::time::Timestamp;

/// Both sums of the test together raise at most one false alarm in this many weeks.
const ONE_FALSE_ALARM_IN_WEEKS: f64 = 104.0;

/// The fitted rate to which a probe is compared.
#[derive(Debug, Clone, Copy)]
pub struct FittedRate<'r> {
    /// λ(t).
    pub rate: &'r Rate,
    /// The rate outside bursts as a share of the whole.
    pub calm_share: f64,
    /// Variance over mean of the counts, at least 1.
    pub dispersion: f64,
    /// Number of updates behind the rate, with decay.
    pub updates: f64,
}

/// A part of a silence.
#[derive(Debug, Clone, Copy)]
pub struct SilencePart<'r> {
    /// Its start.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// The rate, by the evidence at its start.
    pub fitted: FittedRate<'r>,
}

impl<'r> FittedRate<'r> {
    /// A rate fitted to this evidence.
    pub fn new(rate: &'r Rate, evidence: &EvidenceTotals) -> Self {
        let EvidenceTotals { updates, hours, clumping, bursts: (in_bursts, burst_hours) } = *evidence;
        let whole = (updates + in_bursts) / (hours + burst_hours).max(1.0);
        let calm_share =
            if whole > 0.0 { (updates / hours.max(1.0) / whole).clamp(0.05, 1.0) } else { 1.0 };
        Self { rate, calm_share, dispersion: clumping.max(1.0), updates: updates + in_bursts }
    }

    /// The mean rate in updates per hour.
    pub fn mean_per_hour(&self) -> f64 {
        self.rate.per_week() / 168.0
    }

    /// Independent updates outside bursts per update of the rate.
    pub fn scale(&self) -> f64 {
        self.calm_share / self.dispersion
    }

    /// The number of independent updates behind the rate, at least 1.
    pub fn independent_updates(&self) -> f64 {
        (self.updates / self.dispersion).max(1.0)
    }

    /// h: the logarithm of the independent updates of the time in which one false alarm is allowed, twice
    /// because there are two sums.
    pub fn limit(&self) -> f64 {
        let updates = self.rate.per_week() * ONE_FALSE_ALARM_IN_WEEKS / self.dispersion;
        (2.0 * updates.max(1.0)).ln()
    }
}
