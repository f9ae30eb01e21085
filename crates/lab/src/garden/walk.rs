//! Simulates a garden day by day: waterings, work and tardiness of each bed.
//!
//! Each day is passed to a callback, so memory does not grow with the number of days. All plants were watered
//! on day 0. A plant that is late at the end counts as watered on the last day, and as missed. Must not know
//! how cells are used.

use tidewatch_core::engine::garden::Work;

use super::instance::{Instance, units};
use super::outcome::GardenOutcome;
use super::policy::GardenPolicy;

/// The parameters of a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GardenTrial {
    /// The policy.
    pub policy: GardenPolicy,
    /// Capacity a day.
    pub capacity: Work,
    /// Number of days.
    pub days: u32,
}

/// The measures of a bed on a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GardenCell {
    /// Index of the bed.
    pub bed: usize,
    /// The day, from 1 on.
    pub day: u32,
    /// Total days late.
    pub tardiness: u64,
    /// Total work.
    pub work: Work,
    /// Number of waterings.
    pub probes: u64,
    /// Number of late ones.
    pub missed: u64,
}

/// Runs the simulation. The cells of each day are passed to `each_day`, except empty ones; `None` if it
/// returns false.
pub fn walk(
    instance: &Instance,
    trial: GardenTrial,
    each_day: &mut dyn FnMut(&[GardenCell]) -> bool,
) -> Option<GardenOutcome> {
    let plants = instance.plants();
    let mut gardener = trial.policy.gardener(plants, trial.capacity);
    let mut due: Vec<u64> = plants.iter().map(|plant| u64::from(plant.window)).collect();
    let (mut today, mut all) = (Today::new(instance), GardenSums::default());
    for day in 1..=trial.days {
        let watered = gardener.day();
        for index in watered {
            let plant = plants[index];
            let late = u64::from(day).saturating_sub(due[index]);
            due[index] = u64::from(day) + u64::from(plant.window);
            today
                .note(instance.bed_of(index), GardenCell { work: plant.cost, probes: 1, ..lateness(late) });
            all.latest = all.latest.max(late);
        }
        if day == trial.days {
            for (index, &due) in due.iter().enumerate().filter(|&(_, &due)| due < u64::from(day)) {
                let late = u64::from(day) - due;
                today.note(instance.bed_of(index), lateness(late));
                all.latest = all.latest.max(late);
            }
        }
        let cells = today.over(day);
        all.add(&cells);
        if !each_day(&cells) {
            return None;
        }
    }
    Some(all.outcome(instance, trial))
}

fn lateness(late: u64) -> GardenCell {
    GardenCell { tardiness: late, missed: u64::from(late > 0), ..GardenCell::default() }
}

/// The measures of the current day.
struct Today {
    cells: Vec<GardenCell>,
    touched: Vec<usize>,
}

impl Today {
    fn new(instance: &Instance) -> Self {
        Self { cells: vec![GardenCell::default(); instance.beds().len()], touched: Vec::new() }
    }

    fn note(&mut self, bed: usize, more: GardenCell) {
        let cell = &mut self.cells[bed];
        if *cell == GardenCell::default() {
            self.touched.push(bed);
        }
        cell.tardiness += more.tardiness;
        cell.work += more.work;
        cell.probes += more.probes;
        cell.missed += more.missed;
    }

    /// Returns the cells of the day and resets them.
    fn over(&mut self, day: u32) -> Vec<GardenCell> {
        let cells = &mut self.cells;
        let take = |bed: usize| GardenCell { bed, day, ..std::mem::take(&mut cells[bed]) };
        self.touched.drain(..).map(take).collect()
    }
}

/// Sums over all days.
#[derive(Default)]
struct GardenSums {
    tardiness: u64,
    work: u128,
    busiest: Work,
    latest: u64,
    probes: u64,
    missed: u64,
}

impl GardenSums {
    fn add(&mut self, cells: &[GardenCell]) {
        let work: Work = cells.iter().map(|cell| cell.work).sum();
        self.busiest = self.busiest.max(work);
        self.work += u128::from(work);
        for cell in cells {
            self.tardiness += cell.tardiness;
            self.probes += cell.probes;
            self.missed += cell.missed;
        }
    }

    fn outcome(&self, instance: &Instance, trial: GardenTrial) -> GardenOutcome {
        let (plants, days) = (instance.plants().len().max(1) as f64, f64::from(trial.days.max(1)));
        let kept = if trial.policy.keeps_to_capacity() { trial.capacity } else { self.busiest };
        GardenOutcome {
            policy: trial.policy,
            capacity: units(kept),
            mean_tardiness: self.tardiness as f64 / plants / days,
            mean_work: self.work as f64 / 1e6 / days,
            most_tardiness: self.latest,
            most_work: units(self.busiest),
            probes: self.probes,
            missed: self.missed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::garden::made_up;
    use tidewatch_core::engine::garden::{Task, UNIT};

    fn walked(instance: &Instance, trial: GardenTrial) -> (GardenOutcome, Vec<GardenCell>) {
        let mut all = Vec::new();
        let outcome = walk(instance, trial, &mut |cells| {
            all.extend_from_slice(cells);
            true
        });
        (outcome.unwrap(), all)
    }

    #[test]
    fn capacity_for_one_of_two_daily_plants_makes_each_a_day_late() {
        // Both are due daily, and one can be watered: each is watered every other day, one day late. The
        // plant not watered on the last day is due on it, and not yet late.
        let instance = Instance::new(vec![(Task::new(1.0, 1), "a".to_owned()); 2]);
        let (outcome, cells) =
            walked(&instance, GardenTrial { policy: GardenPolicy::Edd, capacity: UNIT, days: 4 });
        assert_eq!((outcome.probes, outcome.missed, outcome.most_tardiness), (4, 3, 1));
        assert_eq!((outcome.mean_tardiness, outcome.mean_work, outcome.most_work), (3.0 / 8.0, 1.0, 1.0));
        assert_eq!(cells.iter().map(|cell| cell.tardiness).collect::<Vec<_>>(), [0, 1, 1, 1]);
    }

    #[test]
    fn plant_late_at_the_end_counts_on_the_last_day() {
        let instance =
            Instance::new(vec![(Task::new(1.0, 2), String::new()), (Task::new(3.0, 2), String::new())]);
        // The expensive plant does not fit.
        let (outcome, cells) =
            walked(&instance, GardenTrial { policy: GardenPolicy::Medd, capacity: UNIT, days: 6 });
        assert!(outcome.most_tardiness == 4 && outcome.missed >= 1, "{outcome:?}");
        assert_eq!(cells.last().map(|cell| (cell.day, cell.tardiness >= 4)), Some((6, true)));
    }

    #[test]
    fn cells_add_up_to_the_outcome() {
        let instance = made_up::instance(150, 3);
        let capacity = (instance.omega() * 0.9 * UNIT as f64) as Work;
        for policy in GardenPolicy::ALL {
            let (outcome, cells) = walked(&instance, GardenTrial { policy, capacity, days: 300 });
            let sum = |of: &dyn Fn(&GardenCell) -> u64| cells.iter().map(of).sum::<u64>();
            assert_eq!(sum(&|cell| cell.probes), outcome.probes);
            assert_eq!(sum(&|cell| cell.missed), outcome.missed);
            let tardiness = sum(&|cell| cell.tardiness) as f64;
            assert!((tardiness / 150.0 / 300.0 - outcome.mean_tardiness).abs() < 1e-12);
            assert!((units(sum(&|cell| cell.work)) / 300.0 - outcome.mean_work).abs() < 1e-9);
            assert!(outcome.most_work <= outcome.capacity, "{outcome:?}");
            assert_eq!(outcome.missed == 0, policy == GardenPolicy::PowerOfTwo, "{outcome:?}");
        }
    }

    #[test]
    fn walk_stops_when_the_callback_returns_false() {
        let (instance, mut days) = (made_up::instance(10, 1), 0);
        let trial = GardenTrial { policy: GardenPolicy::Edd, capacity: 4 * UNIT, days: 100 };
        let outcome = walk(&instance, trial, &mut |_| {
            days += 1;
            days < 7
        });
        assert_eq!((outcome, days), (None, 7));
    }
}
