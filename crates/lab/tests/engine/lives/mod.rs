//! Random lives of a source: whatever it publishes and asks for, whatever fails, however often the clock
//! is set, the fleet restarted and the configuration changed, no promise of politeness is broken.

mod account;
mod lessons;
mod life;
mod planner;
mod publisher;

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tidewatch_core::engine::event::Failure;
use tidewatch_core::engine::params::Terms;
use tidewatch_core::engine::params::{BurstTerms, Response};
use tidewatch_core::model::burst::Test;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::ttl::TtlForm;
use tidewatch_core::time::Span;

use account::Tally;
use life::{Birth, Life, host};

/// Something that happens in a life.
#[derive(Debug, Clone)]
enum Turn {
    Wait(i64),
    /// Until the next probe is sent: what comes next comes while it is under way.
    Launch,
    /// It updates so many times as often, for so many minutes.
    Spell(f64, i64),
    Hints(FeedHints),
    MaxAge(Option<i64>),
    Fails(Failure, usize),
    Gap,
    Redirects(bool),
    NeighbourThrottled(Option<i64>),
    Refit,
    Ask,
    Restart(bool),
    /// By so many seconds, and someone who noticed may ask for a probe.
    ClockSet(i64, bool),
    Reload(Budget, bool, Policy),
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
    let response = prop_oneof![4 => Just(Response::Ttl), 1 => Just(Response::Replan)];
    let reserve = prop_oneof![1 => Just(0.0), 1 => 0.0..0.2_f64, 4 => 0.2..0.9_f64];
    let form = prop_oneof![4 => Just(TtlForm::Caches), 1 => Just(TtlForm::Prefetching)];
    (response, reserve, form, 0.01..1.0_f64).prop_map(|(response, reserve, ttl_form, ttl_factor)| {
        BurstTerms { response, reserve, ttl_form, ttl_factor, ..BurstTerms::default() }
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

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        30 => (1_i64..30_000).prop_map(Turn::Wait),
        6 => Just(Turn::Launch),
        6 => (8.0..60.0_f64, 60_i64..600).prop_map(|(times, mins)| Turn::Spell(times, mins)),
        2 => (8.0..60.0_f64).prop_map(|times| Turn::Spell(times, 2_400)),
        2 => (100.0..600.0_f64, 4_i64..30).prop_map(|(times, mins)| Turn::Spell(times, mins)),
        2 => (600_i64..4_000).prop_map(|mins| Turn::Spell(0.0, mins)),
        3 => hints().prop_map(Turn::Hints),
        2 => prop::option::of(1_i64..300).prop_map(Turn::MaxAge),
        3 => (failures(), 1_usize..4).prop_map(|(failure, times)| Turn::Fails(failure, times)),
        2 => Just(Turn::Gap),
        1 => any::<bool>().prop_map(Turn::Redirects),
        3 => prop::option::of(30_i64..900).prop_map(Turn::NeighbourThrottled),
        4 => Just(Turn::Refit),
        3 => Just(Turn::Ask),
        3 => any::<bool>().prop_map(Turn::Restart),
        4 => (-40_000_i64..40_000, any::<bool>()).prop_map(|(secs, ask)| Turn::ClockSet(secs, ask)),
        3 => (budgets(), any::<bool>(), policies()).prop_map(|(budget, own, by)| Turn::Reload(budget, own, by)),
        2 => bursts().prop_map(Turn::Bursts),
        2 => (select(&[0, 0, 1, 2, 2][..]), any::<bool>()).prop_map(|(host, strange)| Turn::Move(host, strange)),
        1 => Just(Turn::Remove),
        3 => (budgets(), policies()).prop_map(|(budget, by)| Turn::PutBack(budget, by)),
    ];
    prop::collection::vec(turn, 1..60)
}

fn births() -> impl Strategy<Value = Birth> {
    // Some may go unseen only for so long, which their budgets allow.
    let gap = prop::option::weighted(0.4, 1.0..2.0_f64);
    let terms =
        (budgets(), any::<bool>(), policies(), gap).prop_map(|(budget, own_budget, policy, gap)| Terms {
            budget,
            own_budget,
            policy,
            weight: 1.0,
            price: 0.0,
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
        .prop_map(|(seed, terms, burst, test, per_hour, (page, dated, known, grouped))| Birth {
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

/// Lives it; what was asked for is checked at every probe. Returns what there was.
fn live(birth: &Birth, turns: Vec<Turn>) -> Tally {
    let mut life = Life::new(birth);
    for turn in turns {
        match turn {
            Turn::Wait(secs) => life.pass(Span::from_secs(secs)),
            Turn::Launch => life.launch(),
            Turn::Spell(times, mins) => {
                let spell = (life.now, life.now + Span::from_mins(mins), times);
                life.side.publisher.spells.push(spell);
            }
            Turn::Hints(hints) => life.side.publisher.hints = hints,
            Turn::MaxAge(mins) => life.side.publisher.max_age = mins.map(Span::from_mins),
            Turn::Fails(failure, times) => life.side.publisher.failures.extend(vec![failure; times]),
            Turn::Gap => life.side.publisher.gap = true,
            Turn::Redirects(yes) => life.side.publisher.redirects_to = yes.then(|| host(1)),
            Turn::NeighbourThrottled(mins) => {
                life.side.neighbour_throttled = Some(mins.map(Span::from_mins))
            }
            Turn::Refit => life.refit(),
            Turn::Ask => life.ask(),
            Turn::Restart(gently) => life.restart(gently),
            Turn::ClockSet(secs, ask) => {
                life.set_clock(Span::from_secs(secs));
                if ask {
                    life.ask();
                }
            }
            Turn::Reload(budget, own, policy) => life.reload(budget, own, policy),
            Turn::Bursts(burst) => life.set_burst(burst),
            Turn::Move(host, strange) => life.relocate(host, strange),
            Turn::Remove => life.remove(),
            Turn::PutBack(budget, policy) => life.put_back(budget, policy),
        }
    }
    life.drain();
    life.check_recording();
    life.side.ledger.tally
}

proptest! {
    #![proptest_config(Config { cases: 200, failure_persistence: None, ..Config::default() })]

    /// In real time: never more than n within T, never two closer than δ, nothing before a hint, a plea
    /// for rest or a backoff allows it; and what is said of bursts, silences and policies makes sense.
    #[test]
    fn no_life_breaks_a_promise(birth in births(), turns in turns()) {
        live(&birth, turns);
    }
}

/// The same lives every time, so that what there is in them can be counted.
#[test]
fn lives_are_not_dull() {
    let all = RefCell::new(Tally::new());
    let config = Config { cases: 80, failure_persistence: None, ..Config::default() };
    let same = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let lived = TestRunner::new_with_rng(config, same).run(&(births(), turns()), |(birth, turns)| {
        for (what, times) in live(&birth, turns) {
            *all.borrow_mut().entry(what).or_default() += times;
        }
        Ok(())
    });
    lived.unwrap();
    let all = all.into_inner();
    println!("{all:#?}");
    for (what, at_least) in [
        ("planned probes", 100),
        ("looks by deadline", 5),
        ("chases", 50),
        ("deferred probes", 50),
        ("probes by hand", 5),
        ("hurried probes", 1),
        ("plans adopted", 100),
        ("plans stale", 5),
        ("switches", 20),
        ("bursts begun", 10),
        ("bursts ended", 10),
        ("bursts passed", 1),
        ("rhythms changed", 1),
        ("went quiet", 3),
        ("spoke again", 3),
        ("failures", 50),
        ("host pauses", 10),
        ("refused by hand", 10),
        ("removals", 3),
        ("restarts", 10),
        ("lost", 2),
        ("recalled", 1),
    ] {
        assert!(all.get(what).is_some_and(|&times| times >= at_least), "{what}: {:?}", all.get(what));
    }
}
