//! What is expected of a source of which nothing is known: what all of them do in the mean.

use serde::{Deserialize, Serialize};

use crate::model::estimate::RatePrior;

/// A source's rate changes for good about once in so many hours: two months.
const CHANGES_EVERY: f64 = 1440.0;

/// Before anything is known, two updates a day are expected, as firmly as after half a day.
const NEWCOMER: (f64, f64) = (1.0, 12.0);

/// What all sources found counts over about so many hours of watching, all together.
const REMEMBERED_HOURS: f64 = 1e6;

/// What is expected of a source of which nothing is known: what all of them do in the mean.
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
    /// So many were found over so many hours.
    pub fn learn(&mut self, found: f64, hours: f64) {
        (self.found, self.hours) = (self.found + found, self.hours + hours);
        if self.hours > REMEMBERED_HOURS {
            (self.found, self.hours) = (self.found / 2.0, self.hours / 2.0);
        }
    }

    pub fn prior(self) -> RatePrior {
        RatePrior { rate: self.found / self.hours, changes: CHANGES_EVERY.recip() }
    }
}
