//! A plan: the times at which one source is to be probed.
//!
//! Made off the hot path and handed to the fleet, which refuses it when the source has moved on
//! since. Knows only the times and what they were computed from, not how they were found.

use crate::time::Timestamp;

/// Counts what has happened to a source; a plan made from an older count is stale.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revision(pub u64);

/// Probe times for one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The state of the source it was computed from.
    pub made_from: Revision,
    /// Ascending.
    pub times: Vec<Timestamp>,
}

impl Plan {
    /// The first planned time after `last`.
    pub fn next_after(&self, last: Timestamp) -> Option<Timestamp> {
        self.times.get(self.times.partition_point(|&t| t <= last)).copied()
    }
}
