//! D: every source exactly every 2^r slots (Mahmoody et al., §4.3 and Lemma 2).
//!
//! With n_i = Σ√π / √π_i, source i gets the period 2^r ≥ n_i > 2^(r−1). The frequencies add up to at most
//! one. By Kraft's inequality each source therefore gets its own node of a binary tree, and with it the
//! slots that lead to that node. The nodes are placed side by side in order of their periods. The left
//! edges, read backwards in binary, are the first slots; this is Lemma 2's pairing done at once. A step has
//! c slots (Corollary 3). Slots that lead to no source are lost, as in the paper. Knows slots and rates;
//! must not know what a source is.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::candidate::OpenSource;

/// Periods are at most 2 to this power.
const LONGEST: u32 = 62;

/// Sources by their next slot.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct CyclicOrder {
    places: Vec<CyclicPlace>,
    /// Slots so far.
    turn: u64,
    heap: BinaryHeap<Reverse<(u64, u32)>>,
    /// Rate changes since slots were last assigned. Below: sources with a positive rate, and slots used
    /// since that assignment.
    news: usize,
    known: usize,
    since: usize,
    /// Σ√π at the last assignment.
    sum: f64,
    /// The step that slots were last counted for.
    step: Option<f64>,
}

#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct CyclicPlace {
    root: f32,
    log_period: u32,
    first: u64,
    /// The slot under which the source is in the heap. Entries under other slots are void.
    next: u64,
    waits: bool,
}

/// Not in the heap.
const NOWHERE: u64 = u64::MAX;

impl CyclicOrder {
    /// Opens a source.
    pub fn open(&mut self, place: u32, source: OpenSource) {
        let at = place as usize;
        if self.places.len() <= at {
            let unknown = CyclicPlace { root: 0.0, log_period: 0, first: 0, next: NOWHERE, waits: false };
            self.places.resize(at + 1, unknown);
        }
        let entry = &mut self.places[at];
        if entry.root == 0.0 && source.root > 0.0 {
            self.known += 1;
            // Until the next assignment its slots start now, with the period of its rate.
            (entry.log_period, entry.first) = (log_period(self.sum, source.root), self.turn);
        }
        self.known -= usize::from(entry.root > 0.0 && source.root <= 0.0);
        self.news += usize::from(entry.root != source.root);
        entry.root = source.root;
        entry.waits = true;
        self.file(place);
    }

    /// Closes a source.
    pub fn close(&mut self, place: u32) {
        if let Some(place) = self.places.get_mut(place as usize) {
            place.waits = false;
        }
    }

    /// Removes a source.
    pub fn forget(&mut self, place: u32) {
        if let Some(place) = self.places.get_mut(place as usize).filter(|place| place.root > 0.0) {
            (place.root, place.waits) = (0.0, false);
            self.known -= 1;
            self.news += 1;
        }
    }

    /// Takes out the sources whose slots are among the next `most`. Repeated calls within a step advance
    /// the slots once.
    pub fn choose(&mut self, now: f64, most: usize, chosen: &mut Vec<u32>) {
        // Reassigns after half as many rate changes as there are sources, or after a full round, so that
        // the amortised cost per change stays small.
        if self.news > 0 && (2 * self.news >= self.known || self.since >= self.known) {
            self.deal();
        }
        let enough = chosen.len() + most;
        if self.step.is_none_or(|step| now.floor() > step) {
            self.step = Some(now.floor());
            self.since = self.since.saturating_add(most);
            self.turn += most as u64;
        }
        while chosen.len() < enough
            && let Some(&Reverse((at, place))) = self.heap.peek()
            && at < self.turn
        {
            self.heap.pop();
            let entry = &mut self.places[place as usize];
            if entry.next == at {
                entry.next = NOWHERE;
                if std::mem::take(&mut entry.waits) {
                    chosen.push(place);
                }
            }
        }
    }

    /// Assigns slots by the current rates.
    fn deal(&mut self) {
        (self.news, self.since) = (0, 0);
        self.sum = self.places.iter().map(|place| f64::from(place.root)).sum();
        let mut order: Vec<(u32, u32)> = Vec::with_capacity(self.known);
        for (at, place) in (0..).zip(&mut self.places).filter(|(_, place)| place.root > 0.0) {
            place.log_period = log_period(self.sum, place.root);
            order.push((place.log_period, at));
        }
        order.sort_unstable();
        // The left edge of the next node, in units of 2^−LONGEST.
        let mut edge: u64 = 0;
        for (log_period, at) in order {
            // Only rates indistinguishable from zero can overfill the tree; they share its last leaf.
            let edge_now = edge.min((1 << LONGEST) - 1);
            let path = edge_now >> (LONGEST - log_period);
            let first = if log_period == 0 { 0 } else { path.reverse_bits() >> (64 - log_period) };
            self.places[at as usize].first = first;
            edge = edge.saturating_add(1 << (LONGEST - log_period));
        }
        self.heap.clear();
        for at in 0..self.places.len() as u32 {
            self.places[at as usize].next = NOWHERE;
            if self.places[at as usize].waits {
                self.file(at);
            }
        }
    }

    fn file(&mut self, place: u32) {
        let entry = &mut self.places[place as usize];
        if entry.root <= 0.0 {
            // A rate of zero gets no slots.
            entry.next = NOWHERE;
            return;
        }
        let period = 1_u64 << entry.log_period;
        // The first of its slots that has not passed.
        let missed = self.turn.saturating_sub(entry.first).div_ceil(period);
        let at = entry.first + missed * period;
        // A source that is closed and opened again has one valid entry.
        if entry.next != at {
            entry.next = at;
            self.heap.push(Reverse((at, place)));
        }
    }
}

/// r, where 2^r ≥ Σ√π/√π > 2^(r−1).
fn log_period(sum: f64, root: f32) -> u32 {
    let wanted = (sum / f64::from(root)).max(1.0);
    (wanted.log2().ceil() as u32).min(LONGEST)
}
