//! Rules in the fleet: predicted updates and triggered sources are probed in time. Requests that cannot be
//! met are reported beforehand.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidewatch_core::engine::action::ProbeResult;
use tidewatch_core::engine::event::{
    KnownSource, Moved, PredictedIntervals, ProbeAnswer, ProbeReport, RuleReading,
};
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::engine::params::{HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::rule_counts::{RuleMatch, RuleMatches, RuleSet};
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::active::ActiveHours;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::{self, PlanOrder};
use tidewatch_core::planning::execution::{Interval, Obstacle, RuleId};
use tidewatch_core::planning::expected::Forecast;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::prediction::Lifetime;
use tidewatch_core::planning::rule::{RulePart, RuleTerms};
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::stepper::ByHand;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

fn at(mins: i64) -> Timestamp {
    start() + Span::from_mins(mins)
}

fn budget(probes: u32, min_spacing: Span) -> Budget {
    Budget { probes, per: Span::from_days(1), min_spacing }
}

/// A source with a long history that was probed a minute ago.
fn source(id: i64, policy: Policy, budget: Budget) -> KnownSource {
    let host = HostGroup { key: Arc::from(format!("host{id}.example")), public: true };
    let last = start() - Span::from_mins(1);
    let memory = SourceMemory {
        due: Due::At(start() + Span::from_days(30)),
        reason: Reason::Policy,
        last_probe: Some(last),
        last_success: Some(last),
        known_updates: 100,
        ..SourceMemory::default()
    };
    KnownSource {
        id: SourceId(id),
        terms: Terms {
            budget,
            policy,
            weight: 1.0,
            price: SourcePrice::Own(0.0),
            max_gap: None,
            cost: None,
            host,
        },
        memory,
        probes: vec![last],
        answered_by: None,
        moved: Moved::Same,
    }
}

fn rule(own: bool, every: u32, window: Span) -> Arc<RuleTerms> {
    let (name, life) = ("p/r".into(), Lifetime::Window(window));
    Arc::new(RuleTerms { name, own, every, life, confidence: 0.9, active: ActiveHours::default() })
}

fn part(asked: bool, triggers: bool) -> Box<[RulePart]> {
    Box::new([RulePart { rule: RuleId(0), asked, triggers }])
}

fn fleet(
    known: Vec<KnownSource>,
    per_step: u32,
    rule: Arc<RuleTerms>,
    parts: &[(i64, Box<[RulePart]>)],
) -> ByHand {
    let params =
        FleetParams { probes_per_step: per_step, step: Span::from_mins(1), ..FleetParams::default() };
    let mut fleet = ByHand::new(params, 7, start(), known);
    fleet.set_rules(rules(rule, parts), start());
    fleet
}

fn rules(rule: Arc<RuleTerms>, parts: &[(i64, Box<[RulePart]>)]) -> RuleSet {
    let parts: BTreeMap<_, _> = parts.iter().map(|(id, parts)| (SourceId(*id), parts.clone())).collect();
    RuleSet { terms: vec![rule], parts }
}

/// Source 0 triggers a rule that requests source 1 within half an hour.
fn feed_and_page(granted: Budget) -> ByHand {
    let known = (0..2).map(|id| source(id, Policy::Profile, granted)).collect();
    let parts = [(0, part(false, true)), (1, part(true, false))];
    fleet(known, 10, rule(false, 1, Span::from_mins(30)), &parts)
}

/// A probe that takes a second and has these matches of the rule.
fn report(source: SourceId, started: Timestamp, updates: u32, matches: Option<RuleMatches>) -> ProbeReport {
    let reading = Some(Box::new(RuleReading {
        matches: matches.into_iter().collect(),
        found: updates,
        expected: None,
    }));
    let answered = ProbeAnswer { updates, rules: reading, ..ProbeAnswer::default() };
    let finished = started + Span::from_secs(1);
    ProbeReport {
        source,
        started,
        finished,
        answered_by: None,
        crawl_delays: Vec::new(),
        result: Ok(answered),
    }
}

/// The effects of the end of a probe.
struct ProbeEffects {
    result: ProbeResult,
    /// Other sources that a rule requests, and their notes.
    others: Vec<(SourceId, Vec<Note>)>,
}

fn end_probe(fleet: &mut ByHand, report: &ProbeReport) -> ProbeEffects {
    fleet.take_notes();
    let result = fleet.end_probe(report).unwrap();
    let notes = fleet.take_notes();
    let about = |id: SourceId| notes.iter().filter(move |note| note.0 == id).map(|note| note.1.clone());
    let others = fleet.others().iter().map(|&id| (id, about(id).collect())).collect();
    ProbeEffects { result, others }
}

/// Source 0 has an update that triggers the rule.
fn trigger(fleet: &mut ByHand, now: Timestamp) -> ProbeEffects {
    fleet.request(SourceId(0), now).unwrap();
    assert!(fleet.step(now).iter().any(|order| order.source == SourceId(0)));
    let matches = RuleMatches { rule: "p/r".into(), items: Vec::new(), counts: vec![now] };
    let effects = end_probe(fleet, &report(SourceId(0), now, 1, Some(matches)));
    fleet.commit_end(SourceId(0), now + Span::from_secs(1));
    effects
}

/// Runs until then; no probe finds anything. Returns the time, source and reason of each probe.
fn run(fleet: &mut ByHand, until: Timestamp) -> Vec<(Timestamp, SourceId, Reason)> {
    let mut sent = Vec::new();
    let mut now = start();
    while let Some(next) = fleet.next_step(now).filter(|&next| next <= until) {
        now = now.max(next);
        for order in fleet.step(now) {
            sent.push((now, order.source, order.reason));
            fleet.end_probe(&report(order.source, now, 0, None)).unwrap();
            fleet.commit_end(order.source, now + Span::from_secs(1));
        }
    }
    sent
}

/// The intervals predicted for a request.
fn predicted(order: &PlanOrder, intervals: Option<Vec<Interval>>) -> PredictedIntervals {
    PredictedIntervals { source: order.source, made_from: order.made_from, intervals }
}

const MINUTE: Span = Span::from_mins(1);

#[test]
fn triggered_sources_are_probed_once_and_at_the_last_moment() {
    let known = (0..3).map(|id| source(id, Policy::Profile, budget(100, MINUTE))).collect();
    let parts = [(0, part(false, true)), (1, part(true, false)), (2, part(true, false))];
    let mut fleet = fleet(known, 10, rule(false, 1, Span::from_mins(30)), &parts);
    let effects = trigger(&mut fleet, at(10));
    assert_eq!(effects.others.len(), 2);
    assert!(effects.result.rule_effects.notices.is_empty());
    let explained = fleet.explain(SourceId(1), None, at(11)).unwrap();
    assert_eq!((explained.reason, explained.rule.as_deref()), (Reason::Rule, Some("p/r")));
    // Triggered again before a probe: one probe meets both, by the end of the first.
    trigger(&mut fleet, at(20));
    let sent = run(&mut fleet, at(120));
    let ids: Vec<i64> = sent.iter().map(|(_, id, _)| id.0).collect();
    assert_eq!(ids.len(), 2, "{sent:?}");
    for (when, _, reason) in sent {
        assert!(at(38) <= when && when <= at(40), "{when}");
        assert_eq!(reason, Reason::Rule);
    }
}

#[test]
fn updates_found_in_time_are_reported_and_others_not() {
    let mut fleet = feed_and_page(budget(100, MINUTE));
    let probe_page = |fleet: &mut ByHand, now: Timestamp| {
        fleet.request(SourceId(1), now).unwrap();
        fleet.step(now);
        let matches = RuleMatches { rule: "p/r".into(), items: vec![0], counts: Vec::new() };
        let effects = end_probe(fleet, &report(SourceId(1), now, 1, Some(matches)));
        fleet.commit_end(SourceId(1), now + Span::from_secs(1));
        effects.result.rule_effects.notices
    };
    assert!(probe_page(&mut fleet, at(5)).is_empty());
    trigger(&mut fleet, at(10));
    assert_eq!(
        probe_page(&mut fleet, at(15)),
        [RuleMatch { rule: "p/r".into(), items: vec![0], deliver_now: true }]
    );
    assert_eq!(probe_page(&mut fleet, at(39)).len(), 1, "again, within the window");
    assert!(probe_page(&mut fleet, at(60)).is_empty());
}

#[test]
fn a_limiting_budget_is_reported_at_once() {
    let known = vec![
        source(0, Policy::Profile, budget(100, MINUTE)),
        source(1, Policy::Profile, budget(1, Span::from_hours(12))),
    ];
    let mut fleet = fleet(
        known,
        10,
        rule(false, 1, Span::from_mins(30)),
        &[(0, part(false, true)), (1, part(true, false))],
    );
    let effects = trigger(&mut fleet, at(10));
    let (_, notes) = &effects.others[0];
    assert!(
        matches!(&notes[..], [Note::RuleUnmet { why: Obstacle::Spacing | Obstacle::Budget, .. }]),
        "{notes:?}"
    );
    assert!(run(&mut fleet, at(120)).is_empty(), "politeness comes first");
    // The same obstacle is not reported again.
    assert!(trigger(&mut fleet, at(130)).others.iter().all(|(_, notes)| notes.is_empty()));
}

#[test]
fn with_few_slots_probes_are_earlier_and_unmet_sources_are_reported() {
    let pages = 8;
    let known: Vec<KnownSource> =
        (0..=pages).map(|id| source(id, Policy::Profile, budget(100, MINUTE))).collect();
    let mut parts = vec![(0, part(false, true))];
    parts.extend((1..=pages).map(|id| (id, part(true, false))));
    // One a minute, for ten minutes: all get a slot, the last at the last moment.
    let mut enough = fleet(known.clone(), 1, rule(false, 1, Span::from_mins(10)), &parts);
    let effects = trigger(&mut enough, at(10));
    assert!(effects.others.iter().all(|(_, notes)| notes.is_empty()), "{:?}", effects.others);
    let sent = run(&mut enough, at(120));
    assert_eq!(sent.len(), pages as usize);
    assert!(sent.iter().all(|&(when, _, _)| when <= at(20)), "{sent:?}");
    assert!(sent.iter().any(|&(when, _, _)| when >= at(18)), "no sooner than necessary: {sent:?}");
    // For five minutes: some get no slot, and that is known at once.
    let mut few = fleet(known, 1, rule(false, 1, Span::from_mins(5)), &parts);
    let effects = trigger(&mut few, at(10));
    let unmet = effects.others.iter().filter(|(_, notes)| {
        notes.iter().any(|note| matches!(note, Note::RuleUnmet { why: Obstacle::Slots, .. }))
    });
    let unmet = unmet.count();
    let in_time = run(&mut few, at(120)).iter().filter(|&&(when, _, _)| when <= at(15)).count();
    assert!((1..=4).contains(&unmet), "{unmet}");
    assert_eq!(in_time + unmet, pages as usize);
}

#[test]
fn the_earlier_of_policy_and_rule_decides() {
    // Its policy requests a probe about every quarter of an hour.
    let known = vec![
        source(0, Policy::Profile, budget(100, MINUTE)),
        KnownSource {
            memory: SourceMemory {
                due: Due::At(at(12)),
                ..source(1, Policy::Uniform, budget(96, MINUTE)).memory
            },
            ..source(1, Policy::Uniform, budget(96, MINUTE))
        },
    ];
    let mut fleet = fleet(
        known,
        10,
        rule(false, 1, Span::from_mins(30)),
        &[(0, part(false, true)), (1, part(true, false))],
    );
    trigger(&mut fleet, at(10));
    let sent = run(&mut fleet, at(60));
    assert_eq!((sent[0].0, sent[0].2), (at(12), Reason::Policy), "it is probed by its policy");
    assert!(sent.iter().all(|&(_, _, reason)| reason == Reason::Policy), "that met the rule: {sent:?}");
}

/// Office hours, two an hour; a few at other times.
fn office() -> Steps {
    let hours = WeekWindow { days: 0b1_1111, from_minute: 9 * 60, until_minute: 18 * 60 };
    Steps::windows(TimeZone::UTC, 0.02, &[(hours, 2.0)]).unwrap()
}

/// Update times drawn from that rate.
fn updates(rate: &Steps, days: i64) -> Vec<Timestamp> {
    let mut stream = Stream::new(5, "updates");
    let mut all = Vec::new();
    let mut now = start();
    loop {
        let wait = -(1.0 - stream.unit()).ln();
        match Forecast::individual(rate).reaches(wait, now) {
            Some(next) if next < start() + Span::from_days(days) => {
                all.push(next);
                now = next;
            }
            _ => return all,
        }
    }
}

/// Simulates four weeks with a rule for the source's own updates. Returns the share of every X-th update
/// found in time, and the number of probes.
fn simulate_weeks(every: u32, window: Span, granted: Budget) -> (f64, usize) {
    let days = 28;
    let (rate, updates) = (office(), updates(&office(), days));
    let mut fleet = fleet(
        vec![source(1, Policy::Profile, granted)],
        10,
        rule(true, every, window),
        &[(1, part(true, true))],
    );
    let (mut now, mut seen, mut probes) = (start(), 0, Vec::new());
    loop {
        for order in fleet.plan_orders() {
            let wants = order.predictions.as_ref().expect("a rule requests it");
            let now = order.input.now;
            let spans = build::predicted_intervals(wants, &rate, now);
            fleet.adopt_intervals(predicted(&order, Some(spans)), now).unwrap();
        }
        let Some(next) = fleet.next_step(now).filter(|&next| next < start() + Span::from_days(days)) else {
            break;
        };
        now = now.max(next);
        for order in fleet.step(now) {
            probes.push(now);
            let found: Vec<Timestamp> =
                updates[seen..].iter().copied().take_while(|&at| at <= now).collect();
            seen += found.len();
            let matches = RuleMatches { rule: "p/r".into(), items: Vec::new(), counts: found.clone() };
            fleet.end_probe(&report(order.source, now, found.len() as u32, Some(matches))).unwrap();
            fleet.commit_end(order.source, now + Span::from_secs(1));
        }
    }
    let wanted: Vec<Timestamp> =
        updates.iter().skip(every as usize - 1).step_by(every as usize).copied().collect();
    let in_time = wanted.iter().filter(|&&at| {
        let first = probes.partition_point(|&probe| probe < at);
        probes.get(first).is_some_and(|&probe| probe - at <= window)
    });
    (in_time.count() as f64 / wanted.len() as f64, probes.len())
}

#[test]
fn updates_are_found_in_time_with_the_requested_confidence() {
    let ample = budget(1000, Span::from_secs(10));
    let half_hour = Span::from_mins(30);
    let (share, probes) = simulate_weeks(1, half_hour, ample);
    // Nine hours on twenty working days are 360 half hours.
    assert!(share > 0.85, "{share}");
    assert!(probes < 450, "{probes}");
    let (share, fewer) = simulate_weeks(10, half_hour, ample);
    assert!(share > 0.85, "{share}");
    assert!(fewer < probes, "{fewer} against {probes}");
    // A budget that is too small is kept nevertheless.
    let (share, few) = simulate_weeks(1, half_hour, budget(6, Span::from_mins(30)));
    assert!(few <= 6 * 28, "{few}");
    assert!(share < 0.7, "{share}");
}

#[test]
fn a_rule_that_is_triggered_all_the_time_is_met() {
    let mut fleet = feed_and_page(budget(1000, Span::ZERO));
    let mut probes = Vec::new();
    for mins in (10..130).step_by(5) {
        trigger(&mut fleet, at(mins));
        let sent = run(&mut fleet, at(mins + 4));
        probes.extend(sent.into_iter().filter(|(_, id, _)| *id == SourceId(1)).map(|(when, ..)| when));
    }
    assert!(probes.len() >= 3, "{probes:?}");
    assert!(probes[0] <= at(40), "{probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] <= Span::from_mins(35)), "{probes:?}");
}

#[test]
fn a_probe_for_a_rule_counts_although_the_rule_was_triggered_again_meanwhile() {
    let mut fleet = feed_and_page(budget(1000, Span::ZERO));
    trigger(&mut fleet, at(10));
    fleet.request(SourceId(1), at(20)).unwrap();
    assert_eq!(fleet.step(at(20)).len(), 1);
    trigger(&mut fleet, at(21));
    let matches = RuleMatches { rule: "p/r".into(), items: vec![0], counts: Vec::new() };
    let effects = end_probe(&mut fleet, &report(SourceId(1), at(20), 1, Some(matches)));
    assert_eq!(effects.result.rule_effects.notices.len(), 1);
}

#[test]
fn a_source_probed_just_before_a_trigger_is_probed_again() {
    let mut fleet = feed_and_page(budget(1000, Span::ZERO));
    for id in [0, 1] {
        fleet.request(SourceId(id), at(10)).unwrap();
    }
    assert_eq!(fleet.step(at(10)).len(), 2);
    fleet.end_probe(&report(SourceId(1), at(10), 0, None)).unwrap();
    fleet.commit_end(SourceId(1), at(10) + Span::from_secs(1));
    let matches = RuleMatches { rule: "p/r".into(), items: Vec::new(), counts: vec![at(9)] };
    let effects = end_probe(&mut fleet, &report(SourceId(0), at(10), 1, Some(matches)));
    fleet.commit_end(SourceId(0), at(10) + Span::from_secs(1));
    assert_eq!(effects.others.len(), 1);
    assert_eq!(run(&mut fleet, at(60)).len(), 1);
}

/// Sets the same rules again.
fn reload(fleet: &mut ByHand, rule: Arc<RuleTerms>, parts: &[(i64, Box<[RulePart]>)], now: Timestamp) {
    fleet.set_rules(rules(rule, parts), now);
}

#[test]
fn a_reload_keeps_open_requests_and_causes_no_probe_for_expired_ones() {
    let known = vec![
        source(0, Policy::Profile, budget(1000, Span::ZERO)),
        // Probed a minute ago, so it may not be probed within the window.
        source(1, Policy::Profile, budget(8, Span::from_hours(3))),
        source(2, Policy::Profile, budget(1000, Span::ZERO)),
    ];
    let parts = [(0, part(false, true)), (1, part(true, false)), (2, part(true, false))];
    let window = rule(false, 1, Span::from_mins(30));
    let mut fleet = fleet(known, 10, Arc::clone(&window), &parts);
    trigger(&mut fleet, at(10));
    reload(&mut fleet, Arc::clone(&window), &parts, at(20));
    let sent = run(&mut fleet, at(60));
    assert_eq!(sent.iter().map(|(_, id, _)| id.0).collect::<Vec<_>>(), [2]);
    assert!(sent[0].0 >= at(38), "{sent:?}");
    reload(&mut fleet, window, &parts, at(300));
    assert!(run(&mut fleet, at(330)).is_empty(), "no probe five hours later");
    // A late probe still reports the match.
    fleet.request(SourceId(1), at(400)).unwrap();
    fleet.step(at(400));
    let matches = RuleMatches { rule: "p/r".into(), items: vec![0], counts: Vec::new() };
    let effects = end_probe(&mut fleet, &report(SourceId(1), at(400), 1, Some(matches)));
    assert_eq!(effects.result.rule_effects.notices.len(), 1);
    assert!(effects.result.notes.iter().any(|note| matches!(note, Note::RuleMissed { .. })));
}

#[test]
fn intervals_predicted_for_other_rules_are_stale() {
    let parts = [(1, part(true, true))];
    let own = rule(true, 1, Span::from_mins(30));
    let mut fleet =
        fleet(vec![source(1, Policy::Profile, budget(100, MINUTE))], 10, Arc::clone(&own), &parts);
    let order = fleet.plan_orders().remove(0);
    reload(&mut fleet, own, &parts, at(2));
    assert!(fleet.adopt_intervals(predicted(&order, Some(Vec::new())), at(3)).is_err());
    let order = fleet.plan_orders().remove(0);
    assert!(fleet.adopt_intervals(predicted(&order, None), at(5)).is_ok());
}

#[test]
fn sources_of_one_host_are_probed_one_after_the_other_and_in_time() {
    let pages = 5;
    let mut known: Vec<KnownSource> =
        (0..=pages).map(|id| source(id, Policy::Profile, budget(1000, Span::ZERO))).collect();
    for page in &mut known[1..] {
        page.terms.host = HostGroup { key: Arc::from("one.example"), public: true };
    }
    let mut parts = vec![(0, part(false, true))];
    parts.extend((1..=pages).map(|id| (id, part(true, false))));
    let spaced = |window: i64| {
        let mut fleet = fleet(known.clone(), 10, rule(false, 1, Span::from_mins(window)), &parts);
        let params = FleetParams {
            probes_per_step: 10,
            step: Span::from_mins(1),
            host_spacing: Span::from_mins(3),
            ..FleetParams::default()
        };
        fleet.set_params(params, start());
        let effects = trigger(&mut fleet, at(10));
        let unmet = effects.others.iter().flat_map(|(_, notes)| notes);
        let unmet =
            unmet.filter(|note| matches!(note, Note::RuleUnmet { why: Obstacle::Host, .. })).count();
        let probes: Vec<Timestamp> = run(&mut fleet, at(200)).iter().map(|&(when, ..)| when).collect();
        (unmet, probes)
    };
    let (unmet, probes) = spaced(30);
    assert_eq!((unmet, probes.len()), (0, 5));
    assert!(probes.iter().all(|&when| when <= at(40)), "{probes:?}");
    assert!(probes.windows(2).all(|pair| pair[1] - pair[0] >= Span::from_mins(3)), "{probes:?}");
    let (unmet, probes) = spaced(10);
    let in_time = probes.iter().filter(|&&when| when <= at(20)).count();
    assert!(unmet >= 1 && in_time + unmet >= 5, "{unmet} and {probes:?}");
}
