//! Finds the task whose early service wastes least, as the waste changes with time.
//!
//! Serving task i on day t before it is due wastes (due − t)/w·c: a line in t with its own slope. The
//! minimum of n lines is kept in a kinetic tournament: each match stores the day until which its result
//! holds. When time advances, only expired matches are evaluated again. A changed line re-evaluates its
//! path to the root, in O(log n).
//!
//! Lines are compared exactly, in integers.

use serde::{Deserialize, Serialize};

use super::{Task, Work};

/// No task.
const NONE: u32 = u32::MAX;

/// A line: (due − t)·cost/window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct CostLine {
    due: i64,
    cost: Work,
    window: u32,
}

impl CostLine {
    /// (due − t)·c as a fraction over w.
    fn at(&self, t: i64) -> (i128, i128) {
        (i128::from(self.due - t) * i128::from(self.cost), i128::from(self.window))
    }

    /// Whether it is less than another at t; of equal ones the earlier due day wins, then the lower index.
    fn is_less(&self, other: &Self, t: i64, first: bool) -> bool {
        let ((a, w), (b, v)) = (self.at(t), other.at(t));
        match (a * v).cmp(&(b * w)) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal => self.due < other.due || self.due == other.due && first,
            std::cmp::Ordering::Greater => false,
        }
    }
}

/// A match: its winner, and the first day on which it must be evaluated again.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct TreeMatch {
    winner: u32,
    until: i64,
}

/// The minimum of many lines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KineticMinimum {
    lines: Vec<Option<CostLine>>,
    /// A heap-shaped tree: the leaves are at `width..`.
    matches: Vec<TreeMatch>,
    width: usize,
    now: i64,
}

impl KineticMinimum {
    /// No lines yet.
    pub fn new(tasks: usize) -> Self {
        let width = tasks.next_power_of_two().max(1);
        let none = TreeMatch { winner: NONE, until: i64::MAX };
        Self { lines: vec![None; tasks], matches: vec![none; 2 * width], width, now: 0 }
    }

    /// Inserts or replaces a task, due on that day.
    pub fn put(&mut self, index: usize, task: &Task, due: i64) {
        self.lines[index] = Some(CostLine { due, cost: task.cost, window: task.window });
        self.replay(index);
    }

    /// Removes a task.
    pub fn take(&mut self, index: usize) {
        if self.lines[index].take().is_some() {
            self.replay(index);
        }
    }

    /// The index of the least line on that day. An earlier day than before counts as the latest one.
    pub fn least(&mut self, today: i64) -> Option<usize> {
        self.now = self.now.max(today);
        self.advance(1);
        Some(self.matches[1].winner).filter(|&winner| winner != NONE).map(|winner| winner as usize)
    }

    /// The same within a range of indices.
    pub fn least_of(&mut self, today: i64, places: std::ops::Range<usize>) -> Option<usize> {
        self.now = self.now.max(today);
        let winner = self.among(1, 0..self.width, &places);
        Some(winner).filter(|&winner| winner != NONE).map(|winner| winner as usize)
    }

    /// The due day of the line at this index, if there is one.
    pub fn due(&self, index: usize) -> Option<i64> {
        self.lines[index].map(|line| line.due)
    }

    /// Orders two indices by their lines.
    pub fn compare(&self, one: usize, other: usize) -> std::cmp::Ordering {
        match (self.lines[one], self.lines[other]) {
            (Some(left), Some(right)) if left.is_less(&right, self.now, one < other) => {
                std::cmp::Ordering::Less
            }
            (Some(_), None) => std::cmp::Ordering::Less,
            _ => std::cmp::Ordering::Greater,
        }
    }

    fn among(
        &mut self,
        node: usize,
        covers: std::ops::Range<usize>,
        places: &std::ops::Range<usize>,
    ) -> u32 {
        if places.start >= covers.end || covers.start >= places.end {
            return NONE;
        }
        if places.start <= covers.start && covers.end <= places.end {
            self.advance(node);
            return self.matches[node].winner;
        }
        let middle = usize::midpoint(covers.start, covers.end);
        let one = self.among(2 * node, covers.start..middle, places);
        let other = self.among(2 * node + 1, middle..covers.end, places);
        let line = |winner: u32| self.lines.get(winner as usize).copied().flatten();
        match (line(one), line(other)) {
            (Some(left), Some(right)) if !left.is_less(&right, self.now, true) => other,
            (None, _) => other,
            _ => one,
        }
    }

    fn replay(&mut self, index: usize) {
        let leaf = self.width + index;
        let winner = if self.lines[index].is_some() { index as u32 } else { NONE };
        self.matches[leaf] = TreeMatch { winner, until: i64::MAX };
        let mut node = leaf / 2;
        while node >= 1 {
            self.play(node);
            node /= 2;
        }
    }

    /// Evaluates expired matches again.
    fn advance(&mut self, node: usize) {
        if node >= self.width || self.matches[node].until > self.now {
            return;
        }
        self.advance(2 * node);
        self.advance(2 * node + 1);
        self.play(node);
    }

    fn play(&mut self, node: usize) {
        let (left, right) = (self.matches[2 * node], self.matches[2 * node + 1]);
        let until = left.until.min(right.until);
        let line = |winner: u32| self.lines.get(winner as usize).copied().flatten();
        self.matches[node] = match (line(left.winner), line(right.winner)) {
            (_, None) => TreeMatch { winner: left.winner, until },
            (None, Some(_)) => TreeMatch { winner: right.winner, until },
            (Some(one), Some(other)) => {
                let wins = one.is_less(&other, self.now, true);
                let (winner, loser) = if wins { (one, other) } else { (other, one) };
                let place = if wins { left.winner } else { right.winner };
                TreeMatch { winner: place, until: until.min(overtaken(&winner, &loser, self.now, wins)) }
            }
        };
    }
}

/// The first day after `now` on which the loser becomes the winner; `i64::MAX` if never.
fn overtaken(winner: &CostLine, loser: &CostLine, now: i64, winner_is_first: bool) -> i64 {
    // Slopes are −c/w: the loser wins later only if it falls faster.
    let falls = |line: &CostLine| (i128::from(line.cost), i128::from(line.window));
    let ((c, w), (d, v)) = (falls(winner), falls(loser));
    let faster = d * w - c * v;
    if faster <= 0 {
        return i64::MAX;
    }
    // Winner − loser at t, times w·v, is gap + faster·(t − now), with gap ≤ 0 now.
    let ((a, _), (b, _)) = (winner.at(now), loser.at(now));
    let behind = b * w - a * v;
    let keeps = winner.due < loser.due || winner.due == loser.due && winner_is_first;
    let days = if keeps { behind / faster + 1 } else { (behind + faster - 1) / faster };
    i64::try_from(i128::from(now) + days.max(1)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn the_minimum_equals_a_linear_scan() {
        let mut chance = Stream::new(3, "lines");
        for tasks in [1_usize, 2, 3, 17, 64] {
            let mut least = KineticMinimum::new(tasks);
            let mut all: Vec<Option<(Task, i64)>> = vec![None; tasks];
            for today in 0..400 {
                for _ in 0..3 {
                    let index = (chance.unit() * tasks as f64) as usize;
                    if chance.unit() < 0.7 {
                        let window = 1 + (chance.unit() * 40.0) as u32;
                        let task = Task::new((1.0 + (chance.unit() * 5.0).floor()) / 2.0, window);
                        let due = today + (chance.unit() * f64::from(window + 1)) as i64;
                        all[index] = Some((task, due));
                        least.put(index, &task, due);
                    } else {
                        all[index] = None;
                        least.take(index);
                    }
                }
                let wasteness = |(task, due): &(Task, i64)| {
                    (due - today) as f64 / f64::from(task.window) * task.cost as f64
                };
                let end = |share: f64| (share * (tasks + 1) as f64) as usize;
                let (one, other) = (end(chance.unit()), end(chance.unit()));
                for places in [0..tasks, one.min(other)..one.max(other)] {
                    let wanted = all[places.clone()].iter().flatten().map(wasteness).min_by(f64::total_cmp);
                    let found = match places.len() == tasks {
                        true => least.least(today),
                        false => least.least_of(today, places),
                    };
                    let found = found.map(|index| wasteness(&all[index].unwrap()));
                    assert_eq!(found.is_some(), wanted.is_some());
                    if let (Some(found), Some(wanted)) = (found, wanted) {
                        assert!(
                            (found - wanted).abs() < 1e-6 * wanted.abs().max(1.0),
                            "{found} {wanted} on {today}"
                        );
                    }
                }
            }
        }
    }
}
