//! Exact descent to a local optimum, for piecewise constant λ and a.
//!
//! In a piece the cost is a quadratic function of a probe's time. With F′(x) = a·Λ(s,x) − λ·A(x,u) and
//! F″ = 2aλ, the best x of every piece between its neighbours has a closed form.
//! Moving one probe at a time is slow if many depend on each other, and stops if probes are δ apart and none
//! can move alone. So chains of such probes are shifted together (`chains`), and all free probes take
//! Newton's step (`newton`). Must not know how the initial schedule was found.

mod chains;
mod newton;

use tidewatch_core::model::obsolescence::{PrefixSums, hours};
use tidewatch_core::time::Span;

use super::probe_sequence::{Improved, ProbeSequence, saved};
use tidewatch_core::planning::horizon::Horizon;

/// The last sweep is the first that saves less than this share of the cost.
const LEAST_GAIN: f64 = 1e-13;

/// Maximum number of sweeps. A few are usual.
const MOST_SWEEPS: u32 = 500;

/// An interval of a cell in which probes are allowed, both ends included.
#[derive(Debug, Clone, Copy)]
struct DescentPiece {
    first: Span,
    last: Span,
    rate: f64,
    weight: f64,
    /// The sums at `first`.
    sums: PrefixSums,
}

/// A schedule, and the pieces of its horizon.
struct Descent<'a> {
    line: ProbeSequence<'a>,
    pieces: Vec<DescentPiece>,
    moves: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
}

/// Moves the probes of a feasible schedule to a local optimum, to the millisecond. The schedule stays
/// feasible, has as many probes, and costs no more.
pub fn descend(horizon: &Horizon, times: Vec<Span>) -> Improved {
    let mut descent =
        Descent { line: ProbeSequence::new(horizon, times), pieces: pieces(horizon), moves: 0 };
    let mut cost = horizon.cost.cost_of(&descent.line.times);
    for _ in 0..MOST_SWEEPS {
        let (before, moves, began) = (descent.line.times.clone(), descent.moves, cost);
        descent.one_by_one();
        descent.shift_chains();
        let swept = horizon.cost.cost_of(&descent.line.times);
        if swept > cost {
            // Only rounding can cause that: there is nothing left to gain.
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
fn pieces(horizon: &Horizon) -> Vec<DescentPiece> {
    let mut pieces = Vec::with_capacity(horizon.cost.cells().len() + horizon.closed.len());
    for cell in horizon.cost.cells() {
        let mut push = |first: Span, last: Span| {
            if first <= last {
                let sums = horizon.cost.sums(first);
                pieces.push(DescentPiece { first, last, rate: cell.rate, weight: cell.weight, sums });
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

impl DescentPiece {
    /// The best time in this piece between two bounds, for a probe between s and u.
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

    /// P and A at a time in this piece. B is not needed for the gain of a move.
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
    /// Moves every probe in turn to its best time between its neighbours, over all pieces there.
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

    /// The piece that a time enters by the smallest move to this side; `None` if it cannot move.
    fn piece(&self, at: Span, side: Side) -> Option<&DescentPiece> {
        let (index, open): (_, fn(&DescentPiece, Span) -> bool) = match side {
            Side::Left => (self.pieces.partition_point(|p| p.last < at), |p, at| p.first < at),
            Side::Right => (self.pieces.partition_point(|p| p.last <= at), |p, at| p.first <= at),
        };
        self.pieces.get(index).filter(|piece| open(piece, at))
    }

    /// F′ of one probe, with λ and a of this piece.
    fn slope(&self, probe: usize, piece: &DescentPiece) -> f64 {
        let line = &self.line;
        let [s, t, u] =
            [line.before(probe), line.times[probe], line.after(probe)].map(|at| line.horizon.cost.sums(at));
        piece.weight * (t.updates - s.updates) - piece.rate * (u.importance - t.importance)
    }

    /// Whether a probe is at the minimum spacing from the one before.
    fn touches(&self, probe: usize) -> bool {
        self.line.times[probe] - self.line.before(probe) <= self.line.horizon.min_spacing
    }
}

/// The second derivative of the cost when consecutive probes in these pieces move by the same time. Each
/// probe adds 2aλ; each pair of neighbours subtracts 2·λ·a, with λ of the first and a of the second.
fn curvature<'a>(pieces: impl IntoIterator<Item = &'a DescentPiece>) -> f64 {
    let (mut total, mut before) = (0.0, 0.0);
    for piece in pieces {
        total += 2.0 * piece.weight * (piece.rate - before);
        before = piece.rate;
    }
    total
}
