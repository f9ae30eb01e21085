//! Sources that were in progress when the process died: one at a time, then alone, then backed off.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidewatch_core::engine::action::{Action, Persist};
use tidewatch_core::engine::event::CrashEvidence::{Alone, BackedOff, Beside};
use tidewatch_core::engine::event::{
    CrashEvidence, CrashSuspect, EngineEvent, KnownSource, Moved, ProbeAnswer, ProbeReport,
};
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::{FleetParams, HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::SourceState;
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::stepper::ByHand;

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

fn source(id: i64) -> KnownSource {
    let host = HostGroup { key: Arc::from(format!("host{id}.example")), public: true };
    let budget = Budget { probes: 144, per: Span::from_days(1), min_spacing: Span::from_mins(10) };
    let (policy, price) = (Policy::Uniform, SourcePrice::Own(0.0));
    let terms = Terms { budget, policy, weight: 1.0, price, max_gap: None, cost: None, host };
    let (memory, probes) = (SourceMemory::default(), Vec::new());
    KnownSource { id: SourceId(id), terms, memory, probes, answered_by: None, moved: Moved::Same }
}

/// Ten sources, with slots for all of them, after a death.
struct World {
    fleet: ByHand,
    now: Timestamp,
    in_progress: Vec<SourceId>,
}

impl World {
    fn after(suspects: Vec<CrashSuspect>) -> (Self, Vec<Action>) {
        let params = FleetParams { probes_per_step: 100, ..FleetParams::default() };
        let mut fleet = ByHand::new(params, 7, start(), (0..10).map(source).collect());
        let actions = fleet.deliver(start(), EngineEvent::Died(suspects));
        // All first probes are due by now.
        (Self { fleet, now: start() + Span::from_hours(1), in_progress: Vec::new() }, actions)
    }

    fn step(&mut self) {
        let sent = self.fleet.step(self.now);
        self.in_progress.extend(sent.iter().map(|attempt| attempt.source));
    }

    fn end(&mut self, id: SourceId) -> Vec<Action> {
        self.in_progress.retain(|&other| other != id);
        let report = report(id, self.now);
        let actions = self.fleet.deliver(self.now, EngineEvent::ProbeEnded(Box::new(report)));
        self.fleet.commit_end(id, self.now);
        actions
    }
}

fn report(id: SourceId, at: Timestamp) -> ProbeReport {
    ProbeReport {
        source: id,
        started: at,
        finished: at,
        answered_by: None,
        crawl_delays: Vec::new(),
        result: Ok(ProbeAnswer::default()),
    }
}

fn suspect(id: i64, deaths: u32, evidence: CrashEvidence) -> CrashSuspect {
    CrashSuspect { source: SourceId(id), deaths, evidence }
}

#[test]
fn suspects_are_probed_one_at_a_time_beside_the_others() {
    let (mut world, _) = World::after((0..3).map(|id| suspect(id, 1, Beside)).collect());
    let is_suspect = |id: &&SourceId| id.0 < 3;
    for suspects_left in (0..3).rev() {
        world.step();
        let suspects: Vec<SourceId> = world.in_progress.iter().filter(is_suspect).copied().collect();
        assert_eq!(suspects.len(), 1, "{:?}", world.in_progress);
        assert_eq!(world.in_progress.len(), 8, "the others wait for nothing");
        let actions = world.end(suspects[0]);
        let over = Action::Persist(Persist::SuspicionOver(suspects[0]));
        assert!(actions.contains(&over), "{suspects_left}: {actions:?}");
    }
    // Without a suspicion they are like others.
    let others = std::mem::take(&mut world.in_progress);
    for id in others {
        world.end(id);
    }
    world.now += Span::from_hours(1);
    world.step();
    assert_eq!(world.in_progress.len(), 10);
}

#[test]
fn a_suspect_of_two_deaths_is_probed_while_nothing_else_is_in_progress() {
    for id in 0..10 {
        let (mut world, _) = World::after(vec![suspect(id, 2, Beside)]);
        let (id, mut alone) = (SourceId(id), 0);
        let mut ended = Vec::new();
        while ended.len() < 10 {
            // Sources that were withheld get slots of the next step.
            world.now += Span::from_secs(10);
            world.step();
            assert!(!world.in_progress.is_empty(), "nothing is withheld for ever: {ended:?}");
            if world.in_progress.contains(&id) {
                assert_eq!(world.in_progress, [id], "{ended:?}");
                // Nothing starts meanwhile.
                world.step();
                assert_eq!(world.in_progress, [id]);
                alone += 1;
            }
            let next = world.in_progress[0];
            world.end(next);
            ended.push(next);
        }
        assert_eq!(alone, 1);
    }
}

#[test]
fn removed_suspects_withhold_nothing() {
    let (mut world, _) =
        World::after(vec![suspect(0, 2, Beside), suspect(1, 1, Beside), suspect(2, 1, Beside)]);
    world.step();
    let removed = [0, 1, 2].map(SourceId);
    world.fleet.reconfigure(Vec::new(), Vec::new(), &removed, world.now);
    let mut ended = 0;
    while ended < 7 {
        world.now += Span::from_secs(10);
        world.step();
        let next = *world.in_progress.first().expect("the others are probed");
        ended += usize::from(!removed.contains(&next));
        world.end(next);
    }
}

#[test]
fn only_a_source_that_was_alone_at_a_second_death_is_backed_off() {
    let cases = [(1, Beside), (1, Alone), (2, Beside), (2, Alone), (2, BackedOff)];
    for (deaths, evidence) in cases {
        let backed_off = (deaths, evidence) == (2, Alone);
        let (mut world, actions) = World::after(vec![suspect(3, deaths, evidence)]);
        let change = actions.iter().find_map(|action| match action {
            Action::Persist(Persist::Backoff(change)) => Some(change),
            _ => None,
        });
        assert_eq!(change.is_some(), backed_off, "{deaths} {evidence:?}");
        let notes = world.fleet.take_notes();
        let named = |(id, note): &(SourceId, Note)| {
            *id == SourceId(3) && matches!(note, Note::DiedAlone { deaths: 2, .. })
        };
        assert_eq!(notes.iter().any(named), backed_off, "{notes:?}");
        if let Some(change) = change {
            assert_eq!((change.state, change.error_streak), (SourceState::Backoff, 1));
            assert!(change.until > Some(start()) && change.due.due.at() >= change.until, "{change:?}");
        }
    }
    // Each such death doubles it.
    let waits: Vec<Span> = (0..3)
        .map(|streak| {
            let memory = SourceMemory { error_streak: streak, ..SourceMemory::default() };
            let known = vec![KnownSource { memory, ..source(3) }];
            let mut fleet = ByHand::new(FleetParams::default(), 7, start(), known);
            let actions = fleet.deliver(start(), EngineEvent::Died(vec![suspect(3, 2, Alone)]));
            let until = actions.iter().find_map(|action| match action {
                Action::Persist(Persist::Backoff(change)) => change.until,
                _ => None,
            });
            until.unwrap() - start()
        })
        .collect();
    assert!(waits.windows(2).all(|pair| pair[1] > pair[0].scaled(1.5)), "{waits:?}");
}

/// Hundreds of suspects whose servers do not answer for half a minute. The daemon dies when the probe of one of them has
/// lasted long enough, at every start.
#[test]
fn the_cause_among_hundreds_of_slow_suspects_is_found_after_few_deaths_and_no_source_waits_for_long() {
    const MANY: i64 = 600;
    let (lasts, dies_after) = (Span::from_secs(30), Span::from_secs(29));
    let cause = SourceId(217);
    // As the store counts them.
    let mut suspects: Vec<CrashSuspect> = (0..MANY).map(|id| suspect(id, 1, Beside)).collect();
    for deaths in 2.. {
        let known: Vec<KnownSource> = (0..MANY + 20).map(source).collect();
        let params = FleetParams { probes_per_step: 10_000, ..FleetParams::default() };
        let mut fleet = ByHand::new(params, 7, start(), known);
        let actions = fleet.deliver(start(), EngineEvent::Died(suspects.clone()));
        if actions.iter().any(|action| matches!(action, Action::Persist(Persist::Backoff(_)))) {
            assert!(deaths <= 7, "{deaths}");
            return;
        }
        let begin = start() + Span::from_hours(1);
        let (mut now, mut began, mut ended) = (begin, BTreeMap::new(), 0);
        let is_over = |began: &BTreeMap<SourceId, Timestamp>, now| {
            began.get(&cause).is_some_and(|&at| now >= at + dies_after)
        };
        while !is_over(&began, now) {
            now += Span::from_millis(100);
            assert!(now < begin + Span::from_mins(20), "after {deaths} deaths the cause is not probed");
            began.extend(fleet.step(now).iter().map(|attempt| (attempt.source, now)));
            let others = began.keys().filter(|id| id.0 >= MANY).count();
            let alone = suspects.len() == 1 && deaths > 2;
            assert!(alone || others + ended >= 20, "others wait for nothing");
            let over: Vec<SourceId> =
                began.iter().filter(|&(_, &at)| now >= at + lasts).map(|(&id, _)| id).collect();
            for id in over {
                began.remove(&id);
                ended += usize::from(id.0 >= MANY);
                fleet.deliver(now, EngineEvent::ProbeEnded(Box::new(report(id, now))));
                fleet.commit_end(id, now);
            }
        }
        let alone = began.len() == 1;
        let earlier = |id: SourceId| suspects.iter().find(|suspect| suspect.source == id);
        let counted = began.keys().map(|&id| CrashSuspect {
            source: id,
            deaths: earlier(id).map_or(0, |suspect| suspect.deaths) + 1,
            evidence: if alone { Alone } else { Beside },
        });
        suspects = counted.collect();
    }
}
