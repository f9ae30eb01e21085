//! Sources that were in progress when the process died: one at a time, then alone, then backed off.

use std::sync::Arc;

use tidewatch_core::engine::action::{Action, Persist};
use tidewatch_core::engine::event::{
    CrashSuspect, EngineEvent, KnownSource, Moved, ProbeAnswer, ProbeReport,
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
        let report = ProbeReport {
            source: id,
            started: self.now,
            finished: self.now,
            answered_by: None,
            crawl_delay: None,
            result: Ok(ProbeAnswer::default()),
        };
        let actions = self.fleet.deliver(self.now, EngineEvent::ProbeEnded(Box::new(report)));
        self.fleet.commit_end(id, self.now);
        actions
    }
}

fn suspect(id: i64, deaths: u32, alone: bool) -> CrashSuspect {
    CrashSuspect { source: SourceId(id), deaths, alone }
}

#[test]
fn suspects_are_probed_one_at_a_time_beside_the_others() {
    let (mut world, _) = World::after((0..3).map(|id| suspect(id, 1, false)).collect());
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
        let (mut world, _) = World::after(vec![suspect(id, 2, false)]);
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
        World::after(vec![suspect(0, 2, false), suspect(1, 1, false), suspect(2, 1, false)]);
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
    for (deaths, alone, backed_off) in
        [(1, false, false), (1, true, false), (2, false, false), (2, true, true)]
    {
        let (mut world, actions) = World::after(vec![suspect(3, deaths, alone)]);
        let change = actions.iter().find_map(|action| match action {
            Action::Persist(Persist::Backoff(change)) => Some(change),
            _ => None,
        });
        assert_eq!(change.is_some(), backed_off, "{deaths} {alone}");
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
            let actions = fleet.deliver(start(), EngineEvent::Died(vec![suspect(3, 2, true)]));
            let until = actions.iter().find_map(|action| match action {
                Action::Persist(Persist::Backoff(change)) => change.until,
                _ => None,
            });
            until.unwrap() - start()
        })
        .collect();
    assert!(waits.windows(2).all(|pair| pair[1] > pair[0].scaled(1.5)), "{waits:?}");
}
