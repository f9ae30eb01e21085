//! One planning problem: the best times for at most n probes in a horizon, and their constraints (Eckstein,
//! Gal, Reiner, problems 7 to 9).
//!
//! Times are whole milliseconds after the start p₀ = 0, the time of the last probe. So spacing and closed
//! times are exact, and a probe rounded to the millisecond costs at most aλ(½ ms)² more: 1e−13 update·hours
//! at one update per hour. Defines the constraints of a schedule. May not know how one is found, nor the
//! date.

use crate::model::obsolescence::Obsolescence;
use crate::time::Span;

/// A planning problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Horizon {
    /// λ and a over the horizon.
    pub cost: Obsolescence,
    /// n: at most this many probes.
    pub probes: u32,
    /// δ: minimum time between two probes, and after the one at 0.
    pub min_spacing: Span,
    /// Times without probes: [from, until), ascending and disjoint.
    pub closed: Vec<(Span, Span)>,
    /// Limits from earlier spending: before each of these ascending times at most this many probes. The
    /// numbers do not decrease.
    pub allowance: Vec<(Span, u32)>,
    /// The maximum time between two probes. The time before the first allowed probe is exempt.
    pub longest_gap: Option<Span>,
    /// The end of the horizon.
    pub end: HorizonEnd,
}

/// The kinds of horizon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HorizonEnd {
    /// With a probe, p_n = T, which is one of the n (the problem of the paper).
    Probed,
    /// Without a probe: a later plan covers the rest, and the cost is charged up to the end. So a probe at
    /// the end is free and without constraints.
    Open,
}

/// The candidate times of probes in a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// γ: the distance between two.
    pub step: Span,
    /// The first of them.
    pub first: Span,
    /// A later time and the larger distance from then on.
    pub coarser: Option<(Span, Span)>,
}

impl Grid {
    /// Its times, ascending and unbounded.
    fn times(self) -> impl Iterator<Item = Span> {
        let mut next = self.first;
        std::iter::repeat_with(move || {
            let at = next;
            let wide = self.coarser.filter(|&(from, _)| at >= from);
            next = at + wide.map_or(self.step, |(_, step)| step);
            at
        })
    }

    /// Every `step` from the start of the horizon.
    pub fn every(step: Span) -> Self {
        Self { step, first: step, coarser: None }
    }
}

/// A schedule and its cost.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// Probe times, ascending.
    pub times: Vec<Span>,
    /// C̄, in update·hours times importance.
    pub expected_cost: f64,
    /// A lower bound on the cost of every valid schedule.
    pub lower_bound: f64,
    /// z: the approximate saving of one more probe, or the cost of one less.
    pub price: f64,
}

/// Reasons for which there is no schedule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Impossible {
    /// The horizon has no length.
    #[error("the horizon is empty")]
    EmptyHorizon,
    /// n = 0.
    #[error("no probes to plan: at least one is needed, for the horizon's end")]
    NoProbes,
    /// n·δ > T.
    #[error(
        "{probes} probes at least {min_spacing} apart need {}, and the horizon is {horizon}: at most {most} fit",
        Span::from_millis(.min_spacing.as_millis().saturating_mul(i64::from(*.probes)))
    )]
    TooTight {
        /// n.
        probes: u32,
        /// δ.
        min_spacing: Span,
        /// T.
        horizon: Span,
        /// The number that fits.
        most: i64,
    },
    /// Every time is closed.
    #[error("every time of the horizon is closed to probes")]
    AllClosed,
    /// The last probe lies in a closed time.
    #[error("the horizon ends with a probe, and its end is closed to probes until {0} after its beginning")]
    EndClosed(Span),
    /// The probe at the end is within δ of the beginning, or before it is allowed.
    #[error("the horizon ends with a probe, and none is allowed until then")]
    EndTooEarly,
    /// The grid's step.
    #[error("the grid's step must be more than nothing and no longer than the horizon")]
    BadGrid,
    /// More grid points than supported.
    #[error("a grid of {0} points is too fine: at most {1} are planned with by this method")]
    GridTooFine(i64, i64),
}

/// The constraint that a schedule violates.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Broken {
    /// More than n.
    #[error("{0} probes")]
    TooMany(usize),
    /// Not ascending, outside the horizon, or without the required end.
    #[error("not a schedule of this horizon: {0} is out of place")]
    Misplaced(Span),
    /// Within δ.
    #[error("{0} comes within the spacing")]
    TooClose(Span),
    /// In a closed time.
    #[error("{0} is closed")]
    Closed(Span),
    /// More than the remaining allowance.
    #[error("too many probes before {0}")]
    Overspent(Span),
}

impl Horizon {
    /// T.
    pub fn length(&self) -> Span {
        self.cost.length()
    }

    /// Checks that a schedule can exist.
    pub fn check(&self) -> Result<(), Impossible> {
        let horizon = self.length();
        if horizon <= Span::ZERO {
            return Err(Impossible::EmptyHorizon);
        }
        if self.end == HorizonEnd::Open {
            return Ok(());
        }
        if self.probes == 0 {
            return Err(Impossible::NoProbes);
        }
        let (probes, min_spacing) = (self.probes, self.min_spacing);
        if min_spacing.as_millis().saturating_mul(i64::from(probes)) > horizon.as_millis() {
            let most = horizon.as_millis() / min_spacing.as_millis().max(1);
            return Err(Impossible::TooTight { probes, min_spacing, horizon, most });
        }
        if let Some(&(from, until)) = self.closed_at(horizon) {
            let all = self.closed.first().is_some_and(|first| first.0 <= Span::ZERO) && from <= Span::ZERO;
            return Err(if all { Impossible::AllClosed } else { Impossible::EndClosed(until) });
        }
        if self.may_be_sent(horizon) == 0 {
            return Err(Impossible::EndTooEarly);
        }
        Ok(())
    }

    /// The closed interval that contains this time.
    fn closed_at(&self, at: Span) -> Option<&(Span, Span)> {
        self.closed
            .get(self.closed.partition_point(|&(_, until)| until <= at))
            .filter(|(from, _)| *from <= at)
    }

    /// The first time at or after this one that is not closed.
    pub fn open_from(&self, at: Span) -> Span {
        let mut at = at;
        while let Some(&(_, until)) = self.closed_at(at) {
            at = until;
        }
        at
    }

    /// Whether a probe is allowed at this time.
    pub fn is_open(&self, at: Span) -> bool {
        self.closed_at(at).is_none()
    }

    /// Upper bound on the probes up to and including this time, from earlier spending.
    pub fn may_be_sent(&self, at: Span) -> u32 {
        let step = self.allowance.partition_point(|&(before, _)| before <= at);
        self.allowance.get(step).map_or(u32::MAX, |&(_, most)| most)
    }

    /// The earliest time of the probe of this number, counted from 0, under the allowance.
    pub fn earliest(&self, number: usize) -> Span {
        let enough = |&(_, most): &(Span, u32)| most as usize <= number;
        self.allowance
            .iter()
            .take_while(|step| enough(step))
            .last()
            .map_or(Span::ZERO, |&(before, _)| before)
    }

    /// The open times of the grid. A probed end of the horizon is included as the last one, even if it is
    /// not on the grid.
    pub fn slots(&self, grid: Grid) -> Result<Vec<Span>, Impossible> {
        self.check()?;
        let (step, length) = (grid.step.as_millis(), self.length().as_millis());
        if step <= 0 || step > length {
            return Err(Impossible::BadGrid);
        }
        let count = length / step + 1;
        if count > MOST_SLOTS {
            return Err(Impossible::GridTooFine(count, MOST_SLOTS));
        }
        let first = self.min_spacing.max(Span::from_millis(1));
        let mut slots = Vec::with_capacity(usize::try_from(count).unwrap_or(0));
        let mut closed = self.closed.iter().copied().peekable();
        for at in grid.times().take_while(|at| at.as_millis() < length) {
            while closed.next_if(|&(_, until)| until <= at).is_some() {}
            if at >= first && closed.peek().is_none_or(|&(from, _)| at < from) {
                slots.push(at);
            }
        }
        if self.end == HorizonEnd::Probed {
            slots.push(self.length());
        }
        Ok(slots)
    }

    /// Checks that a schedule satisfies the constraints.
    pub fn verify(&self, times: &[Span]) -> Result<(), Broken> {
        if times.len() > self.probes as usize {
            return Err(Broken::TooMany(times.len()));
        }
        if self.end == HorizonEnd::Probed && times.last() != Some(&self.length()) {
            return Err(Broken::Misplaced(times.last().copied().unwrap_or(Span::ZERO)));
        }
        let mut last = Span::ZERO;
        for (index, &at) in times.iter().enumerate() {
            if at < last || at > self.length() {
                return Err(Broken::Misplaced(at));
            }
            if at - last < self.min_spacing {
                return Err(Broken::TooClose(at));
            }
            if !self.is_open(at) {
                return Err(Broken::Closed(at));
            }
            if index >= self.may_be_sent(at) as usize {
                return Err(Broken::Overspent(at));
            }
            last = at;
        }
        Ok(())
    }
}

/// A week by the second, or a year by the minute.
const MOST_SLOTS: i64 = 1_000_000;
