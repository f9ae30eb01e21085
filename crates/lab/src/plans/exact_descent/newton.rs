//! Newton's step for all free probes.
//!
//! While no probe leaves its piece, the cost is quadratic, and its second derivatives are tridiagonal: 2aᵢλᵢ,
//! and −λᵢ·aᵢ₊₁ between neighbours. So one elimination in O(n) gives the common optimum of a run of probes,
//! which single moves approach slowly. A chain of probes δ apart counts as one group that moves as a whole. A
//! step that is too long is shortened until a limit is met; that probe is then left out of the next step.

use tidewatch_core::time::Span;

use super::{Descent, DescentPiece, Side, curvature};

/// The smallest share of its diagonal for which a pivot counts as positive.
const LEAST_PIVOT: f64 = 1e-9;

/// Tolerance for rounding a shift to whole milliseconds.
const WHOLE: f64 = 1e-6;

/// A free probe, or a chain of probes.
struct ProbeGroup {
    first: usize,
    last: usize,
    /// The distance to the left and to the right before a probe of the group leaves its piece.
    room: (Span, Span),
    slope: f64,
    bend: f64,
    /// a of the first probe, λ of the last.
    weight: f64,
    rate: f64,
}

impl Descent<'_> {
    /// Takes the step if it lowers the cost, and returns the new cost.
    pub(super) fn newton_step(&mut self, cost: f64) -> Option<f64> {
        let mut times = self.line.times.clone();
        let mut moved = 0;
        for run in self.runs() {
            let steps = solve(&run);
            let share = self.share(&run, &steps);
            for (group, step) in run.iter().zip(&steps) {
                let millis = share * step * 3_600_000.0;
                let shift = Span::from_millis((millis + WHOLE.copysign(millis)).trunc() as i64);
                let shift = shift.max(-group.room.0).min(group.room.1);
                moved += u64::from(shift != Span::ZERO);
                for time in &mut times[group.first..=group.last] {
                    *time = *time + shift;
                }
            }
        }
        if moved == 0 || self.line.horizon.verify(&times).is_err() {
            return None;
        }
        let lower = self.line.horizon.cost.cost_of(&times);
        (lower < cost).then(|| {
            self.line.times = times;
            self.moves += moved;
            lower
        })
    }

    /// Runs of neighbouring groups that can move to both sides.
    fn runs(&self) -> Vec<Vec<ProbeGroup>> {
        let mut runs = vec![Vec::new()];
        let (mut first, movable) = (0, self.line.movable);
        while first < movable {
            let mut last = first;
            while last + 1 < movable && self.touches(last + 1) {
                last += 1;
            }
            match (self.group(first, last), runs.last_mut()) {
                (Some(group), Some(run)) => run.push(group),
                _ => runs.push(Vec::new()),
            }
            first = last + 1;
        }
        runs.retain(|run| !run.is_empty());
        runs.into_iter().flat_map(convex).collect()
    }

    fn group(&self, first: usize, last: usize) -> Option<ProbeGroup> {
        let line = &self.line;
        if line.times[first] <= line.lowest(first) || line.times[last] >= line.highest(last) {
            return None;
        }
        let mut room = (Span::from_millis(i64::MAX), Span::from_millis(i64::MAX));
        let mut pieces: Vec<&DescentPiece> = Vec::with_capacity(last - first + 1);
        let mut slope = 0.0;
        for probe in first..=last {
            let at = line.times[probe];
            let piece = self.piece(at, Side::Left)?;
            let low = piece.first.max(line.earliest[probe]);
            if at <= low || at >= piece.last {
                return None;
            }
            room = (room.0.min(at - low), room.1.min(piece.last - at));
            slope += self.slope(probe, piece);
            pieces.push(piece);
        }
        let (weight, rate) = (pieces.first()?.weight, pieces.last()?.rate);
        let bend = curvature(pieces);
        (bend > 0.0).then_some(ProbeGroup { first, last, room, slope, bend, weight, rate })
    }

    /// The share of the steps that can be taken: no probe leaves its piece or comes within δ of a neighbour.
    fn share(&self, run: &[ProbeGroup], steps: &[f64]) -> f64 {
        let mut share = 1.0_f64;
        let mut limit = |room: Span, speed: f64| {
            if speed > 0.0 {
                share = share.min(room.as_millis() as f64 / (speed * 3_600_000.0));
            }
        };
        let mut before = 0.0;
        for (group, &step) in run.iter().zip(steps) {
            limit(group.room.0, -step);
            limit(group.room.1, step);
            let gap = self.line.times[group.first] - self.line.before(group.first);
            limit(gap - self.line.horizon.min_spacing, before - step);
            before = step;
        }
        if let Some(group) = run.last() {
            limit(self.line.highest(group.last) - self.line.times[group.last], before);
        }
        share
    }
}

/// −λ·a between two neighbouring groups.
fn between(left: &ProbeGroup, right: &ProbeGroup) -> f64 {
    -left.rate * right.weight
}

/// Splits a run where the cost is not convex: there Newton's step leads to a saddle.
fn convex(run: Vec<ProbeGroup>) -> Vec<Vec<ProbeGroup>> {
    let mut parts: Vec<Vec<ProbeGroup>> = Vec::new();
    let mut pivot = 0.0;
    for group in run {
        let joined = parts.last_mut().and_then(|part| {
            let rest = group.bend - between(part.last()?, &group).powi(2) / pivot;
            (rest > LEAST_PIVOT * group.bend).then_some((part, rest))
        });
        match joined {
            Some((part, rest)) => {
                pivot = rest;
                part.push(group);
            }
            None => {
                pivot = group.bend;
                parts.push(vec![group]);
            }
        }
    }
    parts
}

/// The steps, in hours: H·step = −slope, by elimination.
fn solve(run: &[ProbeGroup]) -> Vec<f64> {
    let mut pivots: Vec<f64> = Vec::with_capacity(run.len());
    let mut steps: Vec<f64> = Vec::with_capacity(run.len());
    for (index, group) in run.iter().enumerate() {
        let (mut pivot, mut right) = (group.bend, -group.slope);
        if index > 0 {
            let off = between(&run[index - 1], group);
            pivot -= off * off / pivots[index - 1];
            right -= off * steps[index - 1] / pivots[index - 1];
        }
        pivots.push(pivot);
        steps.push(right);
    }
    let mut after = 0.0;
    for index in (0..run.len()).rev() {
        let off = run.get(index + 1).map_or(0.0, |next| between(&run[index], next));
        after = (steps[index] - off * after) / pivots[index];
        steps[index] = after;
    }
    steps
}
