//! One pass over the grid: the cheapest way to every slot when each probe has a price.
//!
//! With E(j) the least cost of reaching slot j, P, A, B the running integrals of
//! [`Obsolescence`](crate::model::obsolescence::Obsolescence) and z the price of a probe,
//!
//! E(j) = min over i of E(i) + C̄(i, j) + z = A_j P_j − B_j + z + min over i of { E(i) + B_i − A_j P_i },
//!
//! the lower envelope at A_j of lines with slopes −P_i. Slopes fall with i and A_j grows with j, so a
//! deque of the envelope does a pass in O(N) (the paper's recursion 11 is O(N²)). A spacing δ
//! keeps line i out until t_i + δ ≤ t_j.
//!
//! A longest step, Λ(i, j) ≤ L or t_j − t_i ≤ w, takes lines out again, which an envelope does not survive. The costs
//! stay Monge, though: C̄(a,d) + C̄(b,c) − C̄(a,c) − C̄(b,d) = Λ(a,b)·A(c,d) ≥ 0 for a ≤ b ≤ c ≤ d, and
//! neither +∞ for steps too short nor +∞ for steps too long breaks that. So a later slot that once
//! is the better one to come from stays so, and the moment of its taking over is found by bisection:
//! O(N log N).
//!
//! Knows slots and their sums. Must not know how many probes are wanted.

use std::collections::VecDeque;
use std::ops::Range;

use crate::time::Span;

use super::horizon::{End, Grid, Horizon, Impossible};

/// The slots of one horizon: the beginning, the open times of the grid, the end.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// In milliseconds. The first is 0, the last the end.
    times: Vec<i64>,
    /// P, A, B at each.
    sums: Vec<[f64; 3]>,
    spacing: i64,
    end: End,
    /// L, the most updates expected between two probes.
    longest: f64,
    /// The same for the first step, part of which has passed.
    longest_first: f64,
    /// The longest time between two probes, in milliseconds, and from the beginning to the first.
    gap: i64,
    gap_first: i64,
}

/// The cheapest ways from some slots to all.
#[derive(Debug, Clone, Default)]
pub(super) struct Reached {
    /// The cost up to each slot, prices included; infinite where it cannot be reached.
    pub cost: Vec<f64>,
    /// The slot before.
    pub from: Vec<u32>,
    /// The envelope, kept for its memory.
    lines: Vec<Line>,
}

impl Track {
    /// The horizon's slots on this grid.
    pub fn new(horizon: &Horizon, grid: Grid) -> Result<Self, Impossible> {
        let mut slots = horizon.slots(grid)?;
        if horizon.end == End::Open {
            slots.push(horizon.length());
        }
        slots.insert(0, Span::ZERO);
        let gap = horizon.longest_gap.map_or(i64::MAX, Span::as_millis);
        let first = slots.iter().find(|&&at| at > Span::ZERO && horizon.may_be_sent(at) > 0);
        let gap_first = first.map_or(gap, |first| gap.max(first.as_millis()));
        let sums = horizon.cost.sums_at(slots.iter().copied());
        Ok(Self {
            sums: sums.map(|sums| [sums.updates, sums.importance, sums.mixed]).collect(),
            times: slots.into_iter().map(Span::as_millis).collect(),
            spacing: horizon.min_spacing.as_millis(),
            end: horizon.end,
            longest: f64::INFINITY,
            longest_first: f64::INFINITY,
            gap,
            gap_first,
        })
    }

    /// The same with at most this many updates expected between two probes. The first step may be
    /// longer if it must.
    pub fn with_longest(self, longest: f64, longest_first: f64) -> Self {
        Self { longest, longest_first: longest_first.max(longest), ..self }
    }

    /// The way to the end without a probe between, where nothing forbids it.
    pub fn in_one_step(&self) -> Option<Vec<u32>> {
        let end = self.len() - 1;
        let reaches = self.is_free(end) || self.times[end] - self.times[0] >= self.spacing;
        (reaches && !self.is_bound()).then(|| vec![end as u32])
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// A slot's time.
    pub fn time(&self, slot: usize) -> Span {
        Span::from_millis(self.times[slot])
    }

    /// How many slots there are up to a time.
    pub fn slots_until(&self, at: Span) -> usize {
        self.times.partition_point(|&slot| slot <= at.as_millis())
    }

    /// The times of a path's probes.
    pub fn times<'a>(&'a self, path: &'a [u32]) -> impl Iterator<Item = Span> + 'a {
        let probed = path.iter().map(|&slot| slot as usize).filter(|&slot| !self.is_free(slot));
        probed.map(|slot| self.time(slot))
    }

    /// Whether a slot is the unprobed end.
    pub fn is_free(&self, slot: usize) -> bool {
        self.end == End::Open && slot + 1 == self.len()
    }

    /// The cheapest way to each slot with any number of probes at this price each.
    pub fn at_price(&self, price: f64, reached: &mut Reached) {
        self.at_prices((0, price), price, reached);
    }

    /// The same where a probe before a slot has another price than those from it on.
    pub fn at_prices(&self, early: (usize, f64), late: f64, reached: &mut Reached) {
        Self::start(self.len(), reached);
        reached.cost[0] = 0.0;
        let price = |at| if at < early.0 { early.1 } else { late };
        self.walk(None, 1..self.len(), price, reached);
    }

    /// The cheapest ways to a stretch of slots by one step from those at which others have arrived:
    /// the first of them, and what it cost to get to each.
    pub fn one_more(&self, before: (usize, &[f64]), to: Range<usize>, reached: &mut Reached) {
        Self::start(to.len(), reached);
        self.walk(Some(before), to, |_| 0.0, reached);
    }

    fn start(slots: usize, reached: &mut Reached) {
        reached.cost.clear();
        reached.cost.resize(slots, f64::INFINITY);
        reached.from.clear();
        reached.from.resize(slots, 0);
    }

    fn walk(
        &self,
        before: Option<(usize, &[f64])>,
        to: Range<usize>,
        price: impl Fn(usize) -> f64,
        reached: &mut Reached,
    ) {
        match self.is_bound() {
            false => self.by_envelope(before, to, price, reached),
            true => self.by_bisection(before, to, price, reached),
        }
    }

    /// Whether steps may be too long.
    fn is_bound(&self) -> bool {
        self.longest.is_finite() || self.gap < i64::MAX
    }

    /// The slots that may be come from from slot `at` on, which earlier ones could not: from
    /// `entered` up to, and without, the returned one.
    fn enters(&self, entered: usize, at: usize) -> usize {
        if self.is_free(at) {
            return at;
        }
        let latest = self.times[at] - self.spacing;
        let mut entered = entered;
        while entered < at && self.times[entered] <= latest {
            entered += 1;
        }
        entered
    }

    fn by_envelope(
        &self,
        before: Option<(usize, &[f64])>,
        to: Range<usize>,
        price: impl Fn(usize) -> f64,
        reached: &mut Reached,
    ) {
        let Reached { cost: reached, from, lines } = reached;
        lines.clear();
        // Lines before this one are no longer the lowest, and never will be again.
        let mut lowest = 0;
        let (mut entered, last) = arrivals(before, self.len());
        // Without others to come from, ways lead on from where they have arrived themselves.
        let shift = if before.is_some() { to.start } else { 0 };
        for at in to {
            let until = self.enters(entered, at).min(last);
            for slot in entered..until {
                let cost = before.map_or_else(|| reached[slot], |(first, costs)| costs[slot - first]);
                if cost < f64::INFINITY {
                    let [updates, _, mixed] = self.sums[slot];
                    push(lines, lowest, Line { slot: slot as u32, updates, height: cost + mixed });
                }
            }
            entered = entered.max(until);
            let [updates, importance, mixed] = self.sums[at];
            let Some(mut best) = lines.get(lowest) else { continue };
            let mut least = best.at(importance);
            while let Some(next) = lines.get(lowest + 1) {
                let value = next.at(importance);
                if value > least {
                    break;
                }
                (best, least) = (next, value);
                lowest += 1;
            }
            reached[at - shift] = best.height + importance * (updates - best.updates) - mixed + price(at);
            from[at - shift] = best.slot;
            if lowest >= LEFT_BEHIND && lowest * 2 > lines.len() {
                lines.drain(..lowest);
                lowest = 0;
            }
        }
    }

    fn by_bisection(
        &self,
        before: Option<(usize, &[f64])>,
        to: Range<usize>,
        price: impl Fn(usize) -> f64,
        reached: &mut Reached,
    ) {
        // Slots to come from, and from when on each is the best. Not the beginning: its step may be
        // longer than others, so it may be the best again after having been overtaken.
        let mut best: VecDeque<(usize, usize)> = VecDeque::new();
        let (first, last) = arrivals(before, self.len());
        let mut entered = first.max(1);
        let shift = if before.is_some() { to.start } else { 0 };
        let end = to.end;
        for at in to {
            let cost = |slot: usize| {
                before.map_or_else(|| reached.cost[slot], |(first, costs)| costs[slot - first])
            };
            let until = self.enters(entered, at).min(last);
            for slot in entered..until {
                if cost(slot) == f64::INFINITY {
                    continue;
                }
                let via = |slot: usize, to: usize| cost(slot) + self.step(slot, to);
                while let Some(&(old, since)) = best.back() {
                    let since = since.max(at);
                    if via(slot, since) > via(old, since) {
                        break;
                    }
                    best.pop_back();
                }
                match best.back() {
                    None => best.push_back((slot, at)),
                    Some(&(old, since)) => {
                        let (mut no, mut yes) = (since.max(at), end);
                        while yes - no > 1 {
                            let middle = no + (yes - no) / 2;
                            match via(slot, middle) <= via(old, middle) {
                                true => yes = middle,
                                false => no = middle,
                            }
                        }
                        if yes < end {
                            best.push_back((slot, yes));
                        }
                    }
                }
            }
            entered = entered.max(until);
            while best.len() > 1 && best[1].1 <= at {
                best.pop_front();
            }
            let begins = first == 0 && (self.is_free(at) || self.times[at] - self.times[0] >= self.spacing);
            let ways = best.front().map(|&(slot, _)| slot).into_iter().chain(begins.then_some(0));
            let arrive = |slot: usize| (cost(slot) + self.step(slot, at) + price(at), slot);
            let least = ways.map(arrive).min_by(|one, other| one.0.total_cmp(&other.0));
            if let Some((arrived, slot)) = least {
                reached.cost[at - shift] = arrived;
                reached.from[at - shift] = slot as u32;
            }
        }
    }

    /// C̄ of one step; infinite where it is too long, or more updates are expected within it than may be.
    fn step(&self, from: usize, to: usize) -> f64 {
        let ([updates, _, mixed], [later, importance, later_mixed]) = (self.sums[from], self.sums[to]);
        let longest = if from == 0 { self.longest_first } else { self.longest };
        let gap = if from == 0 { self.gap_first } else { self.gap };
        if later - updates > longest || self.times[to] - self.times[from] > gap {
            return f64::INFINITY;
        }
        importance * (later - updates) - (later_mixed - mixed)
    }

    /// The way to the end, without the beginning, from what was reached.
    pub fn path(&self, reached: &Reached) -> Vec<u32> {
        let mut path = Vec::new();
        let mut slot = self.len() - 1;
        while slot > 0 {
            path.push(slot as u32);
            slot = reached.from[slot] as usize;
        }
        path.reverse();
        path
    }
}

/// So many lines that are done with are kept before they are cleared away; few enough for a cache.
const LEFT_BEHIND: usize = 256;

/// The first slot that can be come from, and the one after the last.
fn arrivals(before: Option<(usize, &[f64])>, slots: usize) -> (usize, usize) {
    before.map_or((0, slots), |(first, costs)| (first, first + costs.len()))
}

/// Coming from a slot: y − A·P.
#[derive(Debug, Clone, Copy)]
struct Line {
    slot: u32,
    /// P.
    updates: f64,
    /// y = E + B.
    height: f64,
}

impl Line {
    fn at(&self, importance: f64) -> f64 {
        self.height - importance * self.updates
    }
}

/// Adds the flattest line so far to a lower envelope, which begins at `lowest`, and drops those that
/// it hides.
fn push(lines: &mut Vec<Line>, lowest: usize, new: Line) {
    while let [.., last] = lines[lowest.min(lines.len())..] {
        if new.updates <= last.updates {
            // Parallel: the lower one stays.
            if new.height > last.height {
                return;
            }
        } else {
            let [.., before, _] = lines[lowest..] else { break };
            let hidden = (new.height - before.height) * (last.updates - before.updates)
                <= (last.height - before.height) * (new.updates - before.updates);
            if !hidden {
                break;
            }
        }
        lines.pop();
    }
    lines.push(new);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::model::obsolescence::Obsolescence;

    /// The recursion written out: every slot from every other.
    fn plainly(track: &Track, price: f64) -> Vec<f64> {
        let mut cost = vec![0.0; track.len()];
        for at in 1..track.len() {
            cost[at] = (0..at)
                .filter(|&from| track.is_free(at) || track.times[at] - track.times[from] >= track.spacing)
                .map(|from| cost[from] + track.step(from, at) + price)
                .fold(f64::INFINITY, f64::min);
        }
        cost
    }

    proptest! {
        #[test]
        fn both_ways_of_walking_find_the_least(
            cells in prop::collection::vec((1_i64..30, 0.0_f64..3.0, 0.0_f64..3.0), 1..8),
            spacing in 0_i64..9,
            price in 0.0_f64..2.0,
            longest in prop_oneof![Just(f64::INFINITY), 0.05_f64..3.0],
            longest_first in 0.0_f64..4.0,
            longest_gap in prop::option::of(1_i64..40),
            open in any::<bool>(),
        ) {
            let mut until = 0;
            let cells = cells.into_iter().map(|(length, rate, weight)| {
                until += length;
                (Span::from_mins(until), rate, weight)
            });
            let horizon = Horizon {
                cost: Obsolescence::of_cells(cells),
                probes: 1,
                min_spacing: Span::from_mins(spacing),
                closed: Vec::new(),
                allowance: Vec::new(),
                longest_gap: longest_gap.map(Span::from_mins),
                end: if open { End::Open } else { End::Probed },
            };
            if let Ok(track) = Track::new(&horizon, Grid::every(Span::from_mins(1))) {
                let track = track.with_longest(longest, longest_first);
                let mut reached = Reached::default();
                track.at_price(price, &mut reached);
                for (found, least) in reached.cost.iter().zip(plainly(&track, price)) {
                    let same = found == &least || (found - least).abs() <= 1e-9 * (1.0 + least);
                    prop_assert!(same, "{found} against {least}");
                }
            }
        }
    }
}
