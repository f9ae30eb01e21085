//! What the engine did over a while, in a few numbers: slots, tardiness, what went undiscovered.
//!
//! Added up as it goes, so that nobody has to read the log for it. Knows nothing of sources.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// What was done over a while.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotStats {
    /// Since when.
    pub since: Timestamp,
    /// Until when.
    pub until: Timestamp,
    /// Probes that were due.
    pub due: u64,
    /// Probes that were sampled with slots to spare.
    pub sampled: u64,
    /// Of all of them, how many waited for a slot for longer than a step.
    pub late: u64,
    /// How long those waited in all.
    pub late_for: Span,
    /// How long the one that waited longest did.
    pub latest: Span,
    /// How many waited for a slot at the end.
    pub waiting: u64,
    /// Updates that were expected to lie undiscovered between the probes that ended, times the hours
    /// that each did, times the weight of its source.
    pub undiscovered_hours: f64,
    /// What its probes cost.
    pub work: f64,
    /// Looks that came after a source had gone unseen for as long as it may.
    pub tardy: u64,
    /// How late those were in all.
    pub tardy_for: Span,
    /// How late the latest was.
    pub tardiest: Span,
    /// How many sources were tardy at the end.
    pub overdue: u64,
}

impl SlotStats {
    /// Nothing yet.
    pub fn new(since: Timestamp) -> Self {
        Self {
            since,
            until: since,
            due: 0,
            sampled: 0,
            late: 0,
            late_for: Span::ZERO,
            latest: Span::ZERO,
            waiting: 0,
            undiscovered_hours: 0.0,
            work: 0.0,
            tardy: 0,
            tardy_for: Span::ZERO,
            tardiest: Span::ZERO,
            overdue: 0,
        }
    }

    /// Moves with the clock when that was set.
    pub(super) fn shift(&mut self, by: Span) {
        self.since += by;
        self.until += by;
    }

    /// Nothing was done.
    pub fn is_idle(&self) -> bool {
        self.due + self.sampled == 0 && self.undiscovered_hours == 0.0 && self.waiting + self.overdue == 0
    }

    /// A look came so much later than it was to.
    pub(super) fn tardy(&mut self, late: Span) {
        self.tardy += 1;
        self.tardy_for = self.tardy_for + late;
        self.tardiest = self.tardiest.max(late);
    }

    /// A probe was sent that had waited so long for a slot.
    pub(super) fn sent(&mut self, sampled: bool, waited: Span, step: Span, cost: f64) {
        self.work += cost;
        let count = if sampled { &mut self.sampled } else { &mut self.due };
        *count += 1;
        if waited > step {
            self.late += 1;
            self.late_for = self.late_for + waited;
            self.latest = self.latest.max(waited);
        }
    }
}
