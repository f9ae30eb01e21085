//! A schedule whose probes are being moved one by one, or a few together.
//!
//! Exists because both ways to improve a schedule need the same things: between which times a probe
//! may move, and what that saves. Knows one horizon and one schedule. Must not know which moves are
//! tried.

use tidewatch_core::model::obsolescence::PrefixSums;
use tidewatch_core::time::Span;

use tidewatch_core::planning::horizon::{End, Horizon};

/// A schedule that was improved.
#[derive(Debug, Clone, PartialEq)]
pub struct Improved {
    /// When to probe, ascending.
    pub times: Vec<Span>,
    /// How many moves it took.
    pub moves: u64,
}

/// Probes in line, each between its neighbours.
#[derive(Debug, Clone)]
pub(super) struct Line<'a> {
    pub(super) horizon: &'a Horizon,
    pub(super) times: Vec<Span>,
    /// From when what is spent allows each of them.
    pub(super) earliest: Vec<Span>,
    /// How many may move: all, but for the one that stands at the end.
    pub(super) movable: usize,
}

impl<'a> Line<'a> {
    pub(super) fn new(horizon: &'a Horizon, times: Vec<Span>) -> Self {
        let earliest = (0..times.len()).map(|number| horizon.earliest(number)).collect();
        let movable = times.len().saturating_sub(usize::from(horizon.end == End::Probed));
        Self { horizon, times, earliest, movable }
    }

    /// The time of the probe before.
    pub(super) fn before(&self, probe: usize) -> Span {
        probe.checked_sub(1).map_or(Span::ZERO, |before| self.times[before])
    }

    /// The time of the probe after, or the horizon's end.
    pub(super) fn after(&self, probe: usize) -> Span {
        self.times.get(probe + 1).copied().unwrap_or(self.horizon.length())
    }

    /// How early it may stand while the others stay.
    pub(super) fn lowest(&self, probe: usize) -> Span {
        (self.before(probe) + self.horizon.min_spacing).max(self.earliest[probe])
    }

    /// How late it may stand while the others stay. An open end keeps no distance.
    pub(super) fn highest(&self, probe: usize) -> Span {
        match self.times.get(probe + 1) {
            Some(&after) => after - self.horizon.min_spacing,
            None => self.horizon.length(),
        }
    }

    /// What is saved if it stands at another time between its neighbours.
    pub(super) fn saved(&self, probe: usize, to: Span) -> f64 {
        let [before, from, to, after] = [self.before(probe), self.times[probe], to, self.after(probe)]
            .map(|at| self.horizon.cost.sums(at));
        saved(before, from, to, after)
    }
}

/// What is saved if the probe between s and u moves from t to x. By Lemma 3 of the paper, which holds
/// in either direction, C̄(s,t) + C̄(t,u) − C̄(s,x) − C̄(x,u) = Λ(s,x)·A(x,t) − Λ(x,t)·A(t,u): small
/// differences of small numbers, where four costs would be large ones.
pub(super) fn saved(s: PrefixSums, t: PrefixSums, x: PrefixSums, u: PrefixSums) -> f64 {
    (x.updates - s.updates) * (t.importance - x.importance)
        - (t.updates - x.updates) * (u.importance - t.importance)
}
