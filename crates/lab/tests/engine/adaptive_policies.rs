//! The adaptive policies of Bright, Gal and Raschid (§8) in the engine: which half decides, the switches, and
//! the limits T_burst = 0 and ∞, at which `ind_hist_ttl` is `ttl` and `ind_hist`.

use std::sync::Arc;

use proptest::prelude::*;
use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{EngineEvent, Failure, KnownSource, Moved, PlansReady, ProbeReport};
use tidewatch_core::engine::event::{MadePlan, ProbeAnswer};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::note::{Note, Why};
use tidewatch_core::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::aggregate::{Aggregate, Borrow};
use tidewatch_core::model::burst::{BurstParams, Test};
use tidewatch_core::model::history::{History, WeeklyEvidence};
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::SourceKind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::{PlanOrder, PlanParams, build_plan};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::contest::{ContestTerms, EntrantPolicy, hold};
use tidewatch_lab::driver::{Pending, SimulatedWorld};
use tidewatch_lab::learned_feed::{LearnedFeed, Watching};
use tidewatch_lab::trace::Trace;

const ONE: SourceId = SourceId(1);
const DAY: Span = Span::from_days(1);

fn monday() -> Timestamp {
    Timestamp::parse_iso("2026-11-02T00:00:00Z").unwrap()
}

fn day(n: i64) -> Timestamp {
    monday() + Span::from_days(n)
}

/// What a run is about.
#[derive(Debug, Clone)]
struct Setup {
    kind: SourceKind,
    budget: Budget,
    latency: Span,
    /// Every n-th probe fails; 0: none.
    fails: usize,
    test: Test,
    freshness_threshold: f64,
}

impl Default for Setup {
    fn default() -> Self {
        Self {
            kind: SourceKind::Feed,
            budget: Budget { probes: 96, per: DAY, min_spacing: Span::from_mins(5) },
            latency: Span::ZERO,
            fails: 0,
            test: Test::default(),
            freshness_threshold: 1.0,
        }
    }
}

/// The source behind an engine, with everything that the engine did.
struct World<'s> {
    setup: &'s Setup,
    feed: LearnedFeed,
    params: PlanParams,
    sent: Vec<Attempt>,
    notes: Vec<(Timestamp, Note)>,
}

impl SimulatedWorld for World<'_> {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        self.sent.push(*attempt);
        let fails = self.setup.fails > 0 && self.sent.len().is_multiple_of(self.setup.fails);
        let result: Result<ProbeAnswer, Failure> = match fails {
            true => Err(Failure::Unreachable),
            false => Ok(self.feed.probe(now)),
        };
        let (started, finished) = (now, now + self.setup.latency);
        ProbeReport { source: ONE, started, finished, answered_by: None, crawl_delays: Vec::new(), result }
    }

    fn plan(&mut self, order: &PlanOrder, _: Timestamp) -> (Span, PlansReady) {
        let made = self.feed.rhythm().and_then(|rhythm| build_plan(order, &rhythm, &self.params));
        let (source, made_from, at) = (order.source, order.made_from, order.input.now);
        let plans = made.map(|ahead| MadePlan { source, made_from, at, ahead }).into_iter().collect();
        (Span::ZERO, PlansReady { requests: 1, plans, ..PlansReady::default() })
    }

    fn watch(&mut self, action: &Action, now: Timestamp) {
        match action {
            Action::Persist(Persist::Ended(result)) => {
                self.notes.extend(result.notes.iter().map(|note| (now, note.clone())));
            }
            Action::Persist(Persist::Note { note, .. }) => self.notes.push((now, note.clone())),
            _ => {}
        }
    }
}

/// Watches a source with these updates until `until`. Its rate is fitted once a day, with its group's history
/// if there is one.
fn watch<'s>(
    updates: &[Timestamp],
    policy: Policy,
    threshold: f64,
    group: Option<&Aggregate>,
    setup: &'s Setup,
    until: Timestamp,
) -> World<'s> {
    let params = FleetParams::default();
    let terms = Terms {
        budget: setup.budget,
        policy,
        weight: 1.0,
        price: SourcePrice::Fleet,
        max_gap: None,
        cost: None,
        host: HostGroup { key: Arc::from("a.example"), public: true },
    };
    let memory = SourceMemory::default();
    let known =
        KnownSource { id: ONE, terms, memory, probes: Vec::new(), answered_by: None, moved: Moved::Same };
    let mut loader = Loader::new(params, 3, monday());
    loader.sources(vec![known]);
    let mut engine = loader.finish();
    let with_ratio = policy.goes_by_ratio();
    let watching = Watching {
        kind: setup.kind,
        bursts: BurstParams { test: setup.test, threshold, with_ratio, ..BurstParams::default() },
        borrow: policy.borrow(Borrow::Blend, 0.5),
        habits: false,
        ..Watching::default()
    };
    let even = Steps::constant(1.0).unwrap();
    let freshness_threshold = setup.freshness_threshold;
    let mut world = World {
        setup,
        feed: LearnedFeed::new(updates.to_vec(), watching, monday()),
        params: PlanParams { importance: even, freshness_threshold, switches: false },
        sent: Vec::new(),
        notes: Vec::new(),
    };
    let (mut pending, mut now) = (Pending::default(), monday());
    pending.deliver(&mut engine, &mut world, now, EngineEvent::Tick);
    while now < until {
        let fitted = now + DAY;
        pending.run(&mut engine, &mut world, now, fitted);
        now = fitted;
        world.feed.refit(now, group);
        pending.deliver(&mut engine, &mut world, now, EngineEvent::RatesFitted(vec![ONE]));
    }
    world
}

/// The switches of a run: when, from, to.
fn switches(world: &World<'_>) -> Vec<(Timestamp, Policy, Policy)> {
    let switch = |(at, note): &(Timestamp, Note)| match note {
        Note::PolicySwitched { from, to, .. } => Some((*at, *from, *to)),
        _ => None,
    };
    world.notes.iter().filter_map(switch).collect()
}

/// One update in every two hours, at irregular minutes.
fn rhythm(from: Timestamp, until: Timestamp) -> Vec<Timestamp> {
    let nth = |n: i64| from + Span::from_mins(120 * n + 7 + (n * 37) % 90);
    (0..).map(nth).take_while(|&at| at < until).collect()
}

#[test]
fn ind_hist_ttl_follows_ttl_in_a_burst_and_ind_hist_after_it() {
    let begins = day(20) + Span::from_hours(10);
    let ends = begins + Span::from_hours(3);
    let mut updates = rhythm(monday(), day(24));
    updates.extend((0..60).map(|n| begins + Span::from_mins(3 * n)));
    updates.sort_unstable();
    let setup = Setup::default();
    let world = watch(&updates, Policy::IndHistTtl, 4.0, None, &setup, day(24));
    let changes = switches(&world);
    assert_eq!((changes[0].1, changes[0].2), (Policy::Uniform, Policy::IndHist), "{changes:?}");
    let [on, off] = changes[1..] else { panic!("{changes:?}") };
    assert_eq!((on.1, on.2, off.1, off.2), (Policy::IndHist, Policy::Ttl, Policy::Ttl, Policy::IndHist));
    assert!(on.0 > begins && on.0 < ends, "{changes:?}");
    assert!(
        off.0 > ends && off.0 < ends + Span::from_hours(2),
        "an hour after the last updates: {changes:?}"
    );
    // The note says what was counted in the window of an hour.
    let why = world.notes.iter().find_map(|(at, note)| match note {
        Note::PolicySwitched { why: Why::BurstOf(window), .. } if *at == on.0 => Some(*window),
        _ => None,
    });
    let window = why.unwrap();
    assert_eq!((window.at, window.since), (on.0, on.0 - Span::from_hours(1)));
    assert!(f64::from(window.observed) >= 4.0 * window.expected, "{window:?}");
    let by = |from: Timestamp, until: Timestamp| -> Vec<Policy> {
        let within = world.sent.iter().filter(|attempt| attempt.started > from && attempt.started <= until);
        within.map(|attempt| attempt.policy).collect()
    };
    let in_burst = by(on.0, off.0);
    assert!(in_burst.len() > 10 && in_burst.iter().all(|&by| by == Policy::Ttl), "{in_burst:?}");
    for calm in [by(changes[0].0, on.0), by(off.0, day(24))] {
        assert!(calm.len() > 20 && calm.iter().all(|&by| by == Policy::IndHist), "{calm:?}");
    }
}

#[test]
fn ind_hist_agg_hist_follows_its_group_until_updates_recur() {
    // The group is updated from 9 to 12 each day.
    let mut history = History::new(jiff::tz::TimeZone::UTC, Span::from_days(56), day(0));
    history.exposed(day(-14), day(0));
    (-14..0).flat_map(|n| (9..12).map(move |hour| day(n) + Span::from_hours(hour))).for_each(|at| {
        history.update(at);
    });
    let busy: WeeklyEvidence = history.evidence(day(0));
    let group = Aggregate::of([&busy, &busy, &busy]);
    // One update a day, each at another hour; from the third week on three in the same hours.
    let mut updates: Vec<Timestamp> = (0..14).map(|n| day(n) + Span::from_hours((n * 5) % 24)).collect();
    updates.extend((14..42).flat_map(|n| [610, 620, 630].map(|minute| day(n) + Span::from_mins(minute))));
    let setup = Setup { freshness_threshold: 0.25, ..Setup::default() };
    let run = |group| watch(&updates, Policy::IndHistAggHist, 2.0, group, &setup, day(42));
    let world = run(Some(&group));
    let changes = switches(&world);
    let [first, second] = changes[..] else { panic!("{changes:?}") };
    assert_eq!((first.1, first.2), (Policy::Uniform, Policy::AggHist));
    assert_eq!((second.1, second.2), (Policy::AggHist, Policy::IndHist));
    assert!(second.0 > day(14) && second.0 < day(36), "{changes:?}");
    let late = world.sent.iter().filter(|attempt| attempt.started > second.0 + DAY);
    assert!(late.clone().count() > 5 && late.into_iter().all(|attempt| attempt.policy == Policy::IndHist));
    // Without a group there is only its own history.
    assert_eq!(switches(&run(None)).iter().map(|switch| switch.2).collect::<Vec<_>>(), [Policy::IndHist]);
}

/// Random updates: gaps of hours, and runs with gaps of minutes.
fn random_updates() -> impl Strategy<Value = Vec<Timestamp>> {
    let gaps = prop_oneof![3 => 20_i64..900, 2 => 1_i64..6];
    prop::collection::vec(gaps, 30..160).prop_map(|gaps| {
        let at = |now: &mut Timestamp, gap: i64| {
            *now += Span::from_mins(gap);
            Some(*now)
        };
        gaps.into_iter().scan(monday(), at).collect()
    })
}

fn random_setups() -> impl Strategy<Value = Setup> {
    let kind = prop_oneof![3 => Just(SourceKind::Feed), 1 => Just(SourceKind::Page)];
    let budget = (8_u32..96, 0_i64..15).prop_map(|(probes, minutes)| Budget {
        probes,
        per: DAY,
        min_spacing: Span::from_mins(minutes),
    });
    let fails = prop_oneof![2 => Just(0_usize), 1 => 2_usize..9];
    let test = prop::sample::select(&Test::ALL[..]);
    (kind, budget, 0_i64..20, fails, test, 0.3..2.0_f64).prop_map(
        |(kind, budget, secs, fails, test, freshness_threshold)| {
            let latency = Span::from_secs(secs);
            Setup { kind, budget, latency, fails, test, freshness_threshold }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    /// §8.2.1: "when T_burst = 0, this policy is identical to TTL, and when T_burst = ∞, this policy is
    /// identical to IndHist". Compared with the probes of these policies, element by element. The burst test
    /// that guards the history is the same in both runs.
    #[test]
    fn the_ends_of_the_burst_threshold_are_ttl_and_ind_hist(
        updates in random_updates(), setup in random_setups(),
    ) {
        let until = updates.last().map_or(day(1), |&last| last.min(day(28)) + DAY);
        // With the ratio test the threshold also decides which updates the history leaves out.
        let sent = |policy, threshold| watch(&updates, policy, threshold, None, &setup, until).sent;
        prop_assert_eq!(sent(Policy::IndHistTtl, 0.0), sent(Policy::Ttl, 0.0));
        prop_assert_eq!(sent(Policy::IndHistTtl, f64::INFINITY), sent(Policy::IndHist, f64::INFINITY));
    }
}

/// The same in `simulate traces`, where each source runs alone with its group's history.
#[test]
fn simulated_ends_of_the_burst_threshold_are_ttl_and_ind_hist() {
    let begins = day(16);
    let mut updates = rhythm(monday(), day(21));
    updates.extend((0..40).map(|n| begins + Span::from_mins(4 * n)));
    updates.sort_unstable();
    let traces = [Trace::new("a", "all", updates)];
    let budget = Budget { probes: 24, per: DAY, min_spacing: Span::from_mins(10) };
    let run = |policy, threshold| {
        let mut rules = ContestTerms { train: Span::from_days(14), ..ContestTerms::new(budget) };
        (rules.test, rules.watching.bursts.threshold) = (Span::from_days(7), threshold);
        let contest = hold(&traces, &[EntrantPolicy::Ours(policy)], &rules, &|| {});
        contest.entrants[0].runs[0].as_ref().unwrap().probes.clone()
    };
    let (ttl, ind_hist) = (run(Policy::Ttl, 2.0), run(Policy::IndHist, 2.0));
    assert_eq!(run(Policy::IndHistTtl, 0.0), ttl);
    assert_eq!(run(Policy::IndHistTtl, f64::INFINITY), ind_hist);
    let between = run(Policy::IndHistTtl, 4.0);
    assert!(between != ttl && between != ind_hist);
}
