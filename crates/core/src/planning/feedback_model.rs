//! The share of X-th updates that repeated probes find in time, under feedback.
//!
//! A probe reveals how many updates are missing until the next X-th one, and the prediction is then
//! recomputed. So the share found in time differs from the share in one prediction. If few are missing,
//! probes are frequent; if many are missing, they are deferred, and an early X-th update is found too late.
//! This module computes the share for a constant rate, as a Markov chain over the missing number k. Takes
//! counts. May not know times.
//!
//! Let y be the expected updates within a cell. A probe at k is deferred by g_k, in expected updates: to the
//! first cell worth its price (`cover`), or to the quantile of Γ(k) at `patience` if that is sooner. The
//! probe at g_k + y has missed M_k(g_k) of M_k(g_k + y). Until the next X-th update k only decreases. So the
//! number of probes at each k follows from larger k in one pass, and so does the initial distribution of the
//! next round; a few rounds converge. The tests compare it with a simulation.

use super::cover::{Choice, SLOTS};
use super::nth::Nth;

/// Upper bound on X. For larger X only the last ones are modelled; before them a round has only a few more
/// probes.
const MOST_EVERY: u32 = 64;

/// Rounds until the initial distribution has no effect.
const ROUNDS: usize = 6;

/// The chain for one X and patience, for any price and any number of updates per cell.
#[derive(Debug)]
pub(super) struct FeedbackModel {
    /// By missing number: the latest time of a probe.
    latest: Vec<(Nth, f64)>,
}

impl FeedbackModel {
    /// For every `every`-th update. A probe is due when the next one has arrived with probability
    /// `patience`.
    pub fn new(every: u32, patience: f64) -> Self {
        let every = every.clamp(1, MOST_EVERY);
        let missing = (1..=every).map(|missing| Nth::new(every, every - missing));
        Self { latest: missing.map(|nth| (nth, nth.comes_by(patience))).collect() }
    }

    /// The chain at a rate with this many expected updates per cell.
    pub fn level(&self, updates_in_cell: f64) -> Level<'_> {
        let (every, y) = (self.latest.len() as f64, updates_in_cell);
        // If cells are short relative to the peaks of Γ(k), their position does not matter.
        let rows = match y < 0.08 * every.sqrt() || y > 8.0 * every {
            true => Vec::new(),
            false => self.latest.iter().map(|&(nth, latest)| row(nth, y, latest)).collect(),
        };
        Level { latest: &self.latest, y, rows }
    }
}

/// The expected X-th updates of each cell, until well after the next X-th update.
fn row(nth: Nth, y: f64, latest: f64) -> Vec<f64> {
    let slot = y / SLOTS as f64;
    let end = latest + 2.0 * f64::from(nth.every()).sqrt() + 4.0 * y;
    let count = (end / slot).ceil() as usize;
    let by: Vec<f64> = (0..=count).map(|place| nth.expected(place as f64 * slot)).collect();
    by.windows(SLOTS + 1).map(|cell| cell[SLOTS] - cell[0]).collect()
}

/// The chain at one rate.
#[derive(Debug)]
pub(super) struct Level<'p> {
    latest: &'p [(Nth, f64)],
    /// y.
    y: f64,
    /// Expected X-th updates of cells, by missing number; empty if not required.
    rows: Vec<Vec<f64>>,
}

impl Level<'_> {
    /// The share of X-th updates that is found within a cell of its time, if a cell costs `price`.
    pub fn share_seen(&self, price: f64) -> f64 {
        // No probe is worth the price, even if the next update is an X-th one.
        if self.latest[0].0.expected(self.y) < price {
            return 0.0;
        }
        // Every cell contains several X-th updates.
        if self.latest.len() == 1 || self.y > 8.0 * self.latest.len() as f64 {
            return 1.0;
        }
        let put_off = self.put_off(price);
        let states =
            self.latest.iter().zip(put_off).map(|(&(nth, _), off)| FeedbackState::new(nth, off, self.y));
        share_of(&states.collect::<Vec<_>>())
    }

    /// g_k of every k.
    fn put_off(&self, price: f64) -> Vec<f64> {
        let slot = self.y / SLOTS as f64;
        let first = |(row, &(_, latest)): (&Vec<f64>, &(Nth, f64))| {
            let first =
                Choice::new(row, price).from(0).first().map_or(f64::INFINITY, |&first| first as f64);
            slot * first.min((latest / slot).ceil())
        };
        match self.rows.is_empty() {
            true => self.latest.iter().map(|&(nth, latest)| rises_to(nth, self.y, price, latest)).collect(),
            false => self.rows.iter().zip(self.latest).map(first).collect(),
        }
    }
}

/// The first time at which short cells are worth the price, at most `most`.
fn rises_to(nth: Nth, y: f64, price: f64, most: f64) -> f64 {
    let is_worth = |at: f64| {
        let from = (at - y / 2.0).max(0.0);
        nth.expected(from + y) - nth.expected(from) >= price * (1.0 - 1e-9)
    };
    if is_worth(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, most);
    for _ in 0..12 {
        let middle = (low + high) / 2.0;
        if is_worth(middle) { high = middle } else { low = middle }
    }
    high
}

/// A probe at one missing number.
#[derive(Debug)]
struct FeedbackState {
    /// Expected X-th updates that are too early for it.
    missed: f64,
    /// Expected X-th updates until it.
    expected: f64,
    /// The probabilities of 0, 1, 2, … updates until it.
    counts: Vec<f64>,
}

impl FeedbackState {
    fn new(nth: Nth, off: f64, y: f64) -> Self {
        let mean = off + y;
        let mut counts = vec![(-mean).exp()];
        let mut sum = counts[0];
        while sum < 1.0 - 1e-7 && counts.len() < 2000 {
            let next = counts[counts.len() - 1] * mean / counts.len() as f64;
            counts.push(next);
            sum += next;
        }
        Self { missed: nth.expected(off), expected: nth.expected(mean), counts }
    }
}

/// The share found in the stationary state.
fn share_of(states: &[FeedbackState]) -> f64 {
    let size = states.len();
    let mut begins = vec![0.0; size];
    begins[size - 1] = 1.0;
    let (mut missed, mut all) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        let mut visits = std::mem::replace(&mut begins, vec![0.0; size]);
        (missed, all) = (0.0, 0.0);
        for index in (0..size).rev() {
            let FeedbackState { missed: misses, expected, counts } = &states[index];
            let probes = visits[index] / (1.0 - counts[0]);
            missed += probes * misses;
            all += probes * expected;
            for (count, chance) in counts.iter().enumerate().skip(1) {
                match index.checked_sub(count) {
                    Some(left) => visits[left] += probes * chance,
                    None => begins[(index + size * count - count) % size] += probes * chance,
                }
            }
        }
    }
    1.0 - missed / all.max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rng::Stream;

    /// The same by simulation of a Poisson source.
    fn simulated(level: &Level<'_>, price: f64) -> f64 {
        let (every, y, put_off) = (level.latest.len(), level.y, level.put_off(price));
        let chance = &mut Stream::new(1, "pursuit");
        let mut updates = vec![0.0];
        while updates.len() < 200_000 {
            updates.push(updates[updates.len() - 1] - (1.0 - chance.unit()).ln());
        }
        let (mut at, mut seen, mut found, mut all) = (0.0, 0, 0.0, 0.0);
        while seen + 2000 < updates.len() {
            let from = at + put_off[every - seen % every - 1];
            at = from + y;
            while updates[seen] <= at {
                if (seen + 1) % every == 0 {
                    all += 1.0;
                    found += if updates[seen] >= from { 1.0 } else { 0.0 };
                }
                seen += 1;
            }
        }
        found / all
    }

    #[test]
    fn the_share_matches_a_simulation() {
        for (every, y, price, patience) in [
            (5, 0.1, 0.01, 0.1),
            (5, 0.1, 0.04, 0.1),
            (5, 1.0, 0.15, 0.1),
            (10, 0.05, 0.005, 0.2),
            (10, 4.0, 0.5, 0.1),
            (2, 3.0, 0.9, 0.5),
            (40, 0.7, 0.02, 0.1),
        ] {
            let model = FeedbackModel::new(every, patience);
            let level = model.level(y);
            let (share, truth) = (level.share_seen(price), simulated(&level, price));
            let near = 3.0 * (f64::from(every) / 200_000.0).sqrt();
            assert!((share - truth).abs() < near, "{every} {y} {price}: {share:.4} {truth:.4}");
        }
    }

    #[test]
    fn the_share_decreases_with_the_price() {
        for (every, y) in [(3, 0.02), (5, 0.3), (10, 2.0), (1000, 0.1)] {
            let model = FeedbackModel::new(every, 0.1);
            let (level, mut before) = (model.level(y), 1.0);
            for step in 0..40 {
                let share = level.share_seen(y * f64::from(step) / 39.0);
                // Cells begin at slots, so the share is not exactly monotone.
                assert!(share <= before + 0.01, "{every} {y} {step}: {share} {before}");
                before = share;
            }
        }
    }
}
