//! Execution intervals: the spans in which a probe satisfies a rule, and the fewest probes that satisfy all.
//!
//! If an update must be found within half an hour, any probe in that half hour is sufficient. Venu Gopal et
//! al. call such a span an *execution interval*, and the minimisation of probes *OptMon2*. Their algorithm,
//! SUP (Algorithm 1), probes at the end of the interval that ends first; that probe also satisfies every
//! other interval that has begun by then. Takes the intervals of one source and its limits. May not know the
//! requirements of rules or the prediction of updates.
//!
//! No schedule has fewer probes: the intervals at whose ends SUP probes are disjoint, since each begins
//! after the previous probe. So every schedule needs a probe for each of them. Later intervals do not change
//! earlier decisions, so it can run online ([`OpenIntervals`]).
//!
//! Probes of a source are limited: a spacing δ, at most n in T, and closed hours. So each probe of SUP, due
//! at b_i at the latest, is moved to t_i = min(b_i, t_(i+1) − δ, t_(i+n) − T) and out of closed times. If an
//! interval has no probe then, something is dropped: that interval, or of the later probes that displace it
//! the one that satisfies least; then the procedure restarts. At the end, redundant probes are removed. The
//! result is not always optimal; the tests compare it with brute force
//! (`crates/core/tests/core/plan/execution.rs`).

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

use super::budget::Budget;

/// The number of a rule.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RuleId(pub u32);

/// A span in which a probe satisfies a rule; both ends are included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The rule.
    pub rule: RuleId,
    /// Start.
    pub from: Timestamp,
    /// End.
    pub until: Timestamp,
}

impl Interval {
    /// Whether a probe at this time satisfies it.
    pub fn is_satisfied_at(&self, at: Timestamp) -> bool {
        (self.from..=self.until).contains(&at)
    }
}

/// The intervals of one source that no probe has satisfied yet.
///
/// ```
/// # use tidewatch_core::planning::execution::{Interval, OpenIntervals, RuleId};
/// # use tidewatch_core::time::Timestamp;
/// let at = Timestamp::from_secs;
/// let mut open = OpenIntervals::default();
/// open.add(Interval { rule: RuleId(1), from: at(0), until: at(30) });
/// open.add(Interval { rule: RuleId(2), from: at(20), until: at(90) });
/// open.add(Interval { rule: RuleId(1), from: at(40), until: at(70) });
/// assert_eq!(open.next().unwrap().until, at(30));
/// // A probe at the end of the first satisfies two of them.
/// assert_eq!(open.probed(at(30)).satisfied.len(), 2);
/// assert_eq!(open.next().unwrap().until, at(70));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenIntervals {
    /// Sorted by their ends.
    intervals: Vec<Interval>,
}

/// The effect of a probe on intervals.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProbedIntervals {
    /// The satisfied ones.
    pub satisfied: Vec<Interval>,
    /// The ones that ended before it.
    pub missed: Vec<Interval>,
}

impl OpenIntervals {
    /// Adds an interval.
    pub fn add(&mut self, interval: Interval) {
        let place = self.intervals.partition_point(|other| other.until <= interval.until);
        self.intervals.insert(place, interval);
    }

    /// Removes the intervals of a rule.
    pub fn withdraw(&mut self, rule: RuleId) {
        self.intervals.retain(|interval| interval.rule != rule);
    }

    /// The interval that ends first: the next probe is due at its end.
    pub fn next(&self) -> Option<&Interval> {
        self.intervals.first()
    }

    /// All intervals, sorted by their ends.
    pub fn intervals(&self) -> &[Interval] {
        &self.intervals
    }

    /// Shifts all times after a correction of the clock.
    pub fn shift(&mut self, by: Span) {
        for interval in &mut self.intervals {
            interval.from += by;
            interval.until += by;
        }
    }

    /// Removes the intervals that a probe at `at` satisfies or that ended before it.
    pub fn probed(&mut self, at: Timestamp) -> ProbedIntervals {
        let mut of = ProbedIntervals::default();
        self.intervals.retain(|interval| match interval {
            interval if interval.until < at => {
                of.missed.push(*interval);
                false
            }
            interval if interval.from <= at => {
                of.satisfied.push(*interval);
                false
            }
            _ => true,
        });
        of
    }
}

/// The limits on the probes of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// n, T, δ.
    pub budget: Budget,
    /// End times of its last probes, ascending: those of the last T, and at least the last one.
    pub spent: Vec<Timestamp>,
    /// No probe before this time.
    pub not_before: Timestamp,
    /// No probe in these spans, ascending and disjoint; each without its end.
    pub closed: Vec<(Timestamp, Timestamp)>,
}

/// The limit that prevents an interval from being satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obstacle {
    /// δ.
    Spacing,
    /// n per T.
    Budget,
    /// It lies within closed times, or ends before the first allowed probe.
    Closed,
    /// c per step: other sources use the slots.
    Slots,
    /// Other sources use the host at that time.
    Host,
}

impl Obstacle {
    /// The displayed name.
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

/// The fewest probes, and the intervals without a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Satisfied {
    /// Ascending.
    pub probes: Vec<Timestamp>,
    /// Intervals without a probe, and the limit.
    pub dropped: Vec<(Interval, Obstacle)>,
}

/// The fewest probes that satisfy these intervals, as late as possible, and the intervals without a probe.
///
/// ```
/// # use tidewatch_core::planning::budget::Budget;
/// # use tidewatch_core::planning::execution::{Interval, Limits, RuleId, satisfy};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let mins = |n: i64| Timestamp::from_secs(60 * n);
/// let interval = |from, until| Interval { rule: RuleId(1), from: mins(from), until: mins(until) };
/// let budget = Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
/// let done = satisfy(&[interval(0, 30), interval(20, 60), interval(35, 40)], &Limits::new(budget));
/// // A probe at minute 30 would violate the spacing to the last.
/// assert_eq!(done.probes, [mins(25), mins(40)]);
/// assert!(done.dropped.is_empty());
/// ```
pub fn satisfy(intervals: &[Interval], limits: &Limits) -> Satisfied {
    let mut done = Satisfied::default();
    // Each with the latest time of a probe for it, sorted by that.
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
            // A dropped interval may still contain a probe.
            done.dropped.retain(|(interval, _)| !is_satisfied(interval, &done.probes));
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

/// A probe of SUP: its latest time and its intervals.
#[derive(Debug, Clone)]
struct Stab {
    until: Timestamp,
    satisfies: Vec<usize>,
}

/// SUP without limits, for intervals sorted by their ends.
fn stabs(wanted: &[(Timestamp, Interval)]) -> Vec<Stab> {
    let mut stabs: Vec<Stab> = Vec::new();
    for (index, (until, interval)) in wanted.iter().enumerate() {
        match stabs.last_mut() {
            // The previous probe satisfies it too.
            Some(last) if interval.from <= last.until => last.satisfies.push(index),
            _ => stabs.push(Stab { until: *until, satisfies: vec![index] }),
        }
    }
    stabs
}

/// Removes redundant times. Limits move probes, and one may then satisfy the intervals of another.
fn needed(intervals: &[Interval], mut times: Vec<Timestamp>) -> Vec<Timestamp> {
    let mut number = 0;
    while number < times.len() {
        let at = times[number];
        let alone = |interval: &Interval| {
            let before =
                number.checked_sub(1).is_some_and(|before| interval.is_satisfied_at(times[before]));
            let after = times.get(number + 1).is_some_and(|&after| interval.is_satisfied_at(after));
            interval.is_satisfied_at(at) && !before && !after
        };
        match intervals.iter().any(alone) {
            true => number += 1,
            // Earlier probes remain necessary: the removal does not affect their intervals.
            false => _ = times.remove(number),
        }
    }
    times
}

/// Whether one of these ascending times satisfies it.
fn is_satisfied(interval: &Interval, times: &[Timestamp]) -> bool {
    let first = times.partition_point(|&at| at < interval.from);
    times.get(first).is_some_and(|&at| at <= interval.until)
}

/// The latest time of a probe, and the later probe that limits it.
#[derive(Debug, Clone, Copy)]
struct Held {
    at: Timestamp,
    by: Option<(usize, Obstacle)>,
}

impl Limits {
    /// Limits with a budget only.
    pub fn new(budget: Budget) -> Self {
        Self { budget, spent: Vec::new(), not_before: Timestamp::MIN, closed: Vec::new() }
    }

    /// The latest open time up to this one; closed times may extend back to the start.
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

    /// The earliest time for the probe of this number, and the limit that determines it.
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

    /// The intervals to drop next if these probes cannot satisfy all, and the limit.
    fn in_the_way(
        &self,
        wanted: &[(Timestamp, Interval)],
        stabs: &[Stab],
        held: &[Held],
        times: &[Timestamp],
    ) -> Option<(Vec<usize>, Obstacle)> {
        // The last conflict first: the probes after it are valid.
        for number in (0..stabs.len()).rev() {
            let (soonest, why) = self.soonest(number);
            let early = times[number] < soonest;
            let satisfies = &stabs[number].satisfies;
            let unsatisfied: Vec<usize> = match early {
                true => satisfies.clone(),
                false => satisfies
                    .iter()
                    .copied()
                    .filter(|&index| !is_satisfied(&wanted[index].1, times))
                    .collect(),
            };
            if unsatisfied.is_empty() {
                continue;
            }
            // A later probe limits it, and that one may be limited in turn. Drop the one
            // that satisfies least.
            let holding = std::iter::successors(held[number].by, |&(next, _)| held[next].by);
            let least = holding.map(|(next, _)| next).min_by_key(|&next| stabs[next].satisfies.len());
            let obstacle = held[number].by.map_or(why, |(_, obstacle)| obstacle);
            return match least.filter(|&least| stabs[least].satisfies.len() < unsatisfied.len()) {
                Some(least) => Some((stabs[least].satisfies.clone(), obstacle)),
                None => Some((unsatisfied, obstacle)),
            };
        }
        None
    }

    /// The latest times, computed from the last probe to the first.
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
