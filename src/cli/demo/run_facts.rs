//! Time span and speed of a run, and the format of its times.

use tidewatch_core::time::Timestamp;

/// Time span and speed of a run.
#[derive(Debug, Clone)]
pub struct RunFacts {
    /// Start of the run.
    pub began: Timestamp,
    /// End of the run, on its own clock.
    pub ended: Timestamp,
    /// Speed of that clock.
    pub speed: f64,
    /// Duration in real seconds.
    pub wall_s: f64,
    /// Whether a signal ended the run early.
    pub interrupted: bool,
}

pub(super) fn day(iso: &str) -> &str {
    iso.split_once('.').map_or(iso, |(seconds, _)| seconds)
}
