//! The best schedule when it matters how many probes have been sent by when.
//!
//! A price cannot say "three before noon, and ten by the evening"; so the cheapest ways of one,
//! two, … n probes are found layer by layer, each by one O(N) [`pass`](super::pass) over the last,
//! and a slot is left out of the layers that come too soon for it. Exact, in O(nN) time and memory.
//!
//! Knows slots and what may be spent by when. Must not know what was spent before.

use super::horizon::{End, Horizon, Schedule};
use super::pass::{Reached, Track};

/// More cells than this (128 MB) are not worth it; no budget that plans by the minute comes near.
const MOST_CELLS: usize = 32_000_000;

/// The best schedule of at most so many probes that never overspends; `without` is the best that
/// does, and its lower bound holds for all.
pub(super) fn count(horizon: &Horizon, track: &Track, probes: u32, without: Schedule) -> Schedule {
    let end = track.len() - 1;
    let most = (probes as usize).min(end);
    if most.saturating_mul(track.len()) > MOST_CELLS {
        return pushed(horizon, without);
    }
    let allowed: Vec<u32> =
        (0..track.len()).map(|slot| horizon.may_be_sent(track.time(slot)).min(probes)).collect();
    let mut before = vec![f64::INFINITY; track.len()];
    before[0] = 0.0;
    let mut steps: Vec<Vec<u32>> = Vec::with_capacity(most);
    let mut reached = Reached::default();
    let mut best = (f64::INFINITY, 0);
    for layer in 0..=most {
        track.one_more(&before, &mut reached);
        for (slot, &may) in allowed.iter().enumerate() {
            if layer as u32 >= may && !track.is_free(slot) {
                reached.cost[slot] = f64::INFINITY;
            }
        }
        if reached.cost[end] < best.0 {
            best = (reached.cost[end], layer);
        }
        steps.push(std::mem::take(&mut reached.from));
        std::mem::swap(&mut before, &mut reached.cost);
        // The end is no place to go on from.
        before[end] = f64::INFINITY;
    }
    if best.0 == f64::INFINITY {
        return pushed(horizon, without);
    }
    let mut times = Vec::with_capacity(best.1 + 1);
    let mut slot = end;
    for layer in (0..=best.1).rev() {
        if !track.is_free(slot) {
            times.push(track.time(slot));
        }
        slot = steps[layer][slot] as usize;
    }
    times.reverse();
    let expected_cost = horizon.cost.cost_of(&times);
    Schedule { times, expected_cost, lower_bound: expected_cost, price: without.price }
}

/// Every probe no sooner than it may be sent: often good enough.
pub(super) fn pushed(horizon: &Horizon, without: Schedule) -> Schedule {
    let mut times = Vec::with_capacity(without.times.len());
    let mut last = None;
    for at in without.times {
        let after = last.map_or(at, |last| at.max(last + horizon.min_spacing));
        let at = horizon.open_from(after.max(horizon.earliest(times.len())));
        let fits = match horizon.end {
            End::Probed => at + horizon.min_spacing <= horizon.length(),
            End::Open => at < horizon.length(),
        };
        if fits {
            times.push(at);
            last = Some(at);
        }
    }
    if horizon.end == End::Probed {
        times.truncate(horizon.probes.saturating_sub(1) as usize);
        times.push(horizon.length());
    }
    let expected_cost = horizon.cost.cost_of(&times);
    Schedule { times, expected_cost, ..without }
}
