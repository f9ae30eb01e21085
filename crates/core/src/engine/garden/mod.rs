//! The Gardener's problem: every source in time, with the least work.
//!
//! Gao et al. (2009) have n plants, each of which is to be watered at least every w days at a cost c, and a
//! gardener who can do k a day. Here plants are sources that state how long they may go unseen, and days are
//! steps. No schedule that is always in time works less than Ω = Σ c/w in the mean (Property 1).
//!
//! [`medd`] waters what is due, and spends what is left only where it is foreseen that there will not be enough.
//!
//! Knows days, windows and costs. Must not know what a plant is.

use serde::{Deserialize, Serialize};

pub mod demand;
pub mod kinetic;
pub mod medd;

/// Work, in millionths of a unit: sums of it are exact, in whatever order they are made.
pub type Work = u64;

/// Millionths.
pub const UNIT: Work = 1_000_000;

/// What a plant may cost, in units: sums of a million of these are still sums.
const DEAREST: f64 = 1e6;

/// A plant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// c: what watering it takes.
    pub cost: Work,
    /// w: every so many days.
    pub window: u32,
}

impl Task {
    /// A plant that costs this many units.
    pub fn new(cost: f64, window: u32) -> Self {
        Self { cost: (cost.clamp(0.0, DEAREST) * UNIT as f64).round() as Work, window: window.max(1) }
    }
}

/// Ω = Σ c/w, in units a day.
///
/// ```
/// # use tidewatch_core::engine::garden::{Plant, omega};
/// assert_eq!(omega(&[Plant::new(1.0, 4), Plant::new(3.0, 6)]), 0.75);
/// ```
pub fn omega(plants: &[Task]) -> f64 {
    plants.iter().map(|plant| plant.cost as f64 / UNIT as f64 / f64::from(plant.window)).sum()
}
