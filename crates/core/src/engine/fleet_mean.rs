//! The prior rate of a new source: the mean over all sources.

use serde::{Deserialize, Serialize};

use crate::model::change_point_rate::RatePrior;

/// A source's rate changes permanently about once in this many hours (two months).
const CHANGES_EVERY: f64 = 1440.0;

/// The initial prior: two updates a day, with the weight of half a day of observation.
const NEWCOMER: (f64, f64) = (1.0, 12.0);

/// The horizon of the mean, in hours of observation over all sources.
const MOST_HOURS: f64 = 1e6;

/// Updates and hours of observation over all sources.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct FleetMean {
    found: f64,
    hours: f64,
}

impl Default for FleetMean {
    fn default() -> Self {
        Self { found: NEWCOMER.0, hours: NEWCOMER.1 }
    }
}

impl FleetMean {
    /// Adds `found` updates over `hours` hours.
    pub fn learn(&mut self, found: f64, hours: f64) {
        (self.found, self.hours) = (self.found + found, self.hours + hours);
        if self.hours > MOST_HOURS {
            (self.found, self.hours) = (self.found / 2.0, self.hours / 2.0);
        }
    }

    pub fn prior(self) -> RatePrior {
        RatePrior { rate: self.found / self.hours, changes: CHANGES_EVERY.recip() }
    }
}
