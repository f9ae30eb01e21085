//! What the coming days will cost, and whether they will have enough.
//!
//! A ring of days, each with the cost that falls due on it. For a capacity a day, the *overload* is the most that
//! any number of coming days lacks: max over h of (cost of the next h days − h·capacity). Each inner node of a
//! tree over the ring keeps its sum and the greatest sum from its left end on, so that a cost that comes or goes
//! takes O(log N), and so does the question.
//!
//! Knows days and costs. Must not know plants.

use serde::{Deserialize, Serialize};

use super::Work;

/// The most days that are told apart.
const MOST: usize = 1 << 17;

/// Costs by day.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DayCosts {
    /// Days that share a place in the ring: 1, or more where the ring would be too large.
    width: i64,
    /// Places in the ring, a power of two.
    places: usize,
    /// What a day has, of what will be there.
    capacity: i64,
    /// Heap-shaped; the leaves are at `places..`.
    nodes: Vec<DayNode>,
}

/// Some days in a row.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct DayNode {
    /// Cost less capacity.
    sum: i64,
    /// The greatest such sum of the first of these days, one at least.
    most: i64,
    /// How many those are, in places of the ring.
    days: u32,
}

impl DayNode {
    fn of(value: i64) -> Self {
        Self { sum: value, most: value, days: 1 }
    }

    fn then(self, next: Self, length: u32) -> Self {
        let sum = self.sum.saturating_add(next.sum);
        let both = self.sum.saturating_add(next.most);
        // Of equal ones the sooner.
        if both > self.most {
            Self { sum, most: both, days: length + next.days }
        } else {
            Self { sum, ..self }
        }
    }
}

/// Work that will be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overload {
    /// How much.
    pub work: Work,
    /// By the end of that day.
    pub by: i64,
}

impl DayCosts {
    /// Nothing is due; `days` ahead can be told.
    pub fn new(days: i64) -> Self {
        let days = usize::try_from(days.max(1)).unwrap_or(MOST);
        let width = days.div_ceil(MOST - 1).max(1);
        let places = (days / width + 2).next_power_of_two();
        let nodes = vec![DayNode::of(0); 2 * places];
        let mut demand = Self { width: width as i64, places, capacity: 0, nodes };
        demand.build();
        demand
    }

    /// Days as they are told apart.
    pub fn bucket(&self, day: i64) -> i64 {
        day.div_euclid(self.width)
    }

    /// The first day of those that share a place.
    pub fn first_day(&self, bucket: i64) -> i64 {
        bucket * self.width
    }

    /// How many days there are at once.
    pub fn days(&self) -> i64 {
        self.width * self.span()
    }

    /// How many of them there are at once, as they are told apart.
    pub fn span(&self) -> i64 {
        self.places as i64
    }

    /// The place of a day in the ring.
    pub fn place(&self, bucket: i64) -> usize {
        bucket.rem_euclid(self.places as i64) as usize
    }

    /// A day has so much from now on.
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

    /// So much more is due.
    pub fn add(&mut self, bucket: i64, cost: Work) {
        self.change(bucket, i64::try_from(cost).unwrap_or(i64::MAX));
    }

    /// So much less is.
    pub fn less(&mut self, bucket: i64, cost: Work) {
        self.change(bucket, -i64::try_from(cost).unwrap_or(i64::MAX));
    }

    /// Nothing is due then any more.
    pub fn clear(&mut self, bucket: i64) {
        let due = self.due(bucket);
        self.change(bucket, -due);
    }

    /// What is due then.
    pub fn due(&self, bucket: i64) -> i64 {
        let sum = self.nodes[self.places + self.place(bucket)].sum;
        sum.saturating_add(self.capacity.saturating_mul(self.width))
    }

    /// What will be missing after today, where `late` is due already.
    pub fn overload(&self, today: i64, late: Work) -> Option<Overload> {
        let now = self.bucket(today);
        // What is left of the days that share today's place.
        let rest = (now + 1) * self.width - 1 - today;
        let owed = i64::try_from(late).unwrap_or(i64::MAX / 4) + self.due(now)
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
        let missing = Work::try_from(owed.saturating_add(coming.most)).ok().filter(|&work| work > 0)?;
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

    /// The places from one to another as if they were one node.
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
    fn the_overload_is_what_counting_day_by_day_finds() {
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
                let owed = (late + plain[today as usize]) as i64;
                let (mut sum, mut worst, mut by) = (owed, i64::MIN, 0);
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
    fn many_days_share_their_places() {
        let demand = DayCosts::new(1_000_000);
        assert_eq!((demand.width, demand.places), (8, MOST));
        assert!(demand.span() * demand.width > 1_000_000);
    }
}
