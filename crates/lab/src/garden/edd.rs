//! Earliest due day first.
//!
//! Plants are watered in the order of their due days while there is capacity, due or not (Gao et al., §4).
//! That minimises tardiness for jobs that end. Watering never ends, so this policy uses the whole capacity
//! every day. It is a baseline.

use std::collections::BTreeSet;

use tidewatch_core::engine::garden::{Task, Work};

use super::Gardener;

/// Earliest due day first.
#[derive(Debug, Clone)]
pub struct Edd {
    plants: Vec<Task>,
    capacity: Work,
    today: i64,
    /// By due day; then the cheapest, so that more are watered; then the longest window.
    queue: BTreeSet<(i64, Work, std::cmp::Reverse<u32>, usize)>,
}

impl Edd {
    /// All plants were watered on day 0.
    pub fn new(plants: &[Task], capacity: Work) -> Self {
        let key = |(index, plant): (usize, &Task)| {
            (i64::from(plant.window), plant.cost, std::cmp::Reverse(plant.window), index)
        };
        let queue = plants.iter().enumerate().map(key).collect();
        Self { plants: plants.to_vec(), capacity, today: 0, queue }
    }
}

impl Gardener for Edd {
    fn day(&mut self) -> Vec<usize> {
        self.today += 1;
        let (mut left, mut watered) = (self.capacity, Vec::new());
        // Each plant is watered at most once a day: it is enqueued again after the loop.
        while let Some(&key @ (_, cost, _, index)) = self.queue.first().filter(|key| key.1 <= left) {
            self.queue.remove(&key);
            left -= cost;
            watered.push(index);
        }
        for &index in &watered {
            let Task { cost, window } = self.plants[index];
            let due = self.today + i64::from(window);
            self.queue.insert((due, cost, std::cmp::Reverse(window), index));
        }
        watered
    }
}
