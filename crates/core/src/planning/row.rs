//! A row of slots of time, four to a cell, and how many updates are expected by the beginning of each.
//!
//! Knows a rate, and where slots begin. Must not know what is chosen of them.

use crate::model::week::HOUR_MS;
use crate::time::{Span, Timestamp};

use super::cover::SLOTS;
use super::nth::Nth;

/// Longer rows are not looked at.
pub(super) const MOST_SLOTS: usize = 8192;

/// How long slots are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    /// In time.
    Lasting(Span),
    /// In expected updates, and in time at most.
    Expecting(f64, Span),
}

/// The row.
#[derive(Debug)]
pub(super) struct Row {
    /// Where slots begin and the last ends.
    bounds: Vec<Timestamp>,
    /// Updates expected by then.
    updates: Vec<f64>,
    /// How much of each slot counts.
    open: Vec<f64>,
}

/// An expected number of updates along the pieces of a rate.
struct Walk<'p> {
    pieces: std::iter::Peekable<std::slice::Iter<'p, (i64, f64)>>,
    factor: f64,
    passed: i64,
    updates: f64,
}

impl Walk<'_> {
    /// Goes on for this long, or until so many more are expected, whichever is sooner.
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
                // To the millisecond after, so that it goes on.
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

impl Row {
    /// Slots from `begin` to `until` along the pieces of a rate after `looked`, and a cell beyond that does not
    /// count; nor does what is outside the `active` spans, ascending and apart.
    pub fn new(
        (looked, pieces, factor): (Timestamp, &[(i64, f64)], f64),
        (begin, until): (Timestamp, Timestamp),
        slot: Slot,
        active: &[(Timestamp, Timestamp)],
    ) -> Self {
        let mut walk = Walk { pieces: pieces.iter().peekable(), factor, passed: 0, updates: 0.0 };
        walk.on((begin - looked).as_millis(), f64::INFINITY);
        let mut row = Self { bounds: vec![begin], updates: vec![walk.updates], open: Vec::new() };
        let (most, more) = match slot {
            Slot::Lasting(span) => (span.as_millis().max(1), f64::INFINITY),
            Slot::Expecting(updates, most) => (most.as_millis().max(1), updates),
        };
        let mut beyond = 0;
        while row.open.len() < MOST_SLOTS && beyond + 1 < SLOTS {
            let from = row.bounds[row.bounds.len() - 1];
            walk.on(most, more);
            let to = looked + Span::from_millis(walk.passed);
            row.bounds.push(to);
            row.updates.push(walk.updates);
            row.open.push(share(from, to.min(until), active) * part(from, to, until));
            beyond += usize::from(from >= until);
        }
        row
    }

    /// What each slot holds of X-th updates.
    pub fn held(&self, nth: Nth) -> Vec<f64> {
        let by: Vec<f64> = self.updates.iter().map(|&updates| nth.expected(updates)).collect();
        by.windows(2).zip(&self.open).map(|(pair, open)| (pair[1] - pair[0]).max(0.0) * open).collect()
    }

    /// The updates that are expected by the beginning of a slot, and how many within the cell that begins there.
    pub fn expected(&self, slot: usize) -> (f64, f64) {
        let last = (slot + SLOTS).min(self.updates.len() - 1);
        (self.updates[slot], self.updates[last] - self.updates[slot])
    }

    /// The updates in a slot that count.
    pub fn counting(&self, slot: usize) -> f64 {
        (self.updates[slot + 1] - self.updates[slot]) * self.open[slot]
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// When it is so far along the row, in slots.
    pub fn at(&self, slot: f64) -> Timestamp {
        let before = (slot.max(0.0) as usize).min(self.len() - 1);
        let (from, to) = (self.bounds[before], self.bounds[before + 1]);
        from + (to - from).scaled((slot - before as f64).min(1.0))
    }
}

/// How much of [from, to) comes before `until`.
fn part(from: Timestamp, to: Timestamp, until: Timestamp) -> f64 {
    (to.min(until) - from).as_secs_f64().max(0.0) / (to - from).as_secs_f64().max(0.001)
}

/// How much of [from, to) these spans have.
fn share(from: Timestamp, to: Timestamp, spans: &[(Timestamp, Timestamp)]) -> f64 {
    if to <= from {
        return 0.0;
    }
    let first = spans.partition_point(|&(_, end)| end <= from);
    let begun = spans[first..].iter().take_while(|&&(begin, _)| begin < to);
    let within: f64 = begun.map(|&(begin, end)| (end.min(to) - begin.max(from)).as_secs_f64()).sum();
    within / (to - from).as_secs_f64()
}
