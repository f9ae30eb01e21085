//! The loop that drives an engine in simulated time.
//!
//! It does the work of the daemon's scheduler: it delivers events when they are due and executes the actions.
//! The world responds to probes and commits, each after a simulated delay. The only clock is the time of the
//! next event.

use std::collections::{BTreeMap, VecDeque};

use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{
    Committed, EngineEvent, Failure, MadePlan, PlansReady, ProbeAnswer, ProbeReport,
};
use tidewatch_core::engine::recording::Recorder;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::time::{Span, Timestamp};

/// The environment that executes an engine's actions.
pub trait SimulatedWorld {
    /// Sends a probe. Returns its report, which carries the time of its end.
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport;

    /// Builds a plan. Returns the time this takes, and the result.
    fn plan(&mut self, request: &PlanOrder, now: Timestamp) -> (Span, PlansReady);

    /// The time that the store takes to commit this.
    fn commit(&mut self, _: &Persist) -> Span {
        Span::ZERO
    }

    /// Called with every action before it is executed.
    fn watch(&mut self, _: &Action, _: Timestamp) {}
}

/// Events that are not yet due.
#[derive(Debug, Default)]
pub struct Pending {
    events: BTreeMap<(Timestamp, u64), EngineEvent>,
    /// Counts events, so that events at the same time keep their order.
    count: u64,
    wake: Option<Timestamp>,
    recording: Option<(Recorder, Vec<u8>)>,
}

impl Pending {
    /// Starts to record the engine's events and actions.
    pub fn record(&mut self, engine: &Engine) {
        self.recording = Some(Recorder::begin(engine));
    }

    /// The recording so far.
    pub fn recorded(&self) -> &[u8] {
        self.recording.as_ref().map_or(&[], |(_, bytes)| bytes)
    }

    fn handle(&mut self, engine: &mut Engine, now: Timestamp, event: EngineEvent) -> Vec<Action> {
        let recorded = self.recording.as_ref().map(|_| event.clone());
        let mut actions = Vec::new();
        engine.handle(now, event, &mut actions);
        if let (Some((recorder, bytes)), Some(recorded)) = (&mut self.recording, recorded) {
            bytes.extend(recorder.exchange(now, recorded, actions.clone()));
        }
        actions
    }

    fn push(&mut self, at: Timestamp, event: EngineEvent) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// The pending events, in the order of their times.
    pub fn events(&self) -> impl Iterator<Item = (Timestamp, &EngineEvent)> {
        self.events.iter().map(|(&(at, _), event)| (at, event))
    }

    /// Moves the pending events when the clock is set to `now`, so that their delay in real time stays the same.
    pub fn shift(&mut self, by: Span, now: Timestamp) {
        let moved = |(at, count): (Timestamp, u64), mut event: EngineEvent| {
            if let EngineEvent::ProbeEnded(report) = &mut event {
                report.shift(by, now);
            }
            ((at + by, count), event)
        };
        self.events =
            std::mem::take(&mut self.events).into_iter().map(|(key, event)| moved(key, event)).collect();
        self.wake = self.wake.map(|at| at + by);
    }

    /// The time of the next event or tick.
    pub fn next(&self) -> Option<Timestamp> {
        let event = self.events.first_key_value().map(|(&(at, _), _)| at);
        event.into_iter().chain(self.wake).min()
    }

    /// Passes an event to the engine and executes its actions until none are left at this time.
    pub fn deliver(
        &mut self,
        engine: &mut Engine,
        world: &mut impl SimulatedWorld,
        now: Timestamp,
        event: EngineEvent,
    ) {
        let mut at_once = VecDeque::from([event]);
        while let Some(event) = at_once.pop_front() {
            for action in self.handle(engine, now, event) {
                world.watch(&action, now);
                let (at, event) = match action {
                    Action::Send(attempt) => {
                        let report = world.probe(&attempt, now);
                        (report.finished.max(now), EngineEvent::ProbeEnded(Box::new(report)))
                    }
                    Action::BuildPlan(request) => {
                        let (after, ready) = world.plan(&request, now);
                        (now + after, EngineEvent::PlansReady(ready))
                    }
                    Action::Persist(persist) => {
                        let at = now + world.commit(&persist);
                        match persist {
                            Persist::Started(attempts) => {
                                let sources = attempts.iter().map(|attempt| attempt.source).collect();
                                (at, EngineEvent::Committed(Committed::Started(sources)))
                            }
                            Persist::Ended(result) => {
                                (at, EngineEvent::Committed(Committed::Ended(result.source)))
                            }
                            _ => continue,
                        }
                    }
                    Action::WakeAt(at) => {
                        self.wake = at;
                        continue;
                    }
                    _ => continue,
                };
                // A probe that ends at once ends after everything else at this time.
                match event {
                    EngineEvent::ProbeEnded(_) => self.push(at, event),
                    event if at <= now => at_once.push_back(event),
                    event => self.push(at, event),
                }
            }
        }
    }

    /// Advances time to `until`. Returns the time of the last event.
    pub fn run(
        &mut self,
        engine: &mut Engine,
        world: &mut impl SimulatedWorld,
        from: Timestamp,
        until: Timestamp,
    ) -> Timestamp {
        let mut now = from;
        loop {
            let event = self.events.first_key_value().map(|(&(at, _), _)| at).filter(|&at| at <= until);
            let wake = self.wake.filter(|&at| at <= until);
            match (event, wake) {
                (Some(at), wake) if wake.is_none_or(|wake| at.max(now) <= wake.max(now)) => {
                    now = now.max(at);
                    if let Some((_, event)) = self.events.pop_first() {
                        self.deliver(engine, world, now, event);
                    }
                }
                (_, Some(at)) => {
                    now = now.max(at);
                    self.wake = None;
                    self.deliver(engine, world, now, EngineEvent::Tick);
                }
                (_, None) => return now,
            }
        }
    }

    /// Processes the pending events. No probe starts meanwhile, because no tick is sent.
    pub fn drain(
        &mut self,
        engine: &mut Engine,
        world: &mut impl SimulatedWorld,
        from: Timestamp,
    ) -> Timestamp {
        let mut now = from;
        while let Some(((at, _), event)) = self.events.pop_first() {
            now = now.max(at);
            self.deliver(engine, world, now, event);
        }
        now
    }
}

/// The response to one probe: its duration and its result.
pub type SimulatedReply = (Span, Result<ProbeAnswer, Failure>);

/// A world made of two functions. It commits everything at once.
struct Answering<A, P> {
    answer: A,
    planner: P,
    sent: Vec<Attempt>,
}

impl<A, P> SimulatedWorld for Answering<A, P>
where
    A: FnMut(&Attempt, Timestamp) -> SimulatedReply,
    P: FnMut(&PlanOrder) -> Option<MadePlan>,
{
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        self.sent.push(*attempt);
        let (took, result) = (self.answer)(attempt, now);
        let (source, started, finished) = (attempt.source, now, now + took);
        ProbeReport { source, started, finished, answered_by: None, crawl_delays: Vec::new(), result }
    }

    fn plan(&mut self, request: &PlanOrder, _: Timestamp) -> (Span, PlansReady) {
        let plans = (self.planner)(request).into_iter().collect();
        (Span::ZERO, PlansReady { requests: 1, plans, ..PlansReady::default() })
    }
}

/// Runs an engine from `from` until `until` against a world, and returns every probe sent. Probes in flight
/// at the end are completed, as in the daemon's shutdown. No plan is built.
pub fn run(
    engine: &mut Engine,
    answer: impl FnMut(&Attempt, Timestamp) -> SimulatedReply,
    from: Timestamp,
    until: Timestamp,
) -> Vec<Attempt> {
    run_planned(engine, answer, |_| None, &[], from, until)
}

/// The same with a planner, whose plans are available at once. First, new rates of the `fitted` sources are
/// reported to the engine.
pub fn run_planned(
    engine: &mut Engine,
    answer: impl FnMut(&Attempt, Timestamp) -> SimulatedReply,
    planner: impl FnMut(&PlanOrder) -> Option<MadePlan>,
    fitted: &[tidewatch_core::source_id::SourceId],
    from: Timestamp,
    until: Timestamp,
) -> Vec<Attempt> {
    let mut world = Answering { answer, planner, sent: Vec::new() };
    let mut pending = Pending::default();
    if !fitted.is_empty() {
        pending.deliver(engine, &mut world, from, EngineEvent::RatesFitted(fitted.to_vec()));
    }
    pending.deliver(engine, &mut world, from, EngineEvent::Tick);
    let now = pending.run(engine, &mut world, from, until);
    pending.drain(engine, &mut world, now);
    world.sent
}
