//! Random runs with one source: random updates, hints, failures, clock changes, restarts and configuration
//! changes. No run breaks a limit of politeness.

mod checker;
mod planner;
mod publisher;
mod random_run;
mod regressions;

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tidewatch_core::engine::event::Failure;
use tidewatch_core::engine::params::{BurstTerms, SourcePrice, Terms};
use tidewatch_core::model::burst::Test;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::ttl::TtlForm;
use tidewatch_core::time::Span;

use checker::Tally;
use random_run::{RandomRun, RunSetup, host};

/// An event of a run.
#[derive(Debug, Clone)]
enum RunEvent {
    Wait(i64),
    /// Waits until the next probe is sent, so that the next event is during the probe.
    WaitForProbe,
    /// Multiplies its rate by a factor, for some minutes.
    RateChange(f64, i64),
    Hints(FeedHints),
    MaxAge(Option<i64>),
    Fails(Failure, usize),
    Gap,
    Redirects(bool),
    NeighbourThrottled(Option<i64>),
    Refit,
    Request,
    Restart(bool),
    /// Sets the clock by some seconds; then a probe may be requested.
    ClockSet(i64, bool),
    Reload(Budget, SourcePrice, Policy),
    Bursts(BurstTerms),
    Move(usize, bool),
    Remove,
    PutBack(Budget, Policy),
}

fn policies() -> impl Strategy<Value = Policy> {
    prop_oneof![3 => Just(Policy::Auto), 2 => select(&Policy::ALL[..])]
}

/// Budgets that can be spent, as the configuration demands.
fn budgets() -> impl Strategy<Value = Budget> {
    let probes = prop_oneof![1 => 1_u32..6, 3 => 6_u32..24];
    (probes, 2_i64..30, 0.0..1.0_f64).prop_map(|(probes, hours, share)| {
        let per = Span::from_hours(hours);
        let even = Span::from_millis(per.as_millis() / i64::from(probes));
        Budget { probes, per, min_spacing: even.scaled(share * share) }
    })
}

fn bursts() -> impl Strategy<Value = BurstTerms> {
    let reserve = prop_oneof![1 => Just(0.0), 1 => 0.0..0.2_f64, 4 => 0.2..0.9_f64];
    let form = prop_oneof![4 => Just(TtlForm::Caches), 1 => Just(TtlForm::Prefetching)];
    (reserve, form, 0.01..1.0_f64).prop_map(|(reserve, ttl_form, ttl_factor)| BurstTerms {
        reserve,
        ttl_form,
        ttl_factor,
        ..BurstTerms::default()
    })
}

fn hints() -> impl Strategy<Value = FeedHints> {
    let mins = |most: i64| prop::option::weighted(0.3, (1..most).prop_map(Span::from_mins));
    let hours = prop_oneof![2 => Just(0), 1 => any::<u32>().prop_map(|hours| hours & 0xF0_70F0)];
    let days = prop_oneof![4 => Just(0), 1 => (0_u8..128).prop_map(|days| days & 0b10_0101)];
    let long = prop::option::weighted(0.08, (1_i64..5).prop_map(Span::from_days));
    (mins(240), mins(240), hours, days, long).prop_map(
        |(ttl, update_period, skip_hours, skip_days, long)| FeedHints {
            ttl,
            update_period: long.or(update_period),
            skip_hours,
            skip_days,
        },
    )
}

fn failures() -> impl Strategy<Value = Failure> {
    prop_oneof![
        1 => Just(Failure::Gone),
        4 => (1_i64..900).prop_map(|mins| Failure::Throttled { retry_after: Some(Span::from_mins(mins)) }),
        2 => Just(Failure::Throttled { retry_after: None }),
        2 => select(&[Failure::Refused, Failure::Unreachable, Failure::Unreadable][..]),
        1 => Just(Failure::Forbidden),
        1 => Just(Failure::Interrupted),
    ]
}

/// The price of a probe: none, two minutes, or that of all sources.
fn prices() -> impl Strategy<Value = SourcePrice> {
    select(&[SourcePrice::Own(0.0), SourcePrice::Own(1.0 / 30.0), SourcePrice::Fleet][..])
}

/// Some hours, in a third of all cases decades.
fn hours_or_decades(secs: i64) -> i64 {
    if secs % 3 == 0 { secs * 25_000 } else { secs }
}

fn events() -> impl Strategy<Value = Vec<RunEvent>> {
    let event = prop_oneof![
        30 => (1_i64..30_000).prop_map(RunEvent::Wait),
        6 => Just(RunEvent::WaitForProbe),
        6 => (8.0..60.0_f64, 60_i64..600).prop_map(|(times, mins)| RunEvent::RateChange(times, mins)),
        2 => (8.0..60.0_f64).prop_map(|times| RunEvent::RateChange(times, 2_400)),
        2 => (100.0..600.0_f64, 4_i64..30).prop_map(|(times, mins)| RunEvent::RateChange(times, mins)),
        2 => (600_i64..4_000).prop_map(|mins| RunEvent::RateChange(0.0, mins)),
        3 => hints().prop_map(RunEvent::Hints),
        2 => prop::option::of(1_i64..300).prop_map(RunEvent::MaxAge),
        3 => (failures(), 1_usize..4).prop_map(|(failure, times)| RunEvent::Fails(failure, times)),
        2 => Just(RunEvent::Gap),
        1 => any::<bool>().prop_map(RunEvent::Redirects),
        8 => prop::option::of(30_i64..900).prop_map(RunEvent::NeighbourThrottled),
        4 => Just(RunEvent::Refit),
        3 => Just(RunEvent::Request),
        3 => any::<bool>().prop_map(RunEvent::Restart),
        4 => (-40_000_i64..40_000, any::<bool>())
            .prop_map(|(secs, request)| RunEvent::ClockSet(hours_or_decades(secs), request)),
        3 => (budgets(), prices(), policies())
            .prop_map(|(budget, price, by)| RunEvent::Reload(budget, price, by)),
        2 => bursts().prop_map(RunEvent::Bursts),
        2 => (select(&[0, 0, 1, 2, 2][..]), any::<bool>())
            .prop_map(|(host, strange)| RunEvent::Move(host, strange)),
        1 => Just(RunEvent::Remove),
        3 => (budgets(), policies()).prop_map(|(budget, by)| RunEvent::PutBack(budget, by)),
    ];
    prop::collection::vec(event, 1..60)
}

fn setups() -> impl Strategy<Value = RunSetup> {
    // Some have a maximum interval between probes, which their budgets allow.
    let gap = prop::option::weighted(0.4, 1.0..2.0_f64);
    let terms = (budgets(), prices(), policies(), gap).prop_map(|(budget, price, policy, gap)| Terms {
        budget,
        policy,
        weight: 1.0,
        price,
        max_gap: gap.map(|gap| budget.even_gap().max(budget.min_spacing).scaled(gap)),
        cost: None,
        host: host(0),
    });
    let test = prop_oneof![3 => Just(Test::Filter), 1 => Just(Test::Tail), 1 => Just(Test::Ratio)];
    let often = |share: f64| prop::bool::weighted(share);
    (
        0_u64..1_000_000,
        terms,
        bursts(),
        test,
        0.05..2.0_f64,
        (often(0.2), often(0.8), often(0.8), often(0.5)),
    )
        .prop_map(|(seed, terms, burst, test, per_hour, (page, dated, known, grouped))| RunSetup {
            seed,
            terms,
            burst,
            test,
            page,
            dated,
            per_hour,
            known,
            grouped,
        })
}

/// Runs the events; every probe is checked. Returns the counts.
fn run_events(setup: &RunSetup, events: Vec<RunEvent>) -> Tally {
    let mut run = RandomRun::new(setup);
    for event in events {
        match event {
            RunEvent::Wait(secs) => run.pass(Span::from_secs(secs)),
            RunEvent::WaitForProbe => run.wait_for_probe(),
            RunEvent::RateChange(times, mins) => {
                let change = (run.now, run.now + Span::from_mins(mins), times);
                run.environment.publisher.rate_changes.push(change);
            }
            RunEvent::Hints(hints) => run.environment.publisher.hints = hints,
            RunEvent::MaxAge(mins) => run.environment.publisher.max_age = mins.map(Span::from_mins),
            RunEvent::Fails(failure, times) => {
                run.environment.publisher.failures.extend(vec![failure; times])
            }
            RunEvent::Gap => run.environment.publisher.gap = true,
            RunEvent::Redirects(yes) => run.environment.publisher.redirects_to = yes.then(|| host(1)),
            RunEvent::NeighbourThrottled(mins) => {
                run.environment.neighbour_throttled = Some(mins.map(Span::from_mins))
            }
            RunEvent::Refit => run.refit(),
            RunEvent::Request => run.request(),
            RunEvent::Restart(gently) => run.restart(gently),
            RunEvent::ClockSet(secs, request) => {
                run.set_clock(Span::from_secs(secs));
                if request {
                    run.request();
                }
            }
            RunEvent::Reload(budget, price, policy) => run.reload(budget, price, policy),
            RunEvent::Bursts(burst) => run.set_burst(burst),
            RunEvent::Move(host, strange) => run.relocate(host, strange),
            RunEvent::Remove => run.remove(),
            RunEvent::PutBack(budget, policy) => run.put_back(budget, policy),
        }
    }
    run.drain();
    run.check_recording();
    run.environment.checker.tally
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    /// In real time: at most n probes within T, no two closer than δ, none before a hint, a pause or a
    /// backoff ends. The notes of bursts, silences and policies are consistent.
    #[test]
    fn no_random_run_breaks_a_limit(setup in setups(), events in events()) {
        run_events(&setup, events);
    }
}

/// The same runs every time, so that their events can be counted.
#[test]
fn random_runs_are_varied() {
    let all = RefCell::new(Tally::new());
    let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
    let same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let finished = TestRunner::new_with_rng(config, same).run(&(setups(), events()), |(setup, events)| {
        for (what, times) in run_events(&setup, events) {
            *all.borrow_mut().entry(what).or_default() += times;
        }
        Ok(())
    });
    finished.unwrap();
    let all = all.into_inner();
    println!("{all:#?}");
    for (what, at_least) in [
        ("planned probes", 100),
        ("probes by deadline", 5),
        ("burst probes", 50),
        ("deferred probes", 50),
        ("manual probes", 5),
        ("hurried probes", 1),
        ("plans adopted", 100),
        ("plans stale", 5),
        ("switches", 20),
        ("bursts begun", 10),
        ("bursts ended", 10),
        ("bursts passed", 1),
        ("rhythms changed", 1),
        ("went quiet", 3),
        ("spoke again", 2),
        ("failures", 50),
        ("host pauses", 10),
        ("refused manual probes", 10),
        ("removals", 3),
        ("restarts", 10),
        ("lost", 2),
        ("cancelled", 1),
    ] {
        assert!(all.get(what).is_some_and(|&times| times >= at_least), "{what}: {:?}", all.get(what));
    }
}
