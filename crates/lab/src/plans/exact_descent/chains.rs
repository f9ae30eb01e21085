//! Shifts chains of probes that are δ apart.
//!
//! In such a chain no probe can move towards its neighbour. Only a prefix can move left and a suffix right,
//! each up to the whole chain. Every feasible direction is a combination of these, so if none of them lowers
//! the cost, no other does.

use std::ops::RangeInclusive;

use tidewatch_core::time::Span;

use super::{Descent, Side, curvature};

/// Maximum number of pieces that one shift may cross.
const MOST_PIECES: u32 = 1000;

impl Descent<'_> {
    /// For every chain, shifts its best prefix to the left, then its best suffix to the right.
    pub(super) fn shift_chains(&mut self) {
        let mut first = 0;
        while first < self.line.movable {
            let mut last = first;
            while last + 1 < self.line.movable && self.touches(last + 1) {
                last += 1;
            }
            if last > first {
                if let Some(end) = self.steepest(first..=last, Side::Left) {
                    self.shift(first..=end, Side::Left);
                }
                let still = (first + 1..=last).rev().take_while(|&probe| self.touches(probe)).last();
                if let Some(start) =
                    self.steepest(still.map_or(last, |probe| probe - 1)..=last, Side::Right)
                {
                    self.shift(start..=last, Side::Right);
                }
            }
            first = last + 1;
        }
    }

    /// The last probe, counted from the side that the chain moves to, of the block with the steepest descent.
    fn steepest(&self, chain: RangeInclusive<usize>, side: Side) -> Option<usize> {
        let members: Vec<usize> = match side {
            Side::Left => chain.collect(),
            Side::Right => chain.rev().collect(),
        };
        let (mut slope, mut best) = (0.0, (0.0, None));
        for probe in members {
            let at = self.line.times[probe];
            let Some(piece) = self.piece(at, side) else { break };
            slope += match side {
                Side::Left if at <= self.line.earliest[probe] => break,
                Side::Left => self.slope(probe, piece),
                Side::Right => -self.slope(probe, piece),
            };
            if slope > best.0 {
                best = (slope, Some(probe));
            }
        }
        best.1
    }

    /// Shifts a block as long as that lowers the cost, from piece to piece.
    fn shift(&mut self, block: RangeInclusive<usize>, side: Side) {
        for _ in 0..MOST_PIECES {
            let Some((step, more)) = self.step(block.clone(), side) else { return };
            for probe in block.clone() {
                self.line.times[probe] = match side {
                    Side::Left => self.line.times[probe] - step,
                    Side::Right => self.line.times[probe] + step,
                };
            }
            self.moves += 1;
            if !more {
                return;
            }
        }
    }

    /// The best shift of a block while each of its probes stays in its piece, and whether it reached the end
    /// of one.
    fn step(&self, block: RangeInclusive<usize>, side: Side) -> Option<(Span, bool)> {
        let line = &self.line;
        let pieces: Vec<_> =
            block.clone().map(|probe| self.piece(line.times[probe], side)).collect::<Option<_>>()?;
        let mut room = match side {
            Side::Left => line.times[*block.start()] - line.lowest(*block.start()),
            Side::Right => line.highest(*block.end()) - line.times[*block.end()],
        };
        let mut slope = 0.0;
        for (probe, piece) in block.zip(&pieces) {
            room = room.min(match side {
                Side::Left => line.times[probe] - piece.first.max(line.earliest[probe]),
                Side::Right => piece.last - line.times[probe],
            });
            slope += self.slope(probe, piece);
        }
        let (falls, bend) = (if side == Side::Left { slope } else { -slope }, curvature(pieces));
        if falls <= 0.0 {
            return None;
        }
        let wanted = if bend > 0.0 { Span::from_hours(1).scaled(falls / bend) } else { room };
        let step = wanted.min(room);
        (step > Span::ZERO).then_some((step, step == room))
    }
}
