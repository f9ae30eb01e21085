//! A plan: the probe times of one source.
//!
//! Computed outside the engine. The engine rejects it if the state of the source has changed since. Holds
//! the times and the state they were computed from. May not know how they were found.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

use super::plan_input::PlannedTimes;
use super::policy::Policy;

/// The revision of a source's state; a plan for an older revision is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Revision(pub u64);

/// Probe times for one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The revision it was computed from.
    pub made_from: Revision,
    /// The policy that computed it.
    pub by: Policy,
    /// Ascending.
    pub times: Vec<Timestamp>,
    /// Start of the plan.
    pub starts: Timestamp,
    /// End of the plan.
    pub ends: Timestamp,
}

impl Plan {
    /// A plan with these times.
    pub fn new(made_from: Revision, ahead: &PlannedTimes) -> Self {
        let PlannedTimes { by, starts, ends, .. } = *ahead;
        Self { made_from, by, times: ahead.times.clone(), starts, ends }
    }

    /// The first planned time after `last`.
    pub fn next_after(&self, last: Timestamp) -> Option<Timestamp> {
        self.times.get(self.passed(last)).copied()
    }

    /// The number of planned times after `last` and not after `until`.
    pub fn between(&self, last: Timestamp, until: Timestamp) -> usize {
        self.passed(until).saturating_sub(self.passed(last))
    }

    /// Shifts all times after a correction of the clock.
    pub fn shift(&mut self, by: Span) {
        self.times.iter_mut().chain([&mut self.starts, &mut self.ends]).for_each(|at| *at += by);
    }

    fn passed(&self, at: Timestamp) -> usize {
        self.times.partition_point(|&time| time <= at)
    }
}
