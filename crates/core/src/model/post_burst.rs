//! The evidence since a burst began.
//!
//! It replaces the older evidence if the burst does not end within a cycle. The updates of each seventh of the
//! cycle are compared with those that the rate from before the burst predicted. May not know when a burst
//! begins or ends.

use crate::model::cyclic::Rate;
use crate::model::history::History;
use crate::model::learn::{ProbedUpdates, learn};
use crate::time::{Span, Timestamp};

/// The evidence since a burst began.
#[derive(Debug, Clone, PartialEq)]
pub struct PostBurstEvidence {
    history: History,
    /// Updates in each seventh of the cycle since the burst began …
    found: [u16; 7],
    /// … and those that the rate from before the burst predicted.
    expected: [f32; 7],
}

/// More updates than usual in at least this many sevenths of a cycle are the new rate: the days of a working
/// week …
const PERMANENT_AFTER: usize = 5;
/// … if each has this many times the predicted updates, …
const MORE: f64 = 1.5;
/// … and all but the busiest seventh together have this many times the predicted ones.
const MORE_IN_ALL: f64 = 2.0;

/// Bytes of the counts in the stored form.
const COUNT_BYTES: usize = 7 * (2 + 4);

impl PostBurstEvidence {
    /// No evidence yet, with the settings of `beside`.
    pub fn begin(beside: &History, now: Timestamp) -> Self {
        Self { history: beside.afresh(now), found: [0; 7], expected: [0.0; 7] }
    }

    /// The evidence.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The same counts with evidence that was learned again.
    pub fn with_history(self, history: History) -> Self {
        Self { history, ..self }
    }

    /// Moves the evidence by this span, after the clock was set.
    pub fn shift(&mut self, by: Span) {
        self.history.shift(by);
    }

    /// The evidence alone.
    pub fn into_history(self) -> History {
        self.history
    }

    /// Start of the evidence.
    pub fn since(&self) -> Option<Timestamp> {
        self.history.span().map(|(since, _)| since)
    }

    /// Adds a probe, and what the rate from before the burst predicted for it.
    pub fn add(&mut self, probe: &ProbedUpdates<'_>, rate: &Rate, cycle: Span) {
        let learned_before = self.history.seen();
        learn(&mut self.history, probe);
        let since = self.since().unwrap_or(probe.now);
        let from = probe.last.map_or(since, |last| last.max(since));
        let until = probe.now.max(from);
        let ends = (1..7).map(|seventh| since + cycle.scaled(f64::from(seventh) / 7.0));
        if probe.is_silent() {
            // In parts, so that the counts do not depend on the number of probes of a silence.
            let mut begins = from;
            for (at, ends) in ends.chain([Timestamp::MAX]).enumerate() {
                let end = ends.clamp(begins, until);
                self.expected[at] += rate.expected(begins, end) as f32;
                begins = end;
            }
            return;
        }
        let at = ends.take_while(|&ends| ends <= probe.now).count();
        let found = u16::try_from(self.history.seen().saturating_sub(learned_before)).unwrap_or(u16::MAX);
        self.found[at] = self.found[at].saturating_add(found);
        self.expected[at] += rate.expected(from, until) as f32;
    }

    /// Whether the updates since the burst began are a permanent change.
    pub fn is_permanent(&self) -> bool {
        let pairs = || self.found.iter().map(|&found| f64::from(found)).zip(self.expected.map(f64::from));
        let more = pairs().filter(|(found, expected)| *found > MORE * expected).count();
        let busiest = pairs().max_by(|a, b| a.0.total_cmp(&b.0)).unwrap_or_default();
        let (found, expected) =
            pairs().fold((0.0, 0.0), |sum, (found, expected)| (sum.0 + found, sum.1 + expected));
        more >= PERMANENT_AFTER && found - busiest.0 > MORE_IN_ALL * (expected - busiest.1)
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self.found.into_iter().flat_map(u16::to_le_bytes).collect();
        bytes.extend(self.expected.into_iter().flat_map(f32::to_le_bytes));
        bytes.extend(self.history.to_bytes());
        bytes
    }

    /// Decodes [`PostBurstEvidence::to_bytes`]; `None` if the bytes are invalid. The settings of `beside`
    /// apply to bytes that state none.
    pub fn from_bytes(bytes: &[u8], beside: &History) -> Option<Self> {
        let (counts, rest) = bytes.split_at_checked(COUNT_BYTES)?;
        let history = beside.from_bytes_alike(rest)?;
        let (found, expected) = counts.split_at(7 * 2);
        let (found, expected) = (found.as_chunks::<2>().0, expected.as_chunks::<4>().0);
        Some(Self {
            history,
            found: std::array::from_fn(|at| u16::from_le_bytes(found[at])),
            expected: std::array::from_fn(|at| f32::from_le_bytes(expected[at])),
        })
    }
}
