//! Expected obsolescence: the cost of a gap between two probes.
//!
//! An update at t that is found at f costs A(t, f) = ∫ₜᶠ a. So a gap between two probes s and f has expected
//! cost C̄(s, f) = ∫ₛᶠ λ(t)·A(t, f) dt (Eckstein, Gal, Reiner, eq. 5), in update·hours times importance. λ
//! and a are constant in cells. With the running integrals P = ∫λ, A = ∫a and B = ∫λA at the start of each
//! cell,
//!
//! C̄(s, f) = ∫ₛᶠ λ(t)(A(f) − A(t)) dt = A_f (P_f − P_s) − (B_f − B_s),
//!
//! which takes O(log K) for any s and f among K cells, and O(1) if the sums are given.
//!
//! Covers one horizon. May not know probes, budgets or grids.

use crate::time::{Span, Timestamp};

use super::steps::{Steps, cut_together};

const HOUR_MS: f64 = 3_600_000.0;

/// The cost of not probing, over one horizon that begins at 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Obsolescence {
    length: Span,
    cells: Vec<CostCell>,
}

/// An interval with constant rate and importance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CostCell {
    /// Its start.
    pub from: Span,
    /// Its end.
    pub until: Span,
    /// λ, updates per hour.
    pub rate: f64,
    /// a.
    pub weight: f64,
    /// P, A and B at its start.
    sums: PrefixSums,
}

/// The running integrals at some time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PrefixSums {
    /// P = ∫λ: expected updates.
    pub updates: f64,
    /// A = ∫a.
    pub importance: f64,
    /// B = ∫λA.
    pub mixed: f64,
}

impl PrefixSums {
    /// C̄ between the times of `self` and `until`.
    ///
    /// ```
    /// # use tidewatch_core::model::obsolescence::Obsolescence;
    /// # use tidewatch_core::time::Span;
    /// // Two updates an hour, each found after half an hour on average.
    /// let cost = Obsolescence::of_cells([(Span::from_hours(1), 2.0, 1.0)]);
    /// assert_eq!(cost.sums(Span::ZERO).cost_until(cost.sums(Span::from_hours(1))), 1.0);
    /// ```
    pub fn cost_until(self, until: Self) -> f64 {
        until.importance * (until.updates - self.updates) - (until.mixed - self.mixed)
    }
}

impl CostCell {
    fn hours_into(&self, at: Span) -> f64 {
        hours(at - self.from)
    }

    fn sums(&self, at: Span) -> PrefixSums {
        let (x, start) = (self.hours_into(at), self.sums);
        PrefixSums {
            updates: start.updates + self.rate * x,
            importance: start.importance + self.weight * x,
            mixed: start.mixed + self.rate * x * (start.importance + self.weight * x / 2.0),
        }
    }
}

/// A span in hours.
pub fn hours(span: Span) -> f64 {
    span.as_millis() as f64 / HOUR_MS
}

impl Obsolescence {
    /// The horizon [from, until) under this rate, in updates per hour, and importance.
    pub fn new(rate: &Steps, importance: &Steps, from: Timestamp, until: Timestamp) -> Self {
        Self::of_pieces(&rate.over(from, until), &importance.over(from, until))
    }

    /// From the pieces of a rate and of an importance, as [`Steps::over`] gives them.
    pub fn of_pieces(rates: &[(i64, f64)], weights: &[(i64, f64)]) -> Self {
        let both = cut_together(rates, weights);
        Self::of_cells(both.into_iter().map(|(end, rate, weight)| (Span::from_millis(end), rate, weight)))
    }

    /// From consecutive cells: end, updates per hour, importance.
    pub fn of_cells(pieces: impl IntoIterator<Item = (Span, f64, f64)>) -> Self {
        let mut cells: Vec<CostCell> = Vec::new();
        let (mut from, mut sums) = (Span::ZERO, PrefixSums::default());
        for (until, rate, weight) in pieces.into_iter().filter(|&(until, ..)| until > Span::ZERO) {
            let cell = CostCell { from, until, rate, weight, sums };
            (from, sums) = (until, cell.sums(until));
            cells.push(cell);
        }
        Self { length: from, cells }
    }

    /// The length of the horizon.
    pub fn length(&self) -> Span {
        self.length
    }

    /// The cells, in order.
    pub fn cells(&self) -> &[CostCell] {
        &self.cells
    }

    /// The cell of a time. At a boundary the later cell, except at the end of the horizon.
    pub fn cell_at(&self, at: Span) -> usize {
        self.cells.partition_point(|cell| cell.until <= at).min(self.cells.len().saturating_sub(1))
    }

    /// The running integrals at a time.
    pub fn sums(&self, at: Span) -> PrefixSums {
        self.cells.get(self.cell_at(at)).map_or(PrefixSums::default(), |cell| cell.sums(at))
    }

    /// The running integrals at ascending times, in one pass over the cells.
    pub fn sums_at<'a>(
        &'a self,
        times: impl IntoIterator<Item = Span> + 'a,
    ) -> impl Iterator<Item = PrefixSums> + 'a {
        let mut index = 0;
        times.into_iter().map(move |at| {
            while index + 1 < self.cells.len() && self.cells[index].until <= at {
                index += 1;
            }
            self.cells.get(index).map_or(PrefixSums::default(), |cell| cell.sums(at))
        })
    }

    /// Λ(s, f).
    pub fn expected_updates(&self, s: Span, f: Span) -> f64 {
        self.sums(f).updates - self.sums(s).updates
    }

    /// C̄(s, f) of a gap between two probes.
    pub fn cost(&self, s: Span, f: Span) -> f64 {
        let (first, last) = (self.cell_at(s), self.cell_at(f));
        match self.cells.get(first) {
            // Within one cell the closed form avoids a difference of large numbers.
            Some(cell) if first == last => cell.rate * cell.weight * hours(f - s).powi(2) / 2.0,
            _ => self.sums(s).cost_until(self.sums(f)).max(0.0),
        }
    }

    /// The cost of the whole horizon with probes at these ascending times and one at its end.
    pub fn cost_of(&self, times: &[Span]) -> f64 {
        self.cost_between(Span::ZERO, self.length, times.iter().copied())
    }

    /// The cost between two probes with further ascending probes between them. Only adds terms, so it is
    /// exact to the last digits.
    pub fn cost_between(&self, from: Span, until: Span, times: impl IntoIterator<Item = Span>) -> f64 {
        let mut next = times.into_iter().filter(|&at| at > from).peekable();
        let (mut total, mut waiting, mut at) = (0.0, 0.0, from);
        for cell in &self.cells[self.cell_at(from).min(self.cells.len())..] {
            let end = cell.until.min(until);
            while at < end {
                let to = next.peek().map_or(end, |&probe| probe.min(end));
                let x = hours(to - at);
                total += cell.weight * x * (waiting + cell.rate * x / 2.0);
                waiting += cell.rate * x;
                at = to;
                while next.next_if(|&probe| probe <= at).is_some() {
                    waiting = 0.0;
                }
            }
            if at >= until {
                break;
            }
        }
        total
    }
}
