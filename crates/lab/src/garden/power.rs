//! A fixed schedule that meets every window, by powers of two (Gao et al., Lemma 3.1 and Theorem 3.3).
//!
//! Windows are rounded down and costs up to powers of two. Plants with the longest window are packed into
//! bins of one unit, which powers of two fill without a gap. Two bins alternate and form one plant of half
//! the window. This repeats until all are watered every day. Each level adds less than 2^(1−s) to Ω, all
//! levels less than 2, and rounding multiplies by at most four. So no day has more work than 4Ω + 2, where
//! the unit is the most expensive plant.

use tidewatch_core::engine::garden::{Task, UNIT, Work, omega};

use super::Gardener;

/// The plants of each day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PowerOfTwo {
    /// Each plant's period, a power of two, and its day within that.
    periods: Vec<(u32, u32)>,
    /// The plants by period and day: (log₂ of the period, day).
    days: Vec<Vec<Vec<usize>>>,
    today: u64,
}

/// A node that stands for one plant of a period: some plants, or two nodes that alternate.
#[derive(Debug, Clone)]
enum PeriodicNode {
    Bin(Vec<usize>, Vec<PeriodicNode>),
    Alternating(Box<PeriodicNode>, Option<Box<PeriodicNode>>),
}

impl PowerOfTwo {
    /// The schedule for these plants.
    pub fn new(plants: &[Task]) -> Self {
        let unit = plants.iter().map(|plant| plant.cost).max().unwrap_or(UNIT).max(1);
        let log = |window: u32| 31 - window.max(1).leading_zeros();
        let longest = plants.iter().map(|plant| log(plant.window)).max().unwrap_or(0);
        let mut periods = vec![(1, 0); plants.len()];
        // Pairs of bins from the level above.
        let mut merged: Vec<PeriodicNode> = Vec::new();
        for level in (0..=longest).rev() {
            let of_level = plants.iter().enumerate().filter(|(_, plant)| log(plant.window) == level);
            let mut sized: Vec<(u32, usize)> =
                of_level.map(|(index, plant)| (halvings(plant.cost, unit), index)).collect();
            // The most expensive first: then every bin but the last is full.
            sized.sort_unstable();
            let mut bins: Vec<PeriodicNode> =
                merged.drain(..).map(|node| PeriodicNode::Bin(Vec::new(), vec![node])).collect();
            let mut room = 0_u64;
            for (halvings, index) in sized {
                let size = 1_u64 << (FINEST - halvings);
                if room < size {
                    bins.push(PeriodicNode::Bin(Vec::new(), Vec::new()));
                    room = 1 << FINEST;
                }
                room -= size;
                if let Some(PeriodicNode::Bin(plants, _)) = bins.last_mut() {
                    plants.push(index);
                }
            }
            if level == 0 {
                bins.iter().for_each(|bin| bin.assign(1, 0, &mut periods));
                break;
            }
            let mut bins = bins.into_iter();
            while let Some(one) = bins.next() {
                merged.push(PeriodicNode::Alternating(Box::new(one), bins.next().map(Box::new)));
            }
        }
        let mut days: Vec<Vec<Vec<usize>>> =
            (0..=longest).map(|level| vec![Vec::new(); 1 << level]).collect();
        for (index, &(period, day)) in periods.iter().enumerate() {
            days[period.trailing_zeros() as usize][day as usize].push(index);
        }
        Self { periods, days, today: 0 }
    }

    /// The period of each plant, and its day within the period.
    pub fn periods(&self) -> &[(u32, u32)] {
        &self.periods
    }

    /// The maximum work of a day, in units: 4Ω + 2, where the 2 is in costs of the most expensive plant.
    pub fn most(plants: &[Task]) -> f64 {
        let dearest = plants.iter().map(|plant| plant.cost).max().unwrap_or(0);
        4.0 * omega(plants) + 2.0 * dearest as f64 / UNIT as f64
    }
}

/// Costs are distinguished down to this many halvings of the largest.
const FINEST: u32 = 30;

/// How many times the largest cost can be halved and still be at least this cost.
fn halvings(cost: Work, unit: Work) -> u32 {
    let mut halvings = 0;
    // The comparison is exact, without rounding the halves.
    while halvings < FINEST && u128::from(cost) << (halvings + 1) <= u128::from(unit) {
        halvings += 1;
    }
    halvings
}

impl PeriodicNode {
    fn assign(&self, period: u32, day: u32, periods: &mut [(u32, u32)]) {
        match self {
            Self::Bin(plants, nodes) => {
                plants.iter().for_each(|&index| periods[index] = (period, day));
                nodes.iter().for_each(|node| node.assign(period, day, periods));
            }
            Self::Alternating(one, other) => {
                one.assign(2 * period, day, periods);
                if let Some(other) = other {
                    other.assign(2 * period, day + period, periods);
                }
            }
        }
    }
}

impl Gardener for PowerOfTwo {
    fn day(&mut self) -> Vec<usize> {
        let today = self.today;
        self.today += 1;
        let of = |days: &Vec<Vec<usize>>| days[(today % days.len() as u64) as usize].clone();
        self.days.iter().flat_map(of).collect()
    }
}
