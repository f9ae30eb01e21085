//! Modified earliest due day first, for plants that must be watered again and again (MEDD, Gao et al.,
//! Algorithm 1).
//!
//! Due plants are watered, the most overdue first. The rest of the day's capacity is spent on plants that are
//! not yet due, up to the *overload*. The overload is the cost of all plants in the next w_max days, each
//! watered on its due days, less the capacity of those days. It is spent where it wastes least, (days until
//! due)/w·c (the paper's own formula lacks the sign: its L is negative there).
//!
//! The printed algorithm sorts all plants twice a day. Here the plants are kept sorted by due day, and the
//! waste of each is in a kinetic tournament. The cost of the coming days is updated from day to day, plant by
//! plant, as its next watering comes within w_max days. A day costs O(log n) for each plant that is watered,
//! becomes due or comes within w_max days. A test compares this with the algorithm as printed.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use tidewatch_core::engine::garden::kinetic_minimum::KineticMinimum;
use tidewatch_core::engine::garden::{Task, Work};

use super::Gardener;

/// The sort key of a plant: due plants are watered in this order.
type WateringOrder = (i64, Work, Reverse<u32>, usize);

/// MEDD as printed.
#[derive(Debug, Clone)]
pub struct Printed {
    plants: Vec<Task>,
    capacity: Work,
    today: i64,
    longest: i64,
    due: Vec<i64>,
    queue: BTreeSet<WateringOrder>,
    least: KineticMinimum,
    /// The cost of the next w_max days, including today.
    ahead: u128,
    /// The first watering of each plant after these days; late plants have no entry.
    by_next_day: BTreeSet<(i64, usize)>,
    /// The day of that watering, by plant; 0 for a late plant.
    beyond: Vec<i64>,
}

impl Printed {
    /// All plants were watered on day 0.
    pub fn new(plants: &[Task], capacity: Work) -> Self {
        let longest = plants.iter().map(|plant| i64::from(plant.window)).max().unwrap_or(1);
        let mut printed = Self {
            plants: plants.to_vec(),
            capacity,
            today: 1,
            longest,
            due: vec![0; plants.len()],
            queue: BTreeSet::new(),
            least: KineticMinimum::new(plants.len()),
            ahead: 0,
            by_next_day: BTreeSet::new(),
            beyond: vec![0; plants.len()],
        };
        for (index, plant) in plants.iter().enumerate() {
            printed.insert_plant(index, i64::from(plant.window));
        }
        printed
    }

    /// The work that exceeds the capacity of the next w_max days.
    pub fn overload(&self) -> Work {
        let capacity = u128::from(self.capacity) * self.longest.unsigned_abs() as u128;
        Work::try_from(self.ahead.saturating_sub(capacity)).unwrap_or(Work::MAX)
    }

    fn place(&self, index: usize) -> WateringOrder {
        let Task { cost, window } = self.plants[index];
        (self.due[index], cost, Reverse(window), index)
    }

    /// Inserts a plant that is due on this day, which is not in the past.
    fn insert_plant(&mut self, index: usize, due: i64) {
        let Task { cost, window } = self.plants[index];
        self.due[index] = due;
        self.queue.insert(self.place(index));
        if due > self.today {
            self.least.put(index, &self.plants[index], due);
        }
        let (horizon, window) = (self.today + self.longest, i64::from(window));
        let count = if due < horizon { (horizon - 1 - due) / window + 1 } else { 0 };
        self.ahead += u128::from(cost) * count.unsigned_abs() as u128;
        self.beyond[index] = due + count * window;
        self.by_next_day.insert((self.beyond[index], index));
    }

    /// Removes a plant.
    fn remove_plant(&mut self, index: usize) {
        self.queue.remove(&self.place(index));
        self.least.take(index);
        self.ahead -= self.within(index);
        if self.beyond[index] != 0 {
            self.by_next_day.remove(&(self.beyond[index], index));
        }
    }

    /// Its cost within the next w_max days.
    fn within(&self, index: usize) -> u128 {
        let Task { cost, window } = self.plants[index];
        let window = i64::from(window);
        let count = match self.beyond[index] {
            // Late: today, and then once per window.
            0 => (self.longest - 1) / window + 1,
            beyond => (beyond - self.due[index]) / window,
        };
        u128::from(cost) * count.unsigned_abs() as u128
    }

    /// Waters a plant today.
    fn water(&mut self, index: usize) {
        self.remove_plant(index);
        self.insert_plant(index, self.today + i64::from(self.plants[index].window));
    }

    /// Advances to the next day.
    fn next_day(&mut self) {
        self.today += 1;
        // The range of w_max days is extended by one day.
        let last = self.today + self.longest - 1;
        while let Some(&(day, index)) = self.by_next_day.first().filter(|&&(day, _)| day <= last) {
            self.by_next_day.remove(&(day, index));
            let Task { cost, window } = self.plants[index];
            self.ahead += u128::from(cost);
            self.beyond[index] = day + i64::from(window);
            self.by_next_day.insert((self.beyond[index], index));
        }
        // A plant that was due yesterday and not watered is late. Its waterings count from today on.
        let yesterday = (self.today - 1, Work::MAX, Reverse(0), usize::MAX);
        let first = (self.today - 1, 0, Reverse(u32::MAX), 0);
        for (.., index) in self.queue.range(first..=yesterday).copied().collect::<Vec<_>>() {
            self.ahead -= self.within(index);
            self.by_next_day.remove(&(self.beyond[index], index));
            self.beyond[index] = 0;
            self.ahead += self.within(index);
        }
        // A plant that is due today has no waste and is no longer watered early.
        let from = (self.today, 0, Reverse(u32::MAX), 0);
        let to = (self.today, Work::MAX, Reverse(0), usize::MAX);
        for (.., index) in self.queue.range(from..=to).copied().collect::<Vec<_>>() {
            self.least.take(index);
        }
    }
}

impl Gardener for Printed {
    fn day(&mut self) -> Vec<usize> {
        let (mut left, mut watered) = (self.capacity, Vec::new());
        // By the state at the beginning of the day, as printed.
        let due = self.queue.iter().take_while(|place| place.0 <= self.today);
        for &(_, cost, _, index) in due {
            if cost > left {
                break;
            }
            left -= cost;
            watered.push(index);
        }
        let mut spare = left.min(self.overload());
        let mut early = Vec::new();
        while spare > 0
            && let Some(index) = self.least.least(self.today)
            && self.plants[index].cost <= spare
        {
            spare -= self.plants[index].cost;
            self.least.take(index);
            early.push(index);
        }
        watered.extend(early);
        for &index in &watered {
            self.water(index);
        }
        self.next_day();
        watered
    }
}
