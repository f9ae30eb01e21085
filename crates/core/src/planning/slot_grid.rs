//! A grid of time slots, four per cell, and the expected updates by the start of each.
//!
//! Takes a rate. May not know which cells are chosen.

use crate::model::week::HOUR_MS;
use crate::time::{Span, Timestamp};

use super::cover::SLOTS;
use super::nth::Nth;

/// Maximum number of slots. A grid of shorter slots ends earlier than asked.
pub(super) const MOST_SLOTS: usize = 8192;

/// The length of slots.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    /// A fixed time.
    Lasting(Span),
    /// A number of expected updates, and a maximum time.
    Expecting(f64, Span),
}

/// The grid.
#[derive(Debug)]
pub(super) struct SlotGrid {
    /// The starts of the slots and the end of the last.
    bounds: Vec<Timestamp>,
    /// Expected updates by each of these.
    updates: Vec<f64>,
    /// The share of each slot that counts.
    open: Vec<f64>,
}

/// The integral of a rate along its pieces.
struct Walk<'p> {
    pieces: std::iter::Peekable<std::slice::Iter<'p, (i64, f64)>>,
    factor: f64,
    passed: i64,
    updates: f64,
}

impl Walk<'_> {
    /// Advances by `most` milliseconds, or until `more` updates are expected, whichever is sooner.
    fn on(&mut self, most: i64, more: f64) {
        let (mut left, mut missing) = (most, more);
        while left > 0 {
            let Some(&&(ends, per_hour)) = self.pieces.peek() else {
                self.passed += left;
                return;
            };
            let per_milli = per_hour * self.factor / HOUR_MS as f64;
            let step = left.min(ends - self.passed);
            if per_milli * step as f64 >= missing {
                // Rounded up to a millisecond, so that it advances.
                let step = ((missing / per_milli).ceil() as i64).clamp(1, step.max(1));
                self.updates += per_milli * step as f64;
                self.passed += step;
                return;
            }
            self.updates += per_milli * step as f64;
            self.passed += step;
            (left, missing) = (left - step, missing - per_milli * step as f64);
            self.pieces.next_if(|_| ends <= self.passed);
        }
    }
}

impl SlotGrid {
    /// Slots from `begin` to `until` along the pieces of a rate after `known_until`, plus slots beyond that
    /// complete the last cells and do not count. Time outside the `active` spans, ascending and disjoint,
    /// does not count either.
    pub fn new(
        (known_until, pieces, factor): (Timestamp, &[(i64, f64)], f64),
        (begin, until): (Timestamp, Timestamp),
        slot: Slot,
        active: &[(Timestamp, Timestamp)],
    ) -> Self {
        let mut walk = Walk { pieces: pieces.iter().peekable(), factor, passed: 0, updates: 0.0 };
        walk.on((begin - known_until).as_millis(), f64::INFINITY);
        let mut row = Self { bounds: vec![begin], updates: vec![walk.updates], open: Vec::new() };
        let (most, more) = match slot {
            Slot::Lasting(span) => (span.as_millis().max(1), f64::INFINITY),
            Slot::Expecting(updates, most) => (most.as_millis().max(1), updates),
        };
        let mut beyond = 0;
        while row.open.len() < MOST_SLOTS && beyond + 1 < SLOTS {
            let from = row.bounds[row.bounds.len() - 1];
            walk.on(most, more);
            let to = known_until + Span::from_millis(walk.passed);
            row.bounds.push(to);
            row.updates.push(walk.updates);
            row.open.push(share(from, to.min(until), active) * part(from, to, until));
            beyond += usize::from(from >= until);
        }
        row
    }

    /// The expected X-th updates of each slot.
    pub fn held(&self, nth: Nth) -> Vec<f64> {
        let by: Vec<f64> = self.updates.iter().map(|&updates| nth.expected(updates)).collect();
        by.windows(2).zip(&self.open).map(|(pair, open)| (pair[1] - pair[0]).max(0.0) * open).collect()
    }

    /// The expected updates by the start of a slot, and those within the cell that begins there.
    pub fn expected(&self, slot: usize) -> (f64, f64) {
        let last = (slot + SLOTS).min(self.updates.len() - 1);
        (self.updates[slot], self.updates[last] - self.updates[slot])
    }

    /// The expected updates of a slot that count.
    pub fn counting(&self, slot: usize) -> f64 {
        (self.updates[slot + 1] - self.updates[slot]) * self.open[slot]
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Where the next grid begins if this one ended early: with the first cell that is not whole here.
    pub fn next_begin(&self) -> Timestamp {
        self.bounds[self.bounds.len().saturating_sub(SLOTS)]
    }

    /// The time at a position in slots.
    pub fn at(&self, slot: f64) -> Timestamp {
        let before = (slot.max(0.0) as usize).min(self.len() - 1);
        let (from, to) = (self.bounds[before], self.bounds[before + 1]);
        from + (to - from).scaled((slot - before as f64).min(1.0))
    }
}

/// The share of [from, to) before `until`.
fn part(from: Timestamp, to: Timestamp, until: Timestamp) -> f64 {
    (to.min(until) - from).as_secs_f64().max(0.0) / (to - from).as_secs_f64().max(0.001)
}

/// The share of [from, to) within these spans.
fn share(from: Timestamp, to: Timestamp, spans: &[(Timestamp, Timestamp)]) -> f64 {
    if to <= from {
        return 0.0;
    }
    let first = spans.partition_point(|&(_, end)| end <= from);
    let begun = spans[first..].iter().take_while(|&&(begin, _)| begin < to);
    let within: f64 = begun.map(|&(begin, end)| (end.min(to) - begin.max(from)).as_secs_f64()).sum();
    within / (to - from).as_secs_f64()
}
