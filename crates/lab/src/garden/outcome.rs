//! What a trial of one policy and capacity comes to.

use super::policy::Policy;

/// What came of one policy and capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Who watered.
    pub policy: Policy,
    /// With how much a day at most. Of a schedule that keeps to none: its busiest day.
    pub capacity: f64,
    /// T̄: days late, of a plant and a day in the mean.
    pub mean_tardiness: f64,
    /// K̄: work of a day in the mean.
    pub mean_work: f64,
    /// T_max: the latest watering, in days.
    pub most_tardiness: u64,
    /// K_max: the work of the busiest day.
    pub most_work: f64,
    /// Waterings.
    pub probes: u64,
    /// Of these late, and those that were still owed at the end.
    pub missed: u64,
}
