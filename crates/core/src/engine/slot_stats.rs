//! Slot statistics of a period: probes, lateness, undiscovered updates.
//!
//! Summed continuously, so that the log need not be read. Must not know sources.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// The statistics of a period.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotStats {
    /// Start of the period.
    pub since: Timestamp,
    /// End of the period.
    pub until: Timestamp,
    /// Probes of due sources.
    pub due: u64,
    /// Probes of sampled sources, in remaining slots.
    pub sampled: u64,
    /// How many of all these waited for a slot for longer than a step.
    pub late: u64,
    /// Their total wait.
    pub late_for: Span,
    /// The longest wait.
    pub latest: Span,
    /// Sources that wait for a slot at the end.
    pub waiting: u64,
    /// Expected updates that were undiscovered between the probes that ended, times hours, times the
    /// source's weight.
    pub undiscovered_hours: f64,
    /// Total cost of the probes.
    pub work: f64,
    /// Probes after the source's deadline.
    pub tardy: u64,
    /// Their total lateness.
    pub tardy_for: Span,
    /// The largest lateness.
    pub tardiest: Span,
    /// Sources past their deadline at the end.
    pub overdue: u64,
}

impl SlotStats {
    /// An empty period.
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

    /// Moves all times after the clock was set.
    pub(super) fn shift(&mut self, by: Span) {
        self.since += by;
        self.until += by;
    }

    /// Whether there is nothing to report.
    pub fn is_idle(&self) -> bool {
        self.due + self.sampled == 0 && self.undiscovered_hours == 0.0 && self.waiting + self.overdue == 0
    }

    /// Counts a probe that came this long after its deadline.
    pub(super) fn tardy(&mut self, late: Span) {
        self.tardy += 1;
        self.tardy_for = self.tardy_for + late;
        self.tardiest = self.tardiest.max(late);
    }

    /// Counts a started probe that had waited this long for a slot.
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
