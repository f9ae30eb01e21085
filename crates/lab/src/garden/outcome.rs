//! The outcome of a trial of one policy and capacity.

use super::policy::GardenPolicy;

/// The outcome of one policy and capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct GardenOutcome {
    /// The policy.
    pub policy: GardenPolicy,
    /// Capacity a day. For a schedule that ignores it: the work of its busiest day.
    pub capacity: f64,
    /// T̄: mean days late per plant and day.
    pub mean_tardiness: f64,
    /// K̄: mean work per day.
    pub mean_work: f64,
    /// T_max: the longest delay of a watering, in days.
    pub most_tardiness: u64,
    /// K_max: the work of the busiest day.
    pub most_work: f64,
    /// Number of waterings.
    pub probes: u64,
    /// Number of late waterings, and of plants that were late at the end.
    pub missed: u64,
}
