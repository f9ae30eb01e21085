//! Plants, and the beds they are counted in.

use std::collections::BTreeMap;

use tidewatch_core::engine::garden::{self, Task, UNIT, Work};

/// The longest allowed window, in days.
pub const LONGEST_WINDOW: u32 = 100_000;

/// Converts work to units.
pub fn units(work: Work) -> f64 {
    work as f64 / UNIT as f64
}

/// Plants of one group with similar windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Bed {
    /// The name of the group; empty if none was given.
    pub group: String,
    /// The shortest window of its class, a power of two; the longest is one less than twice this.
    pub from: u32,
    /// Number of plants.
    pub plants: usize,
    /// Their share of Ω.
    pub omega: f64,
}

impl Bed {
    /// The name of its class of windows: `1`, `2-3`, `4-7` and so on.
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
    plants: Vec<Task>,
    beds: Vec<Bed>,
    /// Index of each plant's bed.
    bed_of: Vec<usize>,
}

impl Instance {
    /// These plants, each with the name of its group.
    pub fn new(planted: Vec<(Task, String)>) -> Self {
        let mut places: BTreeMap<(String, u32), Vec<usize>> = BTreeMap::new();
        let (mut plants, mut bed_of) = (Vec::with_capacity(planted.len()), vec![0; planted.len()]);
        for (index, (plant, group)) in planted.into_iter().enumerate() {
            let plant = Task { window: plant.window.clamp(1, LONGEST_WINDOW), ..plant };
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
    pub fn plants(&self) -> &[Task] {
        &self.plants
    }

    /// The beds, by group and window.
    pub fn beds(&self) -> &[Bed] {
        &self.beds
    }

    /// Index of a plant's bed.
    pub fn bed_of(&self, plant: usize) -> usize {
        self.bed_of[plant]
    }

    /// Ω: the least mean work of a policy that is always in time.
    pub fn omega(&self) -> f64 {
        garden::omega(&self.plants)
    }

    /// The cost of the most expensive plant. With less capacity a day it could never be watered, and it would
    /// block the plants after it.
    pub fn dearest(&self) -> Work {
        self.plants.iter().map(|plant| plant.cost).max().unwrap_or(0)
    }

    /// The longest window.
    pub fn longest(&self) -> u32 {
        self.plants.iter().map(|plant| plant.window).max().unwrap_or(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beds_contain_plants_of_one_group_and_window_class() {
        let planted = [(1.0, 1, "b"), (2.0, 3, "a"), (1.0, 2, "a"), (1.0, 16, "a"), (1.0, 9, "b")];
        let planted = planted.map(|(cost, window, group)| (Task::new(cost, window), group.to_owned()));
        let instance = Instance::new(planted.to_vec());
        let text: Vec<(&str, String, usize)> =
            instance.beds().iter().map(|bed| (&*bed.group, bed.window_class(), bed.plants)).collect();
        let wanted = [("a", "2-3", 2), ("a", "16-31", 1), ("b", "1", 1), ("b", "8-15", 1)];
        assert_eq!(text, wanted.map(|(group, class, plants)| (group, class.to_owned(), plants)));
        let shares: f64 = instance.beds().iter().map(|bed| bed.omega).sum();
        assert!((shares - instance.omega()).abs() < 1e-12);
        assert_eq!((instance.dearest(), instance.longest()), (2 * UNIT, 16));
    }
}
