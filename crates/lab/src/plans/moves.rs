//! Improves a schedule in continuous time by moving one probe at a time.
//!
//! This is Algorithm 10 of Eckstein, Gal and Reiner. It always takes the move with the largest gain; the
//! paper prints "minimize Δ", but maximizing is meant. A left μ-move moves a probe by the share μ of the
//! distance to its lower limit, which its left neighbour sets; a right move likewise. It works for any λ and
//! a, needs no derivative, and stops near an optimum, not at one. Must not know that λ and a are piecewise
//! constant.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::iter;

use tidewatch_core::time::Span;

use super::probe_sequence::Improved;
use super::probe_sequence::ProbeSequence;
use tidewatch_core::planning::horizon::Horizon;

/// The parameters of Algorithm 10.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Moves {
    /// μ₀: the initial share of the distance.
    pub first: f64,
    /// μ*: the smallest share tried.
    pub last: f64,
    /// ρ: the factor on the share when no move gains anything.
    pub shrink: f64,
    /// ι: the smallest gain of a move, in update·hours times importance.
    pub least_gain: f64,
}

impl Default for Moves {
    /// The paper's values.
    fn default() -> Self {
        Self { first: 0.5, last: 1.0 / 512.0, shrink: 0.5, least_gain: 1e-9 }
    }
}

/// The maximum number of moves per probe, even if smaller gains remain.
const MOST_MOVES_EACH: u64 = 1000;

/// More shares μ than halvings from 1 to the smallest float.
const MOST_SHARES: usize = 1100;

/// A move and its gain. It is void if the probe or a neighbour has moved since; `version` shows that.
struct Move {
    gain: f64,
    probe: usize,
    to: Span,
    version: u32,
}

impl PartialEq for Move {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Move {}

impl PartialOrd for Move {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Move {
    /// By gain; of equal gains the earlier probe first, so that the result is deterministic.
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(other.probe.cmp(&self.probe)).then(self.to.cmp(&other.to))
    }
}

/// Moves probes of a feasible schedule while that lowers the cost. The schedule stays feasible, has as many
/// probes, and costs no more.
pub fn improve(horizon: &Horizon, times: Vec<Span>, moves: &Moves) -> Improved {
    let mut line = ProbeSequence::new(horizon, times.clone());
    let most = MOST_MOVES_EACH * line.movable as u64;
    let shares = iter::successors(Some(moves.first), |share| Some(share * moves.shrink))
        .take_while(|&share| share > 0.0 && share >= moves.last)
        .take(MOST_SHARES);
    let mut versions = vec![0; line.movable];
    let mut made = 0;
    for share in shares {
        let value = |line: &ProbeSequence, probe: usize, version: u32| {
            let (from, low, high) = (line.times[probe], line.lowest(probe), line.highest(probe));
            [low, high].map(|bound| {
                let to = (from + (bound - from).scaled(share)).max(low).min(high);
                if to == from || !horizon.is_open(to) {
                    return None;
                }
                let gain = line.saved(probe, to);
                (gain >= moves.least_gain && gain > 0.0).then_some(Move { gain, probe, to, version })
            })
        };
        let mut heap: BinaryHeap<Move> =
            (0..line.movable).flat_map(|probe| value(&line, probe, versions[probe])).flatten().collect();
        while made < most
            && let Some(best) = heap.pop()
        {
            if best.version != versions[best.probe] {
                continue;
            }
            line.times[best.probe] = best.to;
            made += 1;
            // The six moves named in the paper.
            let near = versions.iter_mut().enumerate().take(best.probe + 2);
            for (probe, version) in near.skip(best.probe.saturating_sub(1)) {
                *version += 1;
                heap.extend(value(&line, probe, *version).into_iter().flatten());
            }
        }
    }
    // Gains below the rounding of the sums might add up to a loss.
    if horizon.cost.cost_of(&line.times) > horizon.cost.cost_of(&times) {
        return Improved { times, moves: 0 };
    }
    Improved { times: line.times, moves: made }
}
