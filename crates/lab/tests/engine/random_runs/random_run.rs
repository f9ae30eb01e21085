//! One run: a source and a quiet neighbour on its host, probed by an engine. The engine is driven as in the
//! daemon, and the simulated store keeps the same state.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidewatch_core::engine::action::{Action, Attempt, Persist, ProbeResult};
use tidewatch_core::engine::event::{
    Changed, Committed, Configuration, EngineEvent, Failure, KnownSource, Moved, PlansReady, ProbeAnswer,
    ProbeReport,
};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::{BurstTerms, FleetParams, HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::reason::{Reason, SourceState};
use tidewatch_core::engine::recording::replay;
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::engine::state::Engine;
use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::burst::detector::BurstDetector;
use tidewatch_core::model::burst::{BurstParams, Test};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::habits::update_times::UpdateTimes;
use tidewatch_core::model::history::History;
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::post_burst::PostBurstEvidence;
use tidewatch_core::model::rhythm_change::RhythmTest;
use tidewatch_core::model::silence::{self, LearnedUntil};
use tidewatch_core::model::source_model::{ModelUpdate, PriorKnowledge, SourceModel, WELL_FOUNDED};
use tidewatch_core::observe::SourceKind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{Pending, SimulatedWorld};

use super::checker::PolitenessChecker;
use super::planner::{self, KnownRate};
use super::publisher::{PreviousProbe, Publisher};

pub const ONE: SourceId = SourceId(1);
pub const NEIGHBOUR: SourceId = SourceId(2);
const HALF_LIFE: Span = Span::from_days(56);
/// A burst that lasts longer is a change. A week would be longer than most runs.
const CYCLE: Span = Span::from_days(1);

pub fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

pub fn host(number: usize) -> HostGroup {
    let (key, public) = [("a.example", true), ("b.example", true), ("10.0.0.7:8080", false)][number % 3];
    HostGroup { key: Arc::from(key), public }
}

/// The stored state for the next probe.
#[derive(Debug, Clone)]
struct StoredProbeState {
    beliefs: SourceModel,
    learned: Option<LearnedUntil>,
    /// The number of fits that it knows.
    fits: usize,
    before: PreviousProbe,
    newest: Option<Timestamp>,
}

/// The result of a probe in flight, and the state to be stored.
#[derive(Debug)]
struct Seen {
    /// In real time.
    started: Timestamp,
    answered_by: Option<HostGroup>,
    result: Result<ProbeAnswer, Failure>,
    stored: Option<StoredProbeState>,
    watched: bool,
}

/// The setup of a run.
#[derive(Debug, Clone)]
pub struct RunSetup {
    pub seed: u64,
    pub terms: Terms,
    pub burst: BurstTerms,
    pub test: Test,
    pub page: bool,
    pub dated: bool,
    pub per_hour: f64,
    /// Its rhythm is known.
    pub known: bool,
    /// Its rhythm is borrowed, in part at least, from its group.
    pub grouped: bool,
}

/// The environment of the engine: network, publisher, store and planner.
pub struct Environment {
    pub checker: PolitenessChecker,
    pub publisher: Publisher,
    pub neighbour_throttled: Option<Option<Span>>,
    /// How far the clock is ahead of real time.
    ahead: Span,
    test: Test,
    /// The host that the source is on.
    host: HostGroup,
    seen: BTreeMap<SourceId, Seen>,
    stored: StoredProbeState,
    rate: Option<KnownRate>,
    /// The stored memory of the source while it is removed.
    removed_memory: Option<SourceMemory>,
    /// Start and end of logged probes, in real time.
    log: BTreeMap<SourceId, Vec<(Timestamp, Timestamp)>>,
    hosts: BTreeMap<Arc<str>, (HostGroup, Option<Timestamp>, Span)>,
    chance: Stream,
    /// Whether the last requested probe was granted.
    answer: Option<bool>,
}

pub struct RandomRun {
    pub engine: Engine,
    pub environment: Environment,
    pending: Pending,
    pub terms: Terms,
    params: FleetParams,
    setup: RunSetup,
    /// Real time.
    pub now: Timestamp,
    /// Its due time before a manual request, which is not stored.
    due_before_request: (Due, Reason),
}

impl SimulatedWorld for Environment {
    fn probe(&mut self, attempt: &Attempt, clock: Timestamp) -> ProbeReport {
        let now = clock - self.ahead;
        self.checker.sent(attempt, now, clock);
        let slow = if self.chance.unit() < 0.05 { 1_800_000.0 } else { 4_000.0 };
        let took = Span::from_millis((self.chance.unit() * slow) as i64);
        let seen = if attempt.source == ONE { self.probe_source(now) } else { self.probe_neighbour(now) };
        let (answered_by, result) = (seen.answered_by.clone(), seen.result.clone());
        self.seen.insert(attempt.source, seen);
        let (source, started, finished) = (attempt.source, clock, clock + took);
        ProbeReport { source, started, finished, answered_by, crawl_delays: Vec::new(), result }
    }

    fn plan(&mut self, request: &PlanOrder, _: Timestamp) -> (Span, PlansReady) {
        let plans = self.rate.as_ref().and_then(|rate| planner::plan(request, rate)).into_iter().collect();
        let slow = if self.chance.unit() < 0.9 { 0.0 } else { 3_600_000.0 };
        let after = Span::from_millis((self.chance.unit() * slow) as i64);
        (after, PlansReady { requests: 1, plans, ..PlansReady::default() })
    }

    fn commit(&mut self, persist: &Persist) -> Span {
        let slowest = match persist {
            Persist::Started(_) if self.chance.unit() < 0.05 => 5_400_000.0,
            Persist::Ended(_) => 3_000.0,
            _ => 0.0,
        };
        Span::from_millis((self.chance.unit() * slowest) as i64)
    }

    fn watch(&mut self, action: &Action, clock: Timestamp) {
        let now = clock - self.ahead;
        match action {
            Action::Persist(Persist::Started(attempts)) => {
                attempts.iter().for_each(|attempt| self.checker.assigned(attempt.source, now));
            }
            Action::Persist(Persist::Cancelled(_)) => self.checker.count("cancelled"),
            Action::Persist(Persist::Ended(result)) => self.keep(result, now),
            Action::Persist(Persist::Note { source, note, .. }) => self.checker.noted(*source, note),
            Action::Persist(Persist::Plans(plans)) => {
                plans.iter().for_each(|_| self.checker.count("plans adopted"));
            }
            Action::Answer { answer, .. } => {
                self.answer = Some(answer.is_ok());
                match answer {
                    Ok(()) => self.checker.requested(ONE),
                    Err(_) => self.checker.count("refused manual probes"),
                }
            }
            Action::Log { note: Note::PlanStale, .. } => self.checker.count("plans stale"),
            _ => {}
        }
    }
}

impl Environment {
    fn probe_neighbour(&mut self, started: Timestamp) -> Seen {
        let result = match self.neighbour_throttled.take() {
            Some(retry_after) => Err(Failure::Throttled { retry_after }),
            None if self.chance.unit() < 0.1 => Err(Failure::Unreachable),
            None => Ok(ProbeAnswer::default()),
        };
        Seen { started, answered_by: None, result, stored: None, watched: true }
    }

    fn probe_source(&mut self, started: Timestamp) -> Seen {
        let mut stored = self.stored.clone();
        let answer = self.publisher.answer(started, self.ahead, &stored.before);
        let silent = matches!(answer, Err(Failure::Interrupted | Failure::Unreachable));
        let answered_by = self.publisher.redirects_to.clone().filter(|_| !silent);
        let answered_by = answered_by.or((!silent).then(|| self.host.clone()));
        let (mut answered, seen) = match answer {
            Err(failure) => {
                return Seen { started, answered_by, result: Err(failure), stored: None, watched: true };
            }
            Ok(answer) => answer,
        };
        let (kind, now) = (self.publisher.kind, started + self.ahead);
        let last = stored.before.last_probe;
        let probed = ProbedUpdates { kind, last, now, seen: seen.as_ref(), except: None };
        let rate = self.rate.as_ref().map(|known| (&known.rate, known.updates));
        let bursts = BurstParams { test: self.test, with_ratio: true, ..BurstParams::default() };
        let prior = PriorKnowledge { rate, habits: None, bursts, cycle: CYCLE, newest: stored.newest };
        answered.model = learn(&mut stored, &probed, &prior);
        let strange = last.is_none() || seen.as_ref().is_some_and(|seen| seen.first_contact);
        stored.before = PreviousProbe { last_probe: Some(now), seen_until: started, strange: false };
        let watched = rate.is_some_and(|(_, updates)| updates >= WELL_FOUNDED) && !strange;
        Seen { started, answered_by, result: Ok(answered), stored: Some(stored), watched }
    }

    /// Stores the result of a probe.
    fn keep(&mut self, ended: &ProbeResult, now: Timestamp) {
        let id = ended.source;
        let mut seen = self.seen.remove(&id).unwrap();
        if ended.discarded {
            (seen.result, seen.stored, seen.answered_by) = (Err(Failure::Interrupted), None, None);
        }
        self.log.entry(id).or_default().push((seen.started, now));
        self.checker.ended(id, now, seen.answered_by.as_ref(), &seen.result, &ended.notes, ended.uncharged);
        ended.notes.iter().for_each(|note| self.checker.noted(id, note));
        if id == ONE && seen.result.is_ok() {
            self.checker.remembered(id, &ended.memory, seen.watched);
        }
        if let Some(limits) = &ended.host {
            let stored_limits = (limits.host.clone(), limits.paused_until, limits.crawl_delay);
            self.hosts.insert(limits.host.key.clone(), stored_limits);
        }
        if let Some(mut stored) = seen.stored {
            if stored.fits < self.stored.fits {
                // It was fitted again meanwhile: the next review is not known.
                stored.learned = stored.learned.map(LearnedUntil::reviewed_next);
                stored.fits = self.stored.fits;
            }
            self.stored = StoredProbeState { newest: ended.memory.burst.newest, ..stored };
        }
        if id == ONE && self.removed_memory.is_some() {
            self.removed_memory = Some(ended.memory.clone());
        }
    }

    /// Reads the models back from their stored bytes.
    fn reload_models(&mut self) {
        let history = |history: &History| {
            History::from_bytes(&history.to_bytes(), history.zone().clone(), HALF_LIFE).unwrap()
        };
        let SourceModel { history: evidence, watch, post_burst, update_times, rhythm_test } =
            &self.stored.beliefs;
        let stored = SourceModel {
            history: history(evidence),
            watch: BurstDetector::from_bytes(&watch.to_bytes()).unwrap(),
            post_burst: post_burst
                .as_ref()
                .map(|post_burst| PostBurstEvidence::from_bytes(&post_burst.to_bytes(), evidence).unwrap()),
            update_times: UpdateTimes::from_bytes(&update_times.to_bytes()).unwrap(),
            rhythm_test: RhythmTest::from_bytes(&rhythm_test.to_bytes()).unwrap(),
        };
        assert_eq!(stored, self.stored.beliefs);
        self.stored.beliefs = stored;
    }
}

impl RandomRun {
    pub fn new(setup: &RunSetup) -> Self {
        let RunSetup { seed, per_hour, known, .. } = *setup;
        let kind = if setup.page { SourceKind::Page } else { SourceKind::Feed };
        let params = FleetParams { burst: setup.burst, ..FleetParams::default() };
        let mut history = History::new(TimeZone::UTC, HALF_LIFE, start());
        if known {
            let gap = Span::from_millis((3.6e6 / per_hour) as i64);
            history.exposed(start() - gap.scaled(41.0), start());
            (1..=40).for_each(|nth| history.update(start() - gap.scaled(f64::from(nth))));
        }
        let rate = known.then(|| KnownRate {
            rate: Rate::constant(per_hour),
            origin: if setup.grouped { RateOrigin::Blend } else { RateOrigin::Individual },
            updates: 40,
        });
        let before = PreviousProbe { last_probe: None, seen_until: start(), strange: false };
        let environment = Environment {
            checker: PolitenessChecker::new(setup.burst),
            publisher: Publisher::new(seed, kind, setup.dated, per_hour, start()),
            neighbour_throttled: None,
            ahead: Span::ZERO,
            test: setup.test,
            host: setup.terms.host.clone(),
            seen: BTreeMap::new(),
            stored: StoredProbeState {
                beliefs: SourceModel::new(history),
                learned: None,
                fits: 0,
                before,
                newest: None,
            },
            rate,
            removed_memory: None,
            log: BTreeMap::new(),
            hosts: BTreeMap::new(),
            chance: Stream::new(seed, "world"),
            answer: None,
        };
        let mut run = Self {
            engine: Loader::new(params.clone(), seed, start()).finish(),
            environment,
            pending: Pending::default(),
            terms: setup.terms.clone(),
            params,
            setup: setup.clone(),
            now: start(),
            due_before_request: Default::default(),
        };
        let updates = if known { 40 } else { 0 };
        let memory = SourceMemory { known_updates: updates, ..SourceMemory::default() };
        run.environment.checker.open(ONE, &run.terms, updates);
        run.environment.checker.open(NEIGHBOUR, &neighbour_terms(), 0);
        let known = vec![run.known(ONE, memory), run.known(NEIGHBOUR, SourceMemory::default())];
        run.begin(known);
        run
    }

    /// Starts from the stored state.
    fn begin(&mut self, known: Vec<KnownSource>) {
        let mut loader = Loader::new(self.params.clone(), self.setup.seed, self.clock());
        for (host, paused_until, crawl_delay) in self.environment.hosts.values() {
            loader.host(host, *paused_until, *crawl_delay);
        }
        loader.sources(known);
        self.check_recording();
        (self.engine, self.pending) = (loader.finish(), Pending::default());
        self.pending.record(&self.engine);
        self.deliver(EngineEvent::Tick);
    }

    /// A replay of the recording so far has the same actions.
    pub fn check_recording(&self) {
        if !self.pending.recorded().is_empty() {
            let replayed = replay(self.pending.recorded()).unwrap();
            assert_eq!(replayed.difference, None);
        }
    }

    pub fn clock(&self) -> Timestamp {
        self.now + self.environment.ahead
    }

    fn deliver(&mut self, event: EngineEvent) {
        let clock = self.clock();
        self.pending.deliver(&mut self.engine, &mut self.environment, clock, event);
    }

    fn known(&self, id: SourceId, memory: SourceMemory) -> KnownSource {
        let terms = if id == ONE { self.terms.clone() } else { neighbour_terms() };
        let probes = self.probes_since(id, terms.budget.per);
        KnownSource { id, terms, memory, probes, answered_by: None, moved: Moved::Same }
    }

    /// As read from the store: the end times of the probes that started within T and an hour.
    pub fn probes_since(&self, id: SourceId, per: Span) -> Vec<Timestamp> {
        let since = self.now - per - Span::from_hours(1);
        let all = self.environment.log.get(&id).into_iter().flatten();
        all.filter(|probe| probe.0 >= since).map(|probe| probe.1 + self.environment.ahead).collect()
    }

    /// Advances time.
    pub fn pass(&mut self, span: Span) {
        let clock = self.clock();
        self.pending.run(&mut self.engine, &mut self.environment, clock, clock + span);
        self.now += span;
    }

    /// Advances time until the next probe is sent, if that is soon.
    pub fn wait_for_probe(&mut self) {
        let next = self.engine.next_start().map(|at| at - self.clock());
        if let Some(wait) = next.filter(|&wait| wait < Span::from_hours(12)) {
            self.pass(wait.max(Span::ZERO));
        }
    }

    /// Waits for the probes in flight; no other probe is sent.
    pub fn drain(&mut self) {
        let clock = self.clock();
        self.now =
            self.pending.drain(&mut self.engine, &mut self.environment, clock) - self.environment.ahead;
    }

    pub fn request(&mut self) {
        let due = self.engine.memory(ONE).map(|memory| (memory.due, memory.reason));
        self.environment.answer = None;
        self.deliver(EngineEvent::ProbeRequested { source: ONE, request: 1 });
        if self.environment.answer == Some(true) {
            self.due_before_request =
                due.filter(|due| due.1 != Reason::Manual).unwrap_or(self.due_before_request);
        }
    }

    pub fn refit(&mut self) {
        let StoredProbeState { beliefs, learned, before, .. } = &self.environment.stored;
        let history = silence::with_pending(beliefs.history.clone(), *learned, before.last_probe);
        if history.span().is_some() {
            let evidence = history.evidence(self.clock());
            let rate = fit(&evidence, &WeeklyPrior::flat(level(&evidence)), &TimeZone::UTC).rate;
            let origin = if self.setup.grouped { RateOrigin::Blend } else { RateOrigin::Individual };
            self.environment.rate = Some(KnownRate { rate, origin, updates: history.seen() });
            self.environment.stored.learned = learned.map(LearnedUntil::reviewed_next);
            self.environment.stored.fits += 1;
            self.deliver(EngineEvent::RatesFitted(vec![ONE, NEIGHBOUR]));
        }
    }

    pub fn set_clock(&mut self, by: Span) {
        self.environment.ahead = self.environment.ahead + by;
        if let Due::At(at) = &mut self.due_before_request.0 {
            *at += by;
        }
        self.pending.shift(by, self.now + self.environment.ahead);
        if let Some(removed_memory) = &mut self.environment.removed_memory {
            removed_memory.shift(by, self.now + self.environment.ahead);
        }
        let hosts = self.environment.hosts.values_mut();
        hosts.for_each(|host| host.1 = host.1.map(|at| at + by));
        let StoredProbeState { before, learned, .. } = &mut self.environment.stored;
        before.last_probe = before.last_probe.map(|at| at + by);
        *learned = learned.map(|learned| LearnedUntil { at: learned.at + by, ..learned }.reviewed_next());
        self.deliver(EngineEvent::ClockSet { by });
    }

    /// A configuration that changes nothing.
    fn same(&self) -> Configuration {
        let (added, changed, removed) = (Vec::new(), Vec::new(), Vec::new());
        Configuration { params: self.params.clone(), added, changed, removed, rules: None, replan: false }
    }

    fn configure(&mut self, new: Configuration) {
        self.deliver(EngineEvent::Configured(Box::new(new)));
    }

    pub fn set_burst(&mut self, burst: BurstTerms) {
        self.params.burst = burst;
        self.environment.checker.set_burst(burst);
        self.configure(Configuration { replan: true, ..self.same() });
    }

    /// Reads the configuration again. The log is read shortly before the change.
    pub fn reload(&mut self, budget: Budget, price: SourcePrice, policy: Policy) {
        if self.environment.removed_memory.is_some() {
            return;
        }
        let host = self.terms.host.clone();
        let terms = Terms { budget, price, policy, host, ..neighbour_terms() };
        let longer = budget.per > self.terms.budget.per;
        let probes = if longer { self.probes_since(ONE, budget.per) } else { Vec::new() };
        self.pass(Span::from_secs(20));
        let changed = vec![Changed { id: ONE, terms: terms.clone(), moved: Moved::Same, probes }];
        self.environment.checker.terms_changed(ONE, &terms);
        self.terms = terms;
        self.configure(Configuration { changed, ..self.same() });
    }

    /// It has another address, with the same document or another.
    pub fn relocate(&mut self, number: usize, strange: bool) {
        if self.environment.removed_memory.is_some() {
            return;
        }
        self.terms.host = host(number);
        self.environment.host = host(number);
        let (terms, moved, probes) = (self.terms.clone(), Moved::Elsewhere, Vec::new());
        self.environment.publisher.redirects_to = None;
        self.environment.stored.before.strange |= strange;
        self.environment.checker.moved(ONE);
        self.environment.checker.terms_changed(ONE, &self.terms);
        self.environment.checker.reset_policy(ONE);
        self.configure(Configuration {
            changed: vec![Changed { id: ONE, terms, moved, probes }],
            ..self.same()
        });
    }

    pub fn remove(&mut self) {
        if self.environment.removed_memory.is_none() {
            self.environment.removed_memory = self.engine.memory(ONE).cloned();
            self.environment.checker.count("removals");
            self.configure(Configuration { removed: vec![ONE], ..self.same() });
        }
    }

    /// Adds it again from the store. The engine sets its due time.
    pub fn put_back(&mut self, budget: Budget, policy: Policy) {
        let Some(mut memory) = self.environment.removed_memory.take() else { return };
        self.terms = Terms { budget, policy, ..self.terms.clone() };
        (memory.state, memory.due, memory.reason) =
            (SourceState::Learning, Due::Unscheduled, Reason::default());
        self.environment.checker.returned(ONE, &self.terms, &memory);
        let added = vec![self.known(ONE, memory)];
        self.configure(Configuration { added, ..self.same() });
    }

    /// Stops and starts again from the stored state. Probes in flight are completed or lost; lost probes
    /// count too.
    pub fn restart(&mut self, gently: bool) {
        if gently {
            self.drain();
        }
        let mut lost: Vec<(SourceId, Timestamp)> = Vec::new();
        for (_, event) in self.pending.events() {
            match event {
                EngineEvent::Committed(Committed::Started(sources)) => {
                    lost.extend(sources.iter().map(|&source| (source, self.now)));
                }
                EngineEvent::ProbeEnded(report) => {
                    lost.push((report.source, report.started - self.environment.ahead))
                }
                _ => {}
            }
        }
        for (source, started) in lost {
            self.environment.log.entry(source).or_default().push((started, self.now));
            self.environment.checker.cut_off(source, self.now);
            self.environment.checker.count("lost");
        }
        self.environment.seen.clear();
        self.environment.reload_models();
        let mut known = vec![self.known(NEIGHBOUR, self.engine.memory(NEIGHBOUR).unwrap().clone())];
        if self.environment.removed_memory.is_none() {
            let mut memory = self.engine.memory(ONE).unwrap().clone();
            if memory.reason == Reason::Manual {
                (memory.due, memory.reason) = self.due_before_request;
            }
            known.push(self.known(ONE, memory));
        }
        self.environment.checker.restarted();
        self.environment.checker.count("restarts");
        self.begin(known);
    }
}

/// Learns a probe, or skips it. A skipped probe has no consequence if it is reviewed, except that a source which
/// is overdue already is overdue still.
fn learn(
    stored: &mut StoredProbeState,
    probe: &ProbedUpdates<'_>,
    prior: &PriorKnowledge<'_>,
) -> ModelUpdate {
    let mut reviewed = stored.clone();
    let result = silence::learn(&mut reviewed.beliefs, stored.learned, probe, prior, None);
    let silence = stored.learned.zip(probe.last).filter(|_| probe.is_silent());
    match silence.and_then(|(learned, last)| learned.skip((last, probe.now), prior.newest, None)) {
        Some(update) => {
            assert_eq!(reviewed.beliefs, stored.beliefs);
            assert_eq!(ModelUpdate { overdue: None, ..result.update }, update);
            update
        }
        None => {
            *stored = StoredProbeState { learned: Some(result.learned), ..reviewed };
            result.update
        }
    }
}

fn neighbour_terms() -> Terms {
    let budget = Budget { probes: 12, per: Span::from_days(1), min_spacing: Span::from_hours(1) };
    Terms {
        budget,
        policy: Policy::Uniform,
        weight: 1.0,
        price: SourcePrice::Own(0.0),
        max_gap: None,
        cost: None,
        host: host(0),
    }
}
