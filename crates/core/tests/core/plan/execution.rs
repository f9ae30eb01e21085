//! SUP against brute force: every set of times on a small grid is tried.

use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::execution::{Interval, Limits, OpenIntervals, RuleId, satisfy};
use tidewatch_core::time::{Span, Timestamp};

/// Seconds of the grid.
const SLOTS: i64 = 13;

fn at(slot: i64) -> Timestamp {
    Timestamp::from_secs(1000 + slot)
}

fn intervals() -> impl Strategy<Value = Vec<Interval>> {
    let interval = (0..SLOTS, 0..SLOTS, 0_u32..3).prop_map(|(one, other, rule)| Interval {
        rule: RuleId(rule),
        from: at(one.min(other)),
        until: at(one.max(other)),
    });
    prop::collection::vec(interval, 0..7)
}

fn limits() -> impl Strategy<Value = Limits> {
    let closed = prop::option::of((0..SLOTS, 1_i64..5));
    (1_u32..4, 2_i64..9, 0_i64..5, prop::collection::vec(1_i64..9, 0..4), 0_i64..3, closed).prop_map(
        |(probes, per, spacing, ago, not_before, closed)| {
            let mut spent: Vec<Timestamp> = ago.into_iter().map(|ago| at(-ago)).collect();
            spent.sort_unstable();
            let (per, min_spacing) = (Span::from_secs(per), Span::from_secs(spacing));
            let closed = closed.map(|(from, length)| (at(from), at(from + length))).into_iter().collect();
            Limits {
                budget: Budget { probes, per, min_spacing },
                spent,
                not_before: at(not_before),
                closed,
            }
        },
    )
}

/// Whether probes at these times are allowed.
fn allowed(times: &[Timestamp], limits: &Limits) -> bool {
    let Limits { budget, spent, not_before, closed } = limits;
    let n = budget.probes as usize;
    let all: Vec<Timestamp> = spent.iter().chain(times).copied().collect();
    (spent.len()..all.len()).all(|k| {
        let open = !closed.iter().any(|&(from, to)| (from..to).contains(&all[k]));
        let spaced = k == 0 || all[k] > all[k - 1] && all[k] - all[k - 1] >= budget.min_spacing;
        all[k] >= *not_before && open && spaced && (k < n || all[k] - all[k - n] >= budget.per)
    })
}

fn satisfied(intervals: &[Interval], times: &[Timestamp]) -> usize {
    intervals.iter().filter(|interval| times.iter().any(|&at| interval.is_satisfied_at(at))).count()
}

/// Every set of times on the grid that is allowed.
fn all_sets(limits: &Limits) -> impl Iterator<Item = Vec<Timestamp>> {
    let set = |bits: u32| (0..SLOTS).filter(move |slot| bits >> slot & 1 == 1).map(at).collect::<Vec<_>>();
    (0..1_u32 << SLOTS).map(set).filter(|times| allowed(times, limits))
}

fn unlimited() -> Limits {
    Limits::new(Budget { probes: 1000, per: Span::from_secs(1), min_spacing: Span::ZERO })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// OptMon2: all intervals are satisfied, with the fewest probes.
    #[test]
    fn no_schedule_that_satisfies_all_has_fewer_probes(intervals in intervals()) {
        let limits = unlimited();
        let done = satisfy(&intervals, &limits);
        prop_assert!(done.dropped.is_empty());
        prop_assert_eq!(satisfied(&intervals, &done.probes), intervals.len());
        let all = all_sets(&limits).filter(|times| satisfied(&intervals, times) == intervals.len());
        prop_assert_eq!(done.probes.len(), all.map(|times| times.len()).min().unwrap_or(0));
    }

    /// The online form gives the same result, in whatever order intervals become known.
    #[test]
    fn the_online_form_needs_no_more_probes(intervals in intervals()) {
        let mut known = intervals.clone();
        known.sort_by_key(|interval| interval.from);
        let (mut open, mut probes, mut satisfied) = (OpenIntervals::default(), Vec::new(), 0);
        let mut coming = known.into_iter().peekable();
        loop {
            // An interval becomes known when it begins.
            let due = open.next().map_or(Timestamp::MAX, |interval| interval.until);
            match coming.next_if(|interval| interval.from <= due) {
                Some(interval) => open.add(interval),
                None if due == Timestamp::MAX => break,
                None => {
                    let done = open.probed(due);
                    prop_assert!(done.missed.is_empty());
                    satisfied += done.satisfied.len();
                    probes.push(due);
                }
            }
        }
        prop_assert_eq!(satisfied, intervals.len());
        prop_assert_eq!(probes, satisfy(&intervals, &unlimited()).probes);
    }

    /// Probes keep the limits. Exactly the unsatisfied intervals are reported as dropped.
    #[test]
    fn limits_are_kept_and_unsatisfied_intervals_are_reported(intervals in intervals(), limits in limits()) {
        let done = satisfy(&intervals, &limits);
        prop_assert!(allowed(&done.probes, &limits), "{:?}", done);
        prop_assert_eq!(satisfied(&intervals, &done.probes) + done.dropped.len(), intervals.len());
        for (interval, _) in &done.dropped {
            prop_assert!(!done.probes.iter().any(|&at| interval.is_satisfied_at(at)), "{:?}", done);
        }
        for number in 0..done.probes.len() {
            let mut others = done.probes.clone();
            others.remove(number);
            let without = satisfied(&intervals, &others);
            let with = satisfied(&intervals, &done.probes);
            prop_assert!(without < with, "the {}th of {:?}", number, done.probes);
        }
        let most = all_sets(&limits).map(|times| satisfied(&intervals, &times)).max().unwrap_or(0);
        prop_assert!(satisfied(&intervals, &done.probes) <= most);
    }
}

/// Dropping conflicting intervals one after the other loses almost nothing on random instances.
#[test]
fn nearly_as_many_intervals_are_satisfied_as_possible() {
    let mut runner = TestRunner::deterministic();
    let (mut here, mut most) = (0, 0);
    for _ in 0..400 {
        let drawn = (intervals(), limits()).new_tree(&mut runner).unwrap().current();
        let (intervals, limits) = drawn;
        here += satisfied(&intervals, &satisfy(&intervals, &limits).probes);
        most += all_sets(&limits).map(|times| satisfied(&intervals, &times)).max().unwrap_or(0);
    }
    assert!(here as f64 >= 0.97 * most as f64, "{here} of {most}");
}
