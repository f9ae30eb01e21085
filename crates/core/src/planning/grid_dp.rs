//! One pass over the grid: the cheapest path to every slot at a price per probe.
//!
//! Takes slots and their sums. May not know the number of probes. With E(j) the least cost of reaching slot
//! j, P, A, B the running integrals of [`Obsolescence`](crate::model::obsolescence::Obsolescence) and z the
//! price,
//!
//! E(j) = min over i of E(i) + C̄(i, j) + z = A_j P_j − B_j + z + min over i of { E(i) + B_i − A_j P_i },
//!
//! the lower envelope at A_j of lines with slopes −P_i. Slopes decrease with i and A_j increases with j, so
//! a deque of the envelope takes O(N) per pass (recursion 11 of the paper is O(N²)). A spacing δ excludes
//! line i until t_i + δ ≤ t_j.
//!
//! A longest step, Λ(i, j) ≤ L or t_j − t_i ≤ w, removes lines again, which an envelope does not support.
//! The costs remain Monge: C̄(a,d) + C̄(b,c) − C̄(a,c) − C̄(b,d) = Λ(a,b)·A(c,d) ≥ 0 for a ≤ b ≤ c ≤ d, and
//! +∞ for steps too short or too long preserves that. So once a later slot is the better predecessor it
//! remains so, and bisection finds the slot of the change: O(N log N).

use std::collections::VecDeque;
use std::ops::Range;

use crate::time::Span;

use super::horizon::{Grid, Horizon, HorizonEnd, Impossible};

/// The slots of one horizon: the start, the open times of the grid, the end.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// Times in milliseconds. The first is 0, the last the end.
    times: Vec<i64>,
    /// P, A, B at each.
    sums: Vec<[f64; 3]>,
    spacing: i64,
    end: HorizonEnd,
    /// L: the maximum of expected updates between two probes.
    longest: f64,
    /// The same for the first step, part of which has passed.
    longest_first: f64,
    /// The maximum time between two probes in milliseconds, and from the start to the first.
    gap: i64,
    gap_first: i64,
}

/// The cheapest paths to each slot.
#[derive(Debug, Clone, Default)]
pub(super) struct Reached {
    /// The cost up to each slot, prices included; infinite if unreachable.
    pub cost: Vec<f64>,
    /// The previous slot.
    pub from: Vec<u32>,
    /// The envelope, kept to reuse its allocation.
    lines: Vec<GridLine>,
}

impl Track {
    /// The slots of the horizon on this grid.
    pub fn new(horizon: &Horizon, grid: Grid) -> Result<Self, Impossible> {
        let mut slots = horizon.slots(grid)?;
        if horizon.end == HorizonEnd::Open {
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

    /// The same with at most this many updates expected between two probes. The first step may have a larger
    /// limit.
    pub fn with_longest(self, longest: f64, longest_first: f64) -> Self {
        Self { longest, longest_first: longest_first.max(longest), ..self }
    }

    /// The path to the end without a probe in between, if allowed.
    pub fn in_one_step(&self) -> Option<Vec<u32>> {
        let end = self.len() - 1;
        let reaches = self.is_free(end) || self.times[end] - self.times[0] >= self.spacing;
        (reaches && !self.is_bound()).then(|| vec![end as u32])
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.times.len()
    }

    /// The time of a slot.
    pub fn time(&self, slot: usize) -> Span {
        Span::from_millis(self.times[slot])
    }

    /// The number of slots up to a time.
    pub fn slots_until(&self, at: Span) -> usize {
        self.times.partition_point(|&slot| slot <= at.as_millis())
    }

    /// The times of the probes of a path.
    pub fn times<'a>(&'a self, path: &'a [u32]) -> impl Iterator<Item = Span> + 'a {
        let probed = path.iter().map(|&slot| slot as usize).filter(|&slot| !self.is_free(slot));
        probed.map(|slot| self.time(slot))
    }

    /// Whether a slot is the end without a probe.
    pub fn is_free(&self, slot: usize) -> bool {
        self.end == HorizonEnd::Open && slot + 1 == self.len()
    }

    /// The cheapest path to each slot with any number of probes at this price.
    pub fn at_price(&self, price: f64, reached: &mut Reached) {
        self.at_prices((0, price), price, reached);
    }

    /// The same with a different price for probes before a given slot.
    pub fn at_prices(&self, early: (usize, f64), late: f64, reached: &mut Reached) {
        Self::start(self.len(), reached);
        reached.cost[0] = 0.0;
        let price = |at| if at < early.0 { early.1 } else { late };
        self.walk(None, 1..self.len(), price, reached);
    }

    /// The cheapest paths to a range of slots by one step from the slots of `before`: its first slot and the
    /// cost of each.
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

    /// Whether the length of steps is limited.
    fn is_bound(&self) -> bool {
        self.longest.is_finite() || self.gap < i64::MAX
    }

    /// The end of the range of slots, from `entered` on, that are predecessors of slot `at` but not of
    /// earlier ones.
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
        // Lines before this one are never the lowest again.
        let mut lowest = 0;
        let (mut entered, last) = arrivals(before, self.len());
        // Without `before`, paths continue from the slots of the same pass.
        let shift = if before.is_some() { to.start } else { 0 };
        for at in to {
            let until = self.enters(entered, at).min(last);
            for slot in entered..until {
                let cost = before.map_or_else(|| reached[slot], |(first, costs)| costs[slot - first]);
                if cost < f64::INFINITY {
                    let [updates, _, mixed] = self.sums[slot];
                    push(lines, lowest, GridLine { slot: slot as u32, updates, height: cost + mixed });
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
        // Predecessors, and the slot from which each is the best. Excludes the start: its step may be longer
        // than others, so it may become the best again.
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

    /// C̄ of one step; infinite if it exceeds the maximum time or the maximum of expected updates.
    fn step(&self, from: usize, to: usize) -> f64 {
        let ([updates, _, mixed], [later, importance, later_mixed]) = (self.sums[from], self.sums[to]);
        let longest = if from == 0 { self.longest_first } else { self.longest };
        let gap = if from == 0 { self.gap_first } else { self.gap };
        if later - updates > longest || self.times[to] - self.times[from] > gap {
            return f64::INFINITY;
        }
        importance * (later - updates) - (later_mixed - mixed)
    }

    /// The path to the end, without the start.
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

/// Number of obsolete lines before they are removed; small enough for a cache.
const LEFT_BEHIND: usize = 256;

/// The first possible predecessor, and the one after the last.
fn arrivals(before: Option<(usize, &[f64])>, slots: usize) -> (usize, usize) {
    before.map_or((0, slots), |(first, costs)| (first, first + costs.len()))
}

/// The line of a predecessor: y − A·P.
#[derive(Debug, Clone, Copy)]
struct GridLine {
    slot: u32,
    /// P.
    updates: f64,
    /// y = E + B.
    height: f64,
}

impl GridLine {
    fn at(&self, importance: f64) -> f64 {
        self.height - importance * self.updates
    }
}

/// Adds the line with the smallest slope so far to a lower envelope that begins at `lowest`, and removes the
/// lines above it.
fn push(lines: &mut Vec<GridLine>, lowest: usize, new: GridLine) {
    while let [.., last] = lines[lowest.min(lines.len())..] {
        if new.updates <= last.updates {
            // Parallel: the lower one remains.
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

    /// The plain recursion over all pairs of slots.
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
        fn envelope_and_bisection_match_the_plain_recursion(
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
                end: if open { HorizonEnd::Open } else { HorizonEnd::Probed },
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
