//! What our own network, and our own limits, do to probes: no source is blamed, and no budget is spent.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{EngineEvent, Failure, KnownSource, Moved, ProbeAnswer, ProbeReport};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{Pending, SimulatedWorld};

use tidewatch_core::engine::event::PlansReady;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// A source at a host of its own.
fn source(id: i64, budget: Budget) -> KnownSource {
    let host = HostGroup { key: format!("h{id}.example").into(), public: true };
    let terms = Terms {
        budget,
        policy: Policy::Uniform,
        weight: 1.0,
        price: SourcePrice::Own(0.0),
        max_gap: None,
        cost: None,
        host,
    };
    let memory = SourceMemory { early_probes: 3, ..SourceMemory::default() };
    KnownSource {
        id: SourceId(id),
        terms,
        memory,
        probes: Vec::new(),
        answered_by: None,
        moved: Moved::Same,
    }
}

/// Sources that answer or fail as a function says.
struct World<A> {
    answer: A,
    sent: Vec<Attempt>,
    notes: Vec<(Timestamp, Note)>,
    uncharged: HashMap<SourceId, u32>,
}

impl<A: FnMut(SourceId, Timestamp) -> Option<Failure>> SimulatedWorld for World<A> {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        self.sent.push(*attempt);
        let failure = (self.answer)(attempt.source, now);
        let result = failure.map_or_else(|| Ok(ProbeAnswer::default()), Err);
        let finished = now + Span::from_secs(1);
        ProbeReport {
            source: attempt.source,
            started: now,
            finished,
            answered_by: None,
            crawl_delays: Vec::new(),
            result,
        }
    }

    fn plan(&mut self, _: &PlanOrder, _: Timestamp) -> (Span, PlansReady) {
        (Span::ZERO, PlansReady { requests: 1, ..PlansReady::default() })
    }

    fn watch(&mut self, action: &Action, now: Timestamp) {
        match action {
            Action::Log { note, .. } => self.notes.push((now, note.clone())),
            Action::Persist(Persist::Ended(result)) if result.uncharged => {
                *self.uncharged.entry(result.source).or_default() += 1;
            }
            _ => {}
        }
    }
}

/// Runs the sources for this long.
fn run<A>(known: Vec<KnownSource>, answer: A, length: Span) -> (Engine, World<A>)
where
    A: FnMut(SourceId, Timestamp) -> Option<Failure>,
{
    run_with(FleetParams::default(), known, answer, length)
}

fn run_with<A>(params: FleetParams, known: Vec<KnownSource>, answer: A, length: Span) -> (Engine, World<A>)
where
    A: FnMut(SourceId, Timestamp) -> Option<Failure>,
{
    let mut loader = Loader::new(params, 7, start());
    loader.sources(known);
    let mut engine = loader.finish();
    let mut world = World { answer, sent: Vec::new(), notes: Vec::new(), uncharged: HashMap::new() };
    let mut pending = Pending::default();
    pending.deliver(&mut engine, &mut world, start(), EngineEvent::Tick);
    pending.run(&mut engine, &mut world, start(), start() + length);
    (engine, world)
}

const OUTAGES: [Failure; 6] = [
    Failure::NameUnknown,
    Failure::ResolverFailed,
    Failure::PrivateAddress,
    Failure::Unreachable,
    Failure::BadCertificate,
    Failure::Unanswered,
];

#[test]
fn an_outage_has_one_line_at_each_end_a_few_canaries_and_takes_no_budget() {
    let budget = Budget { probes: 6, per: Span::from_days(1), min_spacing: Span::from_hours(1) };
    let down = start() + Span::from_hours(5)..start() + Span::from_hours(23);
    for failure in OUTAGES {
        let known = (0..400).map(|id| source(id, budget)).collect();
        let answer = |_, now| down.contains(&now).then_some(failure);
        let (engine, world) = run(known, answer, Span::from_days(2));
        let reported: Vec<_> =
            world.notes.iter().filter(|(_, note)| !matches!(note, Note::StateChanged { .. })).collect();
        let [(began, Note::OutageBegan { hosts: 4 }), (ended, Note::OutageEnded { failed, .. })] =
            &reported[..]
        else {
            panic!("{failure:?}: {reported:?}");
        };
        assert!(*failed > 20, "{failed}");
        let canaries = world.sent.iter().filter(|sent| sent.started > *began && sent.started < *ended);
        let mut minutes: BTreeMap<i64, u32> = BTreeMap::new();
        canaries.for_each(|sent| {
            *minutes.entry((sent.started - *began).as_millis() / 60_000).or_default() += 1
        });
        // Of one minute and the next; ten sources are due in a minute.
        assert!(minutes.values().all(|&canaries| canaries <= 6), "{minutes:?}");
        for id in (0..400).map(SourceId) {
            let times: Vec<_> =
                world.sent.iter().filter(|sent| sent.source == id).map(|sent| sent.started).collect();
            assert!(times.windows(2).all(|pair| pair[1] - pair[0] >= Span::from_hours(1)), "{times:?}");
            // A few have been blamed before the outage was detected, and are backed off from.
            let soon = down.end..down.end + Span::from_hours(9);
            assert!(times.iter().any(|at| soon.contains(at)), "{failure:?}: {times:?}");
            assert_eq!(engine.memory(id).unwrap().error_streak, 0);
        }
        if failure.is_before_request() {
            // More than the whole budget.
            assert!(world.uncharged.values().any(|&probes| probes > 2), "{:?}", world.uncharged);
        } else {
            assert!(world.uncharged.is_empty());
        }
    }
}

#[test]
fn hosts_that_never_answered_are_no_outage() {
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::from_mins(10) };
    let known = (0..12).map(|id| source(id, budget)).collect();
    let (_, world) = run(known, |id, _| (id.0 > 1).then_some(Failure::Unreachable), Span::from_days(3));
    let outages = world.notes.iter().filter(|(_, note)| matches!(note, Note::OutageBegan { .. }));
    assert_eq!(outages.count(), 0);
}

#[test]
fn a_budget_that_an_outage_would_have_spent_is_there_after_it() {
    // Five failed probes fit into the outage. If they counted, the sixth probe would wait for the day to end.
    let budget = Budget { probes: 3, per: Span::from_days(10), min_spacing: Span::from_hours(1) };
    let down = start() + Span::from_hours(1)..start() + Span::from_days(20);
    let known = (0..5).map(|id| source(id, budget)).collect();
    let (engine, world) =
        run(known, |_, now| down.contains(&now).then_some(Failure::Unreachable), Span::from_days(21));
    assert_eq!(world.uncharged.len(), 5, "{:?}", world.uncharged);
    for id in (0..5).map(SourceId) {
        let left = engine.explain(id, None, start() + Span::from_days(20)).unwrap();
        let budget = left.constraints.iter().find(|(rule, _)| rule.name() == "budget");
        let until = budget.and_then(|(_, until)| *until).unwrap_or(Timestamp::MIN);
        assert!(until <= start() + Span::from_days(20), "{until}");
    }
}

#[test]
fn without_file_descriptors_no_source_is_blamed_and_new_probes_wait() {
    let budget = Budget { probes: 288, per: Span::from_days(1), min_spacing: Span::from_mins(5) };
    let known = (0..100).map(|id| source(id, budget)).collect();
    let full = start() + Span::from_hours(1)..start() + Span::from_mins(70);
    let answer = |_, now| full.contains(&now).then_some(Failure::NoDescriptors);
    let (engine, world) = run(known, answer, Span::from_hours(2));
    let during: Vec<_> = world.sent.iter().filter(|sent| full.contains(&sent.started)).collect();
    // Steps are 10 s long; a probe ends after a second. All starts of one step find no descriptor.
    let mut starts: Vec<_> = during.iter().map(|sent| sent.started).collect();
    starts.dedup();
    assert!(starts.len() > 10, "{starts:?}");
    // Others may start before the first has failed.
    let gaps = starts.windows(2).map(|pair| pair[1] - pair[0]).filter(|&gap| gap > Span::from_secs(1));
    assert!(gaps.min() >= Some(Span::from_secs(10)), "{starts:?}");
    let reported = world.notes.iter().filter(|(_, note)| *note == Note::NoDescriptors).count();
    assert_eq!(reported, 1);
    assert!((0..100).all(|id| engine.memory(SourceId(id)).unwrap().error_streak == 0));
    assert_eq!(world.uncharged.values().sum::<u32>() as usize, during.len());
}

#[test]
fn what_a_person_must_mend_is_asked_again_after_an_hour_at_the_earliest() {
    let budget = Budget { probes: 288, per: Span::from_days(1), min_spacing: Span::from_mins(5) };
    for (failure, least) in [
        (Failure::NameUnknown, Span::from_hours(1)),
        (Failure::BadCertificate, Span::from_hours(1)),
        (Failure::ResolverFailed, Span::from_mins(5)),
        (Failure::Unreachable, Span::from_mins(5)),
    ] {
        let (_, world) = run(vec![source(1, budget)], |_, _| Some(failure), Span::from_hours(6));
        let gap = world.sent[1].started - world.sent[0].started;
        assert!(gap >= least && gap < least + least, "{failure:?}: {gap}");
    }
}

#[test]
fn a_source_that_was_refused_is_probed_again_at_a_site_that_is_always_busy() {
    let budget = Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
    let refused = SourceId(4);
    let known = (0..60).map(|id| {
        let mut known = source(id, budget);
        known.terms.host = HostGroup { key: "shared.example".into(), public: true };
        known
    });
    let at = Cell::new(None);
    let answer = |id, now| {
        let throttles = id == refused && at.get().is_none();
        throttles.then(|| {
            at.set(Some(now));
            Failure::Throttled { retry_after: Some(Span::from_mins(10)) }
        })
    };
    // The site is asked for more than it gives.
    let params = FleetParams { host_spacing: Span::from_mins(1), ..FleetParams::default() };
    let (_, world) = run_with(params, known.collect(), answer, Span::from_days(1));
    let at = at.get().unwrap();
    let again = world.sent.iter().filter(|sent| sent.source == refused && sent.started > at).count();
    assert!(again > 3, "{again} of {}", world.sent.len());
}

#[test]
fn after_a_pause_the_source_that_was_refused_goes_last() {
    let budget = Budget { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
    let refused = SourceId(4);
    let known = (0..10).map(|id| {
        let mut known = source(id, budget);
        known.terms.host = HostGroup { key: "shared.example".into(), public: true };
        // By its weight, it would be the first of those that wait for a slot.
        known.terms.weight = if known.id == refused { 100.0 } else { 1.0 };
        known
    });
    let pause = Span::from_hours(1);
    let at = Cell::new(None);
    let answer = |id, now| {
        let throttles = id == refused && at.get().is_none() && now > start() + Span::from_hours(3);
        throttles.then(|| {
            at.set(Some(now));
            Failure::Throttled { retry_after: Some(pause) }
        })
    };
    let params = FleetParams { probes_per_step: 1, ..FleetParams::default() };
    let (_, world) = run_with(params, known.collect(), answer, Span::from_hours(6));
    let at = at.get().unwrap();
    let after: Vec<SourceId> =
        world.sent.iter().filter(|sent| sent.started > at).map(|sent| sent.source).take(10).collect();
    assert!(world.sent.iter().all(|sent| sent.started <= at || sent.started >= at + pause));
    assert_eq!(after.last(), Some(&refused), "{after:?}");
}
