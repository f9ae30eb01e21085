//! Sources with a maximum interval between probes. They are in time while there are slots, under every policy
//! and with any competing sources. With too few slots they are late as by MEDD, and in time again afterwards.

use std::collections::HashMap;
use std::sync::Arc;

use tidewatch_core::engine::event::{Failure, KnownSource, Moved, ProbeAnswer, ProbeReport};
use tidewatch_core::engine::garden::medd::Medd;
use tidewatch_core::engine::garden::{Task, UNIT};
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::{Allocator, FleetParams};
use tidewatch_core::engine::params::{HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver;
use tidewatch_lab::stepper::ByHand;

const STEP: Span = Span::from_mins(1);

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

fn at(step: i64) -> Timestamp {
    start() + STEP.scaled(step as f64)
}

/// A source that was probed at the start, and whose policy requests a probe once in `every`.
fn source(id: i64, policy: Policy, max_gap: Option<Span>, every: Span) -> KnownSource {
    let day = Span::from_days(1);
    let probes = (day.as_secs_f64() / every.as_secs_f64()).max(1.0) as u32;
    let host = HostGroup { key: Arc::from(format!("host{id}.example")), public: true };
    let budget = match max_gap {
        // Twice the necessary probes, because the budget is not tested here.
        Some(gap) => Budget {
            probes: (2.0 * day.as_secs_f64() / gap.as_secs_f64()) as u32,
            per: day,
            min_spacing: Span::ZERO,
        },
        None => Budget { probes, per: day, min_spacing: Span::from_mins(5) },
    };
    let terms =
        Terms { budget, policy, weight: 1.0, price: SourcePrice::Own(0.0), max_gap, cost: None, host };
    let memory = SourceMemory {
        due: Due::At(start() + every),
        reason: Reason::Policy,
        last_probe: Some(start()),
        last_success: Some(start()),
        known_updates: 20,
        ..SourceMemory::default()
    };
    KnownSource {
        id: SourceId(id),
        terms,
        memory,
        probes: vec![start()],
        answered_by: None,
        moved: Moved::Same,
    }
}

fn params(per_step: u32) -> FleetParams {
    FleetParams {
        step: STEP,
        probes_per_step: per_step,
        allocator: Allocator::Index,
        host_spacing: Span::ZERO,
        ..FleetParams::default()
    }
}

struct World {
    fleet: ByHand,
    /// The start times of probes, by source.
    probes: HashMap<SourceId, Vec<Timestamp>>,
    /// Probes by step.
    sent: Vec<Vec<SourceId>>,
    notes: Vec<(SourceId, Note)>,
}

impl World {
    fn new(known: Vec<KnownSource>, params: FleetParams) -> Self {
        let probes = known.iter().map(|known| (known.id, vec![start()])).collect();
        let fleet = ByHand::new(params, 7, start(), known);
        Self { fleet, probes, sent: Vec::new(), notes: Vec::new() }
    }

    /// Lets these steps pass.
    fn pass(&mut self, steps: std::ops::Range<i64>) {
        for step in steps {
            let now = at(step);
            let orders = self.fleet.step(now);
            self.sent.push(orders.iter().map(|order| order.source).collect());
            for order in orders {
                let result = Ok(ProbeAnswer { updates: 1, bytes: 1000, ..ProbeAnswer::default() });
                self.answer(order.source, now, result);
                self.probes.entry(order.source).or_default().push(now);
            }
            self.notes.extend(self.fleet.take_notes());
        }
    }

    fn answer(&mut self, source: SourceId, now: Timestamp, result: Result<ProbeAnswer, Failure>) {
        let finished = now + Span::from_millis(500);
        let (answered_by, crawl_delays) = (None, Vec::new());
        let report = ProbeReport { source, started: now, finished, answered_by, crawl_delays, result };
        let ended = self.fleet.end_probe(&report).unwrap();
        self.notes.extend(ended.notes.into_iter().map(|note| (source, note)));
        self.fleet.commit_end(source, finished);
    }

    /// The longest interval without a probe of a source between two times.
    fn longest(&self, id: SourceId, from: Timestamp, until: Timestamp) -> Span {
        let within = self.probes[&id].iter().copied().filter(|&probe| from <= probe && probe <= until);
        let probes: Vec<Timestamp> = within.collect();
        let ends = probes.last().map_or(until - from, |&last| until - last);
        probes.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or(ends).max(ends)
    }
}

const DAY: i64 = 1440;

/// Half an hour, an hour, two: 13/12 of a slot a minute, beside sources that would use all slots.
fn mixed() -> (Vec<KnownSource>, Vec<(SourceId, Span)>) {
    let (mut known, mut bound) = (Vec::new(), Vec::new());
    let kinds = [(20, 30), (20, 60), (10, 120)];
    let policies = [Policy::Uniform, Policy::Adaptive, Policy::Ttl, Policy::Auto];
    for (count, minutes) in kinds {
        for _ in 0..count {
            let (id, gap) = (known.len() as i64, Span::from_mins(minutes));
            let policy = policies[known.len() % policies.len()];
            known.push(source(id, policy, Some(gap), Span::from_days(1)));
            bound.push((SourceId(id), gap));
        }
    }
    for nth in 0..60 {
        let policy = if nth % 2 == 0 { Policy::Uniform } else { Policy::Adaptive };
        known.push(source(known.len() as i64, policy, None, Span::from_mins(10)));
    }
    (known, bound)
}

#[test]
fn no_source_exceeds_its_maximum_interval_while_there_are_slots() {
    let (known, bound) = mixed();
    let mut world = World::new(known, params(2));
    world.pass(1..2 * DAY);
    for &(id, gap) in &bound {
        let longest = world.longest(id, start(), at(2 * DAY - 1));
        assert!(longest <= gap, "{}: {longest}, not {gap}", id.0);
    }
    let (all, most) = (world.sent.iter().map(Vec::len).sum::<usize>(), 2 * (2 * DAY - 1) as usize);
    assert!(all * 100 >= most * 99, "slots are scarce: {all} of {most}");
    assert_eq!(world.fleet.deadlines().tardy, 0);
    assert!(world.notes.iter().all(|(_, note)| !matches!(note, Note::Tardy { .. })));
    // The others get the remaining slots.
    let others: usize = world.sent.iter().flatten().filter(|id| id.0 >= 50).count();
    assert!(others * 100 >= 30 * most, "{others} of {most}");
}

#[test]
fn an_excess_of_an_earlier_step_delays_no_deadline_behind_other_sources() {
    // A step has a capacity of one mean probe. One expensive probe leaves a quarter of a probe too much, which
    // the probes of the following steps pass on while there is no pause.
    let bound: Vec<SourceId> = (0..4).map(SourceId).collect();
    let gap = Span::from_mins(30);
    let mut known: Vec<KnownSource> =
        bound.iter().map(|id| source(id.0, Policy::Uniform, Some(gap), Span::from_days(1))).collect();
    known.extend((4..34).map(|id| source(id, Policy::Uniform, None, Span::from_mins(10))));
    for known in &mut known {
        known.terms.cost = Some(if known.id.0 == 33 { 1.25 } else { 1.0 });
    }
    let mut world = World::new(known, FleetParams { capacity: Some(1.0), ..params(2) });
    world.pass(1..DAY);
    for &id in &bound {
        let longest = world.longest(id, start(), at(DAY - 1));
        assert!(longest <= gap, "{}: {longest}, not {gap}", id.0);
    }
    let sent = world.sent.iter().map(Vec::len).sum::<usize>() as i64;
    assert!((DAY - 30..DAY).contains(&sent), "the capacity is used and kept: {sent}");
}

#[test]
fn lateness_is_shared_and_reported_and_ends() {
    let (known, bound) = mixed();
    let mut world = World::new(known, params(2));
    world.pass(1..DAY);
    assert_eq!(world.fleet.deadlines().tardy, 0);
    // Less than Ω.
    world.fleet.set_params(params(1), at(DAY));
    world.pass(DAY..2 * DAY);
    let tardy: Vec<SourceId> = world
        .notes
        .iter()
        .filter(|(_, note)| matches!(note, Note::Tardy { why: None, .. }))
        .map(|&(id, _)| id)
        .collect();
    assert!(bound.iter().filter(|(id, _)| tardy.contains(id)).count() >= 40, "{}", tardy.len());
    assert!(tardy.iter().all(|id| id.0 < 50), "a source without a deadline is never tardy");
    // Earliest due first: all are late by about the same time, whatever their windows.
    let late = |&(id, gap): &(SourceId, Span)| {
        (world.longest(id, at(2 * DAY - 360), at(2 * DAY - 1)) - gap).max(Span::ZERO)
    };
    let of = |minutes: i64| {
        let some: Vec<f64> = bound
            .iter()
            .filter(|(_, gap)| *gap == Span::from_mins(minutes))
            .map(|b| late(b).as_secs_f64())
            .collect();
        some.iter().sum::<f64>() / some.len() as f64 / 60.0
    };
    let (half, one, two) = (of(30), of(60), of(120));
    assert!(half > 1.0 && (half - one).abs() <= 3.0 && (one - two).abs() <= 3.0, "{half} {one} {two}");
    // The slots come back.
    world.fleet.set_params(params(2), at(2 * DAY));
    world.pass(2 * DAY..3 * DAY);
    assert_eq!(world.fleet.deadlines().tardy, 0);
    let began = world.notes.iter().filter(|(_, note)| matches!(note, Note::Tardy { .. })).count();
    let ended = world.notes.iter().filter(|(_, note)| matches!(note, Note::TardyEnded { .. })).count();
    assert_eq!(ended, began, "every lateness has ended");
    for &(id, gap) in &bound {
        let longest = world.longest(id, at(2 * DAY + 180), at(3 * DAY - 1));
        assert!(longest <= gap, "{}: {longest}, not {gap}", id.0);
    }
}

/// Sources that have only deadlines, and the same as tasks of MEDD.
fn deadline_tasks(seed: u64, per_step: u32, capacity: Option<f64>) -> (Vec<KnownSource>, Vec<Task>) {
    let mut chance = Stream::new(seed, "deadlines");
    let (mut known, mut tasks) = (Vec::new(), Vec::new());
    for id in 0..40 {
        let steps = 10 + (chance.unit() * 60.0) as u32;
        let gap = STEP.scaled(f64::from(steps));
        let cost = capacity.map(|_| if chance.unit() < 0.5 { 1.0 } else { 2.0 });
        let mut one = source(id, Policy::Uniform, Some(gap), Span::from_days(300));
        // Its policy requests no probe, and its budget forbids none.
        one.terms.policy = Policy::Profile;
        one.terms.budget = Budget { probes: 14_400, ..one.terms.budget };
        one.terms.cost = cost;
        known.push(one);
        let slots = match (cost, capacity) {
            (Some(cost), Some(capacity)) => (f64::from(cost) * f64::from(per_step) / capacity).max(1.0),
            _ => 1.0,
        };
        tasks.push(Task::new(slots, steps - 1));
    }
    (known, tasks)
}

/// Seed, slots per step and capacity of a step: with and without enough slots.
const TASK_SETS: [(u64, u32, Option<f64>); 4] =
    [(1, 2, None), (2, 1, None), (3, 3, Some(4.0)), (4, 4, Some(3.0))];

/// The probes of each step are those of MEDD.
fn assert_medd(probes: &[Vec<SourceId>], tasks: &[Task], per_step: u32, capacity: Option<f64>) {
    let mut medd = Medd::of(tasks, u64::from(per_step) * UNIT);
    for (step, sent) in probes.iter().enumerate() {
        let mut sent: Vec<usize> = sent.iter().map(|id| id.0 as usize).collect();
        let mut chosen = medd.day();
        sent.sort_unstable();
        chosen.sort_unstable();
        assert_eq!(sent, chosen, "step {} with {per_step} slots, {capacity:?}", step + 1);
    }
}

/// With deadlines only, the fleet probes the sources that MEDD selects, step by step, with and without enough
/// slots.
#[test]
fn with_deadlines_only_the_fleet_equals_medd() {
    for (seed, per_step, capacity) in TASK_SETS {
        let (known, tasks) = deadline_tasks(seed, per_step, capacity);
        let mut world = World::new(known, FleetParams { capacity, ..params(per_step) });
        world.pass(1..600);
        assert_medd(&world.sent, &tasks, per_step, capacity);
    }
}

/// The same if the engine gets a tick only at the times that it requested.
#[test]
fn the_engine_requests_a_tick_for_every_early_probe() {
    for (seed, per_step, capacity) in TASK_SETS {
        let (known, tasks) = deadline_tasks(seed, per_step, capacity);
        let mut fleet = ByHand::new(FleetParams { capacity, ..params(per_step) }, 7, start(), known);
        let answer = |_: &_, _| {
            let answered = ProbeAnswer { updates: 1, bytes: 1000, ..ProbeAnswer::default() };
            (Span::from_millis(500), Ok(answered))
        };
        let sent = driver::run(fleet.engine_mut(), answer, at(1), at(599));
        let mut probes = vec![Vec::new(); 599];
        for attempt in sent {
            let step = (attempt.started - start()).as_millis() / STEP.as_millis();
            probes[step as usize - 1].push(attempt.source);
        }
        assert_medd(&probes, &tasks, per_step, capacity);
    }
}

#[test]
fn politeness_precedes_deadlines_and_the_note_has_the_reason() {
    let gap = Span::from_mins(30);
    let mut world = World::new(vec![source(0, Policy::Profile, Some(gap), Span::from_days(1))], params(5));
    world.pass(1..29);
    assert_eq!(world.probes[&SourceId(0)].len(), 1, "not before it is due");
    let orders = world.fleet.step(at(29));
    assert_eq!(orders.iter().map(|order| order.reason).collect::<Vec<_>>(), [Reason::MaxGap]);
    let throttled = Failure::Throttled { retry_after: Some(Span::from_hours(2)) };
    world.answer(SourceId(0), at(29), Err(throttled));
    world.pass(30..149);
    assert_eq!(world.probes[&SourceId(0)].len(), 1, "it sent Retry-After");
    let text: Vec<&Note> = world
        .notes
        .iter()
        .map(|(_, note)| note)
        .filter(|note| matches!(note, Note::Tardy { .. }))
        .collect();
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(matches!(text[0], Note::Tardy { by, why: Some(_) } if *by == start() + gap), "{text:?}");
    assert_eq!(world.fleet.deadlines().tardy, 1);
    world.pass(149..152);
    assert_eq!(world.probes[&SourceId(0)].len(), 2, "as soon as it may be");
    assert_eq!(world.fleet.deadlines().tardy, 0);
}

#[test]
fn costs_are_learned_and_the_capacity_of_a_step_is_kept() {
    // Odd ones cost three times as much.
    let known: Vec<KnownSource> =
        (0..20).map(|id| source(id, Policy::Uniform, None, Span::from_mins(10))).collect();
    let capacity = 1.0;
    let mut world = World::new(known, FleetParams { capacity: Some(capacity), ..params(5) });
    let mut spent = Vec::new();
    for step in 1..3 * DAY {
        let now = at(step);
        let orders = world.fleet.step(now);
        spent.push(orders.iter().map(|order| world.fleet.cost(order.source).unwrap()).sum::<f64>());
        for order in orders {
            let bytes = if order.source.0 % 2 == 1 { 3000 } else { 1000 };
            let result = Ok(ProbeAnswer { bytes, ..ProbeAnswer::default() });
            world.answer(order.source, now, result);
        }
    }
    let cost = |id: i64| world.fleet.cost(SourceId(id)).unwrap();
    assert_eq!((cost(0), cost(1)), (0.5, 1.5));
    let mean = spent[DAY as usize..].iter().sum::<f64>() / (2 * DAY - 1) as f64;
    // A probe that does not fit into a step is sent in the next.
    assert!((0.8..=capacity + 0.01).contains(&mean), "{mean} a step");
}

/// Deadlines that need the whole budget do not spend it sooner, and an outage does not spend it at once.
#[test]
fn a_budget_that_just_suffices_is_not_spent_too_early() {
    let gap = Span::from_mins(75);
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::from_mins(1) };
    let known = |id: i64| {
        let mut one = source(id, Policy::Profile, Some(gap), Span::from_days(1));
        one.terms.budget = budget;
        one.terms.host = HostGroup { key: Arc::from("one.example"), public: true };
        one
    };
    // Thirty of one host with a spacing of ten seconds: each is probed a little sooner than necessary.
    let params = FleetParams { host_spacing: Span::from_secs(10), ..params(4) };
    let mut world = World::new((0..30).map(known).collect(), params);
    for step in 1..2 * DAY {
        // The host is free again within the step.
        for part in 0..6 {
            let now = at(step) + Span::from_secs(10 * part);
            for order in world.fleet.step(now) {
                world.answer(order.source, now, Ok(ProbeAnswer::default()));
                world.probes.entry(order.source).or_default().push(now);
            }
            world.notes.extend(world.fleet.take_notes());
        }
    }
    for id in 0..30 {
        let longest = world.longest(SourceId(id), start(), at(2 * DAY - 1));
        assert!(longest <= gap, "{id}: {longest}");
    }
    // The network is down for an hour.
    let mut world = World::new(vec![known(0)], self::params(4));
    world.pass(1..60);
    let mut attempts = 0;
    for step in 60..180 {
        for order in world.fleet.step(at(step)) {
            attempts += 1;
            world.answer(order.source, at(step), Err(Failure::Interrupted));
        }
    }
    assert!((1..=4).contains(&attempts), "{attempts} in two hours");
}
