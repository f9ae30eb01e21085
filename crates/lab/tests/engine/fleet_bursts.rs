//! Bursts in the fleet: the extra probes, their cost, the reserve that plans keep for them, and the notes.

use std::sync::Arc;

use tidewatch_core::engine::event::{Changed, KnownSource, Moved, ProbeAnswer, ProbeReport};
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::note::Why;
use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::engine::params::{HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::{Reason, SourceState};
use tidewatch_core::engine::source_memory::{BurstState, Due, SourceMemory};
use tidewatch_core::model::burst::excess::Excess;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};
use tidewatch_core::model::source_model::ModelUpdate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::planning::plan_input;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::stepper::ByHand;

const ONE: SourceId = SourceId(1);

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

fn budget() -> Budget {
    Budget { probes: 50, per: Span::from_days(1), min_spacing: Span::from_mins(5) }
}

fn terms(policy: Policy) -> Terms {
    let host = HostGroup { key: Arc::from("a.example"), public: true };
    Terms {
        budget: budget(),
        policy,
        weight: 1.0,
        price: SourcePrice::Own(0.0),
        max_gap: None,
        cost: None,
        host,
    }
}

fn load(memory: SourceMemory, probes: Vec<Timestamp>, policy: Policy) -> ByHand {
    load_under(terms(policy), memory, probes)
}

fn load_under(terms: Terms, memory: SourceMemory, probes: Vec<Timestamp>) -> ByHand {
    let known = KnownSource { id: ONE, terms, memory, probes, answered_by: None, moved: Moved::Same };
    ByHand::new(FleetParams::default(), 7, start(), vec![known])
}

/// A source with a plan for every half hour, and the time of its first probe.
fn planned(policy: Policy) -> (ByHand, Timestamp) {
    planned_under(terms(policy))
}

fn planned_under(terms: Terms) -> (ByHand, Timestamp) {
    let memory = SourceMemory { known_updates: 100, early_probes: 3, ..SourceMemory::default() };
    let mut fleet = load_under(terms, memory, Vec::new());
    let at = due(&fleet);
    probe(&mut fleet, at, model_update(None, at));
    for order in fleet.plan_orders() {
        fleet.adopt(ONE, every(30, &order), at).unwrap();
    }
    (fleet, at)
}

fn every(minutes: i64, order: &PlanOrder) -> Plan {
    let (starts, ends) = (order.input.now, order.input.now + Span::from_days(1));
    let times = (1..).map(|n| starts + Span::from_mins(minutes * n)).take_while(|&at| at <= ends).collect();
    Plan { made_from: order.made_from, by: Policy::Plan, times, starts, ends }
}

fn probe(fleet: &mut ByHand, at: Timestamp, model_update: ModelUpdate) -> Vec<Note> {
    assert_eq!(fleet.step(at).len(), 1, "due at {at}");
    let result = Ok(ProbeAnswer { updates: 5, model: model_update, ..ProbeAnswer::default() });
    let report = ProbeReport {
        source: ONE,
        started: at,
        finished: at,
        answered_by: None,
        crawl_delays: Vec::new(),
        result,
    };
    let notes = fleet.end_probe(&report).unwrap().notes;
    fleet.commit_end(ONE, at);
    notes
}

fn evidence(since: Timestamp, at: Timestamp) -> BurstEvidence {
    BurstEvidence { since, at, observed: 12, expected: 0.5 }
}

/// The update of a probe at `at`, with a burst since `burst_since` or none.
fn model_update(burst_since: Option<Timestamp>, at: Timestamp) -> ModelUpdate {
    let on = burst_since.map(|since| evidence(since, at));
    let excess = |since| Excess { at, probability: 0.95, per_hour: 10.0, lasted: at - since };
    ModelUpdate {
        on,
        excess: burst_since.map(excess),
        newest: Some(at - Span::from_mins(1)),
        ..ModelUpdate::default()
    }
}

fn began(at: Timestamp) -> ModelUpdate {
    let since = at - Span::from_mins(20);
    ModelUpdate { burst: Some(BurstChange::Began(evidence(since, at))), ..model_update(Some(since), at) }
}

fn ended(since: Timestamp, at: Timestamp) -> ModelUpdate {
    ModelUpdate { burst: Some(BurstChange::Ended(evidence(since, at))), ..model_update(None, at) }
}

fn due(fleet: &ByHand) -> Timestamp {
    fleet.memory(ONE).unwrap().due.at().unwrap()
}

fn asked_by(fleet: &ByHand) -> Policy {
    fleet.memory(ONE).unwrap().burst.asked_by
}

#[test]
fn a_burst_switches_to_ttl_and_then_back_to_the_plan() {
    let (mut fleet, first) = planned(Policy::Auto);
    let at = due(&fleet);
    assert_eq!((at, asked_by(&fleet)), (first + Span::from_mins(30), Policy::Plan));
    let notes = probe(&mut fleet, at, began(at));
    let burst = evidence(at - Span::from_mins(20), at);
    assert_eq!(
        notes,
        [
            Note::Burst(BurstChange::Began(burst)),
            Note::PolicySwitched { from: Policy::Plan, to: Policy::Ttl, why: Why::BurstOf(burst) },
            Note::StateChanged { from: SourceState::Planned, to: SourceState::Burst },
        ]
    );
    let memory = fleet.memory(ONE).unwrap();
    assert_eq!((asked_by(&fleet), memory.reason), (Policy::Ttl, Reason::Burst));
    assert_eq!(fleet.plan_orders().len(), 1, "for the time after it");
    // Ten probes for the half hour of five updates and the twenty minutes that it has lasted, and one by
    // plan in half an hour: about one in four and a half minutes, limited by the spacing.
    assert_eq!(due(&fleet), at + Span::from_mins(5));
    let order = fleet.step(due(&fleet))[0];
    assert_eq!((order.policy, order.reason), (Policy::Ttl, Reason::Burst));
    let now = due(&fleet);
    let report = |result| ProbeReport {
        source: ONE,
        started: now,
        finished: now,
        answered_by: None,
        crawl_delays: Vec::new(),
        result,
    };
    let over = ProbeAnswer { model: ended(burst.since, now), ..ProbeAnswer::default() };
    let notes = fleet.end_probe(&report(Ok(over))).unwrap().notes;
    fleet.commit_end(ONE, now);
    assert!(notes.contains(&Note::PolicySwitched {
        from: Policy::Ttl,
        to: Policy::Plan,
        why: Why::BurstOver
    }));
    assert_eq!(fleet.memory(ONE).unwrap().state, SourceState::Planned);
    assert_eq!(asked_by(&fleet), Policy::Plan);
    assert_eq!(fleet.plan_orders().len(), 1, "the remaining period is planned again");
}

#[test]
fn burst_probes_slow_down_as_the_reserve_runs_out_and_keep_the_budget() {
    let (mut fleet, _) = planned(Policy::Auto);
    let begins = due(&fleet);
    let mut at = begins;
    let since = at - Span::from_mins(20);
    probe(&mut fleet, at, began(at));
    let mut gaps = Vec::new();
    while at - begins < Span::from_hours(23) {
        let next = due(&fleet);
        gaps.push(next - at);
        at = next;
        probe(&mut fleet, at, model_update(Some(since), at));
        if let Some(order) = fleet.plan_orders().pop() {
            fleet.adopt(ONE, every(30, &order), at).unwrap();
        }
    }
    assert!(gaps.len() <= 50, "{gaps:?}");
    assert!(gaps[0] < Span::from_mins(6), "{gaps:?}");
    assert!(gaps[20..].iter().all(|&gap| gap > Span::from_mins(25)), "{gaps:?}");
}

/// No probe was sent before. Still the burst gets at most the reserve, and enough is left afterwards.
#[test]
fn burst_probes_use_only_the_reserve() {
    let memory = SourceMemory { known_updates: 100, early_probes: 3, ..SourceMemory::default() };
    let mut fleet = load(memory, Vec::new(), Policy::Auto);
    let begins = due(&fleet);
    let mut at = begins;
    probe(&mut fleet, at, began(at));
    let since = at - Span::from_mins(20);
    let (mut sent, mut longest) = (0, Span::ZERO);
    while at - begins < Span::from_hours(30) {
        let next = due(&fleet);
        (sent, longest) = (sent + 1, longest.max(next - at));
        at = next;
        let on = at - begins < Span::from_hours(10);
        probe(&mut fleet, at, if on { model_update(Some(since), at) } else { model_update(None, at) });
        if let Some(order) = fleet.plan_orders().pop() {
            let even = Steps::constant(1.0).unwrap();
            let ahead = plan_input::plan(&order.input, &even, &even).unwrap();
            fleet.adopt(ONE, Plan::new(order.made_from, &ahead), at).unwrap();
        }
    }
    assert!((55..=65).contains(&sent), "{sent} in thirty hours");
    assert!(longest < Span::from_mins(90), "{longest}");
}

#[test]
fn only_auto_sends_burst_probes_and_only_from_a_reserve() {
    for policy in [Policy::Plan, Policy::Uniform, Policy::IndHist, Policy::Ttl] {
        let (mut fleet, _) = planned(policy);
        let at = due(&fleet);
        let notes = probe(&mut fleet, at, began(at));
        assert!(
            matches!(notes[0], Note::Burst(BurstChange::Began(_))),
            "the burst is reported in any case"
        );
        assert!(!notes.iter().any(|note| matches!(note, Note::PolicySwitched { .. })), "{policy:?}");
        assert_eq!(fleet.memory(ONE).unwrap().state, SourceState::Burst);
        assert_ne!(fleet.memory(ONE).unwrap().reason, Reason::Burst, "{policy:?}");
    }
    let (mut fleet, _) = planned(Policy::Auto);
    let mut none = FleetParams::default();
    none.burst.reserve = 0.0;
    fleet.set_params(none, start());
    let at = due(&fleet);
    probe(&mut fleet, at, began(at));
    assert_eq!(asked_by(&fleet), Policy::Plan);
}

#[test]
fn at_a_price_the_plan_gets_the_excess_of_a_burst() {
    let terms = Terms { price: SourcePrice::Own(0.02), ..terms(Policy::Auto) };
    let (mut fleet, _) = planned_under(terms);
    let at = due(&fleet);
    let notes = probe(&mut fleet, at, began(at));
    assert!(!notes.iter().any(|note| matches!(note, Note::PolicySwitched { .. })), "it follows its plan");
    let order = fleet.plan_orders().remove(0);
    assert_eq!(order.input.excess.unwrap().per_hour, 10.0);
    assert_eq!(order.input.budget.probes, 50, "at a price there is no reserve");
    fleet.adopt(ONE, every(10, &order), at).unwrap();
    let at = due(&fleet);
    probe(&mut fleet, at, ended(at, at));
    let order = fleet.plan_orders().remove(0);
    assert_eq!(order.input.excess, None);
    let (mut fleet, _) = planned(Policy::Auto);
    let at = due(&fleet);
    probe(&mut fleet, at, began(at));
    assert_eq!(fleet.plan_orders().remove(0).input.excess, None, "with ttl the plan has no excess");
}

#[test]
fn plans_keep_the_reserve_that_earlier_bursts_needed() {
    let of = |in_bursts: u32, reserve_whole_at, policy| {
        let burst = BurstState { in_bursts, reserve_whole_at, ..BurstState::default() };
        let memory = SourceMemory { known_updates: 100, burst, ..SourceMemory::default() };
        let mut fleet = load(memory, Vec::new(), policy);
        let at = due(&fleet);
        probe(&mut fleet, at, model_update(None, at));
        fleet.plan_orders().remove(0).input.budget.probes
    };
    assert_eq!(of(0, None, Policy::Auto), 50, "it never had a burst");
    assert_eq!(of(500_000, None, Policy::Auto), 45);
    assert_eq!(of(1_000_000, None, Policy::Auto), 40, "and never more than the reserve");
    assert_eq!(of(1_000_000, None, Policy::Plan), 50);
    // Half of it was spent, and returns within T.
    let later = Some(start() + Span::from_hours(12));
    assert_eq!(of(1_000_000, later, Policy::Auto), 45);
}

#[test]
fn the_reserve_spent_in_a_burst_returns_evenly() {
    let burst = BurstState { in_bursts: 1_000_000, burst_since: Some(start()), ..BurstState::default() };
    let memory =
        SourceMemory { due: Due::At(start()), known_updates: 100, burst, ..SourceMemory::default() };
    let spent: Vec<Timestamp> = (0..47).map(|n| start() - Span::from_mins(20 * n + 20)).rev().collect();
    let mut fleet = load(memory, spent, Policy::Auto);
    probe(&mut fleet, start(), ended(start(), start()));
    // Forty-eight are spent, so eight of the ten reserved for bursts are gone.
    let whole = fleet.memory(ONE).unwrap().burst.reserve_whole_at.unwrap();
    assert_eq!(whole, start() + Span::from_days(1).scaled(0.8));
    let kept = |hours| fleet.explain(ONE, None, start() + Span::from_hours(hours)).unwrap().reserve.kept;
    assert_eq!([0, 6, 12, 20, 30].map(kept), [2, 5, 7, 10, 10]);
}

#[test]
fn a_burst_continues_after_a_restart_but_not_with_another_policy() {
    let (mut fleet, _) = planned(Policy::Auto);
    let at = due(&fleet);
    probe(&mut fleet, at, began(at));
    let memory = fleet.memory(ONE).unwrap().clone();
    let mut again = load(memory, vec![at], Policy::Auto);
    assert_eq!((due(&again), asked_by(&again)), (due(&fleet), Policy::Ttl));
    let next = due(&again);
    let notes = probe(&mut again, next, model_update(Some(at), next));
    assert_eq!(notes, [], "no note is repeated");
    assert_eq!(asked_by(&again), Policy::Ttl);
    let change = Changed { id: ONE, terms: terms(Policy::Plan), moved: Moved::Same, probes: Vec::new() };
    again.reconfigure(Vec::new(), vec![change], &[], next);
    let next = due(&again);
    probe(&mut again, next, model_update(Some(at), next));
    assert_ne!(asked_by(&again), Policy::Ttl);
}

#[test]
fn every_switch_is_reported_once_with_its_reason() {
    let memory = SourceMemory { known_updates: 5, ..SourceMemory::default() };
    let mut fleet = load(memory, Vec::new(), Policy::Auto);
    let mut switches = Vec::new();
    for by in [Policy::AggHist, Policy::AggHist, Policy::Plan, Policy::Plan] {
        let at = due(&fleet);
        probe(&mut fleet, at, model_update(None, at));
        fleet.rates_fitted(&[ONE], at);
        let order = fleet.plan_orders().pop().unwrap();
        switches.push((order.policy, fleet.adopt(ONE, Plan { by, ..every(60, &order) }, at).unwrap()));
        assert_eq!(asked_by(&fleet), by);
    }
    let switch = |from, to, why| Some(Note::PolicySwitched { from, to, why });
    assert_eq!(
        switches,
        [
            (Policy::Auto, switch(Policy::Adaptive, Policy::AggHist, Why::Borrowed)),
            (Policy::Auto, None),
            (Policy::Auto, switch(Policy::AggHist, Policy::Plan, Why::Known)),
            (Policy::Plan, None),
        ],
        "with a rhythm of its own it no longer borrows"
    );
}

#[test]
fn silence_is_reported_once_and_causes_no_probe() {
    let (mut fleet, first) = planned(Policy::Auto);
    let at = due(&fleet);
    let quiet = |at| ModelUpdate { overdue: Some(7.5), ..model_update(None, at) };
    let notes = probe(&mut fleet, at, quiet(at));
    assert!(matches!(notes[..], [Note::WentQuiet { expected: 7.5, .. }]), "{notes:?}");
    assert_eq!(due(&fleet), first + Span::from_mins(60), "no sooner");
    let at = due(&fleet);
    assert_eq!(probe(&mut fleet, at, quiet(at)), []);
    let at = due(&fleet);
    assert_eq!(probe(&mut fleet, at, model_update(None, at)), [Note::SpokeAgain]);
}

#[test]
fn silence_ends_with_an_update_and_not_with_a_lower_rate() {
    let (mut fleet, _) = planned(Policy::Auto);
    let at = due(&fleet);
    let newest = Some(at - Span::from_days(3));
    probe(&mut fleet, at, ModelUpdate { overdue: Some(7.5), newest, ..ModelUpdate::default() });
    let at = due(&fleet);
    assert_eq!(
        probe(&mut fleet, at, ModelUpdate { newest, ..ModelUpdate::default() }),
        [],
        "a slower rate was fitted"
    );
    let at = due(&fleet);
    assert_eq!(probe(&mut fleet, at, model_update(None, at)), [Note::SpokeAgain]);
}

#[test]
fn a_burst_without_evidence_is_over() {
    let (mut fleet, _) = planned(Policy::Auto);
    let at = due(&fleet);
    probe(&mut fleet, at, began(at));
    let at = due(&fleet);
    let notes = probe(&mut fleet, at, model_update(None, at));
    assert!(notes.contains(&Note::BurstForgotten), "{notes:?}");
    assert_eq!(fleet.memory(ONE).unwrap().burst.burst_since, None);
    assert_eq!(fleet.memory(ONE).unwrap().state, SourceState::Planned);
}

#[test]
fn a_restart_makes_no_burst_probe_sooner() {
    let (mut fleet, _) = planned(Policy::Auto);
    let mut at = due(&fleet);
    probe(&mut fleet, at, began(at));
    let since = at - Span::from_mins(20);
    for _ in 0..12 {
        at = due(&fleet);
        probe(&mut fleet, at, model_update(Some(since), at));
    }
    let (before, memory) = (due(&fleet), fleet.memory(ONE).unwrap().clone());
    assert_eq!(memory.burst.asked_by, Policy::Ttl);
    let mut again = load(memory, vec![at], Policy::Auto);
    let now = at + Span::from_mins(1);
    again.rates_fitted(&[ONE], now);
    for order in again.plan_orders() {
        again.adopt(ONE, every(30, &order), now).unwrap();
    }
    assert_eq!(due(&again), before);
}

/// The stored policy is from an earlier configuration.
#[test]
fn a_configured_policy_applies_whatever_policy_was_stored() {
    for policy in [Policy::IndHist, Policy::AggHist, Policy::Threshold, Policy::FirstArrival, Policy::Plan]
    {
        let burst = BurstState { follows: Policy::Plan, ..BurstState::default() };
        let memory = SourceMemory { known_updates: 100, burst, ..SourceMemory::default() };
        let mut fleet = load(memory, Vec::new(), policy);
        let at = due(&fleet);
        probe(&mut fleet, at, model_update(None, at));
        assert_eq!(fleet.plan_orders().remove(0).policy, policy);
    }
}

#[test]
fn a_permanent_change_leaves_no_reserve() {
    let (mut fleet, _) = planned(Policy::Auto);
    let at = due(&fleet);
    probe(&mut fleet, at, began(at));
    assert!(fleet.memory(ONE).unwrap().burst.in_bursts > 0);
    let at = due(&fleet);
    let notes =
        probe(&mut fleet, at, ModelUpdate { became_the_rhythm: Some(start()), ..ended(start(), at) });
    assert!(notes.contains(&Note::RhythmChanged), "{notes:?}");
    let why = Why::Changed;
    assert!(
        notes.contains(&Note::PolicySwitched { from: Policy::Ttl, to: Policy::Plan, why }),
        "{notes:?}"
    );
    assert_eq!(fleet.memory(ONE).unwrap().burst.in_bursts, 0);
}

#[test]
fn ttl_keeps_the_spacing_and_probes_old_sources_daily() {
    let next = |age: Span| {
        let known = KnownSource {
            id: ONE,
            terms: terms(Policy::Ttl),
            memory: SourceMemory::default(),
            probes: Vec::new(),
            answered_by: None,
            moved: Moved::Same,
        };
        let mut fleet = ByHand::new(FleetParams::default(), 7, start(), vec![known]);
        let at = due(&fleet);
        probe(&mut fleet, at, ModelUpdate { newest: Some(at - age), ..ModelUpdate::default() });
        assert_eq!(asked_by(&fleet), Policy::Ttl);
        due(&fleet) - at
    };
    assert_eq!(next(Span::from_mins(100)), Span::from_mins(20));
    assert_eq!(next(Span::from_mins(1)), Span::from_mins(5), "the spacing");
    assert_eq!(next(Span::from_days(90)), Span::from_days(1));
}
