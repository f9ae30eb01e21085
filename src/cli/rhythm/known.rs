//! The stored rhythm of one source.

use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::named::PredictorShare;
use tidewatch_core::time::Timestamp;

/// A fitted rate and its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredRhythm {
    /// Name of the source.
    pub name: String,
    /// Fitted rate, with its time zone.
    pub rate: Rate,
    /// Origin of the rate: `individual`, `aggregate` or `blend`.
    pub origin: String,
    /// Repeating pattern: `none`, `day`, `work week` or `week`.
    pub cycle: String,
    /// Number of observed updates.
    pub updates: u64,
    /// Start of the evidence.
    pub since: Option<Timestamp>,
    /// Time of the fit.
    pub fitted_at: Timestamp,
    /// Dispersion: scatter of the updates relative to the rate; 1 means as expected.
    pub dispersion: Option<f64>,
    /// Predictors by weight, largest first; `None` if the policy does not use them.
    pub habits: Option<Vec<PredictorShare>>,
}

impl StoredRhythm {
    /// Whether there is a rhythm to draw.
    pub(super) fn is_known(&self) -> bool {
        self.updates > 0 && self.rate.per_week() > 0.0
    }
}
