//! A schedule with movable probes.
//!
//! Both improvers need the interval in which a probe may move and the gain of a move. Must not know which
//! moves are tried.

use tidewatch_core::model::obsolescence::PrefixSums;
use tidewatch_core::time::Span;

use tidewatch_core::planning::horizon::{Horizon, HorizonEnd};

/// An improved schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Improved {
    /// Probe times, ascending.
    pub times: Vec<Span>,
    /// Number of moves.
    pub moves: u64,
}

/// The probes of a schedule, in order.
#[derive(Debug, Clone)]
pub(super) struct ProbeSequence<'a> {
    pub(super) horizon: &'a Horizon,
    pub(super) times: Vec<Span>,
    /// The earliest time of each probe under the allowance.
    pub(super) earliest: Vec<Span>,
    /// Number of movable probes: all but the one at the end.
    pub(super) movable: usize,
}

impl<'a> ProbeSequence<'a> {
    pub(super) fn new(horizon: &'a Horizon, times: Vec<Span>) -> Self {
        let earliest = (0..times.len()).map(|number| horizon.earliest(number)).collect();
        let movable = times.len().saturating_sub(usize::from(horizon.end == HorizonEnd::Probed));
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

    /// The earliest time of a probe if the others stay.
    pub(super) fn lowest(&self, probe: usize) -> Span {
        (self.before(probe) + self.horizon.min_spacing).max(self.earliest[probe])
    }

    /// The latest time of a probe if the others stay. An open end needs no spacing.
    pub(super) fn highest(&self, probe: usize) -> Span {
        match self.times.get(probe + 1) {
            Some(&after) => after - self.horizon.min_spacing,
            None => self.horizon.length(),
        }
    }

    /// The gain if a probe moves to another time between its neighbours.
    pub(super) fn saved(&self, probe: usize, to: Span) -> f64 {
        let [before, from, to, after] = [self.before(probe), self.times[probe], to, self.after(probe)]
            .map(|at| self.horizon.cost.sums(at));
        saved(before, from, to, after)
    }
}

/// The gain if the probe between s and u moves from t to x. By Lemma 3 of the paper, which holds in either
/// direction, C̄(s,t) + C̄(t,u) − C̄(s,x) − C̄(x,u) = Λ(s,x)·A(x,t) − Λ(x,t)·A(t,u). The right side has small
/// terms; the four costs would be large ones.
pub(super) fn saved(s: PrefixSums, t: PrefixSums, x: PrefixSums, u: PrefixSums) -> f64 {
    (x.updates - s.updates) * (t.importance - x.importance)
        - (t.updates - x.updates) * (u.importance - t.importance)
}
