//! Gardens tried out: who waters what in time, and what that takes, for one capacity after the other.
//!
//! Exists so that a capacity can be chosen by what it costs and what it buys: less work is later work, and which of
//! the two counts more is for people to say. Knows plants, the beds they are counted in, and who may water them
//! ([`engine::garden`](tidewatch_core::engine::garden)). Must not know where plants come from.
//!
//! MEDD is the engine's. [`edd`] waters whatever is due next as long as there is capacity, [`printed`] is MEDD as the
//! paper has it, and [`power`] is a fixed schedule that keeps every window. A [`cube`] keeps the measures of all days.

use std::collections::BTreeMap;

use tidewatch_core::engine::garden::medd::Medd;
use tidewatch_core::engine::garden::{self, Plant, UNIT, Work};

pub mod answer;
pub mod cube;
pub mod document;
pub mod edd;
pub mod front;
pub mod made_up;
pub mod picture;
pub mod power;
pub mod printed;
pub mod scatter;
pub mod slice;
pub mod sweep;
pub mod text;
pub mod trials;
pub mod walk;

use edd::Edd;
use power::PowerOfTwo;
use printed::Printed;

/// The longest window there may be, in days.
pub const LONGEST_WINDOW: u32 = 100_000;

/// Work in units, as people say it.
pub fn units(work: Work) -> f64 {
    work as f64 / UNIT as f64
}

/// A policy that says what is watered on each day.
pub trait Gardener {
    /// What is watered today, by its place in the list, and the day is over. The first day is 1; everything was
    /// watered on day 0.
    fn day(&mut self) -> Vec<usize>;
}

impl Gardener for Medd {
    fn day(&mut self) -> Vec<usize> {
        Medd::day(self)
    }
}

/// Plants of one group whose windows are alike.
#[derive(Debug, Clone, PartialEq)]
pub struct Bed {
    /// The group's name; empty where none was given.
    pub group: String,
    /// The shortest window it may hold, a power of two; the longest is one less than twice as long.
    pub from: u32,
    /// How many plants.
    pub plants: usize,
    /// Their share of Ω.
    pub omega: f64,
}

impl Bed {
    /// Its windows in words: `1`, `2-3`, `4-7` and so on.
    pub fn window_class(&self) -> String {
        match self.from {
            1 => "1".to_owned(),
            from => format!("{from}-{}", from.saturating_mul(2) - 1),
        }
    }
}

/// Plants, and the beds they are counted in.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    plants: Vec<Plant>,
    beds: Vec<Bed>,
    /// Each plant's bed.
    bed_of: Vec<usize>,
}

impl Instance {
    /// These plants, each with the name of its group.
    pub fn new(planted: Vec<(Plant, String)>) -> Self {
        let mut places: BTreeMap<(String, u32), Vec<usize>> = BTreeMap::new();
        let (mut plants, mut bed_of) = (Vec::with_capacity(planted.len()), vec![0; planted.len()]);
        for (index, (plant, group)) in planted.into_iter().enumerate() {
            let plant = Plant { window: plant.window.clamp(1, LONGEST_WINDOW), ..plant };
            places.entry((group, 1 << plant.window.ilog2())).or_default().push(index);
            plants.push(plant);
        }
        let mut beds = Vec::with_capacity(places.len());
        for ((group, from), members) in places {
            let omega = members.iter().map(|&index| garden::omega(&plants[index..=index])).sum();
            members.iter().for_each(|&index| bed_of[index] = beds.len());
            beds.push(Bed { group, from, plants: members.len(), omega });
        }
        Self { plants, beds, bed_of }
    }

    /// The plants.
    pub fn plants(&self) -> &[Plant] {
        &self.plants
    }

    /// The beds, by group and window.
    pub fn beds(&self) -> &[Bed] {
        &self.beds
    }

    /// Ω: nobody who is always in time works less in the mean.
    pub fn omega(&self) -> f64 {
        garden::omega(&self.plants)
    }

    /// What the dearest plant costs. With less a day it could never be watered, nor whatever waits behind it.
    pub fn dearest(&self) -> Work {
        self.plants.iter().map(|plant| plant.cost).max().unwrap_or(0)
    }

    /// The longest window.
    pub fn longest(&self) -> u32 {
        self.plants.iter().map(|plant| plant.window).max().unwrap_or(1)
    }
}

/// Who waters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    /// What is due, and ahead of time only what would be missing.
    Medd,
    /// By due day, due or not.
    Edd,
    /// MEDD as the paper prints it.
    MeddPrinted,
    /// A fixed schedule that is never late, whatever the capacity.
    PowerOfTwo,
}

impl Policy {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Medd, Self::Edd, Self::MeddPrinted, Self::PowerOfTwo];

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Medd => "medd",
            Self::Edd => "edd",
            Self::MeddPrinted => "medd_printed",
            Self::PowerOfTwo => "power_of_two",
        }
    }

    /// The one that is called so.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Whether it keeps to a capacity. Who does not is tried once.
    pub fn keeps_to_capacity(self) -> bool {
        self != Self::PowerOfTwo
    }

    fn gardener(self, plants: &[Plant], capacity: Work) -> Box<dyn Gardener> {
        match self {
            Self::Medd => Box::new(Medd::of(plants, capacity)),
            Self::Edd => Box::new(Edd::new(plants, capacity)),
            Self::MeddPrinted => Box::new(Printed::new(plants, capacity)),
            Self::PowerOfTwo => Box::new(PowerOfTwo::new(plants)),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beds_hold_what_is_alike() {
        let planted = [(1.0, 1, "b"), (2.0, 3, "a"), (1.0, 2, "a"), (1.0, 16, "a"), (1.0, 9, "b")];
        let planted = planted.map(|(cost, window, group)| (Plant::new(cost, window), group.to_owned()));
        let instance = Instance::new(planted.to_vec());
        let said: Vec<(&str, String, usize)> =
            instance.beds().iter().map(|bed| (&*bed.group, bed.window_class(), bed.plants)).collect();
        let wanted = [("a", "2-3", 2), ("a", "16-31", 1), ("b", "1", 1), ("b", "8-15", 1)];
        assert_eq!(said, wanted.map(|(group, class, plants)| (group, class.to_owned(), plants)));
        let shares: f64 = instance.beds().iter().map(|bed| bed.omega).sum();
        assert!((shares - instance.omega()).abs() < 1e-12);
        assert_eq!((instance.dearest(), instance.longest()), (2 * UNIT, 16));
    }
}
