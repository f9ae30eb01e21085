//! The fleet as a whole, driven without clock or network. Budget, spacing and all hints are obeyed under all
//! events.

use std::collections::HashMap;
use std::sync::Arc;

use proptest::prelude::*;
use tidewatch_core::engine::action::{Action, Attempt, Persist, Refusal};
use tidewatch_core::engine::constraint::Constraint;
use tidewatch_core::engine::event::{
    Changed, Committed, EngineEvent, Failure, KnownSource, Moved, MovedTo, ProbeAnswer, ProbeReport,
};
use tidewatch_core::engine::gate::past_skips;
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::engine::params::{HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::SourceState;
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver;
use tidewatch_lab::stepper::ByHand;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

fn terms(host: &str, budget: Budget) -> Terms {
    let host = HostGroup { key: Arc::from(host), public: true };
    Terms {
        budget,
        policy: Policy::Auto,
        weight: 1.0,
        price: SourcePrice::Own(0.0),
        max_gap: None,
        cost: None,
        host,
    }
}

fn source(id: i64, host: &str, budget: Budget) -> KnownSource {
    KnownSource {
        id: SourceId(id),
        terms: terms(host, budget),
        // Not a new one.
        memory: SourceMemory { early_probes: 3, ..SourceMemory::default() },
        probes: Vec::new(),
        answered_by: None,
        moved: Moved::Same,
    }
}

fn changed(id: i64, host: &str, budget: Budget, moved: Moved) -> Changed {
    Changed { id: SourceId(id), terms: terms(host, budget), moved, probes: Vec::new() }
}

fn half_hourly() -> Budget {
    Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) }
}

fn fleet_of(known: Vec<KnownSource>) -> ByHand {
    ByHand::new(FleetParams::default(), 7, start(), known)
}

fn fine() -> Result<ProbeAnswer, Failure> {
    Ok(ProbeAnswer { updates: 1, ..ProbeAnswer::default() })
}

fn report(source: SourceId, at: Timestamp, result: Result<ProbeAnswer, Failure>) -> ProbeReport {
    ProbeReport { source, started: at, finished: at, answered_by: None, crawl_delays: Vec::new(), result }
}

fn times_of(sent: &[Attempt], id: i64) -> Vec<Timestamp> {
    sent.iter().filter(|sent| sent.source == SourceId(id)).map(|sent| sent.started).collect()
}

#[test]
fn a_healthy_source_spends_its_budget_evenly() {
    let mut fleet = fleet_of(vec![source(1, "a.example", half_hourly())]);
    let until = start() + Span::from_days(7);
    let sent = driver::run(fleet.engine_mut(), |_, _| (Span::from_millis(200), fine()), start(), until);
    let probes = times_of(&sent, 1);
    assert!((320..=337).contains(&probes.len()), "{} probes in a week of 48 a day", probes.len());
    for pair in probes.windows(2) {
        assert!(pair[1] - pair[0] <= Span::from_mins(33), "a hole of {}", pair[1] - pair[0]);
    }
}

#[test]
fn a_step_never_sends_more_than_its_slots_and_every_source_is_probed() {
    let params = FleetParams { probes_per_step: 3, ..FleetParams::default() };
    let known = (0..200).map(|id| source(id, &format!("host{id}.example"), half_hourly())).collect();
    let mut fleet = ByHand::new(params.clone(), 7, start(), known);
    let until = start() + Span::from_hours(3);
    let sent = driver::run(fleet.engine_mut(), |_, _| (Span::from_millis(300), fine()), start(), until);
    let mut per_step: HashMap<i64, u32> = HashMap::new();
    let mut per_source: HashMap<SourceId, u32> = HashMap::new();
    for sent in &sent {
        *per_step.entry(sent.started.as_millis() / params.step.as_millis()).or_default() += 1;
        *per_source.entry(sent.source).or_default() += 1;
    }
    assert!(per_step.values().all(|&count| count <= 3));
    assert_eq!(per_source.len(), 200);
    let (least, most) = (per_source.values().min().unwrap(), per_source.values().max().unwrap());
    assert!(most - least <= 2, "{least} to {most}");
}

#[test]
fn one_request_at_a_time_per_host_and_spaced() {
    let known = (0..40).map(|id| source(id, "shared.example", half_hourly())).collect();
    let mut fleet = fleet_of(known);
    let took = Span::from_secs(5);
    let until = start() + Span::from_hours(1);
    let sent = driver::run(fleet.engine_mut(), |_, _| (took, fine()), start(), until);
    assert!(sent.len() >= 40);
    for pair in sent.windows(2) {
        assert!(pair[1].started >= pair[0].started + took, "two in flight at {}", pair[1].started);
    }
}

#[test]
fn retry_after_pauses_the_whole_public_host_group_and_no_other() {
    let mut private = source(4, "10.0.0.1:80", half_hourly());
    private.terms.host.public = false;
    let mut private_too = source(5, "10.0.0.1:80", half_hourly());
    private_too.terms.host.public = false;
    let mut fleet = fleet_of(vec![
        source(1, "shared.example", half_hourly()),
        source(2, "shared.example", half_hourly()),
        source(3, "other.example", half_hourly()),
        private,
        private_too,
    ]);
    let pause = Span::from_hours(30);
    let mut throttled_at = None;
    let sent = driver::run(
        fleet.engine_mut(),
        |order, now| {
            let result = match order.source.0 {
                1 if throttled_at.is_none() => {
                    throttled_at = Some(now);
                    Err(Failure::Throttled { retry_after: Some(pause) })
                }
                4 => Err(Failure::Throttled { retry_after: Some(pause) }),
                _ => fine(),
            };
            (Span::from_millis(100), result)
        },
        start(),
        start() + Span::from_days(2),
    );
    let throttled_at = throttled_at.unwrap();
    let quiet = |id| {
        times_of(&sent, id).into_iter().filter(|&at| at > throttled_at && at < throttled_at + pause).count()
    };
    assert_eq!((quiet(1), quiet(2)), (0, 0));
    assert!(quiet(3) > 50);
    assert!(quiet(5) > 50, "a private host is no group");
    assert!(times_of(&sent, 1).len() > 10, "it is probed again afterwards");
}

#[test]
fn retry_after_of_a_redirect_target_pauses_the_target() {
    let mut fleet = fleet_of(vec![
        source(1, "redirector.example", half_hourly()),
        source(2, "redirector.example", half_hourly()),
        source(3, "target.example", half_hourly()),
    ]);
    let pause = Span::from_hours(5);
    let mut at = start() + Span::from_mins(1);
    // The other two may be probed first, because all are due.
    for _ in 0..10 {
        let orders = fleet.step(at);
        if orders.iter().any(|order| order.source == SourceId(1)) {
            break;
        }
        for order in orders {
            fleet.end_probe(&report(order.source, at, fine()));
            fleet.commit_end(order.source, at);
        }
        at += Span::from_secs(3);
    }
    let throttled = ProbeReport {
        answered_by: Some(HostGroup { key: "target.example".into(), public: true }),
        crawl_delays: Vec::new(),
        ..report(SourceId(1), at, Err(Failure::Throttled { retry_after: Some(pause) }))
    };
    let ended = fleet.end_probe(&throttled).unwrap();
    assert_eq!(&*ended.host.unwrap().host.key, "target.example");
    fleet.commit_end(SourceId(1), at);
    let sent =
        driver::run(fleet.engine_mut(), |_, _| (Span::ZERO, fine()), at, at + pause - Span::from_millis(1));
    assert!(times_of(&sent, 1).is_empty(), "it received the Retry-After itself");
    assert!(!times_of(&sent, 2).is_empty(), "the redirector is not paused");
    assert!(times_of(&sent, 3).iter().all(|&sent| sent <= at), "the target is paused");
}

#[test]
fn a_redirect_target_gets_one_request_at_a_time_and_its_pause_applies_to_all() {
    let target = HostGroup { key: "target.example".into(), public: true };
    let mut redirected = source(1, "redirector.example", half_hourly());
    redirected.answered_by = Some(target.clone());
    let mut fleet = fleet_of(vec![redirected, source(2, "target.example", half_hourly())]);
    let took = Span::from_secs(4);
    let until = start() + Span::from_days(1);
    let sent = driver::run(fleet.engine_mut(), |_, _| (took, fine()), start(), until);
    assert!(times_of(&sent, 1).len() > 40 && times_of(&sent, 2).len() > 40);
    for pair in sent.windows(2) {
        assert!(pair[1].started >= pair[0].started + took, "two in flight at {}", pair[1].started);
    }
    // The target sends Retry-After. The redirected source is paused as well.
    let pause = Span::from_hours(6);
    let mut throttled_at = None;
    let sent = driver::run(
        fleet.engine_mut(),
        |order, now| {
            if order.source == SourceId(2) && throttled_at.is_none() {
                throttled_at = Some(now);
                return (Span::ZERO, Err(Failure::Throttled { retry_after: Some(pause) }));
            }
            (Span::ZERO, fine())
        },
        until,
        until + Span::from_days(1),
    );
    let throttled_at = throttled_at.unwrap();
    assert!(
        sent.iter().all(|sent| sent.started <= throttled_at || sent.started >= throttled_at + pause),
        "no probe meanwhile"
    );
    assert!(times_of(&sent, 1).iter().any(|&at| at > throttled_at + pause));
}

#[test]
fn a_probe_that_waited_into_a_skipped_hour_is_not_sent() {
    let at = start() + Span::from_hours(1);
    let ordered = at + Span::from_mins(59);
    // Its start is committed at `committed`.
    let then = |committed: Timestamp| {
        let mut fleet = fleet_of(vec![source(1, "a.example", half_hourly())]);
        assert_eq!(fleet.step(at).len(), 1);
        let hints = FeedHints { skip_hours: 0b1100, ..FeedHints::default() };
        let answer = ProbeAnswer { hints: Some(hints), ..ProbeAnswer::default() };
        fleet.end_probe(&report(SourceId(1), at, Ok(answer)));
        fleet.commit_end(SourceId(1), at);
        assert_eq!(fleet.start(ordered).len(), 1);
        let started = Committed::Started(vec![SourceId(1)]);
        let actions = fleet.deliver(committed, EngineEvent::Committed(started));
        (fleet, actions)
    };
    let sent = |actions: &[Action]| actions.iter().any(|action| matches!(action, Action::Send(_)));
    let (_, actions) = then(ordered);
    assert!(sent(&actions), "{actions:?}");
    let late = at + Span::from_mins(61);
    let (mut fleet, actions) = then(late);
    assert!(!sent(&actions), "{actions:?}");
    assert!(actions.contains(&Action::Persist(Persist::Cancelled(SourceId(1)))), "{actions:?}");
    assert_eq!(fleet.step(late), vec![]);
    assert_eq!(fleet.next_step(late), Some(start() + Span::from_hours(4)));
}

#[test]
fn failures_back_off_up_to_a_day_and_success_resets() {
    let mut fleet =
        fleet_of(vec![source(1, "a.example", half_hourly()), source(2, "b.example", half_hourly())]);
    let well_from = start() + Span::from_days(10);
    let sent = driver::run(
        fleet.engine_mut(),
        |order, now| {
            let sick = order.source.0 == 1 && now < well_from;
            (Span::from_millis(100), if sick { Err(Failure::Refused) } else { fine() })
        },
        start(),
        start() + Span::from_days(12),
    );
    let probes = times_of(&sent, 1);
    let gaps: Vec<Span> = probes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let sick_gaps: Vec<Span> = gaps.iter().copied().take(8).collect();
    assert!(sick_gaps.windows(2).take(4).all(|pair| pair[1] > pair[0]), "{sick_gaps:?}");
    assert!(gaps.iter().max().unwrap() <= &(Span::from_days(1) + Span::from_secs(1)));
    assert!(*gaps.last().unwrap() < Span::from_mins(33), "back to its pace");
    assert_eq!(fleet.memory(SourceId(1)).unwrap().error_streak, 0);
}

#[test]
fn a_gone_source_is_probed_only_on_request() {
    let mut fleet = fleet_of(vec![source(1, "a.example", half_hourly())]);
    let until = start() + Span::from_days(5);
    let sent = driver::run(fleet.engine_mut(), |_, _| (Span::ZERO, Err(Failure::Gone)), start(), until);
    assert_eq!(sent.len(), 1);
    assert_eq!(fleet.memory(SourceId(1)).unwrap().state, SourceState::Resting);
    assert_eq!(fleet.next_step(until), None);
    assert_eq!(fleet.request(SourceId(1), until), Ok(()));
    assert_eq!(fleet.step(until).len(), 1);
}

#[test]
fn when_everything_fails_no_source_is_blamed() {
    let known = (0..20).map(|id| source(id, &format!("h{id}.example"), half_hourly())).collect();
    let mut fleet = fleet_of(known);
    let down = start() + Span::from_hours(2)..start() + Span::from_hours(12);
    driver::run(
        fleet.engine_mut(),
        |_, now| (Span::from_secs(1), if down.contains(&now) { Err(Failure::Unreachable) } else { fine() }),
        start(),
        start() + Span::from_hours(11),
    );
    let streaks = (0..20).map(|id| fleet.memory(SourceId(id)).unwrap().error_streak);
    assert!(streaks.sum::<u32>() <= 3, "only those that failed before the outage was detected");
}

#[test]
fn a_move_is_adopted_after_five_redirects_over_three_days() {
    let moved = |target: &str| {
        let host = HostGroup { key: format!("{target}.example").into(), public: true };
        ProbeAnswer { moved_to: Some(MovedTo { url: target.into(), host }), ..ProbeAnswer::default() }
    };
    let end_probe = |fleet: &mut ByHand, days: f64, answer: ProbeAnswer| {
        // From when its first probe is due.
        let at = start() + Span::from_mins(1) + Span::from_days(1).scaled(days);
        assert_eq!(fleet.step(at).len(), 1);
        let report = report(SourceId(1), at, Ok(answer));
        let notes = fleet.end_probe(&report).unwrap().notes;
        fleet.commit_end(SourceId(1), at);
        notes.into_iter().any(|note| matches!(note, Note::MoveAdopted { .. }))
    };
    let fresh = || fleet_of(vec![source(1, "a.example", half_hourly())]);
    // Often, but not long enough.
    let mut fleet = fresh();
    for n in 0..20 {
        assert!(!end_probe(&mut fleet, f64::from(n) * 0.1, moved("b")), "{n}");
    }
    assert!(end_probe(&mut fleet, 3.0, moved("b")), "long enough");
    // Long, but not often enough.
    let mut fleet = fresh();
    for n in 0..4 {
        assert!(!end_probe(&mut fleet, f64::from(n) * 2.0, moved("b")), "{n}");
    }
    assert!(end_probe(&mut fleet, 8.0, moved("b")));
    assert_eq!(fleet.memory(SourceId(1)).unwrap().adopted_url.as_deref(), Some("b"));
    // Another target, or an answer from the old place, resets the count.
    let mut fleet = fresh();
    for (day, answer) in
        [moved("b"), moved("b"), moved("c"), moved("b"), ProbeAnswer::default(), moved("b")]
            .into_iter()
            .cycle()
            .take(30)
            .enumerate()
    {
        assert!(!end_probe(&mut fleet, day as f64, answer), "day {day}");
    }
}

#[test]
fn a_manual_probe_is_as_polite_as_any() {
    let mut fleet = fleet_of(vec![source(1, "a.example", half_hourly())]);
    let soon = start() + Span::from_mins(20);
    driver::run(fleet.engine_mut(), |_, _| (Span::ZERO, fine()), start(), soon);
    let last = fleet.memory(SourceId(1)).unwrap().last_probe.unwrap();
    let refused = fleet.request(SourceId(1), last + Span::from_mins(1));
    let until = last + Span::from_mins(15);
    assert_eq!(refused, Err(Refusal::Until { constraint: Constraint::Spacing, until }));
    assert_eq!(fleet.request(SourceId(1), until), Ok(()));
    assert_eq!(fleet.step(until).len(), 1);
    assert_eq!(fleet.request(SourceId(1), until), Err(Refusal::InFlight));
    assert_eq!(fleet.request(SourceId(9), until), Err(Refusal::Unknown));
}

#[test]
fn a_stale_plan_is_refused_and_a_fresh_one_followed() {
    let mut planned = source(1, "a.example", half_hourly());
    planned.terms.policy = Policy::Plan;
    let mut fleet = fleet_of(vec![planned]);
    let made_from = fleet.revision(SourceId(1)).unwrap();
    let soon = start() + Span::from_mins(20);
    driver::run(fleet.engine_mut(), |_, _| (Span::ZERO, fine()), start(), soon);
    let times: Vec<Timestamp> = (1..5).map(|n| start() + Span::from_hours(3 * n)).collect();
    let plan = |made_from| Plan {
        by: Policy::Plan,
        made_from,
        times: times.clone(),
        starts: soon,
        ends: start() + Span::from_days(1),
    };
    assert!(fleet.adopt(SourceId(1), plan(made_from), soon).is_err());
    let made_from = fleet.revision(SourceId(1)).unwrap();
    assert!(fleet.adopt(SourceId(1), plan(made_from), soon).is_ok());
    let sent = driver::run(fleet.engine_mut(), |_, _| (Span::ZERO, fine()), soon, *times.last().unwrap());
    assert_eq!(times_of(&sent, 1), times);
}

#[test]
fn a_reload_makes_nothing_due() {
    let mut fleet =
        fleet_of((0..50).map(|id| source(id, &format!("h{id}.example"), half_hourly())).collect());
    let at = start() + Span::from_days(2);
    driver::run(fleet.engine_mut(), |_, _| (Span::ZERO, fine()), start(), at);
    let before: Vec<Due> = (0..50).map(|id| fleet.memory(SourceId(id)).unwrap().due).collect();
    let generous = Budget { probes: 1_000, per: Span::from_days(1), min_spacing: Span::from_secs(1) };
    let repaced = (0..10)
        .map(|id| {
            let moved = if id < 5 { Moved::Same } else { Moved::Elsewhere };
            changed(id, &format!("h{id}.example"), generous, moved)
        })
        .collect();
    let added = vec![source(100, "new.example", half_hourly())];
    fleet.reconfigure(added, repaced, &[SourceId(49)], at);
    assert_eq!(fleet.step(at), vec![]);
    for id in 10..49 {
        assert_eq!(fleet.memory(SourceId(id)).unwrap().due, before[id as usize], "untouched");
    }
    assert!(fleet.memory(SourceId(49)).is_none());
    let sent = driver::run(fleet.engine_mut(), |_, _| (Span::ZERO, fine()), at, at + Span::from_hours(1));
    assert!(!times_of(&sent, 100).is_empty());
    assert!(times_of(&sent, 1).len() > 20, "the new pace");
    assert!(times_of(&sent, 49).is_empty());
}

#[test]
fn a_source_removed_in_flight_is_dropped_after_its_answer() {
    let mut fleet =
        fleet_of(vec![source(1, "a.example", half_hourly()), source(2, "a.example", half_hourly())]);
    let at = start() + Span::from_hours(1);
    let order = fleet.step(at)[0];
    fleet.reconfigure(Vec::new(), Vec::new(), &[order.source], at);
    let report = report(order.source, at, fine());
    assert_eq!(fleet.end_probe(&report).unwrap().memory.state, SourceState::Removed);
    fleet.commit_end(order.source, at);
    assert_eq!(fleet.len(), 1);
    assert_eq!(fleet.step(at + Span::from_secs(10)).len(), 1, "its host is free for the other");
}

/// An event of a random run.
#[derive(Debug, Clone)]
enum FleetEvent {
    Wait(i64),
    Restart,
    Reload(u32, i64),
    ClockSet(i64),
    Request,
}

fn events() -> impl Strategy<Value = Vec<FleetEvent>> {
    let event = prop_oneof![
        6 => (1_i64..7_200).prop_map(FleetEvent::Wait),
        1 => Just(FleetEvent::Restart),
        1 => (1_u32..30, 1_i64..1_800).prop_map(|(n, s)| FleetEvent::Reload(n, s)),
        // By some hours, in a third of all cases by decades.
        1 => (-40_000_i64..40_000)
            .prop_map(|secs| FleetEvent::ClockSet(if secs % 3 == 0 { secs * 25_000 } else { secs })),
        2 => Just(FleetEvent::Request),
    ];
    prop::collection::vec(event, 1..120).prop_map(|mut events| {
        events.insert(0, FleetEvent::Wait(3_600));
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// In real time, without the clock's jumps: at most n probes in any window of T, no two closer than δ,
    /// none before a hint or in skipped hours. Answers, hints, errors, restarts, reloads and clock jumps are
    /// random.
    #[test]
    fn no_random_run_breaks_a_limit(events in events(), seed in 0_u64..1_000) {
        let per = Span::from_hours(6);
        let mut budget = Budget { probes: 10, per, min_spacing: Span::from_mins(10) };
        let params = FleetParams::default();
        let mut fleet = ByHand::new(params.clone(), seed, start(), vec![source(1, "a.example", budget)]);
        let mut chance = Stream::new(seed, "world");
        // The clock shows `now`; real time is `now - offset`.
        let (mut now, mut offset) = (start(), Span::ZERO);
        let mut log: Vec<(Timestamp, Budget)> = Vec::new();
        let mut not_before = Timestamp::MIN;
        let mut hints = FeedHints::default();
        for event in events {
            match event {
                FleetEvent::Wait(secs) => {
                    let until = now + Span::from_secs(secs);
                    let sent = driver::run(fleet.engine_mut(), |_, at| {
                        assert!(at - offset >= not_before, "a probe before a hint");
                        assert_eq!(past_skips(at, &hints), at, "a probe in a skipped hour");
                        let took = Span::from_millis((chance.unit() * 5_000.0) as i64);
                        let end = at - offset + took;
                        let draw = chance.unit();
                        let result = if draw < 0.1 {
                            let pause = Span::from_secs((chance.unit() * 20_000.0) as i64);
                            not_before = end + pause;
                            Err(Failure::Throttled { retry_after: Some(pause) })
                        } else if draw < 0.2 {
                            Err(Failure::Unreadable)
                        } else if draw < 0.3 {
                            Err(Failure::Unreachable)
                        } else {
                            let fresh = Span::from_secs((chance.unit() * 3_000.0) as i64);
                            not_before = end + fresh;
                            hints = FeedHints {
                                skip_hours: if chance.unit() < 0.3 { 0b1110 } else { 0 },
                                ..FeedHints::default()
                            };
                            Ok(ProbeAnswer {
                                updates: 1,
                                fresh_for: Some(fresh),
                                hints: Some(hints),
                                gap: chance.unit() < 0.2,
                                ..ProbeAnswer::default()
                            })
                        };
                        (took, result)
                    }, now, until);
                    log.extend(sent.iter().map(|sent| (sent.started - offset, budget)));
                    now = until + Span::from_secs(5);
                }
                FleetEvent::Restart => {
                    let probes: Vec<Timestamp> = log.iter().map(|(at, _)| *at + offset + Span::from_secs(5)).collect();
                    let memory = fleet.memory(SourceId(1)).unwrap().clone();
                    let known = KnownSource { memory, probes, ..source(1, "a.example", budget) };
                    fleet = ByHand::new(params.clone(), seed, now, vec![known]);
                }
                FleetEvent::Reload(probes, spacing) => {
                    let min_spacing = Span::from_secs(spacing.min(per.as_millis() / 1000 / i64::from(probes)));
                    budget = Budget { probes, per, min_spacing };
                    fleet.reconfigure(Vec::new(), vec![changed(1, "a.example", budget, Moved::Same)], &[], now);
                }
                FleetEvent::ClockSet(secs) => {
                    let by = Span::from_secs(secs);
                    now += by;
                    offset = offset + by;
                    fleet.shift(by, now);
                }
                FleetEvent::Request => {
                    let _ = fleet.request(SourceId(1), now);
                }
            }
        }
        for (i, &(at, budget)) in log.iter().enumerate() {
            if i > 0 {
                prop_assert!(at - log[i - 1].0 >= budget.min_spacing, "spacing at probe {i}");
            }
            if let Some(first) = i.checked_sub(budget.probes as usize) {
                prop_assert!(at - log[first].0 >= budget.per, "budget at probe {i}");
            }
        }
        prop_assert!(!log.is_empty());
    }
}
