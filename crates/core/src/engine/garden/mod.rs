//! The Gardener's problem: serve every task in time with the least work.
//!
//! Gao et al. (2009) have n plants; each must be watered at least every w days at a cost c, with a capacity
//! of k per day. Here a plant is a task: a source with a longest allowed gap. A day is a step. No schedule
//! that is always in time works less than Ω = Σ c/w in the mean (Property 1). [`medd`] serves due tasks,
//! and uses the remaining capacity only where a shortage is forecast.
//!
//! Knows days, windows and costs. Must not know what a task stands for.

use serde::{Deserialize, Serialize};

pub mod kinetic_minimum;
pub mod medd;
pub mod overload_forecast;

/// Work, in millionths of a unit: sums are exact in any order.
pub type Work = u64;

/// One unit.
pub const UNIT: Work = 1_000_000;

/// The largest cost of a task, in units: a sum of a million of these does not overflow.
const DEAREST: f64 = 1e6;

/// A recurring task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// c: the cost of serving it.
    pub cost: Work,
    /// w: it must be served at least once in this many days.
    pub window: u32,
}

impl Task {
    /// A task with a cost in units.
    pub fn new(cost: f64, window: u32) -> Self {
        Self { cost: (cost.clamp(0.0, DEAREST) * UNIT as f64).round() as Work, window: window.max(1) }
    }
}

/// Ω = Σ c/w, in units per day.
///
/// ```
/// # use tidewatch_core::engine::garden::{Task, omega};
/// assert_eq!(omega(&[Task::new(1.0, 4), Task::new(3.0, 6)]), 0.75);
/// ```
pub fn omega(tasks: &[Task]) -> f64 {
    tasks.iter().map(|task| task.cost as f64 / UNIT as f64 / f64::from(task.window)).sum()
}
