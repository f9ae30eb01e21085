//! Plans in the fleet: when they are requested, when they end, and that no plan makes a probe less polite.

use std::sync::Arc;

use proptest::prelude::*;
use tidewatch_core::engine::event::{
    Changed, EngineEvent, Failure, KnownSource, MadePlan, Moved, PlansReady, ProbeAnswer, ProbeReport,
};
use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::engine::params::{HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::{Reason, SourceState};
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::planning::plan_input::{self, PlannedTimes};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver;
use tidewatch_lab::stepper::ByHand;

const ONE: SourceId = SourceId(1);
const MIN: Span = Span::from_mins(1);

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

fn budget() -> Budget {
    Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) }
}

fn terms(policy: Policy, budget: Budget) -> Terms {
    let host = HostGroup { key: Arc::from("a.example"), public: true };
    Terms { budget, policy, weight: 1.0, price: SourcePrice::Own(0.0), max_gap: None, cost: None, host }
}

fn known(id: i64, policy: Policy, updates: u64) -> KnownSource {
    KnownSource {
        id: SourceId(id),
        terms: terms(policy, budget()),
        memory: SourceMemory { known_updates: updates, early_probes: 3, ..SourceMemory::default() },
        probes: Vec::new(),
        answered_by: None,
        moved: Moved::Same,
    }
}

fn fleet_of(known: Vec<KnownSource>) -> ByHand {
    ByHand::new(FleetParams::default(), 7, start(), known)
}

/// One source that has been probed once.
fn probed(policy: Policy, updates: u64) -> (ByHand, Timestamp) {
    let mut fleet = fleet_of(vec![known(1, policy, updates)]);
    let at = next_due(&fleet);
    probe(&mut fleet, at, Ok(ProbeAnswer::default()));
    (fleet, at)
}

fn next_due(fleet: &ByHand) -> Timestamp {
    fleet.memory(ONE).unwrap().due.at().unwrap()
}

/// Sends the probe that is due, and ends it.
fn probe(fleet: &mut ByHand, at: Timestamp, result: Result<ProbeAnswer, Failure>) {
    assert_eq!(fleet.step(at).len(), 1, "due at {at}");
    end_probe(fleet, at, result);
}

fn end_probe(fleet: &mut ByHand, at: Timestamp, result: Result<ProbeAnswer, Failure>) {
    let report = ProbeReport {
        source: ONE,
        started: at,
        finished: at,
        answered_by: None,
        crawl_delays: Vec::new(),
        result,
    };
    fleet.end_probe(&report).unwrap();
    fleet.commit_end(ONE, at);
}

/// A plan for a day, with a probe every `minutes` minutes from `now` on.
fn every(minutes: i64, order: &PlanOrder) -> Plan {
    let (starts, ends) = (order.input.now, order.input.now + Span::from_days(1));
    let times = (1..).map(|n| starts + Span::from_mins(minutes * n)).take_while(|&at| at <= ends).collect();
    Plan { made_from: order.made_from, by: Policy::Plan, times, starts, ends }
}

/// One source with a plan for every half hour, and the time of its first probe.
fn planned() -> (ByHand, Timestamp) {
    let (mut fleet, at) = probed(Policy::Plan, 0);
    let order = fleet.plan_orders().remove(0);
    fleet.adopt(ONE, every(30, &order), at).unwrap();
    assert_eq!(next_due(&fleet), at + Span::from_mins(30));
    assert_eq!(fleet.memory(ONE).unwrap().reason, Reason::Plan);
    (fleet, at + Span::from_mins(30))
}

/// The maximum number of requested plans that are not ready.
const MOST_REQUESTS: usize = 512;

fn ids_of_others(count: usize) -> Vec<SourceId> {
    (1_000..).map(SourceId).take(count).collect()
}

/// Sources that are due much later, and want plans.
fn others(count: usize) -> impl Iterator<Item = KnownSource> {
    let memory = SourceMemory {
        due: Due::At(start() + Span::from_days(30)),
        known_updates: 20,
        ..SourceMemory::default()
    };
    ids_of_others(count)
        .into_iter()
        .map(move |id| KnownSource { memory: memory.clone(), ..known(id.0, Policy::Plan, 20) })
}

/// Reports that `requests` of the requested plans could not be built.
fn answer_requests(fleet: &mut ByHand, requests: usize, now: Timestamp) {
    fleet.deliver(now, EngineEvent::PlansReady(PlansReady { requests, ..PlansReady::default() }));
}

#[test]
fn the_end_of_a_probe_requests_a_plan_if_the_policy_plans() {
    let requested_plans = |policy, updates| {
        let (mut fleet, _) = probed(policy, updates);
        let first = fleet.plan_orders().len();
        assert!(fleet.plan_orders().is_empty(), "once");
        first
    };
    assert_eq!(requested_plans(Policy::Plan, 0), 1);
    assert_eq!(requested_plans(Policy::Auto, 0), 0, "it has no rhythm, and no share of its group's");
    assert_eq!(requested_plans(Policy::Auto, 1), 1);
    for policy in [Policy::IndHist, Policy::AggHist, Policy::Threshold, Policy::FirstArrival] {
        assert_eq!(requested_plans(policy, 0), 1, "{policy:?}");
    }
    for policy in [Policy::Uniform, Policy::Ttl, Policy::Adaptive] {
        assert_eq!(requested_plans(policy, 100), 0, "{policy:?}");
    }
}

#[test]
fn no_plan_is_requested_at_a_start_or_during_a_probe() {
    let mut all = vec![known(1, Policy::Plan, 20)];
    all.extend(others(MOST_REQUESTS));
    let mut fleet = fleet_of(all);
    fleet.deliver(start(), EngineEvent::Tick);
    assert!(fleet.plan_orders().is_empty());
    let at = next_due(&fleet);
    // The planner has the maximum number of requests, so this one waits.
    fleet.rates_fitted(&ids_of_others(MOST_REQUESTS), start());
    assert_eq!(fleet.plan_orders().len(), MOST_REQUESTS);
    fleet.rates_fitted(&[ONE, SourceId(77)], start());
    assert!(fleet.plan_orders().is_empty());
    assert_eq!(fleet.step(at).len(), 1);
    answer_requests(&mut fleet, 1, at);
    assert!(fleet.plan_orders().is_empty(), "its probe was sent meanwhile");
    fleet.rates_fitted(&[ONE], at);
    assert!(fleet.plan_orders().is_empty(), "it is under way");
    end_probe(&mut fleet, at, Ok(ProbeAnswer::default()));
    assert_eq!(fleet.plan_orders().len(), 1);
}

#[test]
fn a_plan_request_has_the_state_of_the_source() {
    let (mut fleet, at) = probed(Policy::Plan, 20);
    let first = fleet.plan_orders().remove(0);
    assert_eq!((first.source, Some(first.made_from)), (ONE, fleet.revision(ONE)));
    assert_eq!((first.input.now, first.input.not_before), (at, at));
    assert_eq!((first.input.budget, &first.input.spent[..]), (budget(), &[at][..]));
    let due = next_due(&fleet);
    let hints = FeedHints { ttl: Some(Span::from_mins(20)), ..FeedHints::default() };
    let answer = ProbeAnswer {
        hints: Some(hints),
        holds: Some(25),
        fresh_for: Some(Span::from_mins(50)),
        ..ProbeAnswer::default()
    };
    probe(&mut fleet, due, Ok(answer));
    let second = fleet.plan_orders().remove(0);
    assert_eq!(second.input.not_before, due + Span::from_mins(50));
    assert_eq!(second.input.fresh_for, Span::from_mins(50));
    assert_eq!((second.input.hints, second.input.holds), (hints, Some(25)));
    assert_eq!(second.input.spent, [at, due]);
    assert_eq!(second.input.phase, first.input.phase, "its own");
    // Not modified: the items of the feed are unchanged.
    let due = next_due(&fleet);
    probe(&mut fleet, due, Ok(ProbeAnswer::default()));
    assert_eq!(fleet.plan_orders().remove(0).input.holds, Some(25));
}

#[test]
fn a_plan_is_followed_and_requested_again_at_half_time() {
    let (mut fleet, mut at) = planned();
    let begun = at - Span::from_mins(30);
    for nth in 1..24 {
        assert_eq!(fleet.step(at - Span::from_millis(1)), vec![]);
        let order = fleet.step(at)[0];
        assert_eq!((order.policy, order.reason, order.due), (Policy::Plan, Reason::Plan, at));
        end_probe(&mut fleet, at, Ok(ProbeAnswer::default()));
        assert!(fleet.plan_orders().is_empty(), "probe {nth}");
        at = next_due(&fleet);
    }
    assert_eq!(at, begun + Span::from_hours(12));
    // Exactly half is left now; less than half when the next has ended.
    probe(&mut fleet, at, Ok(ProbeAnswer::default()));
    assert!(fleet.plan_orders().is_empty());
    at = next_due(&fleet);
    probe(&mut fleet, at, Ok(ProbeAnswer::default()));
    assert_eq!(fleet.plan_orders().len(), 1);
}

#[test]
fn without_a_new_plan_the_old_one_is_followed_to_its_end_and_then_the_budget_is_spread() {
    let (mut fleet, at) = probed(Policy::Plan, 0);
    let order = fleet.plan_orders().remove(0);
    let plan = Plan { times: every(60, &order).times[..2].to_vec(), ..every(60, &order) };
    fleet.adopt(ONE, plan, at).unwrap();
    let sent = driver::run(
        fleet.engine_mut(),
        |_, _| (Span::ZERO, Ok(ProbeAnswer::default())),
        at,
        at + Span::from_hours(4),
    );
    let sent_by: Vec<(Policy, Reason)> = sent.iter().map(|sent| (sent.policy, sent.reason)).collect();
    assert_eq!(sent_by[..2], [(Policy::Plan, Reason::Plan); 2]);
    assert_eq!(sent_by[2..5], [(Policy::Uniform, Reason::Policy); 3]);
}

#[test]
fn failures_and_new_hints_end_a_plan() {
    let after = |result: Result<ProbeAnswer, Failure>| {
        let (mut fleet, at) = planned();
        probe(&mut fleet, at, result);
        fleet.plan_orders().len()
    };
    assert_eq!(after(Ok(ProbeAnswer::default())), 0);
    assert_eq!(after(Ok(ProbeAnswer { updates: 3, holds: Some(9), ..ProbeAnswer::default() })), 0);
    let fresh = |mins| Ok(ProbeAnswer { fresh_for: Some(Span::from_mins(mins)), ..ProbeAnswer::default() });
    assert_eq!(after(fresh(10)), 0, "below the spacing");
    assert_eq!(after(fresh(20)), 1);
    let hints = FeedHints { skip_hours: 0b1000, ..FeedHints::default() };
    assert_eq!(after(Ok(ProbeAnswer { hints: Some(hints), ..ProbeAnswer::default() })), 1);
    assert_eq!(after(Err(Failure::Interrupted)), 1);
    assert_eq!(after(Err(Failure::Refused)), 0, "not while it fails");
}

#[test]
fn a_failed_source_requests_a_plan_after_it_recovers() {
    let (mut fleet, at) = planned();
    probe(&mut fleet, at, Err(Failure::Refused));
    fleet.rates_fitted(&[ONE], at);
    assert!(fleet.plan_orders().is_empty());
    let again = next_due(&fleet);
    probe(&mut fleet, again, Ok(ProbeAnswer::default()));
    assert_eq!(fleet.plan_orders().len(), 1);
}

#[test]
fn a_manual_probe_ends_a_plan_and_no_plan_cancels_it() {
    let (mut fleet, at) = planned();
    let requested = at - Span::from_mins(10);
    fleet.rates_fitted(&[ONE], requested);
    let order = fleet.plan_orders().remove(0);
    assert_eq!(fleet.request(ONE, requested), Ok(()));
    fleet.adopt(ONE, every(60, &order), requested).unwrap();
    assert_eq!(next_due(&fleet), requested, "the manual probe stays due");
    probe(&mut fleet, requested, Ok(ProbeAnswer::default()));
    assert_eq!(fleet.plan_orders().len(), 1, "outside the plan");
}

#[test]
fn a_gap_precedes_the_plan() {
    let (mut fleet, at) = planned();
    fleet.rates_fitted(&[ONE], at);
    probe(&mut fleet, at, Ok(ProbeAnswer { gap: true, ..ProbeAnswer::default() }));
    let soon = at + Span::from_mins(15);
    assert_eq!((next_due(&fleet), fleet.memory(ONE).unwrap().reason), (soon, Reason::Gap));
    let order = fleet.plan_orders().pop().unwrap();
    fleet.adopt(ONE, every(120, &order), at).unwrap();
    assert_eq!((next_due(&fleet), fleet.memory(ONE).unwrap().reason), (soon, Reason::Gap));
    probe(&mut fleet, soon, Ok(ProbeAnswer::default()));
    assert_eq!(next_due(&fleet), at + Span::from_mins(120));
}

#[test]
fn a_stale_plan_is_refused_and_requested_again() {
    let (mut fleet, at) = planned();
    fleet.rates_fitted(&[ONE], at);
    let order = fleet.plan_orders().remove(0);
    assert_eq!(fleet.step(at).len(), 1);
    assert!(fleet.adopt(ONE, every(20, &order), at).is_err(), "it is under way");
    end_probe(&mut fleet, at, Ok(ProbeAnswer::default()));
    assert!(fleet.adopt(ONE, every(20, &order), at).is_err(), "it has been probed since");
    assert_eq!(next_due(&fleet), at + Span::from_mins(30), "the old plan holds");
    let order = fleet.plan_orders().remove(0);
    fleet.adopt(ONE, every(20, &order), at).unwrap();
    assert_eq!(next_due(&fleet), at + Span::from_mins(20));
}

#[test]
fn a_refit_alone_causes_no_probe() {
    let (mut fleet, at) = planned();
    let now = at - Span::from_mins(5);
    fleet.rates_fitted(&[ONE], now);
    assert_eq!(next_due(&fleet), at);
    let order = fleet.plan_orders().remove(0);
    // A plan whose first time has passed while it was made.
    let mut plan = every(30, &order);
    plan.times.insert(0, now - MIN);
    fleet.adopt(ONE, plan, now).unwrap();
    assert_eq!(next_due(&fleet), now, "at once, and not before");
    probe(&mut fleet, now, Ok(ProbeAnswer::default()));
    assert_eq!(next_due(&fleet), now + Span::from_mins(30));
    // The spacing applies to a plan that is too dense.
    let at = next_due(&fleet);
    probe(&mut fleet, at, Ok(ProbeAnswer::default()));
    fleet.rates_fitted(&[ONE], at);
    let order = fleet.plan_orders().remove(0);
    fleet.adopt(ONE, every(1, &order), at).unwrap();
    assert_eq!(next_due(&fleet), at + Span::from_mins(15));
}

#[test]
fn plan_requests_wait_for_the_planner() {
    let all = ids_of_others(MOST_REQUESTS + 50);
    let (before, ids) = all.split_at(MOST_REQUESTS);
    let mut fleet = fleet_of(others(all.len()).collect());
    fleet.rates_fitted(before, start());
    assert_eq!(fleet.plan_orders().len(), MOST_REQUESTS);
    fleet.rates_fitted(ids, start());
    fleet.rates_fitted(ids, start());
    answer_requests(&mut fleet, 0, start());
    assert_eq!(fleet.plan_orders().len(), 0);
    let mut seen = Vec::new();
    for most in [20, 20, 20] {
        answer_requests(&mut fleet, most, start());
        let orders = fleet.plan_orders();
        assert!(orders.len() <= most);
        seen.extend(orders.into_iter().map(|order| order.source));
    }
    assert_eq!(seen, ids, "each once");
}

#[test]
fn a_new_budget_needs_a_new_plan_and_makes_nothing_due() {
    let (mut fleet, at) = planned();
    let now = at - Span::from_mins(10);
    let generous = Budget { probes: 1_000, per: Span::from_days(1), min_spacing: MIN };
    let change = |policy, budget| {
        let (terms, moved) = (terms(policy, budget), Moved::Same);
        vec![Changed { id: ONE, terms, moved, probes: Vec::new() }]
    };
    fleet.reconfigure(Vec::new(), change(Policy::Plan, generous), &[], now);
    let due = next_due(&fleet);
    assert_ne!(due, at, "the old plan is no more");
    let order = fleet.plan_orders().remove(0);
    assert_eq!((order.input.budget, order.input.not_before), (generous, due.max(now)));
    fleet.adopt(ONE, every(40, &order), now).unwrap();
    // The same terms again: the plan stays, and no plan is requested.
    fleet.reconfigure(Vec::new(), change(Policy::Plan, generous), &[], now);
    assert_eq!(next_due(&fleet), now + Span::from_mins(40));
    assert!(fleet.plan_orders().is_empty());
    // Another policy: the due time stays, then the budget is spread.
    fleet.reconfigure(Vec::new(), change(Policy::Uniform, generous), &[], now);
    let due = next_due(&fleet);
    assert_eq!(due, now + Span::from_mins(40));
    probe(&mut fleet, due, Ok(ProbeAnswer::default()));
    assert_eq!(fleet.memory(ONE).unwrap().reason, Reason::Policy);
    assert!(fleet.plan_orders().is_empty());
    // And back.
    fleet.reconfigure(Vec::new(), change(Policy::Plan, generous), &[], due);
    assert_eq!(fleet.plan_orders().len(), 1);
}

#[test]
fn a_plan_moves_with_the_clock() {
    let (mut fleet, at) = planned();
    let by = Span::from_hours(-7);
    fleet.shift(by, at - Span::from_mins(20) + by);
    assert_eq!(next_due(&fleet), at + by);
    probe(&mut fleet, at + by, Ok(ProbeAnswer::default()));
    assert_eq!(next_due(&fleet), at + by + Span::from_mins(30));
    assert_eq!(fleet.plan_orders().len(), 1, "the hours of the week have changed");
}

#[test]
fn a_stored_plan_explains_the_due_time() {
    let (mut fleet, at) = probed(Policy::Plan, 0);
    let order = fleet.plan_orders().remove(0);
    let due = next_due(&fleet);
    assert_eq!(fleet.explain(ONE, None, at).unwrap().asking, Policy::Uniform);
    let explained = fleet.explain(ONE, Some(every(45, &order)), at).unwrap();
    assert!(explained.follows_plan);
    assert_eq!(explained.wanted, Due::At(at + Span::from_mins(45)));
    assert_eq!(
        (explained.asking, explained.due),
        (Policy::Uniform, Due::At(due)),
        "the due time is unchanged"
    );
    let over = Plan { ends: at, ..every(45, &order) };
    assert!(!fleet.explain(ONE, Some(over), at).unwrap().follows_plan);
    let (other, at) = probed(Policy::Uniform, 20);
    let explained = other.explain(ONE, Some(every(45, &order)), at).unwrap();
    assert!(!explained.follows_plan, "its policy is another");
}

/// The real planner for sources that keep office hours.
fn plan(order: &PlanOrder, per_hour: f64) -> Option<MadePlan> {
    let office = WeekWindow { days: 0b111_1111, from_minute: 8 * 60, until_minute: 18 * 60 };
    let rate = Steps::windows(jiff::tz::TimeZone::UTC, per_hour / 10.0, &[(office, per_hour)]).unwrap();
    let ahead = plan_input::plan(&order.input, &rate, &Steps::constant(1.0).unwrap())?;
    assert!(ahead.times.is_sorted(), "{ahead:?}");
    Some(made(order, ahead))
}

fn made(order: &PlanOrder, ahead: PlannedTimes) -> MadePlan {
    MadePlan { source: order.source, made_from: order.made_from, at: order.input.now, ahead }
}

#[derive(Debug, Clone)]
enum PlanEvent {
    Wait(i64),
    Refit,
    Request,
    Restart,
    ClockSet(i64),
}

/// Two an hour in office hours, one in ten hours otherwise.
fn office() -> Steps {
    let hours = WeekWindow { days: 0b1_1111, from_minute: 540, until_minute: 1020 };
    Steps::windows(jiff::tz::TimeZone::UTC, 0.1, &[(hours, 2.0)]).unwrap()
}

/// Two weeks of updates at that rate, drawn minute by minute.
fn updates(source: i64) -> Vec<Timestamp> {
    let mut chance = Stream::new(9, format!("updates {source}"));
    let mut from = Span::ZERO;
    let mut list = Vec::new();
    for (until, per_hour) in office().over(start(), start() + Span::from_days(14)) {
        while from < Span::from_millis(until) {
            if chance.unit() < per_hour / 60.0 {
                list.push(start() + from + MIN.scaled(chance.unit()));
            }
            from = from + MIN;
        }
    }
    list
}

/// The number of probes of ten such sources, and the mean delay of their updates.
fn two_weeks(policy: Policy) -> (usize, Span) {
    let on_its_own = |id: i64| {
        let mut known = known(id, policy, 20);
        known.terms.host.key = Arc::from(format!("host{id}.example"));
        known
    };
    let mut fleet = fleet_of((1..=10).map(on_its_own).collect());
    let until = start() + Span::from_days(15);
    let answer = |_: &_, _| (Span::from_secs(1), Ok(ProbeAnswer::default()));
    let even = Steps::constant(1.0).unwrap();
    let planner = |order: &PlanOrder| Some(made(order, plan_input::plan(&order.input, &office(), &even)?));
    let sent = driver::run_planned(fleet.engine_mut(), answer, planner, &[], start(), until);
    let mut waits = Vec::new();
    for id in 1..=10 {
        let probes: Vec<Timestamp> =
            sent.iter().filter(|sent| sent.source == SourceId(id)).map(|sent| sent.started).collect();
        for update in updates(id) {
            waits.push(probes[probes.partition_point(|&at| at < update)] - update);
        }
    }
    let total: i64 = waits.iter().map(|wait| wait.as_millis()).sum();
    (sent.len(), Span::from_millis(total / waits.len() as i64))
}

#[test]
fn planned_probes_find_updates_sooner_with_no_more_probes() {
    let (planned, soon) = two_weeks(Policy::Auto);
    let (spread, later) = two_weeks(Policy::Uniform);
    assert!(planned <= spread, "{planned} probes against {spread}");
    assert!(soon.scaled(1.3) < later, "{soon} against {later}");
}

fn events() -> impl Strategy<Value = Vec<PlanEvent>> {
    let event = prop_oneof![
        6 => (1_i64..20_000).prop_map(PlanEvent::Wait),
        3 => Just(PlanEvent::Refit),
        2 => Just(PlanEvent::Request),
        1 => Just(PlanEvent::Restart),
        1 => (-40_000_i64..40_000).prop_map(PlanEvent::ClockSet),
    ];
    prop::collection::vec(event, 1..40).prop_map(|mut events| {
        events.insert(0, PlanEvent::Wait(7_200));
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// In real time, from the end of one probe to the start of another: at most n within T, and no two
    /// closer than δ, for all plans and delays.
    #[test]
    fn plans_break_no_limit(
        events in events(), seed in 0_u64..1_000, probes in 1_u32..20, spacing in 0_i64..15,
    ) {
        let per = Span::from_hours(6);
        let budget = Budget { probes, per, min_spacing: Span::from_mins(spacing) };
        let ids = [SourceId(1), SourceId(2), SourceId(3)];
        // One host, so that they wait for each other.
        let of = |id: SourceId, memory, probes| KnownSource {
            terms: terms(Policy::Plan, budget), memory, probes, ..known(id.0, Policy::Plan, 0)
        };
        let known = ids.map(|id| of(id, SourceMemory::default(), Vec::new())).to_vec();
        let mut fleet = ByHand::new(FleetParams::default(), seed, start(), known);
        let mut chance = Stream::new(seed, "world");
        let (mut now, mut offset) = (start(), Span::ZERO);
        let mut log: Vec<(SourceId, Timestamp, Timestamp)> = Vec::new();
        let (mut planned, mut fitted) = (0, Vec::new());
        for event in events {
            match event {
                PlanEvent::Wait(secs) => {
                    let until = now + Span::from_secs(secs);
                    let mut last = until;
                    driver::run_planned(fleet.engine_mut(), |order, at| {
                        let slow = if chance.unit() < 0.1 { 1_800_000.0 } else { 4_000.0 };
                        let took = Span::from_millis((chance.unit() * slow) as i64);
                        last = last.max(at + took);
                        log.push((order.source, at - offset, at + took - offset));
                        let result = match chance.unit() {
                            draw if draw < 0.05 => Err(Failure::Refused),
                            draw if draw < 0.08 => Err(Failure::Interrupted),
                            _ => Ok(ProbeAnswer {
                                updates: 1,
                                gap: chance.unit() < 0.05,
                                holds: Some(5),
                                fresh_for: (chance.unit() < 0.2).then(|| Span::from_mins(20)),
                                ..ProbeAnswer::default()
                            }),
                        };
                        (took, result)
                    }, |order| {
                        let plan = plan(order, 0.5 + order.source.0 as f64);
                        planned += usize::from(plan.is_some());
                        plan
                    }, &std::mem::take(&mut fitted), now, until);
                    now = last;
                }
                PlanEvent::Refit => fitted = ids.to_vec(),
                PlanEvent::Request => drop(fleet.request(ONE, now)),
                PlanEvent::Restart => {
                    let again = ids.map(|id| {
                        let ends = log.iter().filter(|probe| probe.0 == id).map(|probe| probe.2 + offset);
                        of(id, fleet.memory(id).unwrap().clone(), ends.collect())
                    });
                    fleet = ByHand::new(FleetParams::default(), seed, now, again.to_vec());
                    fitted.clear();
                }
                PlanEvent::ClockSet(secs) => {
                    let by = Span::from_secs(secs);
                    now += by;
                    offset = offset + by;
                    fleet.shift(by, now);
                }
            }
        }
        for id in ids {
            let probes: Vec<_> = log.iter().filter(|probe| probe.0 == id).collect();
            for (i, (_, begun, _)) in probes.iter().enumerate().skip(1) {
                prop_assert!(*begun - probes[i - 1].2 >= budget.min_spacing, "spacing at probe {i}");
                if let Some(first) = i.checked_sub(budget.probes as usize) {
                    prop_assert!(*begun - probes[first].2 >= per, "budget at probe {i}");
                }
            }
        }
        prop_assert!(planned > 0);
        prop_assert_ne!(fleet.memory(ONE).unwrap().state, SourceState::Removed);
    }
}
