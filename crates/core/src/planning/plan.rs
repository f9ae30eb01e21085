//! A plan: the times at which one source is to be probed.
//!
//! Made off the hot path and handed to the engine, which refuses it when the source has moved on
//! since. Knows only the times and what they were computed from, not how they were found.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

use super::policy::Policy;
use super::rolling::Ahead;

/// Counts what has happened to a source; a plan made from an older count is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Revision(pub u64);

/// Probe times for one source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The state of the source it was computed from.
    pub made_from: Revision,
    /// Whose times these are.
    pub by: Policy,
    /// Ascending.
    pub times: Vec<Timestamp>,
    /// From when it was planned.
    pub starts: Timestamp,
    /// Until when.
    pub ends: Timestamp,
}

impl Plan {
    /// What is to be followed of what lies ahead.
    pub fn new(made_from: Revision, ahead: &Ahead) -> Self {
        let Ahead { by, starts, ends, .. } = *ahead;
        Self { made_from, by, times: ahead.times.clone(), starts, ends }
    }

    /// The first planned time after `last`.
    pub fn next_after(&self, last: Timestamp) -> Option<Timestamp> {
        self.times.get(self.passed(last)).copied()
    }

    /// How many planned times lie after `last` and not after `until`.
    pub fn between(&self, last: Timestamp, until: Timestamp) -> usize {
        self.passed(until).saturating_sub(self.passed(last))
    }

    /// Moves all times when the clock was found to have been moved.
    pub fn shift(&mut self, by: Span) {
        self.times.iter_mut().chain([&mut self.starts, &mut self.ends]).for_each(|at| *at += by);
    }

    fn passed(&self, at: Timestamp) -> usize {
        self.times.partition_point(|&time| time <= at)
    }
}
