//! A walk with a gardener: what was done day by day, in which bed, and how late.
//!
//! Days are handed out as they pass, so that a long walk takes no more memory than a short one. All plants were
//! watered on day 0; what is late at the end counts as if it were watered on the last day, and as missed. Must not
//! know who watches.

use tidewatch_core::engine::garden::Work;

use super::instance::{Instance, units};
use super::outcome::Outcome;
use super::policy::Policy;

/// What is tried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trial {
    /// Who waters.
    pub policy: Policy,
    /// With how much a day.
    pub capacity: Work,
    /// How long.
    pub days: u32,
}

/// What happened on a day in a bed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cell {
    /// The bed's place in the instance.
    pub bed: usize,
    /// The day, from 1 on.
    pub day: u32,
    /// Days that waterings were late, all together.
    pub tardiness: u64,
    /// What they took.
    pub work: Work,
    /// How many there were.
    pub probes: u64,
    /// How many of them were late.
    pub missed: u64,
}

/// Walks. Each day's cells are handed out, but for those where nothing happened; `None` once nobody wants more.
pub fn walk(
    instance: &Instance,
    trial: Trial,
    each_day: &mut dyn FnMut(&[Cell]) -> bool,
) -> Option<Outcome> {
    let plants = instance.plants();
    let mut gardener = trial.policy.gardener(plants, trial.capacity);
    let mut due: Vec<u64> = plants.iter().map(|plant| u64::from(plant.window)).collect();
    let (mut today, mut all) = (Today::new(instance), Sums::default());
    for day in 1..=trial.days {
        let watered = gardener.day();
        for index in watered {
            let plant = plants[index];
            let late = u64::from(day).saturating_sub(due[index]);
            due[index] = u64::from(day) + u64::from(plant.window);
            today.note(instance.bed_of(index), Cell { work: plant.cost, probes: 1, ..lateness(late) });
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

fn lateness(late: u64) -> Cell {
    Cell { tardiness: late, missed: u64::from(late > 0), ..Cell::default() }
}

/// A day under way.
struct Today {
    cells: Vec<Cell>,
    touched: Vec<usize>,
}

impl Today {
    fn new(instance: &Instance) -> Self {
        Self { cells: vec![Cell::default(); instance.beds().len()], touched: Vec::new() }
    }

    fn note(&mut self, bed: usize, more: Cell) {
        let cell = &mut self.cells[bed];
        if *cell == Cell::default() {
            self.touched.push(bed);
        }
        cell.tardiness += more.tardiness;
        cell.work += more.work;
        cell.probes += more.probes;
        cell.missed += more.missed;
    }

    /// What it was; the next one begins.
    fn over(&mut self, day: u32) -> Vec<Cell> {
        let cells = &mut self.cells;
        let take = |bed: usize| Cell { bed, day, ..std::mem::take(&mut cells[bed]) };
        self.touched.drain(..).map(take).collect()
    }
}

/// All days together.
#[derive(Default)]
struct Sums {
    tardiness: u64,
    work: u128,
    busiest: Work,
    latest: u64,
    probes: u64,
    missed: u64,
}

impl Sums {
    fn add(&mut self, cells: &[Cell]) {
        let work: Work = cells.iter().map(|cell| cell.work).sum();
        self.busiest = self.busiest.max(work);
        self.work += u128::from(work);
        for cell in cells {
            self.tardiness += cell.tardiness;
            self.probes += cell.probes;
            self.missed += cell.missed;
        }
    }

    fn outcome(&self, instance: &Instance, trial: Trial) -> Outcome {
        let (plants, days) = (instance.plants().len().max(1) as f64, f64::from(trial.days.max(1)));
        let kept = if trial.policy.keeps_to_capacity() { trial.capacity } else { self.busiest };
        Outcome {
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

    fn walked(instance: &Instance, trial: Trial) -> (Outcome, Vec<Cell>) {
        let mut all = Vec::new();
        let outcome = walk(instance, trial, &mut |cells| {
            all.extend_from_slice(cells);
            true
        });
        (outcome.unwrap(), all)
    }

    #[test]
    fn one_too_many_is_late_every_other_day() {
        // Both are due daily, and one can be watered: each is every other day, and a day late then. Who waits on the
        // last day is due on it, and not yet late.
        let instance = Instance::new(vec![(Task::new(1.0, 1), "a".to_owned()); 2]);
        let (outcome, cells) = walked(&instance, Trial { policy: Policy::Edd, capacity: UNIT, days: 4 });
        assert_eq!((outcome.probes, outcome.missed, outcome.most_tardiness), (4, 3, 1));
        assert_eq!((outcome.mean_tardiness, outcome.mean_work, outcome.most_work), (3.0 / 8.0, 1.0, 1.0));
        assert_eq!(cells.iter().map(|cell| cell.tardiness).collect::<Vec<_>>(), [0, 1, 1, 1]);
    }

    #[test]
    fn who_is_never_watered_again_is_owed_on_the_last_day() {
        let instance =
            Instance::new(vec![(Task::new(1.0, 2), String::new()), (Task::new(3.0, 2), String::new())]);
        // The dear one does not fit.
        let (outcome, cells) = walked(&instance, Trial { policy: Policy::Medd, capacity: UNIT, days: 6 });
        assert!(outcome.most_tardiness == 4 && outcome.missed >= 1, "{outcome:?}");
        assert_eq!(cells.last().map(|cell| (cell.day, cell.tardiness >= 4)), Some((6, true)));
    }

    #[test]
    fn cells_add_up_to_the_outcome() {
        let instance = made_up::instance(150, 3);
        let capacity = (instance.omega() * 0.9 * UNIT as f64) as Work;
        for policy in Policy::ALL {
            let (outcome, cells) = walked(&instance, Trial { policy, capacity, days: 300 });
            let sum = |of: &dyn Fn(&Cell) -> u64| cells.iter().map(of).sum::<u64>();
            assert_eq!(sum(&|cell| cell.probes), outcome.probes);
            assert_eq!(sum(&|cell| cell.missed), outcome.missed);
            let tardiness = sum(&|cell| cell.tardiness) as f64;
            assert!((tardiness / 150.0 / 300.0 - outcome.mean_tardiness).abs() < 1e-12);
            assert!((units(sum(&|cell| cell.work)) / 300.0 - outcome.mean_work).abs() < 1e-9);
            assert!(outcome.most_work <= outcome.capacity, "{outcome:?}");
            assert_eq!(outcome.missed == 0, policy == Policy::PowerOfTwo, "{outcome:?}");
        }
    }

    #[test]
    fn a_walk_ends_when_nobody_looks() {
        let (instance, mut days) = (made_up::instance(10, 1), 0);
        let trial = Trial { policy: Policy::Edd, capacity: 4 * UNIT, days: 100 };
        let outcome = walk(&instance, trial, &mut |_| {
            days += 1;
            days < 7
        });
        assert_eq!((outcome, days), (None, 7));
    }
}
