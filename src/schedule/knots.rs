//! A good schedule when it matters how many probes have been sent by when, without counting them.
//!
//! Where the best schedule would send more before some time than may have been sent by then, that
//! time is a knot: before it just what is allowed is spent, after it the rest, each part as well as
//! it can be. The knot taken first is the one that needs the highest price before it (counts go like
//! price^−½), so that within and after it lower prices do, and the parts are divided further if they
//! must.
//!
//! Parts do not look beyond their knots, so this is not quite the best. How far it can be off is known,
//! though: with prices w(t) that fall from part to part, the least of cost plus prices over all
//! schedules, less what those that keep the knots would pay, is a lower bound for them all.
//!
//! Knows slots and what may be spent by when. Must not know what was spent before.

use crate::time::Span;

use super::horizon::{Horizon, Schedule};
use super::optimal::Search;
use super::pass::{Reached, Track};

/// Searches before it is given up: knots come one or two at a time.
const MOST_SEARCHES: u32 = 60;

/// A schedule of at most so many probes that never overspends, and its bound.
pub(super) fn split(horizon: &Horizon, track: &Track, probes: u32) -> Option<Schedule> {
    let mut parts = Parts { horizon, track, path: Vec::new(), prices: Vec::new(), searches: 0 };
    parts.fill(Stretch { origin: 0, first: 1, last: track.len() - 1, probes })?;
    let times: Vec<Span> = track.times(&parts.path).collect();
    horizon.verify(&times).ok()?;
    let expected_cost = horizon.cost.cost_of(&times);
    let price = parts.prices.last().map_or(0.0, |part| part.price);
    let lower_bound = parts.lower_bound(probes).min(expected_cost).max(0.0);
    Some(Schedule { times, expected_cost, lower_bound, price })
}

/// Slots `first` to `last`, after a probe at `origin`, for at most so many probes.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    origin: usize,
    first: usize,
    last: usize,
    probes: u32,
}

/// What a part ended up with.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// Its slots end before this one.
    until: usize,
    price: f64,
    /// Probes sent by its end.
    sent: usize,
}

struct Parts<'h> {
    horizon: &'h Horizon,
    track: &'h Track,
    /// The slots taken so far.
    path: Vec<u32>,
    prices: Vec<Part>,
    searches: u32,
}

impl Parts<'_> {
    /// Fills a stretch that follows what is there.
    fn fill(&mut self, stretch: Stretch) -> Option<()> {
        let Stretch { origin, first, last, probes } = stretch;
        if self.searches >= MOST_SEARCHES {
            return None;
        }
        self.searches += 1;
        let sub = self.track.part(origin, first, last);
        let best = Search::new(&self.horizon.cost, &sub).best(probes)?;
        // In the slots of the whole track; a free end is none.
        let slots: Vec<u32> = best
            .path
            .iter()
            .filter(|&&slot| !sub.is_free(slot as usize))
            .map(|&slot| slot + first as u32 - 1)
            .collect();
        let Some((knot, most)) = self.worst_knot(stretch, &slots) else {
            self.path.extend(slots);
            self.prices.push(Part { until: last, price: best.price, sent: self.path.len() });
            return Some(());
        };
        let left = most.saturating_sub(self.path.len() as u32);
        if left == 0 {
            // Nothing may be sent here. At the start that is beyond price; later the price goes on.
            let price = self.prices.last().map_or(f64::INFINITY, |part| part.price);
            self.prices.push(Part { until: knot, price, sent: self.path.len() });
        } else {
            self.fill(Stretch { last: knot, probes: left, ..stretch })?;
        }
        let sent = self.path.len();
        let spent = sent.saturating_sub(self.sent_before(first));
        let origin = self.path.last().map_or(origin, |&slot| slot as usize);
        let probes = probes.saturating_sub(spent as u32);
        self.fill(Stretch { origin, first: knot, last, probes })
    }

    /// How many of those taken lie before a slot.
    fn sent_before(&self, slot: usize) -> usize {
        self.path.partition_point(|&taken| (taken as usize) < slot)
    }

    /// The knot that most is wanted before, for its slot and how many probes may have been sent by
    /// then.
    fn worst_knot(&self, stretch: Stretch, slots: &[u32]) -> Option<(usize, u32)> {
        let mut worst = None;
        let mut highest = 0.0;
        for &(before, most) in &self.horizon.allowance {
            let knot = self.track.slot_from(before);
            if knot <= stretch.first || knot >= stretch.last {
                continue;
            }
            let wanted = slots.partition_point(|&slot| (slot as usize) < knot);
            let left = (most as usize).saturating_sub(self.path.len());
            // A stretch that ends in a knot has no more to spend than that allows.
            if wanted > left {
                let need = wanted as f64 / (left as f64).max(0.1);
                if need > highest {
                    (highest, worst) = (need, Some((knot, most)));
                }
            }
        }
        worst
    }

    /// The least of cost plus falling prices over all schedules, less what the knots let pay.
    fn lower_bound(&self, probes: u32) -> f64 {
        let end = self.track.len() - 1;
        let steps = f64::from(probes) + if self.track.is_free(end) { 1.0 } else { 0.0 };
        let mut falling: Vec<(usize, f64)> = Vec::with_capacity(self.prices.len());
        let mut price = self.prices.last().map_or(0.0, |part| part.price);
        let mut paid = price * steps;
        let mut later: Option<f64> = None;
        for part in self.prices.iter().rev() {
            if part.price == f64::INFINITY {
                price = f64::INFINITY;
            } else if let Some(later) = later {
                let drop = (part.price - later).max(0.0);
                price += drop;
                paid += drop * part.sent as f64;
            }
            later = Some(part.price);
            falling.push((part.until, price));
        }
        falling.reverse();
        let of = |slot: usize| {
            let part = falling.partition_point(|&(until, _)| until <= slot);
            falling.get(part).or(falling.last()).map_or(0.0, |&(_, price)| price)
        };
        let mut reached = Reached::default();
        let prices: Vec<f64> = (0..=end).map(of).collect();
        self.track.at_prices(|slot| prices[slot], &mut reached);
        reached.cost[end] - paid
    }
}
