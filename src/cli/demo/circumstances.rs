//! When and how fast a run went, and how its times are shown.

use tidewatch_core::time::Timestamp;

/// The run's circumstances.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// When it began.
    pub began: Timestamp,
    /// When it ended, on its own clock.
    pub ended: Timestamp,
    /// How fast that clock ran.
    pub speed: f64,
    /// How long it really took.
    pub wall_s: f64,
    /// Somebody ended it early.
    pub interrupted: bool,
}

pub(super) fn day(iso: &str) -> &str {
    iso.split_once('.').map_or(iso, |(seconds, _)| seconds)
}
