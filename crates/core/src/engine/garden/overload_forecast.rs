//! Forecasts the cost of the coming days, and whether their capacity suffices.
//!
//! A ring of days holds the cost due on each. For a capacity per day, the *overload* is the largest
//! shortage over any number of coming days: max over h of (cost of the next h days − h·capacity). A tree
//! over the ring keeps in each inner node its sum and its greatest prefix sum. So changes and queries take
//! O(log N).
//!
//! Knows days and costs. Must not know tasks.

use serde::{Deserialize, Serialize};

use super::Work;

/// The most cells in the ring.
const MOST: usize = 1 << 17;

/// Costs by day.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DayCosts {
    /// Days per cell of the ring: 1, or more if the ring would be too large.
    width: i64,
    /// Cells in the ring, a power of two.
    places: usize,
    /// The assumed capacity per day.
    capacity: i64,
    /// Heap-shaped; the leaves are at `places..`.
    nodes: Vec<DayNode>,
}

/// A run of days.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct DayNode {
    /// Cost minus capacity.
    sum: i64,
    /// The greatest such sum over a non-empty prefix of the run.
    most: i64,
    /// The length of that prefix, in cells.
    days: u32,
}

impl DayNode {
    fn of(value: i64) -> Self {
        Self { sum: value, most: value, days: 1 }
    }

    fn then(self, next: Self, length: u32) -> Self {
        let sum = self.sum.saturating_add(next.sum);
        let both = self.sum.saturating_add(next.most);
        // Of equal ones the shorter.
        if both > self.most {
            Self { sum, most: both, days: length + next.days }
        } else {
            Self { sum, ..self }
        }
    }
}

/// A shortage of capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overload {
    /// How much is missing.
    pub work: Work,
    /// By the end of this day.
    pub by: i64,
}

impl DayCosts {
    /// No costs; the ring covers `days` days ahead.
    pub fn new(days: i64) -> Self {
        let days = usize::try_from(days.max(1)).unwrap_or(MOST);
        let width = days.div_ceil(MOST - 1).max(1);
        let places = (days / width + 2).next_power_of_two();
        let nodes = vec![DayNode::of(0); 2 * places];
        let mut demand = Self { width: width as i64, places, capacity: 0, nodes };
        demand.build();
        demand
    }

    /// The cell number of a day, before the ring wraps.
    pub fn bucket(&self, day: i64) -> i64 {
        day.div_euclid(self.width)
    }

    /// The first day of a cell.
    pub fn first_day(&self, bucket: i64) -> i64 {
        bucket * self.width
    }

    /// How many days the ring covers.
    pub fn days(&self) -> i64 {
        self.width * self.span()
    }

    /// How many cells the ring has.
    pub fn span(&self) -> i64 {
        self.places as i64
    }

    /// The position of a cell in the ring.
    pub fn place(&self, bucket: i64) -> usize {
        bucket.rem_euclid(self.places as i64) as usize
    }

    /// Sets the capacity per day.
    pub fn set_capacity(&mut self, capacity: Work) {
        let capacity = i64::try_from(capacity).unwrap_or(i64::MAX / 4);
        let more = capacity.saturating_sub(self.capacity).saturating_mul(self.width);
        if more != 0 {
            self.capacity = capacity;
            for leaf in &mut self.nodes[self.places..] {
                *leaf = DayNode::of(leaf.sum.saturating_sub(more));
            }
            self.build();
        }
    }

    /// Adds cost.
    pub fn add(&mut self, bucket: i64, cost: Work) {
        self.change(bucket, i64::try_from(cost).unwrap_or(i64::MAX));
    }

    /// Subtracts cost.
    pub fn less(&mut self, bucket: i64, cost: Work) {
        self.change(bucket, -i64::try_from(cost).unwrap_or(i64::MAX));
    }

    /// Drops all cost of a cell.
    pub fn clear(&mut self, bucket: i64) {
        let due = self.due(bucket);
        self.change(bucket, -due);
    }

    /// The cost of a cell.
    pub fn due(&self, bucket: i64) -> i64 {
        let sum = self.nodes[self.places + self.place(bucket)].sum;
        sum.saturating_add(self.capacity.saturating_mul(self.width))
    }

    /// The shortage after today, if `late` is overdue already.
    pub fn overload(&self, today: i64, late: Work) -> Option<Overload> {
        let now = self.bucket(today);
        // The days that remain in today's cell.
        let rest = (now + 1) * self.width - 1 - today;
        let backlog = i64::try_from(late).unwrap_or(i64::MAX / 4) + self.due(now)
            - rest.saturating_mul(self.capacity);
        let (next, last) = (self.place(now + 1), self.place(now + self.span() - 1));
        let coming = match next <= last {
            true => self.over(next, last + 1),
            false => {
                let first = self.over(next, self.places);
                let length = (self.places - next) as u32;
                self.over(0, last + 1).map_or(first, |then| first.map(|first| first.then(then, length)))
            }
        }?;
        let missing = Work::try_from(backlog.saturating_add(coming.most)).ok().filter(|&work| work > 0)?;
        Some(Overload { work: missing, by: (now + 1 + i64::from(coming.days)) * self.width - 1 })
    }

    fn change(&mut self, bucket: i64, by: i64) {
        let mut node = self.places + self.place(bucket);
        self.nodes[node] = DayNode::of(self.nodes[node].sum.saturating_add(by));
        let mut length = 1;
        while node > 1 {
            node /= 2;
            self.nodes[node] = self.nodes[2 * node].then(self.nodes[2 * node + 1], length);
            length *= 2;
        }
    }

    fn build(&mut self) {
        let (mut first, mut length) = (self.places / 2, 1);
        while first >= 1 {
            for node in first..2 * first {
                self.nodes[node] = self.nodes[2 * node].then(self.nodes[2 * node + 1], length);
            }
            (first, length) = (first / 2, length * 2);
        }
    }

    /// The cells of a range combined into one node.
    fn over(&self, from: usize, to: usize) -> Option<DayNode> {
        let (mut left, mut right) = (from + self.places, to + self.places);
        let mut before: Option<(DayNode, u32)> = None;
        let mut after: Option<(DayNode, u32)> = None;
        let mut length = 1;
        let join = |one: Option<(DayNode, u32)>, other: Option<(DayNode, u32)>| match (one, other) {
            (Some((one, a)), Some((other, b))) => Some((one.then(other, a), a + b)),
            (one, other) => one.or(other),
        };
        while left < right {
            if left % 2 == 1 {
                before = join(before, Some((self.nodes[left], length)));
                left += 1;
            }
            if right % 2 == 1 {
                right -= 1;
                after = join(Some((self.nodes[right], length)), after);
            }
            (left, right, length) = (left / 2, right / 2, length * 2);
        }
        join(before, after).map(|(node, _)| node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    #[test]
    fn the_overload_equals_a_day_by_day_sum() {
        let mut chance = Stream::new(5, "demand");
        for days in [1, 3, 30, 200] {
            let (mut demand, mut capacity) = (DayCosts::new(days), 7);
            demand.set_capacity(capacity);
            let mut plain = vec![0_u64; 1000 + days as usize];
            for today in 0..600_i64 {
                for _ in 0..3 {
                    let day = today + (chance.unit() * (days as f64 + 1.0)) as i64;
                    let cost = (chance.unit() * 9.0) as u64;
                    demand.add(demand.bucket(day), cost);
                    plain[day as usize] += cost;
                }
                if today % 50 == 49 {
                    capacity = 5 + (chance.unit() * 9.0) as u64;
                    demand.set_capacity(capacity);
                }
                let late = (chance.unit() * 4.0) as u64;
                let backlog = (late + plain[today as usize]) as i64;
                let (mut sum, mut worst, mut by) = (backlog, i64::MIN, 0);
                for h in 1..demand.span() {
                    let day = (today + h) as usize;
                    sum += plain.get(day).copied().unwrap_or(0) as i64 - capacity as i64;
                    if sum > worst {
                        (worst, by) = (sum, today + h);
                    }
                }
                let wanted = (worst > 0).then_some(Overload { work: worst as u64, by });
                assert_eq!(demand.overload(today, late), wanted, "{days} days, {today}");
                demand.clear(demand.bucket(today));
                plain[today as usize] = 0;
            }
        }
    }

    #[test]
    fn a_long_range_has_several_days_per_cell() {
        let demand = DayCosts::new(1_000_000);
        assert_eq!((demand.width, demand.places), (8, MOST));
        assert!(demand.span() * demand.width > 1_000_000);
    }
}
