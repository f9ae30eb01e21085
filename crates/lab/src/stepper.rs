//! An engine for tests that check a single decision, driven one event at a time.
//!
//! It commits everything at once. Every method passes one event to the engine and returns the resulting
//! actions.

use std::collections::VecDeque;

use tidewatch_core::engine::action::{Action, Attempt, Persist, ProbeResult, Refusal};
use tidewatch_core::engine::event::{
    Changed, Committed, Configuration, EngineEvent, KnownSource, MadePlan, PlansReady, PredictedIntervals,
    ProbeReport,
};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::{FleetParams, HostGroup};
use tidewatch_core::engine::rule_counts::{RuleSet, RuleState};
use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::planning::plan_input::PlannedTimes;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

/// A plan that the engine refused because its source has changed since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedPlan;

/// An engine and its collected actions.
#[derive(Debug)]
pub struct ByHand {
    engine: Engine,
    /// Plans that were requested and not yet drained.
    requests: VecDeque<PlanOrder>,
    /// Notes about sources, other than the ends of probes.
    notes: Vec<(SourceId, Note)>,
    loads: Vec<SlotStats>,
    /// Sources whose due time changed because of rules, by the last event.
    others: Vec<SourceId>,
}

impl ByHand {
    /// An engine with these sources.
    pub fn new(params: FleetParams, seed: u64, now: Timestamp, known: Vec<KnownSource>) -> Self {
        let mut loader = Loader::new(params, seed, now);
        loader.sources(known);
        Self::of(loader)
    }

    /// An engine with these sources and with pauses and crawl delays of host groups.
    pub fn resumed(
        params: FleetParams,
        seed: u64,
        now: Timestamp,
        hosts: &[(HostGroup, Option<Timestamp>, Span)],
        known: Vec<KnownSource>,
    ) -> Self {
        let mut loader = Loader::new(params, seed, now);
        hosts.iter().for_each(|(host, paused_until, delay)| loader.host(host, *paused_until, *delay));
        loader.sources(known);
        Self::of(loader)
    }

    /// An engine from a filled loader.
    pub fn of(loader: Loader) -> Self {
        let engine = loader.finish();
        Self { engine, requests: VecDeque::new(), notes: Vec::new(), loads: Vec::new(), others: Vec::new() }
    }

    /// The engine, for reading.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// The engine, for direct calls.
    pub fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Passes an event to the engine. Returns its actions, except those collected here.
    pub fn deliver(&mut self, now: Timestamp, event: EngineEvent) -> Vec<Action> {
        let mut actions = Vec::new();
        self.engine.handle(now, event, &mut actions);
        self.others.clear();
        let mut remaining = Vec::new();
        for action in actions {
            match action {
                Action::BuildPlan(request) => self.requests.push_back(*request),
                Action::Persist(Persist::Note { source, note, .. }) => self.notes.push((source, note)),
                Action::Persist(Persist::Load(load)) => self.loads.push(load),
                // The price is no decision about a source.
                Action::Persist(Persist::Price(_)) => {}
                Action::Persist(Persist::Due(due)) => self.others.extend(due.iter().map(|due| due.source)),
                action => remaining.push(action),
            }
        }
        remaining
    }

    /// Assigns slots. Returns the probes sent.
    pub fn step(&mut self, now: Timestamp) -> Vec<Attempt> {
        let started: Vec<SourceId> = self.start(now).iter().map(|attempt| attempt.source).collect();
        if started.is_empty() {
            return Vec::new();
        }
        let sent = self.deliver(now, EngineEvent::Committed(Committed::Started(started)));
        let sent = sent.into_iter().filter_map(|action| match action {
            Action::Send(attempt) => Some(attempt),
            _ => None,
        });
        sent.collect()
    }

    /// Assigns slots. Returns the probes whose start is to be committed.
    pub fn start(&mut self, now: Timestamp) -> Vec<Attempt> {
        let mut actions = self.deliver(now, EngineEvent::Tick);
        if actions.iter().all(|action| matches!(action, Action::WakeAt(_))) && self.is_due(now) {
            // The first tick only computed the time of the next start.
            actions = self.deliver(now, EngineEvent::Tick);
        }
        let started = actions.into_iter().find_map(|action| match action {
            Action::Persist(Persist::Started(attempts)) => Some(attempts),
            _ => None,
        });
        started.unwrap_or_default()
    }

    fn is_due(&self, now: Timestamp) -> bool {
        self.engine.next_start().is_some_and(|at| at <= now)
    }

    /// The next time at which a probe can start.
    pub fn next_step(&mut self, now: Timestamp) -> Option<Timestamp> {
        if self.engine.next_start().is_none_or(|at| at > now) {
            self.deliver(now, EngineEvent::RatesFitted(Vec::new()));
        }
        self.engine.next_start()
    }

    /// Ends a probe. Returns the result to be stored.
    pub fn end_probe(&mut self, report: &ProbeReport) -> Option<ProbeResult> {
        let actions = self.deliver(report.finished, EngineEvent::ProbeEnded(Box::new(report.clone())));
        actions.into_iter().find_map(|action| match action {
            Action::Persist(Persist::Ended(result)) => Some(*result),
            _ => None,
        })
    }

    /// Commits the end of a probe.
    pub fn commit_end(&mut self, source: SourceId, now: Timestamp) -> Vec<Action> {
        self.deliver(now, EngineEvent::Committed(Committed::Ended(source)))
    }

    /// Sources whose due time changed because of the last event.
    pub fn others(&self) -> &[SourceId] {
        &self.others
    }

    /// Plans requested since the last call.
    pub fn plan_orders(&mut self) -> Vec<PlanOrder> {
        self.requests.drain(..).collect()
    }

    /// Delivers a plan.
    pub fn adopt(
        &mut self,
        source: SourceId,
        plan: Plan,
        now: Timestamp,
    ) -> Result<Option<Note>, RefusedPlan> {
        let Plan { made_from, by, times, starts, ends } = plan;
        let (expected_cost, lower_bound, price, overflow) = (0.0, 0.0, 0.0, None);
        let ahead = PlannedTimes { by, times, starts, ends, expected_cost, lower_bound, price, overflow };
        let plans = vec![MadePlan { source, made_from, at: now, ahead }];
        let ready = PlansReady { requests: 1, plans, ..PlansReady::default() };
        self.take(now, ready).map(|mut notes| notes.pop())
    }

    /// Delivers predicted intervals.
    pub fn adopt_intervals(
        &mut self,
        predicted: PredictedIntervals,
        now: Timestamp,
    ) -> Result<Vec<Note>, RefusedPlan> {
        self.take(now, PlansReady { requests: 1, intervals: vec![predicted], ..PlansReady::default() })
    }

    fn take(&mut self, now: Timestamp, ready: PlansReady) -> Result<Vec<Note>, RefusedPlan> {
        let mut notes = Vec::new();
        for action in self.deliver(now, EngineEvent::PlansReady(ready)) {
            match action {
                Action::Log { note: Note::PlanStale, .. } => return Err(RefusedPlan),
                Action::Log { note, .. } => notes.push(note),
                _ => {}
            }
        }
        Ok(notes)
    }

    /// Requests a probe manually.
    pub fn request(&mut self, source: SourceId, now: Timestamp) -> Result<(), Refusal> {
        let actions = self.deliver(now, EngineEvent::ProbeRequested { source, request: 1 });
        let answer = actions.into_iter().find_map(|action| match action {
            Action::Answer { answer, .. } => Some(answer),
            _ => None,
        });
        answer.unwrap_or(Err(Refusal::Unknown))
    }

    /// Reports new rates of these sources.
    pub fn rates_fitted(&mut self, sources: &[SourceId], now: Timestamp) {
        self.deliver(now, EngineEvent::RatesFitted(sources.to_vec()));
    }

    /// Changes the source list.
    pub fn reconfigure(
        &mut self,
        added: Vec<KnownSource>,
        changed: Vec<Changed>,
        removed: &[SourceId],
        now: Timestamp,
    ) -> Vec<Action> {
        let new = Configuration { added, changed, removed: removed.to_vec(), ..self.same() };
        self.deliver(now, EngineEvent::Configured(Box::new(new)))
    }

    /// Changes the limits.
    pub fn set_params(&mut self, params: FleetParams, now: Timestamp) {
        let new = Configuration { params, ..self.same() };
        self.deliver(now, EngineEvent::Configured(Box::new(new)));
    }

    /// Changes the rules.
    pub fn set_rules(&mut self, rules: RuleSet, now: Timestamp) {
        let new = Configuration { rules: Some(rules), ..self.same() };
        self.deliver(now, EngineEvent::Configured(Box::new(new)));
    }

    /// Changes the inputs of plans, so that all plans are rebuilt.
    pub fn replan_all(&mut self, now: Timestamp) {
        let new = Configuration { replan: true, ..self.same() };
        self.deliver(now, EngineEvent::Configured(Box::new(new)));
    }

    /// A configuration that changes nothing.
    fn same(&self) -> Configuration {
        let params = self.engine.params().clone();
        let (added, changed, removed) = (Vec::new(), Vec::new(), Vec::new());
        Configuration { params, added, changed, removed, rules: None, replan: false }
    }

    /// Sets the clock by `by`. It shows `now` afterwards.
    pub fn shift(&mut self, by: Span, now: Timestamp) {
        self.deliver(now, EngineEvent::ClockSet { by });
    }

    /// Notes about sources since the last call, except the ends of probes.
    pub fn take_notes(&mut self) -> Vec<(SourceId, Note)> {
        std::mem::take(&mut self.notes)
    }

    /// Slot statistics per full minute since the last call.
    pub fn take_loads(&mut self) -> Vec<SlotStats> {
        std::mem::take(&mut self.loads)
    }

    /// The state of every rule.
    pub fn rule_states(&self) -> Vec<RuleState> {
        self.engine.rule_states()
    }
}

impl std::ops::Deref for ByHand {
    type Target = Engine;

    fn deref(&self) -> &Engine {
        &self.engine
    }
}
