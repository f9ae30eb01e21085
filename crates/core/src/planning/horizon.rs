//! One planning problem: the best times for at most n probes in a horizon, and what they must keep
//! (Eckstein, Gal, Reiner, problems 7 to 9).
//!
//! Times are whole milliseconds after the horizon's beginning, p₀ = 0, when the last probe was. So
//! spacing and closed times are kept exactly, and a probe rounded to the millisecond costs at most
//! aλ(½ ms)² more: 1e−13 update·hours at one update an hour.
//!
//! Knows what a schedule must keep. Must not know how one is found, nor what day it is.

use crate::model::obsolescence::Obsolescence;
use crate::time::Span;

/// What is asked of a schedule.
#[derive(Debug, Clone, PartialEq)]
pub struct Horizon {
    /// λ and a over the horizon.
    pub cost: Obsolescence,
    /// n: at most this many probes.
    pub probes: u32,
    /// δ: between two probes, and after the one at 0.
    pub min_spacing: Span,
    /// When none may be sent: [from, until), ascending and apart.
    pub closed: Vec<(Span, Span)>,
    /// What is still spent from before: before each of these times, ascending, at most so many of
    /// the probes, and never fewer at a later one.
    pub allowance: Vec<(Span, u32)>,
    /// The longest time between two probes, where that is bound. What has passed before the first may be sent
    /// cannot be helped.
    pub longest_gap: Option<Span>,
    /// How the horizon ends.
    pub end: End,
}

/// How a horizon ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With a probe, p_n = T, which is one of the n (the paper's problem).
    Probed,
    /// Without: whoever plans further on will look after the rest, which is charged up to the end.
    /// So a probe at the end is free, and bound to no rule.
    Open,
}

/// Times at which probes may stand while a schedule is searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grid {
    /// γ: from one to the next.
    pub step: Span,
    /// The first of them, after which the others follow.
    pub first: Span,
    /// From then on they are further apart, as far as this.
    pub coarser: Option<(Span, Span)>,
}

impl Grid {
    /// Its times, ascending without end.
    fn times(self) -> impl Iterator<Item = Span> {
        let mut next = self.first;
        std::iter::repeat_with(move || {
            let at = next;
            let wide = self.coarser.filter(|&(from, _)| at >= from);
            next = at + wide.map_or(self.step, |(_, step)| step);
            at
        })
    }

    /// Every `step` from the horizon's beginning on.
    pub fn every(step: Span) -> Self {
        Self { step, first: step, coarser: None }
    }
}

/// A schedule, and how good it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Schedule {
    /// When to probe, ascending.
    pub times: Vec<Span>,
    /// C̄, in update·hours times importance.
    pub expected_cost: f64,
    /// No schedule that is allowed can cost less than this.
    pub lower_bound: f64,
    /// z: about what one probe more would save, or one less cost.
    pub price: f64,
}

/// Why there is no schedule.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Impossible {
    /// Nothing to plan.
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
        /// How many would fit.
        most: i64,
    },
    /// Every time is closed.
    #[error("every time of the horizon is closed to probes")]
    AllClosed,
    /// The last probe must stand where none may.
    #[error("the horizon ends with a probe, and its end is closed to probes until {0} after its beginning")]
    EndClosed(Span),
    /// The probe at the end is within δ of the beginning, or before it is allowed.
    #[error("the horizon ends with a probe, and none is allowed until then")]
    EndTooEarly,
    /// The grid's step.
    #[error("the grid's step must be more than nothing and no longer than the horizon")]
    BadGrid,
    /// More grid points than can be held.
    #[error("a grid of {0} points is too fine: at most {1} are planned with by this method")]
    GridTooFine(i64, i64),
}

/// What a schedule breaks.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Broken {
    /// More than n.
    #[error("{0} probes")]
    TooMany(usize),
    /// Not ascending, outside the horizon, or not where it must end.
    #[error("not a schedule of this horizon: {0} is out of place")]
    Misplaced(Span),
    /// Within δ.
    #[error("{0} comes within the spacing")]
    TooClose(Span),
    /// In a closed time.
    #[error("{0} is closed")]
    Closed(Span),
    /// More than what is left to spend.
    #[error("too many probes before {0}")]
    Overspent(Span),
}

impl Horizon {
    /// T.
    pub fn length(&self) -> Span {
        self.cost.length()
    }

    /// Whether there is anything to search for.
    pub fn check(&self) -> Result<(), Impossible> {
        let horizon = self.length();
        if horizon <= Span::ZERO {
            return Err(Impossible::EmptyHorizon);
        }
        if self.end == End::Open {
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

    /// The closed time that holds this one.
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

    /// Whether a probe may stand here.
    pub fn is_open(&self, at: Span) -> bool {
        self.closed_at(at).is_none()
    }

    /// How many probes may have been sent up to and at this time, as far as earlier spending goes.
    pub fn may_be_sent(&self, at: Span) -> u32 {
        let step = self.allowance.partition_point(|&(before, _)| before <= at);
        self.allowance.get(step).map_or(u32::MAX, |&(_, most)| most)
    }

    /// From when the probe of this number, counted from 0, may be sent as far as spending goes.
    pub fn earliest(&self, number: usize) -> Span {
        let enough = |&(_, most): &(Span, u32)| most as usize <= number;
        self.allowance
            .iter()
            .take_while(|step| enough(step))
            .last()
            .map_or(Span::ZERO, |&(before, _)| before)
    }

    /// The grid's open times, the horizon's end included where it must be probed. The end is the
    /// last one, whether the grid meets it or not.
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
        if self.end == End::Probed {
            slots.push(self.length());
        }
        Ok(slots)
    }

    /// Whether a schedule is one of this horizon's.
    pub fn verify(&self, times: &[Span]) -> Result<(), Broken> {
        if times.len() > self.probes as usize {
            return Err(Broken::TooMany(times.len()));
        }
        if self.end == End::Probed && times.last() != Some(&self.length()) {
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
