//! Runs a policy day by day, and sums its work and tardiness.

use tidewatch_core::engine::garden::Task;
use tidewatch_lab::garden::Gardener;

/// The sums over some days.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WalkTotals {
    /// In millionths.
    pub work: u128,
    /// On the busiest day.
    pub most_work: u64,
    /// Total number of days by which waterings were late.
    pub tardiness: u64,
}

impl WalkTotals {
    /// A day in the mean, in units.
    pub fn mean_work(&self, days: u32) -> f64 {
        self.work as f64 / 1e6 / f64::from(days)
    }
}

/// Runs `days` days. Plants that are late at the end count as watered then.
pub fn walk(gardener: &mut dyn Gardener, plants: &[Task], days: u32) -> WalkTotals {
    let mut walked = WalkTotals::default();
    let mut due: Vec<u64> = plants.iter().map(|plant| u64::from(plant.window)).collect();
    for today in 1..=u64::from(days) {
        let watered = gardener.day();
        let work: u64 = watered.iter().map(|&index| plants[index].cost).sum();
        walked.work += u128::from(work);
        walked.most_work = walked.most_work.max(work);
        for index in watered {
            walked.tardiness += today.saturating_sub(due[index]);
            due[index] = today + u64::from(plants[index].window);
        }
    }
    walked.tardiness += due.iter().map(|&due| u64::from(days).saturating_sub(due)).sum::<u64>();
    walked
}
