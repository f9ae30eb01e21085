//! What comes of looking, counting, and waiting for the next worthwhile moment again.
//!
//! A look tells how many updates are still missing until the next X-th one, and what is foretold begins anew
//! from there. So what share of the X-th updates is seen in time is not what one forecast holds: while few
//! are missing, looks follow each other closely; far from it they are put off, and what comes sooner than it
//! was worth a look is missed. Here that share is computed for an even rate, as a chain over the number k that
//! is missing. With y updates expected within a cell, a look at k is put off by some g_k, in expected updates: to
//! the first cell that is worth its price (`cover`), or to the quantile of Γ(k) at `patience` if that is sooner,
//! since a look tells what is missing, whether or not it finds the X-th. The look at g_k + y has missed M_k(g_k)
//! of M_k(g_k + y). Until the next X-th update k only falls, so how often each k is looked at follows from the k
//! above it, in one pass, and where the next round begins from that; a few rounds settle it. Tests hold it
//! against a simulation.
//!
//! Knows counts. Must not know times.

use super::cover::{Choice, SLOTS};
use super::nth::Nth;

/// With more, the last so many are looked at: before that, a look or two are added to a round.
const MOST_EVERY: u32 = 64;

/// Rounds until it does not matter where the first began.
const ROUNDS: usize = 6;

/// Looking again and again, whatever a look costs and however many updates a cell has.
#[derive(Debug)]
pub(super) struct Pursuit {
    /// By the number that is missing: when a look is due at the latest.
    latest: Vec<(Nth, f64)>,
}

impl Pursuit {
    /// For every so many-th update; a look is due when the next has come with this chance.
    pub fn new(every: u32, patience: f64) -> Self {
        let every = every.clamp(1, MOST_EVERY);
        let missing = (1..=every).map(|missing| Nth::new(every, every - missing));
        Self { latest: missing.map(|nth| (nth, nth.comes_by(patience))).collect() }
    }

    /// At a rate at which cells expect so many updates.
    pub fn level(&self, updates_in_cell: f64) -> Level<'_> {
        let (every, y) = (self.latest.len() as f64, updates_in_cell);
        // Where cells are short beside the peaks of Γ(k), it does not matter how they lie in them.
        let rows = match y < 0.08 * every.sqrt() || y > 8.0 * every {
            true => Vec::new(),
            false => self.latest.iter().map(|&(nth, latest)| row(nth, y, latest)).collect(),
        };
        Level { latest: &self.latest, y, rows }
    }
}

/// What cells hold from now on until well after the next X-th update.
fn row(nth: Nth, y: f64, latest: f64) -> Vec<f64> {
    let slot = y / SLOTS as f64;
    let end = latest + 2.0 * f64::from(nth.every()).sqrt() + 4.0 * y;
    let count = (end / slot).ceil() as usize;
    let by: Vec<f64> = (0..=count).map(|place| nth.expected(place as f64 * slot)).collect();
    by.windows(SLOTS + 1).map(|cell| cell[SLOTS] - cell[0]).collect()
}

/// The same at one rate.
#[derive(Debug)]
pub(super) struct Level<'p> {
    latest: &'p [(Nth, f64)],
    /// y.
    y: f64,
    /// What cells hold, by the number that is missing; none where that is not needed.
    rows: Vec<Vec<f64>>,
}

impl Level<'_> {
    /// The share of X-th updates that is seen within a cell of its coming, when a cell is looked at for `price`.
    pub fn share_seen(&self, price: f64) -> f64 {
        // A look never pays, even were it known that the next update is an X-th one.
        if self.latest[0].0.expected(self.y) < price {
            return 0.0;
        }
        // Every cell has several of them.
        if self.latest.len() == 1 || self.y > 8.0 * self.latest.len() as f64 {
            return 1.0;
        }
        let put_off = self.put_off(price);
        let states = self.latest.iter().zip(put_off).map(|(&(nth, _), off)| State::new(nth, off, self.y));
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

/// When the density first is worth the price of short cells, at most this.
fn rises_to(nth: Nth, y: f64, price: f64, most: f64) -> f64 {
    let pays = |at: f64| {
        let from = (at - y / 2.0).max(0.0);
        nth.expected(from + y) - nth.expected(from) >= price * (1.0 - 1e-9)
    };
    if pays(0.0) {
        return 0.0;
    }
    let (mut low, mut high) = (0.0, most);
    for _ in 0..12 {
        let middle = (low + high) / 2.0;
        if pays(middle) { high = middle } else { low = middle }
    }
    high
}

/// A look with so many missing before it.
#[derive(Debug)]
struct State {
    /// X-th updates that come too early for it.
    missed: f64,
    /// All of them until it.
    expected: f64,
    /// The chances of 0, 1, 2, … updates until it.
    counts: Vec<f64>,
}

impl State {
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

/// The share that is seen in the long run.
fn share_of(states: &[State]) -> f64 {
    let size = states.len();
    let mut begins = vec![0.0; size];
    begins[size - 1] = 1.0;
    let (mut missed, mut all) = (0.0, 0.0);
    for _ in 0..ROUNDS {
        let mut visits = std::mem::replace(&mut begins, vec![0.0; size]);
        (missed, all) = (0.0, 0.0);
        for index in (0..size).rev() {
            let State { missed: misses, expected, counts } = &states[index];
            let looks = visits[index] / (1.0 - counts[0]);
            missed += looks * misses;
            all += looks * expected;
            for (count, chance) in counts.iter().enumerate().skip(1) {
                match index.checked_sub(count) {
                    Some(left) => visits[left] += looks * chance,
                    None => begins[(index + size * count - count) % size] += looks * chance,
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

    /// The same by looking at a made-up source.
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
    fn it_is_what_comes_of_it() {
        for (every, y, price, patience) in [
            (5, 0.1, 0.01, 0.1),
            (5, 0.1, 0.04, 0.1),
            (5, 1.0, 0.15, 0.1),
            (10, 0.05, 0.005, 0.2),
            (10, 4.0, 0.5, 0.1),
            (2, 3.0, 0.9, 0.5),
            (40, 0.7, 0.02, 0.1),
        ] {
            let pursuit = Pursuit::new(every, patience);
            let level = pursuit.level(y);
            let (share, truth) = (level.share_seen(price), simulated(&level, price));
            let near = 3.0 * (f64::from(every) / 200_000.0).sqrt();
            assert!((share - truth).abs() < near, "{every} {y} {price}: {share:.4} {truth:.4}");
        }
    }

    #[test]
    fn dearer_looks_see_less() {
        for (every, y) in [(3, 0.02), (5, 0.3), (10, 2.0), (1000, 0.1)] {
            let pursuit = Pursuit::new(every, 0.1);
            let (level, mut before) = (pursuit.level(y), 1.0);
            for step in 0..40 {
                let share = level.share_seen(y * f64::from(step) / 39.0);
                // Cells lie on slots, so that it is not even.
                assert!(share <= before + 0.01, "{every} {y} {step}: {share} {before}");
                before = share;
            }
        }
    }
}
