//! The assignment of slots to due and sampled sources, if there are fewer slots than sources that need one.

use std::collections::HashMap;
use std::sync::Arc;

use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{
    EngineEvent, Failure, KnownSource, Moved, PlansReady, ProbeAnswer, ProbeReport, SourceProfile,
};
use tidewatch_core::engine::params::{Allocator, FleetParams};
use tidewatch_core::engine::params::{HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::model::hourly_profile::HourlyProfile;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{self, Pending, SimulatedReply, SimulatedWorld};
use tidewatch_lab::stepper::ByHand;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// Every ten minutes, if slots allow.
fn often() -> Budget {
    Budget { probes: 144, per: Span::from_days(1), min_spacing: Span::from_mins(10) }
}

fn source(id: i64, policy: Policy) -> KnownSource {
    let host = HostGroup { key: Arc::from(format!("host{id}.example")), public: true };
    KnownSource {
        id: SourceId(id),
        terms: Terms {
            budget: often(),
            policy,
            weight: 1.0,
            price: SourcePrice::Own(0.0),
            max_gap: None,
            cost: None,
            host,
        },
        memory: SourceMemory::default(),
        probes: Vec::new(),
        answered_by: None,
        moved: Moved::Same,
    }
}

fn fleet(known: Vec<KnownSource>, per_step: u32, allocator: Allocator) -> ByHand {
    let params = FleetParams { probes_per_step: per_step, allocator, ..FleetParams::default() };
    ByHand::new(params, 7, start(), known)
}

/// One slot a minute.
fn one_a_minute(allocator: Allocator) -> FleetParams {
    let step = Span::from_secs(60);
    FleetParams { probes_per_step: 1, step, allocator, ..FleetParams::default() }
}

/// A world in which source `id` has `rates[id]` updates an hour, Poisson.
struct Poisson {
    rates: Vec<f64>,
    seen: Vec<Timestamp>,
    stream: Stream,
}

impl Poisson {
    fn new(rates: Vec<f64>) -> Self {
        Self { seen: vec![start(); rates.len()], rates, stream: Stream::new(1, "world") }
    }

    fn answer(&mut self, order: &Attempt, now: Timestamp) -> (Span, Result<ProbeAnswer, Failure>) {
        let id = order.source.0 as usize;
        let took = Span::from_millis(100);
        let hours = (now + took - self.seen[id]).as_secs_f64() / 3600.0;
        self.seen[id] = now + took;
        let (mut updates, mut left) = (0, self.rates[id] * hours);
        loop {
            left += (1.0 - self.stream.unit()).ln();
            if left < 0.0 {
                return (took, Ok(ProbeAnswer { updates, ..ProbeAnswer::default() }));
            }
            updates += 1;
        }
    }
}

/// A world that counts the uses of slots.
struct Counting<A> {
    answer: A,
    sent: Vec<Attempt>,
    loads: Vec<SlotStats>,
}

impl<A: FnMut(&Attempt, Timestamp) -> SimulatedReply> SimulatedWorld for Counting<A> {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        self.sent.push(*attempt);
        let (took, result) = (self.answer)(attempt, now);
        ProbeReport { started: now, finished: now + took, result, ..report(attempt.source, now) }
    }

    fn plan(&mut self, _: &PlanOrder, _: Timestamp) -> (Span, PlansReady) {
        (Span::ZERO, PlansReady { requests: 1, ..PlansReady::default() })
    }

    fn watch(&mut self, action: &Action, _: Timestamp) {
        if let Action::Persist(Persist::Load(load)) = action {
            self.loads.push(load.clone());
        }
    }
}

/// The probes sent until then, and the slot statistics of the whole time.
fn counted(
    fleet: &mut ByHand,
    answer: impl FnMut(&Attempt, Timestamp) -> SimulatedReply,
    until: Timestamp,
) -> (Vec<Attempt>, SlotStats) {
    let mut world = Counting { answer, sent: Vec::new(), loads: Vec::new() };
    let mut pending = Pending::default();
    pending.deliver(fleet.engine_mut(), &mut world, start(), EngineEvent::Tick);
    let now = pending.run(fleet.engine_mut(), &mut world, start(), until);
    pending.drain(fleet.engine_mut(), &mut world, now);
    world.loads.push(fleet.slot_stats().clone());
    let sum = world.loads.into_iter().reduce(|before, load| SlotStats {
        due: before.due + load.due,
        sampled: before.sampled + load.sampled,
        late: before.late + load.late,
        late_for: before.late_for + load.late_for,
        latest: before.latest.max(load.latest),
        ..load
    });
    (world.sent, sum.unwrap())
}

fn per_source(sent: &[Attempt]) -> HashMap<i64, usize> {
    let mut counts = HashMap::new();
    for sent in sent {
        *counts.entry(sent.source.0).or_default() += 1;
    }
    counts
}

/// The undiscovered updates over the second half of the time, up to a factor.
fn undiscovered(sent: &[Attempt], rates: &[f64], until: Timestamp) -> f64 {
    let middle = start() + Span::from_millis((until - start()).as_millis() / 2);
    let mut last: HashMap<i64, Timestamp> = HashMap::new();
    let mut cost = 0.0;
    for sent in sent {
        let id = sent.source.0;
        if let Some(before) = last.insert(id, sent.started).filter(|_| sent.started > middle) {
            cost += rates[id as usize] * (sent.started - before.max(middle)).as_secs_f64().powi(2);
        }
    }
    cost
}

#[test]
fn due_sources_precede_sampled_ones() {
    // Six a step are requested, three by each kind, and there are four slots.
    let known = (0..360).map(|id| source(id, if id < 180 { Policy::Uniform } else { Policy::Adaptive }));
    let mut fleet = fleet(known.collect(), 4, Allocator::Adaptive);
    let until = start() + Span::from_hours(12);
    let (sent, load) = counted(
        &mut fleet,
        |_, _| (Span::from_millis(100), Ok(ProbeAnswer { updates: 1, ..ProbeAnswer::default() })),
        until,
    );
    let later: Vec<Attempt> =
        sent.into_iter().filter(|sent| sent.started > start() + Span::from_hours(2)).collect();
    let counts = per_source(&later);
    let (due, sampled): (Vec<_>, Vec<_>) = counts.into_iter().partition(|&(id, _)| id < 180);
    // Ten hours at six an hour, a little less for jitter and steps.
    assert!(due.iter().all(|&(_, count)| (54..=61).contains(&count)), "{due:?}");
    let sampled: usize = sampled.iter().map(|&(_, count)| count).sum();
    assert!((3_300..=3_900).contains(&sampled), "one a step is left over: {sampled}");
    for sent in later.iter().filter(|sent| sent.source.0 < 180) {
        // In some steps more than four become due by chance, and wait for a while.
        assert!(sent.started - sent.due <= Span::from_secs(120), "late by {}", sent.started - sent.due);
    }
    assert!(load.due > 10_000 && load.sampled > 3_000, "{load:?}");
}

#[test]
fn if_more_are_due_than_slots_the_costliest_are_probed_first_and_the_others_later() {
    let rates: Vec<f64> = (0..120).map(|id| if id < 20 { 12.0 } else { 0.12 }).collect();
    let known = (0..120).map(|id| source(id, Policy::Uniform)).collect();
    // Two a step are requested; there is one slot every other step.
    let params = FleetParams { probes_per_step: 1, step: Span::from_secs(20), ..FleetParams::default() };
    let mut fleet = ByHand::new(params, 7, start(), known);
    let until = start() + Span::from_days(2);
    let mut world = Poisson::new(rates.clone());
    let (sent, load) = counted(&mut fleet, |order, now| world.answer(order, now), until);
    let counts = per_source(&sent);
    assert_eq!(counts.len(), 120, "every source is probed");
    let mean = |ids: std::ops::Range<i64>| {
        ids.clone().map(|id| counts[&id]).sum::<usize>() as f64 / ids.count() as f64
    };
    // √100 = 10 times as often by the rates, but the budget allows the busy ones no more than 288.
    let (busy, calm) = (mean(0..20), mean(20..120));
    assert!(busy > 230.0 && calm < 45.0 && calm > 20.0, "{busy} {calm}");
    // In the steady state: the mean age of every gap times its rate, up to the error of the estimated rates.
    let (last, hour) = (sent.last().unwrap().started, Span::from_hours(1).as_secs_f64());
    let truly: f64 = (0..120)
        .map(|id| {
            let last_probe = sent.iter().rfind(|sent| sent.source.0 == id).unwrap().started;
            rates[id as usize] * (last - last_probe).as_secs_f64() / hour
        })
        .sum();
    let estimated = fleet.undiscovered(last);
    assert!((estimated / truly - 1.0).abs() < 0.25, "{estimated} for {truly}");
    assert_eq!(load.sampled, 0);
    assert!(load.late > load.due / 4, "{load:?}");
    assert!(load.latest > Span::from_mins(30) && load.waiting > 0, "{load:?}");
    assert!(load.late_for >= load.latest);
    // A few are later than ever before, but all are probed.
    let longest = (20..120)
        .map(|id| {
            let times: Vec<_> = sent.iter().filter(|s| s.source.0 == id).map(|s| s.started).collect();
            times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap()
        })
        .max();
    assert!(longest < Some(Span::from_hours(5)), "{longest:?}");
}

#[test]
fn weight_counts_like_a_rate() {
    let mut known: Vec<KnownSource> = (0..100).map(|id| source(id, Policy::Adaptive)).collect();
    for heavy in &mut known[..10] {
        heavy.terms.weight = 9.0;
    }
    for allocator in [Allocator::Index, Allocator::Adaptive] {
        let mut fleet = fleet(known.clone(), 1, allocator);
        fleet.set_params(one_a_minute(allocator), start());
        let mut world = Poisson::new(vec![1.0; 100]);
        let until = start() + Span::from_days(4);
        let sent = driver::run(fleet.engine_mut(), |order, now| world.answer(order, now), start(), until);
        let counts = per_source(&sent);
        let mean = |ids: std::ops::Range<i64>| {
            ids.clone().map(|id| counts[&id]).sum::<usize>() as f64 / ids.count() as f64
        };
        let ratio = mean(0..10) / mean(10..100);
        // √9 = 3 times as often; a little less where the spacing delays the heavy ones.
        assert!((2.2..3.3).contains(&ratio), "{allocator:?}: {ratio}");
    }
}

#[test]
fn every_allocator_probes_all_sources_and_the_index_costs_least() {
    let rates: Vec<f64> = (0..200).map(|id| 20.0 / f64::from(id + 1)).collect();
    let until = start() + Span::from_days(8);
    let mut costs = HashMap::new();
    for allocator in Allocator::ALL {
        let known = (0..200).map(|id| source(id, Policy::Adaptive)).collect();
        let mut fleet = fleet(known, 1, allocator);
        fleet.set_params(one_a_minute(allocator), start());
        let mut world = Poisson::new(rates.clone());
        let sent = driver::run(fleet.engine_mut(), |order, now| world.answer(order, now), start(), until);
        assert_eq!(per_source(&sent).len(), 200, "{allocator:?}");
        let mut per_step: HashMap<i64, u32> = HashMap::new();
        for sent in &sent {
            *per_step.entry(sent.started.as_millis() / 60_000).or_default() += 1;
        }
        assert!(per_step.values().all(|&count| count == 1));
        // D leaves some slots unused; the others leave none.
        let used = sent.len() as f64 / (8.0 * 1440.0);
        assert!(used > if allocator == Allocator::Cyclic { 0.5 } else { 0.99 }, "{allocator:?}: {used}");
        for pair in sent.iter().filter(|s| s.source.0 == 0).collect::<Vec<_>>().windows(2) {
            assert!(
                pair[1].started - pair[0].started >= Span::from_mins(10),
                "{allocator:?}: the spacing holds"
            );
        }
        costs.insert(allocator.name(), undiscovered(&sent, &rates, until));
    }
    let best = costs["index"];
    for (name, cost) in &costs {
        assert!(*cost >= best * 0.999, "{name}: {cost} against {best}");
    }
    assert!(costs["adaptive"] > 1.4 * best, "{costs:?}");
    assert!(costs["round_robin"] > 1.2 * best, "{costs:?}");
}

#[test]
fn the_current_hour_counts() {
    // Both have the same mean; one is busy by day, the other by night, seven times as much as otherwise.
    let window = |from, until| WeekWindow { days: 0b111_1111, from_minute: from, until_minute: until };
    let zone = jiff::tz::TimeZone::UTC;
    let day = Steps::windows(zone.clone(), 0.5, &[(window(8 * 60, 20 * 60), 3.5)]).unwrap();
    let night = Steps::windows(zone, 3.5, &[(window(8 * 60, 20 * 60), 0.5)]).unwrap();
    let known = (0..100).map(|id| source(id, Policy::Adaptive)).collect();
    let mut fleet = ByHand::new(one_a_minute(Allocator::Index), 7, start(), known);
    let profiles = (0..100).map(|id| {
        let rate = if id < 50 { &day } else { &night };
        let (profile, per_hour) = HourlyProfile::of(rate, start()).unwrap();
        SourceProfile { source: SourceId(id), profile, per_hour, updates: 200, dispersion: 1.0 }
    });
    let profiles = profiles.collect();
    fleet.deliver(start(), EngineEvent::PlansReady(PlansReady { profiles, ..PlansReady::default() }));
    let mut world = Poisson::new(vec![2.0; 100]);
    let until = start() + Span::from_days(4);
    let sent = driver::run(fleet.engine_mut(), |order, now| world.answer(order, now), start(), until);
    let by_day = |sent: &&Attempt| (10..20).contains(&sent.started.utc_hour());
    let of = |ids: std::ops::Range<i64>| {
        sent.iter().filter(by_day).filter(|sent| ids.contains(&sent.source.0)).count() as f64
    };
    let ratio = of(0..50) / of(50..100);
    assert!(ratio > 1.8, "√7 = 2.6 times as often while it is busy, not {ratio}");
}

#[test]
fn no_slot_is_spent_on_a_host_that_is_closed() {
    // A thousand sources on one host that allows one request in two seconds, and ten elsewhere.
    let mut known: Vec<KnownSource> = (0..1_010).map(|id| source(id, Policy::Adaptive)).collect();
    for crowded in &mut known[..1_000] {
        crowded.terms.host.key = Arc::from("crowded.example");
    }
    for allocator in [Allocator::Adaptive, Allocator::Index, Allocator::RoundRobin] {
        let mut fleet = fleet(known.clone(), 6, allocator);
        let until = start() + Span::from_hours(6);
        let sent = driver::run(
            fleet.engine_mut(),
            |_, _| (Span::from_millis(500), Ok(ProbeAnswer::default())),
            start(),
            until,
        );
        let crowded: Vec<Timestamp> =
            sent.iter().filter(|s| s.source.0 < 1_000).map(|s| s.started).collect();
        assert!(crowded.windows(2).all(|pair| pair[1] - pair[0] >= Span::from_secs(2)));
        let counts = per_source(&sent);
        assert_eq!(counts.len(), 1_010, "{allocator:?}");
        // The others get as many slots as without the crowded host.
        assert!((1_000..1_010).all(|id| counts[&id] >= 33), "{allocator:?}: {counts:?}");
        // The host is probed as often as it allows: every 2.5 s, or four times a step at least.
        assert!(crowded.len() > 4 * 360 * 6 * 9 / 10, "{allocator:?}: {}", crowded.len());
    }
}

#[test]
fn a_manual_probe_is_first_and_a_first_contact_is_not_sampled() {
    let known = (0..400).map(|id| source(id, Policy::Uniform)).collect();
    let mut fleet = fleet(known, 1, Allocator::Adaptive);
    let mut now = start() + Span::from_mins(30);
    assert_eq!(fleet.step(now).len(), 1, "all are due, and there is one slot");
    now += Span::from_secs(10);
    let last = SourceId(399);
    fleet.request(last, now).unwrap();
    let orders = fleet.step(now);
    assert_eq!(
        orders.iter().map(|order| (order.source, order.reason)).collect::<Vec<_>>(),
        [(last, Reason::Manual)]
    );
    // A new source among many that are sampled is due, not sampled.
    let mut known: Vec<KnownSource> = (0..400).map(|id| source(id, Policy::Adaptive)).collect();
    for sampled in &mut known[1..] {
        sampled.memory.due = Due::At(start());
        sampled.memory.reason = Reason::Policy;
        sampled.memory.burst.asked_by = Policy::Adaptive;
        sampled.memory.known_updates = 20;
    }
    let params = FleetParams { probes_per_step: 1, ..FleetParams::default() };
    let mut fleet = ByHand::new(params, 7, start(), known);
    let due = fleet.memory(SourceId(0)).unwrap().due.at().unwrap();
    let orders = fleet.step(due.max(start()));
    assert_eq!(orders[0].source, SourceId(0));
}

#[test]
fn a_source_that_waits_for_a_slot_can_be_removed_changed_or_shifted_with_the_clock() {
    let known = (0..50).map(|id| source(id, Policy::Adaptive)).collect();
    let mut fleet = fleet(known, 1, Allocator::Index);
    let mut now = start() + Span::from_mins(30);
    let mut gone = fleet.step(now);
    assert_eq!(gone.len(), 1);
    let removed: Vec<SourceId> = (0..25).map(SourceId).filter(|id| *id != gone[0].source).collect();
    fleet.reconfigure(Vec::new(), Vec::new(), &removed, now);
    now += Span::from_hours(3);
    fleet.shift(Span::from_hours(3), now);
    let params =
        FleetParams { probes_per_step: 1, allocator: Allocator::RoundRobin, ..FleetParams::default() };
    fleet.set_params(params, now);
    for _ in 0..60 {
        now += Span::from_secs(10);
        gone.extend(fleet.step(now));
    }
    assert_eq!(gone.len(), 50 - removed.len(), "each once, as none has answered");
    assert!(gone.iter().all(|order| !removed.contains(&order.source)));
    // The end of a probe allows the next.
    let order = gone[3];
    assert!(fleet.end_probe(&report(order.source, now)).is_some());
    fleet.commit_end(order.source, now);
    assert!(fleet.next_step(now).is_some_and(|next| next > now + Span::from_mins(9)));
}

fn report(source: SourceId, at: Timestamp) -> ProbeReport {
    ProbeReport {
        source,
        started: at,
        finished: at,
        answered_by: None,
        crawl_delays: Vec::new(),
        result: Ok(ProbeAnswer::default()),
    }
}

/// Sources of one host, all of them long due.
fn crowd(policies: &[Policy]) -> Vec<KnownSource> {
    let mut known: Vec<KnownSource> = (0..).zip(policies).map(|(id, policy)| source(id, *policy)).collect();
    for (back, known) in (0..).zip(&mut known) {
        known.terms.host.key = Arc::from("crowded.example");
        let asked_by =
            if known.terms.policy == Policy::Adaptive { Policy::Adaptive } else { Policy::Uniform };
        let due = start() - Span::from_hours(1) - Span::from_secs(back);
        known.memory.due = Due::At(due);
        known.memory.reason = Reason::Policy;
        known.memory.last_probe = Some(due - Span::from_mins(10));
        known.memory.burst.asked_by = asked_by;
    }
    known
}

#[test]
fn a_source_that_waits_for_a_host_is_probed_after_others_are_removed() {
    for first in 0..7 {
        let mut fleet = fleet(crowd(&[Policy::Uniform; 7]), 20, Allocator::Adaptive);
        let mut now = start() + Span::from_secs(5);
        let under_way = fleet.step(now)[0].source;
        // Five of the six waiting sources are removed, and the one in flight.
        let mut leave: Vec<SourceId> =
            (0..7).map(|id| SourceId((id + first) % 7)).filter(|id| *id != under_way).take(5).collect();
        leave.push(under_way);
        fleet.reconfigure(Vec::new(), Vec::new(), &leave, now);
        now += Span::from_secs(1);
        fleet.end_probe(&report(under_way, now)).unwrap();
        fleet.commit_end(under_way, now);
        let next = fleet.next_step(now).expect("one is left");
        assert!(next <= now + Span::from_secs(2), "{next}");
        assert_eq!(fleet.step(next.max(now)).len(), 1, "{first}");
    }
}

#[test]
fn at_a_host_due_sources_are_first_too() {
    let mut policies = vec![Policy::Adaptive; 200];
    policies.extend([Policy::Uniform; 5]);
    let mut fleet = fleet(crowd(&policies), 20, Allocator::Index);
    let answer = |_: &Attempt, _| (Span::from_millis(500), Ok(ProbeAnswer::default()));
    let sent = driver::run(fleet.engine_mut(), answer, start(), start() + Span::from_mins(5));
    let when = |id: i64| sent.iter().position(|sent| sent.source.0 == id);
    for id in 200..205 {
        assert!(when(id).is_some_and(|place| place < 7), "{id}: {:?}", when(id));
    }
    assert!(sent.len() > 100, "then the others: {}", sent.len());
}

#[test]
fn a_deferred_first_contact_is_still_not_sampled() {
    // More are due than there are slots, all the time. One is new, at a host that is paused.
    let mut known: Vec<KnownSource> = (0..200).map(|id| source(id, Policy::Uniform)).collect();
    known.push(source(200, Policy::Auto));
    let host = known[200].terms.host.clone();
    let params = FleetParams { probes_per_step: 1, step: Span::from_secs(10), ..FleetParams::default() };
    let paused_host = (host, Some(start() + Span::from_hours(2)), Span::ZERO);
    let mut fleet = ByHand::resumed(params, 7, start(), &[paused_host], known);
    let answer = |_: &Attempt, _| (Span::from_millis(100), Ok(ProbeAnswer::default()));
    let sent = driver::run(fleet.engine_mut(), answer, start(), start() + Span::from_hours(4));
    let first = sent.iter().find(|sent| sent.source == SourceId(200));
    assert!(first.is_some_and(|first| first.started >= start() + Span::from_hours(2)), "{first:?}");
}

#[test]
fn steps_of_a_millisecond_are_counted_too() {
    let params = FleetParams {
        probes_per_step: 1,
        step: Span::from_millis(1),
        host_spacing: Span::ZERO,
        ..FleetParams::default()
    };
    let mut known: Vec<KnownSource> = (0..3).map(|id| source(id, Policy::Uniform)).collect();
    for known in &mut known {
        known.terms.budget =
            Budget { probes: 2, per: Span::from_days(1), min_spacing: Span::from_hours(12) };
    }
    let mut fleet = ByHand::new(params, 7, start(), known);
    let answer = |_: &Attempt, _| (Span::from_millis(100), Ok(ProbeAnswer::default()));
    let until = start() + Span::from_days(30);
    let sent = driver::run(fleet.engine_mut(), answer, start(), until);
    let counts = per_source(&sent);
    assert!(counts.values().all(|count| (55..=61).contains(count)), "{counts:?}");
}

#[test]
fn d_assigns_its_slots_once_a_step_with_any_number_of_calls() {
    use tidewatch_core::engine::allocate::{Allocation, OpenSource};
    let run = |calls: usize| {
        let mut allocation = Allocation::new(Allocator::Cyclic, 1);
        for (place, rate) in [0.4_f32, 0.2, 0.1, 0.05].into_iter().enumerate() {
            allocation.open(place as u32, OpenSource { root: rate.sqrt(), last: 0.0 });
        }
        let mut counts = [0; 4];
        for step in 1..=512 {
            for again in 0..calls {
                let mut chosen = Vec::new();
                let now = f64::from(step) + again as f64 / calls as f64;
                allocation.choose(now, 1, &mut chosen);
                for place in chosen {
                    counts[place as usize] += 1;
                    let root = [0.4_f32, 0.2, 0.1, 0.05][place as usize].sqrt();
                    allocation.open(place, OpenSource { root, last: f64::from(step) });
                }
            }
        }
        counts
    };
    assert_eq!(run(1), run(7));
}
