//! Execution intervals of many sources under c probes per step: who is probed when not all can be.
//!
//! [`execution`](tidewatch_core::planning::execution) has the fewest probes that serve all intervals (Venu Gopal et al., OptMon2), source by
//! source ([`sup_fleet`]). With c probes per step for all sources the question is the other way round, how many
//! intervals can be served (OptMon1):
//!
//! - [`earliest_deadline`] probes those whose first open interval ends soonest. Where each source has one
//!   interval, none serves more: intervals and places in steps are a convex bipartite graph, for which this is a
//!   greatest matching (Glover 1967). Where a probe serves up to W intervals at once it may serve as little as
//!   1/(1 + W) of what can be, because it prefers one that ends now to many that end next.
//! - [`wic`] is the rule of Pandey, Dhamdhere and Olston (2004), the paper's rival: whoever serves most now, blind
//!   to ends. It serves at least half of what can be: what it never serves was at each step outweighed by what it
//!   chose.
//! - [`last_moment`] waits for the end as SUP does, which is right without a limit, and loses what collides.
//!
//! The first two bounds hold because neither leaves a place empty while somebody waits: of the intervals that the
//! best schedule serves at a step and these never do, each stood against a probe of that step. Tests try all schedules.
//!
//! Knows intervals and steps. Must not know how intervals came about, nor what forbids probes.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use tidewatch_core::planning::execution::{Interval, Open};
use tidewatch_core::time::{Span, Timestamp};

use tidewatch_core::source_id::SourceId;

/// What was probed, and how many intervals that served.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    /// By time.
    pub probes: Vec<(Timestamp, SourceId)>,
    /// Intervals with a probe.
    pub satisfied: usize,
}

/// A source with open intervals that no probe has served.
#[derive(Debug, Clone, Copy)]
struct Waiting {
    source: SourceId,
    /// The soonest end.
    until: Timestamp,
    /// The first beginning.
    since: Timestamp,
    /// How many are open.
    open: usize,
}

/// At every step those whose first open interval ends soonest. Steps are at the multiples of `step`.
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
pub fn earliest_deadline(intervals: &[(SourceId, Interval)], step: Span, probes_per_step: usize) -> Served {
    run(intervals, step, probes_per_step, |_, waiting| {
        waiting.sort_by_key(|one| (one.until, Reverse(one.open), one.source));
    })
}

/// At every step those with the most open intervals; of equal ones, who has waited longest.
pub fn wic(intervals: &[(SourceId, Interval)], step: Span, probes_per_step: usize) -> Served {
    run(intervals, step, probes_per_step, |_, waiting| {
        waiting.sort_by_key(|one| (Reverse(one.open), one.since, one.source));
    })
}

/// At every step those for whom it is the last, the fullest first.
pub fn last_moment(intervals: &[(SourceId, Interval)], step: Span, probes_per_step: usize) -> Served {
    run(intervals, step, probes_per_step, |next, waiting| {
        waiting.retain(|one| one.until < next);
        waiting.sort_by_key(|one| (Reverse(one.open), one.source));
    })
}

/// SUP of each source by itself: the fewest probes that serve all.
pub fn sup_fleet(intervals: &[(SourceId, Interval)]) -> Served {
    let mut sources: BTreeMap<SourceId, Vec<Interval>> = BTreeMap::new();
    for &(source, interval) in intervals {
        sources.entry(source).or_default().push(interval);
    }
    let mut served = Served::default();
    for (source, mut coming) in sources {
        coming.sort_by_key(|interval| interval.from);
        let (mut open, mut coming) = (Open::default(), coming.into_iter().peekable());
        loop {
            let due = open.next().map_or(Timestamp::MAX, |interval| interval.until);
            match coming.next_if(|interval| interval.from <= due) {
                Some(interval) => open.add(interval),
                None if open.next().is_none() => break,
                None => {
                    served.satisfied += open.probed(due).served.len();
                    served.probes.push((due, source));
                }
            }
        }
    }
    served.probes.sort_unstable();
    served
}

/// Step by step: `order` is told when the next step is, and puts those who are to be probed first.
fn run(
    intervals: &[(SourceId, Interval)],
    step: Span,
    probes_per_step: usize,
    order: impl Fn(Timestamp, &mut Vec<Waiting>),
) -> Served {
    let step = step.max(Span::from_millis(1));
    let first_step_from = |at: Timestamp| {
        let (at, step) = (at.as_millis(), step.as_millis());
        Timestamp::from_millis(at.div_euclid(step).saturating_add((at.rem_euclid(step) > 0).into()) * step)
    };
    let mut coming: Vec<(SourceId, Interval)> = intervals.to_vec();
    coming.sort_by_key(|(source, interval)| (interval.from, *source));
    let mut coming = coming.into_iter().peekable();
    let mut open: BTreeMap<SourceId, Vec<Interval>> = BTreeMap::new();
    let mut served = Served::default();
    let Some(mut now) = coming.peek().map(|(_, interval)| first_step_from(interval.from)) else {
        return served;
    };
    loop {
        while let Some((source, interval)) = coming.next_if(|(_, interval)| interval.from <= now) {
            open.entry(source).or_default().push(interval);
        }
        open.retain(|_, intervals| {
            intervals.retain(|interval| interval.until >= now);
            !intervals.is_empty()
        });
        let mut waiting: Vec<Waiting> =
            open.iter().filter_map(|(&source, of)| waiting(source, of)).collect();
        order(now + step, &mut waiting);
        for one in waiting.iter().take(probes_per_step) {
            open.remove(&one.source);
            served.satisfied += one.open;
            served.probes.push((now, one.source));
        }
        now = match (open.is_empty(), coming.peek()) {
            (false, _) => now + step,
            (true, Some((_, next))) => first_step_from(next.from).max(now + step),
            (true, None) => return served,
        };
    }
}

fn waiting(source: SourceId, intervals: &[Interval]) -> Option<Waiting> {
    let until = intervals.iter().map(|interval| interval.until).min()?;
    let since = intervals.iter().map(|interval| interval.from).min()?;
    Some(Waiting { source, until, since, open: intervals.len() })
}
