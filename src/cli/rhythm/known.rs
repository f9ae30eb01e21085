//! What is known of one source's rhythm.

use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::named::Believed;
use tidewatch_core::time::Timestamp;

/// A fitted rate, and the evidence for it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rhythm {
    /// The source's name.
    pub name: String,
    /// Its rate; the zone is in it.
    pub rate: Rate,
    /// Whose history the rate is from: `individual`, `aggregate` or `blend`.
    pub origin: String,
    /// What repeats: `none`, `day`, `work week` or `week`.
    pub cycle: String,
    /// The evidence: updates seen in all.
    pub updates: u64,
    /// The evidence begins here.
    pub since: Option<Timestamp>,
    /// When the rate was fitted.
    pub fitted_at: Timestamp,
    /// How much more the updates scatter than the rate foretells; 1 = keeps its rhythm.
    pub dispersion: Option<f64>,
    /// What else it is foretold by, the most believed first; `None` where nobody plans by that.
    pub habits: Option<Vec<Believed>>,
}

impl Rhythm {
    /// Whether there is anything to draw.
    pub(super) fn is_known(&self) -> bool {
        self.updates > 0 && self.rate.per_week() > 0.0
    }
}
