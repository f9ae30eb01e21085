//! Scheduling execution intervals of many sources with c probes per step.
//!
//! [`execution`](tidewatch_core::planning::execution) has the fewest probes that meet all intervals (Venu
//! Gopal et al., OptMon2), source by source ([`sup_fleet`]). With c probes per step for all sources the
//! question is how many intervals can be met (OptMon1). Must not know how intervals are derived, nor what
//! forbids probes.
//!
//! - [`earliest_deadline`] probes the sources whose first open interval ends soonest. If each source has one
//!   interval, this is optimal: intervals and slots form a convex bipartite graph, for which it is a maximum
//!   matching (Glover 1967). If a probe meets up to W intervals at once, it may meet only 1/(1 + W) of the
//!   optimum. The reason is that it prefers one interval that ends now to many that end next.
//! - [`wic`] is the rule of Pandey, Dhamdhere and Olston (2004), to which the paper compares. It probes the
//!   sources with the most open intervals and ignores their ends. It meets at least half of the optimum: at
//!   each step, the intervals it never meets are outweighed by those it chose.
//! - [`last_moment`] probes at the end of an interval, as SUP does. That is optimal without a limit. With one
//!   it loses intervals whose ends coincide.
//!
//! The first two bounds hold because neither rule leaves a slot empty while an interval is open. Each
//! interval that the optimum meets at a step and the rule never meets is matched by a probe of that step.
//! Tests try all schedules.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tidewatch_core::planning::execution::{Interval, OpenIntervals};
use tidewatch_core::time::{Span, Timestamp};

use tidewatch_core::source_id::SourceId;

/// The probes sent, and the number of intervals met.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IntervalSchedule {
    /// Probes by time.
    pub probes: Vec<(Timestamp, SourceId)>,
    /// Number of intervals with a probe.
    pub satisfied: usize,
}

/// A source with open intervals that are not yet met.
#[derive(Debug, Clone, Copy)]
struct WaitingIntervals {
    source: SourceId,
    /// The earliest end.
    until: Timestamp,
    /// The earliest start.
    since: Timestamp,
    /// Number of open intervals.
    open: usize,
}

/// Probes at every step the sources whose first open interval ends soonest. Steps are at the multiples of
/// `step`.
///
/// ```
/// # use tidewatch_core::planning::execution::{Interval, RuleId};
/// # use tidewatch_core::source_id::SourceId;
/// # use tidewatch_core::time::{Span, Timestamp};
/// # use tidewatch_lab::profiles::intervals::{earliest_deadline, wic};
/// let of = |source, from, until| {
///     let (from, until) = (Timestamp::from_secs(from), Timestamp::from_secs(until));
///     (SourceId(source), Interval { rule: RuleId(0), from, until })
/// };
/// let intervals = [of(1, 0, 1), of(2, 0, 0)];
/// let second = Span::from_secs(1);
/// assert_eq!(earliest_deadline(&intervals, second, 1).satisfied, 2);
/// assert_eq!(wic(&intervals, second, 1).satisfied, 1);
/// ```
pub fn earliest_deadline(
    intervals: &[(SourceId, Interval)],
    step: Span,
    probes_per_step: usize,
) -> IntervalSchedule {
    run(intervals, step, probes_per_step, |_, waiting| {
        waiting.sort_by_key(|one| (one.until, Reverse(one.open), one.source));
    })
}

/// Probes at every step the sources with the most open intervals; of equal ones, that with the earliest
/// start.
pub fn wic(intervals: &[(SourceId, Interval)], step: Span, probes_per_step: usize) -> IntervalSchedule {
    run(intervals, step, probes_per_step, |_, waiting| {
        waiting.sort_by_key(|one| (Reverse(one.open), one.since, one.source));
    })
}

/// Probes at every step the sources with an interval that ends before the next step, the most open intervals
/// first.
pub fn last_moment(
    intervals: &[(SourceId, Interval)],
    step: Span,
    probes_per_step: usize,
) -> IntervalSchedule {
    run(intervals, step, probes_per_step, |next, waiting| {
        waiting.retain(|one| one.until < next);
        waiting.sort_by_key(|one| (Reverse(one.open), one.source));
    })
}

/// SUP of each source separately: the fewest probes that meet all intervals.
pub fn sup_fleet(intervals: &[(SourceId, Interval)]) -> IntervalSchedule {
    let mut sources: BTreeMap<SourceId, Vec<Interval>> = BTreeMap::new();
    for &(source, interval) in intervals {
        sources.entry(source).or_default().push(interval);
    }
    let mut schedule = IntervalSchedule::default();
    for (source, mut coming) in sources {
        coming.sort_by_key(|interval| interval.from);
        let (mut open, mut coming) = (OpenIntervals::default(), coming.into_iter().peekable());
        loop {
            let due = open.next().map_or(Timestamp::MAX, |interval| interval.until);
            match coming.next_if(|interval| interval.from <= due) {
                Some(interval) => open.add(interval),
                None if open.next().is_none() => break,
                None => {
                    schedule.satisfied += open.probed(due).satisfied.len();
                    schedule.probes.push((due, source));
                }
            }
        }
    }
    schedule.probes.sort_unstable();
    schedule
}

/// Runs step by step. `order` gets the time of the next step and moves the sources to be probed to the front.
fn run(
    intervals: &[(SourceId, Interval)],
    step: Span,
    probes_per_step: usize,
    order: impl Fn(Timestamp, &mut Vec<WaitingIntervals>),
) -> IntervalSchedule {
    let step = step.max(Span::from_millis(1));
    let first_step_from = |at: Timestamp| {
        let (at, step) = (at.as_millis(), step.as_millis());
        Timestamp::from_millis(at.div_euclid(step).saturating_add((at.rem_euclid(step) > 0).into()) * step)
    };
    let mut coming: Vec<(SourceId, Interval)> = intervals.to_vec();
    coming.sort_by_key(|(source, interval)| (interval.from, *source));
    let mut coming = coming.into_iter().peekable();
    let mut open: BTreeMap<SourceId, Vec<Interval>> = BTreeMap::new();
    let mut schedule = IntervalSchedule::default();
    let Some(mut now) = coming.peek().map(|(_, interval)| first_step_from(interval.from)) else {
        return schedule;
    };
    loop {
        while let Some((source, interval)) = coming.next_if(|(_, interval)| interval.from <= now) {
            open.entry(source).or_default().push(interval);
        }
        open.retain(|_, intervals| {
            intervals.retain(|interval| interval.until >= now);
            !intervals.is_empty()
        });
        let mut waiting: Vec<WaitingIntervals> =
            open.iter().filter_map(|(&source, of)| waiting(source, of)).collect();
        order(now + step, &mut waiting);
        for one in waiting.iter().take(probes_per_step) {
            open.remove(&one.source);
            schedule.satisfied += one.open;
            schedule.probes.push((now, one.source));
        }
        now = match (open.is_empty(), coming.peek()) {
            (false, _) => now + step,
            (true, Some((_, next))) => first_step_from(next.from).max(now + step),
            (true, None) => return schedule,
        };
    }
}

fn waiting(source: SourceId, intervals: &[Interval]) -> Option<WaitingIntervals> {
    let until = intervals.iter().map(|interval| interval.until).min()?;
    let since = intervals.iter().map(|interval| interval.from).min()?;
    Some(WaitingIntervals { source, until, since, open: intervals.len() })
}
