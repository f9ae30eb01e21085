//! The last step to an optimum: exact descent for λ and a that are constant in pieces.
//!
//! In a piece the cost is a quadratic function of a probe's time, F′(x) = a·Λ(s,x) − λ·A(x,u) and
//! F″ = 2aλ, so the best x of every piece between its neighbours is known at once. One probe at a
//! time is slow where many depend on each other, and stuck where probes stand δ apart and none can
//! move alone; so chains of such probes are shifted together (`chains`), and all that stand free
//! take Newton's step (`newton`).
//!
//! Knows pieces of one horizon. Must not know how the schedule it begins with was found.

mod chains;
mod newton;

use tidewatch_core::model::obsolescence::{PrefixSums, hours};
use tidewatch_core::time::Span;

use super::line::{Improved, Line, saved};
use tidewatch_core::planning::horizon::Horizon;

/// A sweep that saves less of the cost than this is the last.
const LEAST_GAIN: f64 = 1e-13;

/// Where it ends in any case. A handful is usual.
const MOST_SWEEPS: u32 = 500;

/// Times in a cell, both ends among them, that are not closed.
#[derive(Debug, Clone, Copy)]
struct Piece {
    first: Span,
    last: Span,
    rate: f64,
    weight: f64,
    /// At `first`.
    sums: PrefixSums,
}

/// A schedule, and the pieces its probes stand in.
struct Descent<'a> {
    line: Line<'a>,
    pieces: Vec<Piece>,
    moves: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Moves the probes of an allowed schedule to a local optimum, to the millisecond. It stays allowed,
/// with as many probes, and costs no more.
pub fn descend(horizon: &Horizon, times: Vec<Span>) -> Improved {
    let mut descent = Descent { line: Line::new(horizon, times), pieces: pieces(horizon), moves: 0 };
    let mut cost = horizon.cost.cost_of(&descent.line.times);
    for _ in 0..MOST_SWEEPS {
        let (before, moves, began) = (descent.line.times.clone(), descent.moves, cost);
        descent.one_by_one();
        descent.shift_chains();
        let swept = horizon.cost.cost_of(&descent.line.times);
        if swept > cost {
            // Only rounding can do that: there is nothing left to gain.
            (descent.line.times, descent.moves) = (before, moves);
        } else {
            cost = swept;
        }
        while let Some(lower) = descent.newton_step(cost) {
            let enough = cost - lower <= LEAST_GAIN * cost;
            cost = lower;
            if enough {
                break;
            }
        }
        if began - cost <= LEAST_GAIN * began {
            break;
        }
    }
    Improved { times: descent.line.times, moves: descent.moves }
}

/// The cells without their closed times.
fn pieces(horizon: &Horizon) -> Vec<Piece> {
    let mut pieces = Vec::with_capacity(horizon.cost.cells().len() + horizon.closed.len());
    for cell in horizon.cost.cells() {
        let mut push = |first: Span, last: Span| {
            if first <= last {
                let sums = horizon.cost.sums(first);
                pieces.push(Piece { first, last, rate: cell.rate, weight: cell.weight, sums });
            }
        };
        let mut first = cell.from;
        let reach = horizon.closed.partition_point(|&(_, until)| until <= cell.from);
        for &(from, until) in horizon.closed[reach..].iter().take_while(|closed| closed.0 <= cell.until) {
            push(first, from - Span::from_millis(1));
            first = until;
        }
        push(first, cell.until);
    }
    pieces
}

impl Piece {
    /// The best time in here between two bounds, for a probe between s and u.
    fn best(&self, (low, high): (Span, Span), s: PrefixSums, u: PrefixSums) -> Option<Span> {
        let (low, high) = (low.max(self.first), high.min(self.last));
        if low > high {
            return None;
        }
        let slope = self.weight * (self.sums.updates - s.updates)
            - self.rate * (u.importance - self.sums.importance);
        let curvature = 2.0 * self.weight * self.rate;
        Some(if curvature > 0.0 {
            (self.first + Span::from_hours(1).scaled(-slope / curvature)).max(low).min(high)
        } else if slope < 0.0 {
            high
        } else {
            low
        })
    }

    /// P and A at a time in here; B takes no part in what a move saves.
    fn sums_at(&self, at: Span) -> PrefixSums {
        let x = hours(at - self.first);
        PrefixSums {
            updates: self.sums.updates + self.rate * x,
            importance: self.sums.importance + self.weight * x,
            mixed: 0.0,
        }
    }
}

impl Descent<'_> {
    /// Every probe in turn to its best time between its neighbours, over all pieces there.
    fn one_by_one(&mut self) {
        for probe in 0..self.line.movable {
            let line = &self.line;
            let cost = &line.horizon.cost;
            let [s, t, u] =
                [line.before(probe), line.times[probe], line.after(probe)].map(|at| cost.sums(at));
            let bounds = (line.lowest(probe), line.highest(probe));
            let reach = self.pieces.partition_point(|piece| piece.last < bounds.0);
            let mut best = (0.0, line.times[probe]);
            for piece in self.pieces[reach..].iter().take_while(|piece| piece.first <= bounds.1) {
                if let Some(to) = piece.best(bounds, s, u) {
                    let gain = saved(s, t, piece.sums_at(to), u);
                    if gain > best.0 {
                        best = (gain, to);
                    }
                }
            }
            if best.1 != line.times[probe] {
                self.line.times[probe] = best.1;
                self.moves += 1;
            }
        }
    }

    /// The piece in which a time lies if it moves to this side, however little; `None` where it
    /// cannot.
    fn piece(&self, at: Span, side: Side) -> Option<&Piece> {
        let (index, open): (_, fn(&Piece, Span) -> bool) = match side {
            Side::Left => (self.pieces.partition_point(|p| p.last < at), |p, at| p.first < at),
            Side::Right => (self.pieces.partition_point(|p| p.last <= at), |p, at| p.first <= at),
        };
        self.pieces.get(index).filter(|piece| open(piece, at))
    }

    /// F′ of one probe, with λ and a of this piece.
    fn slope(&self, probe: usize, piece: &Piece) -> f64 {
        let line = &self.line;
        let [s, t, u] =
            [line.before(probe), line.times[probe], line.after(probe)].map(|at| line.horizon.cost.sums(at));
        piece.weight * (t.updates - s.updates) - piece.rate * (u.importance - t.importance)
    }

    /// Whether a probe stands as close behind the one before as it may.
    fn touches(&self, probe: usize) -> bool {
        self.line.times[probe] - self.line.before(probe) <= self.line.horizon.min_spacing
    }
}

/// How the cost bends when probes that stand in these pieces, one after the other, move by the same
/// time: each adds 2aλ, and each pair of neighbours takes 2·λ·a away, of the first and the second.
fn curvature<'a>(pieces: impl IntoIterator<Item = &'a Piece>) -> f64 {
    let (mut total, mut before) = (0.0, 0.0);
    for piece in pieces {
        total += 2.0 * piece.weight * (piece.rate - before);
        before = piece.rate;
    }
    total
}
