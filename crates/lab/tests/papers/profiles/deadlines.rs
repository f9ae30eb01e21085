//! The sources probed under a limit, compared with every possible schedule.

use std::collections::HashMap;

use proptest::prelude::*;
use tidewatch_core::planning::execution::{Interval, RuleId};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::profiles::intervals::{
    IntervalSchedule, earliest_deadline, last_moment, sup_fleet, wic,
};

const STEPS: i64 = 6;
const STEP: Span = Span::from_secs(1);

type Intervals = Vec<(SourceId, Interval)>;

fn at(step: i64) -> Timestamp {
    Timestamp::from_secs(step)
}

fn interval(source: i64, one: i64, other: i64) -> (SourceId, Interval) {
    let (from, until) = (at(one.min(other)), at(one.max(other)));
    (SourceId(source), Interval { rule: RuleId(0), from, until })
}

/// Several of a source, or one of each.
fn intervals(shared: bool) -> impl Strategy<Value = Intervals> {
    prop::collection::vec((0_i64..4, 0..STEPS, 0..STEPS), 0..9).prop_map(move |drawn| {
        let one = |(place, (source, one, other)): (usize, (i64, i64, i64))| {
            interval(if shared { source } else { place as i64 }, one, other)
        };
        drawn.into_iter().enumerate().map(one).collect()
    })
}

/// The most intervals that any schedule meets, of those not in `done`, from a step on.
fn most(all: &Intervals, c: usize, step: i64, done: u32, known: &mut HashMap<(i64, u32), usize>) -> usize {
    if step == STEPS {
        return done.count_ones() as usize;
    }
    if let Some(&most) = known.get(&(step, done)) {
        return most;
    }
    let mut sources: Vec<SourceId> = all.iter().map(|one| one.0).collect();
    sources.sort_unstable();
    sources.dedup();
    let mut best = 0;
    for chosen in (0_u32..1 << sources.len()).filter(|chosen| chosen.count_ones() as usize <= c) {
        let mut then = done;
        for (place, (source, interval)) in all.iter().enumerate() {
            let probed =
                sources.iter().position(|one| one == source).is_some_and(|one| chosen >> one & 1 == 1);
            then |= u32::from(probed && interval.is_satisfied_at(at(step))) << place;
        }
        best = best.max(most(all, c, step + 1, then, known));
    }
    known.insert((step, done), best);
    best
}

/// The same counted from the probes.
fn check(all: &Intervals, c: usize, schedule: &IntervalSchedule) {
    let hit = |(source, interval): &&(SourceId, Interval)| {
        schedule.probes.iter().any(|(at, probed)| probed == source && interval.is_satisfied_at(*at))
    };
    assert_eq!(all.iter().filter(hit).count(), schedule.satisfied);
    for step in 0..STEPS {
        assert!(schedule.probes.iter().filter(|probe| probe.0 == at(step)).count() <= c);
    }
}

/// W: the most intervals that one probe meets.
fn widest(all: &Intervals) -> usize {
    let open = |step: i64, source: SourceId| {
        all.iter().filter(|one| one.0 == source && one.1.is_satisfied_at(at(step))).count()
    };
    (0..STEPS).flat_map(|step| all.iter().map(move |one| open(step, one.0))).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn of_single_intervals_earliest_deadline_meets_the_most(all in intervals(false), c in 1_usize..4) {
        let (ours, theirs) = (earliest_deadline(&all, STEP, c), wic(&all, STEP, c));
        check(&all, c, &ours);
        check(&all, c, &theirs);
        prop_assert_eq!(ours.satisfied, most(&all, c, 0, 0, &mut HashMap::new()));
        prop_assert!(theirs.satisfied <= ours.satisfied);
        prop_assert!(last_moment(&all, STEP, c).satisfied <= ours.satisfied);
    }

    #[test]
    fn with_several_intervals_per_source_both_keep_their_bounds(all in intervals(true), c in 1_usize..4) {
        let (ours, theirs) = (earliest_deadline(&all, STEP, c), wic(&all, STEP, c));
        for schedule in [&ours, &theirs, &last_moment(&all, STEP, c)] {
            check(&all, c, schedule);
        }
        let most = most(&all, c, 0, 0, &mut HashMap::new());
        prop_assert!(ours.satisfied <= most && ours.satisfied * (1 + widest(&all)) >= most);
        prop_assert!(theirs.satisfied <= most && 2 * theirs.satisfied >= most);
    }

    #[test]
    fn without_a_limit_all_are_met_and_sup_has_the_fewest_probes(all in intervals(true)) {
        let sup = sup_fleet(&all);
        check(&all, all.len(), &sup);
        prop_assert_eq!(sup.satisfied, all.len());
        prop_assert_eq!(most(&all, 4, 0, 0, &mut HashMap::new()), all.len());
        for schedule in [earliest_deadline(&all, STEP, 4), wic(&all, STEP, 4), last_moment(&all, STEP, 4)] {
            prop_assert_eq!(schedule.satisfied, all.len());
            prop_assert!(schedule.probes.len() >= sup.probes.len());
        }
        // The number that every source needs by itself.
        let fewest = |source: i64| {
            let own: Intervals = all.iter().copied().filter(|one| one.0 == SourceId(source)).collect();
            let meets_all = |times: u32| {
                let at_one = |step: &i64| times >> step & 1 == 1;
                own.iter().all(|one| (0..STEPS).filter(at_one).any(|step| one.1.is_satisfied_at(at(step))))
            };
            (0_u32..1 << STEPS).filter(|&times| meets_all(times)).map(u32::count_ones).min().unwrap_or(0)
        };
        prop_assert_eq!(sup.probes.len() as u32, (0..4).map(fewest).sum::<u32>());
        // SUP probes at ends, which are steps here, so that waiting for them is the same.
        let mut last = last_moment(&all, STEP, 4).probes;
        last.sort_unstable();
        prop_assert_eq!(last, sup.probes);
    }
}

#[test]
fn earliest_deadline_may_lose_many_for_one() {
    // At each step a single one that ends, and beside it three sources with five that end at last.
    let mut all: Intervals = (0..3).map(|step| interval(10 + step, step, step)).collect();
    all.extend((0..3).flat_map(|source| (0..5).map(move |_| interval(source, 0, 2))));
    assert_eq!(earliest_deadline(&all, STEP, 1).satisfied, 1 + 1 + 5);
    assert_eq!(wic(&all, STEP, 1).satisfied, 15);
}

#[test]
fn steps_and_ends_need_not_agree() {
    let between = Interval {
        rule: RuleId(0),
        from: at(1) - Span::from_millis(900),
        until: at(1) - Span::from_millis(1),
    };
    assert_eq!(earliest_deadline(&[(SourceId(1), between)], STEP, 1), IntervalSchedule::default());
    assert_eq!(sup_fleet(&[(SourceId(1), between)]).satisfied, 1);
    assert_eq!(earliest_deadline(&[], STEP, 1), IntervalSchedule::default());
    assert_eq!(wic(&[interval(1, 0, 3)], STEP, 0).satisfied, 0);
}
