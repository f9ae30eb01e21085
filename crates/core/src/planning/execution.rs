//! Execution intervals: the spans in which a probe serves somebody, and the fewest probes that serve all.
//!
//! Who asks to be told of an update within half an hour does not care when in that half hour the source is
//! looked at. Venu Gopal et al. call such a span an *execution interval*, and the question how few probes
//! meet all of them *OptMon2*. Their answer, SUP (Algorithm 1), is to wait until the last moment of the
//! interval that ends first, and to let that probe serve every other interval that has begun by then.
//!
//! No schedule has fewer probes: the intervals at whose ends SUP probes have no moment in common, since
//! each begins after the probe before it, so every schedule needs a probe for each of them. Nothing that
//! comes later changes what was right before, so it may be done from probe to probe ([`Open`]).
//!
//! A source may be probed only so often, though: probes keep a spacing δ, no more than n of them come in T,
//! and some hours are closed. So each of SUP's probes, due at b_i at the latest, is moved back as far as those
//! after it need, t_i = min(b_i, t_(i+1) − δ, t_(i+n) − T), and out of closed times. Where that leaves an interval
//! without a probe, something is dropped: that interval, or of the probes that are in its way the one that
//! serves least; then it begins anew. At last, probes go that serve nothing which the others do not. That is not
//! always the most that could be served: tests hold it against brute force (`tests/plan/execution.rs`).
//!
//! Knows one source's intervals and what forbids its probes. Must not know what rules want, nor how it is
//! foretold when updates come.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

use super::budget::Budget;

/// Which rule an interval is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleId(pub u32);

/// A probe from the beginning to the end, both included, serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// Whose it is.
    pub rule: RuleId,
    /// From when on a probe finds what is wanted.
    pub from: Timestamp,
    /// Until when that is soon enough.
    pub until: Timestamp,
}

impl Interval {
    /// Whether a probe then serves it.
    pub fn is_served_at(&self, at: Timestamp) -> bool {
        (self.from..=self.until).contains(&at)
    }
}

/// The intervals of one source that are still to be served, whenever they become known.
///
/// ```
/// # use tidewatch_core::planning::execution::{Interval, Open, RuleId};
/// # use tidewatch_core::time::Timestamp;
/// let at = Timestamp::from_secs;
/// let mut open = Open::default();
/// open.add(Interval { rule: RuleId(1), from: at(0), until: at(30) });
/// open.add(Interval { rule: RuleId(2), from: at(20), until: at(90) });
/// open.add(Interval { rule: RuleId(1), from: at(40), until: at(70) });
/// assert_eq!(open.next().unwrap().until, at(30));
/// // A probe at the last moment serves two of them.
/// assert_eq!(open.probed(at(30)).served.len(), 2);
/// assert_eq!(open.next().unwrap().until, at(70));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Open {
    /// By their ends.
    intervals: Vec<Interval>,
}

/// What became of intervals with a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probed {
    /// It served these.
    pub served: Vec<Interval>,
    /// It came too late for these.
    pub missed: Vec<Interval>,
}

impl Open {
    /// One more to serve.
    pub fn add(&mut self, interval: Interval) {
        let place = self.intervals.partition_point(|other| other.until <= interval.until);
        self.intervals.insert(place, interval);
    }

    /// Those of a rule are no longer wanted, or will be derived anew.
    pub fn withdraw(&mut self, rule: RuleId) {
        self.intervals.retain(|interval| interval.rule != rule);
    }

    /// The one at whose end the next probe is due, if nothing else asks for one before.
    pub fn next(&self) -> Option<&Interval> {
        self.intervals.first()
    }

    /// All of them, by their ends.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Moves with the clock.
    pub fn shift(&mut self, by: Span) {
        for interval in &mut self.intervals {
            interval.from += by;
            interval.until += by;
        }
    }

    /// A probe was sent, whoever asked for it.
    pub fn probed(&mut self, at: Timestamp) -> Probed {
        let mut of = Probed::default();
        self.intervals.retain(|interval| match interval {
            interval if interval.until < at => {
                of.missed.push(*interval);
                false
            }
            interval if interval.from <= at => {
                of.served.push(*interval);
                false
            }
            _ => true,
        });
        of
    }
}

/// What forbids probes of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// n, T, δ.
    pub budget: Budget,
    /// When its last probes ended, ascending: those of the last T, and the last of all.
    pub spent: Vec<Timestamp>,
    /// Nothing is allowed before.
    pub not_before: Timestamp,
    /// Nor in these spans, ascending and apart; each without its end.
    pub closed: Vec<(Timestamp, Timestamp)>,
}

/// What is in an interval's way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obstacle {
    /// δ.
    Spacing,
    /// n per T.
    Budget,
    /// It lies within closed times, or ends before anything is allowed.
    Closed,
    /// c per step: others want the same slots.
    Slots,
    /// Others want the same host at the time.
    Host,
}

impl Obstacle {
    /// As it is called where people read it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spacing => "min_spacing",
            Self::Budget => "budget",
            Self::Closed => "closed",
            Self::Slots => "probes_per_step",
            Self::Host => "host_spacing",
        }
    }
}

/// The fewest probes, and what they cannot serve.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Satisfied {
    /// Ascending.
    pub probes: Vec<Timestamp>,
    /// What no probe serves, and why.
    pub dropped: Vec<(Interval, Obstacle)>,
}

/// The fewest probes that serve these intervals, as late as they may be, and what they cannot serve.
///
/// ```
/// # use tidewatch_core::planning::{budget::Budget, execution::{Interval, Limits, Obstacle, RuleId, satisfy}};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let mins = |n: i64| Timestamp::from_secs(60 * n);
/// let interval = |from, until| Interval { rule: RuleId(1), from: mins(from), until: mins(until) };
/// let budget = Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
/// let done = satisfy(&[interval(0, 30), interval(20, 60), interval(35, 40)], &Limits::new(budget));
/// // Served at half past, the first would leave no room for the last.
/// assert_eq!(done.probes, [mins(25), mins(40)]);
/// assert!(done.dropped.is_empty());
/// ```
pub fn satisfy(intervals: &[Interval], limits: &Limits) -> Satisfied {
    let mut done = Satisfied::default();
    // Each with the last moment at which a probe may be sent for it, by that.
    let mut wanted: Vec<(Timestamp, Interval)> = Vec::with_capacity(intervals.len());
    for &interval in intervals {
        let latest = limits.latest_open(interval.until);
        match latest >= interval.from.max(limits.not_before) {
            true => wanted.push((latest, interval)),
            false => done.dropped.push((interval, Obstacle::Closed)),
        }
    }
    wanted.sort_by_key(|&(latest, _)| latest);
    loop {
        let stabs = stabs(&wanted);
        let held = limits.latest(&stabs);
        let times: Vec<Timestamp> = held.iter().map(|held| held.at).collect();
        let Some((dropped, obstacle)) = limits.in_the_way(&wanted, &stabs, &held, &times) else {
            done.probes = needed(intervals, times);
            // What was dropped may lie in the way of a probe all the same.
            done.dropped.retain(|(interval, _)| !is_served(interval, &done.probes));
            return done;
        };
        done.dropped.extend(dropped.iter().map(|&index| (wanted[index].1, obstacle)));
        let mut index = 0;
        wanted.retain(|_| {
            index += 1;
            !dropped.contains(&(index - 1))
        });
    }
}

/// One of SUP's probes: the last moment for it, and which intervals it is for.
#[derive(Debug, Clone)]
struct Stab {
    until: Timestamp,
    serves: Vec<usize>,
}

/// SUP without limits, of intervals by their ends.
fn stabs(wanted: &[(Timestamp, Interval)]) -> Vec<Stab> {
    let mut stabs: Vec<Stab> = Vec::new();
    for (index, (until, interval)) in wanted.iter().enumerate() {
        match stabs.last_mut() {
            // The probe before comes late enough to serve it too.
            Some(last) if interval.from <= last.until => last.serves.push(index),
            _ => stabs.push(Stab { until: *until, serves: vec![index] }),
        }
    }
    stabs
}

/// These times, ascending, but for those that serve nothing which the others do not. Limits move probes, and
/// one may come to serve what another was for.
fn needed(intervals: &[Interval], mut times: Vec<Timestamp>) -> Vec<Timestamp> {
    let mut number = 0;
    while number < times.len() {
        let at = times[number];
        let alone = |interval: &Interval| {
            let before = number.checked_sub(1).is_some_and(|before| interval.is_served_at(times[before]));
            let after = times.get(number + 1).is_some_and(|&after| interval.is_served_at(after));
            interval.is_served_at(at) && !before && !after
        };
        match intervals.iter().any(alone) {
            true => number += 1,
            // Those before stay needed: what they alone serve has lost nothing.
            false => _ = times.remove(number),
        }
    }
    times
}

/// Whether one of these times, ascending, serves it.
fn is_served(interval: &Interval, times: &[Timestamp]) -> bool {
    let first = times.partition_point(|&at| at < interval.from);
    times.get(first).is_some_and(|&at| at <= interval.until)
}

/// How late a probe may be, and which later one keeps it from being later.
#[derive(Debug, Clone, Copy)]
struct Held {
    at: Timestamp,
    by: Option<(usize, Obstacle)>,
}

impl Limits {
    /// Nothing but a budget.
    pub fn new(budget: Budget) -> Self {
        Self { budget, spent: Vec::new(), not_before: Timestamp::MIN, closed: Vec::new() }
    }

    /// The last open moment up to this one; closed times may reach back to the beginning.
    fn latest_open(&self, at: Timestamp) -> Timestamp {
        let mut at = at;
        let begun = self.closed.partition_point(|&(from, _)| from <= at);
        for &(from, to) in self.closed[..begun].iter().rev() {
            if at >= to {
                break;
            }
            at = from - Span::from_millis(1);
        }
        at
    }

    /// The soonest moment for the probe of this number, and what forbids an earlier one.
    fn soonest(&self, number: usize) -> (Timestamp, Obstacle) {
        let Budget { probes, per, min_spacing } = self.budget;
        let spacing = self.spent.last().map_or(Timestamp::MIN, |&last| last + min_spacing);
        let nth = (self.spent.len() + number).checked_sub(probes.max(1) as usize);
        let budget = nth.and_then(|nth| self.spent.get(nth)).map_or(Timestamp::MIN, |&at| at + per);
        let closed = (self.not_before, Obstacle::Closed);
        [(spacing, Obstacle::Spacing), (budget, Obstacle::Budget)]
            .into_iter()
            .fold(closed, |most, one| if one.0 > most.0 { one } else { most })
    }

    /// The intervals to give up first, if these probes cannot serve all, and why.
    fn in_the_way(
        &self,
        wanted: &[(Timestamp, Interval)],
        stabs: &[Stab],
        held: &[Held],
        times: &[Timestamp],
    ) -> Option<(Vec<usize>, Obstacle)> {
        // The last in trouble: those after it have their place.
        for number in (0..stabs.len()).rev() {
            let (soonest, why) = self.soonest(number);
            let early = times[number] < soonest;
            let serves = &stabs[number].serves;
            let unserved: Vec<usize> = match early {
                true => serves.clone(),
                false => {
                    serves.iter().copied().filter(|&index| !is_served(&wanted[index].1, times)).collect()
                }
            };
            if unserved.is_empty() {
                continue;
            }
            // It is held back by a later one, which may be held back in turn: whichever serves least goes.
            let holding = std::iter::successors(held[number].by, |&(next, _)| held[next].by);
            let least = holding.map(|(next, _)| next).min_by_key(|&next| stabs[next].serves.len());
            let obstacle = held[number].by.map_or(why, |(_, obstacle)| obstacle);
            return match least.filter(|&least| stabs[least].serves.len() < unserved.len()) {
                Some(least) => Some((stabs[least].serves.clone(), obstacle)),
                None => Some((unserved, obstacle)),
            };
        }
        None
    }

    /// As late as may be, the last first.
    fn latest(&self, stabs: &[Stab]) -> Vec<Held> {
        let Budget { probes, per, min_spacing } = self.budget;
        let mut held: Vec<Held> = stabs.iter().map(|stab| Held { at: stab.until, by: None }).collect();
        for number in (0..stabs.len()).rev() {
            let apart = min_spacing.max(Span::from_millis(1));
            let nth = number + probes.max(1) as usize;
            for (later, span, obstacle) in
                [(number + 1, apart, Obstacle::Spacing), (nth, per, Obstacle::Budget)]
            {
                if let Some(most) = held.get(later).map(|held| held.at - span)
                    && most < held[number].at
                {
                    held[number] = Held { at: self.latest_open(most), by: Some((later, obstacle)) };
                }
            }
        }
        held
    }
}
