//! One life: a source and a quiet neighbour on its host, watched by an engine that is driven as the daemon
//! drives it, with a store that keeps what the daemon's keeps.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidewatch_core::engine::action::{Action, Attempt, Persist, ProbeResult};
use tidewatch_core::engine::event::{
    Changed, Committed, Configuration, EngineEvent, Failure, KnownSource, Moved, PlansReady, ProbeAnswer,
    ProbeReport,
};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::memory::{Due, SourceMemory};
use tidewatch_core::engine::note::Note;
use tidewatch_core::engine::params::{BurstTerms, FleetParams, HostGroup, Terms};
use tidewatch_core::engine::reason::{Reason, SourceState};
use tidewatch_core::engine::recording::replay;
use tidewatch_core::engine::state::Engine;
use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::burst::detector::BurstDetector;
use tidewatch_core::model::burst::{BurstParams, Test};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::habits::update_times::UpdateTimes;
use tidewatch_core::model::history::History;
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::source_model::{
    PostBurstEvidence, PriorKnowledge, SourceModel, WELL_FOUNDED, learn_from_probe,
};
use tidewatch_core::observe::SourceKind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::driver::{Pending, SimulatedWorld};

use super::account::Ledger;
use super::planner::{self, KnownRate};
use super::publisher::{Before, Publisher};

pub const ONE: SourceId = SourceId(1);
pub const NEIGHBOUR: SourceId = SourceId(2);
const HALF_LIFE: Span = Span::from_days(56);
/// A burst that lasts longer is a change. A week would outlast most lives.
const CYCLE: Span = Span::from_days(1);

pub fn start() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

pub fn host(number: usize) -> HostGroup {
    let (key, public) = [("a.example", true), ("b.example", true), ("10.0.0.7:8080", false)][number % 3];
    HostGroup { key: Arc::from(key), public }
}

/// What the store keeps for a look.
#[derive(Debug, Clone)]
struct Mind {
    beliefs: SourceModel,
    before: Before,
    newest: Option<Timestamp>,
}

/// What a probe on its way saw, and what will be stored of it.
#[derive(Debug)]
struct Seen {
    /// In real time.
    started: Timestamp,
    answered_by: Option<HostGroup>,
    result: Result<ProbeAnswer, Failure>,
    mind: Option<Mind>,
    watched: bool,
}

/// How a life begins.
#[derive(Debug, Clone)]
pub struct Birth {
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

/// The other side of the engine: network, publisher, store and planner.
pub struct Side {
    pub ledger: Ledger,
    pub publisher: Publisher,
    pub neighbour_throttled: Option<Option<Span>>,
    /// How far the clock is ahead of real time.
    ahead: Span,
    test: Test,
    /// The host that the source is on.
    host: HostGroup,
    seen: BTreeMap<SourceId, Seen>,
    mind: Mind,
    rate: Option<KnownRate>,
    /// What is stored of the source while it is off the list.
    shelf: Option<SourceMemory>,
    /// When logged probes began and ended, in real time.
    log: BTreeMap<SourceId, Vec<(Timestamp, Timestamp)>>,
    hosts: BTreeMap<Arc<str>, (HostGroup, Option<Timestamp>, Span)>,
    chance: Stream,
    /// Whether the last requested probe was granted.
    answer: Option<bool>,
}

pub struct Life {
    pub engine: Engine,
    pub side: Side,
    pending: Pending,
    pub terms: Terms,
    params: FleetParams,
    birth: Birth,
    /// Real time.
    pub now: Timestamp,
    /// When it was due before someone requested a probe, which is not stored.
    due_unasked: (Due, Reason),
}

impl SimulatedWorld for Side {
    fn probe(&mut self, attempt: &Attempt, clock: Timestamp) -> ProbeReport {
        let now = clock - self.ahead;
        self.ledger.sent(attempt, now, clock);
        let slow = if self.chance.unit() < 0.05 { 1_800_000.0 } else { 4_000.0 };
        let took = Span::from_millis((self.chance.unit() * slow) as i64);
        let seen = if attempt.source == ONE { self.look(now) } else { self.look_at_neighbour(now) };
        let (answered_by, result) = (seen.answered_by.clone(), seen.result.clone());
        self.seen.insert(attempt.source, seen);
        let (source, started, finished) = (attempt.source, clock, clock + took);
        ProbeReport { source, started, finished, answered_by, crawl_delay: None, result }
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
                attempts.iter().for_each(|attempt| self.ledger.ordered(attempt.source, now));
            }
            Action::Persist(Persist::Cancelled(_)) => self.ledger.count("recalled"),
            Action::Persist(Persist::Ended(result)) => self.keep(result, now),
            Action::Persist(Persist::Note { source, note, .. }) => self.ledger.noted(*source, note),
            Action::Persist(Persist::Plans(plans)) => {
                plans.iter().for_each(|_| self.ledger.count("plans adopted"));
            }
            Action::Answer { answer, .. } => {
                self.answer = Some(answer.is_ok());
                match answer {
                    Ok(()) => self.ledger.asked(ONE),
                    Err(_) => self.ledger.count("refused by hand"),
                }
            }
            Action::Log { note: Note::PlanStale, .. } => self.ledger.count("plans stale"),
            _ => {}
        }
    }
}

impl Side {
    fn look_at_neighbour(&mut self, started: Timestamp) -> Seen {
        let result = match self.neighbour_throttled.take() {
            Some(retry_after) => Err(Failure::Throttled { retry_after }),
            None if self.chance.unit() < 0.1 => Err(Failure::Unreachable),
            None => Ok(ProbeAnswer::default()),
        };
        Seen { started, answered_by: None, result, mind: None, watched: true }
    }

    fn look(&mut self, started: Timestamp) -> Seen {
        let mut mind = self.mind.clone();
        let answer = self.publisher.answer(started, self.ahead, &mind.before);
        let silent = matches!(answer, Err(Failure::Interrupted | Failure::Unreachable));
        let answered_by = self.publisher.redirects_to.clone().filter(|_| !silent);
        let answered_by = answered_by.or((!silent).then(|| self.host.clone()));
        let (mut answered, seen) = match answer {
            Err(failure) => {
                return Seen { started, answered_by, result: Err(failure), mind: None, watched: true };
            }
            Ok(answer) => answer,
        };
        let (kind, now) = (self.publisher.kind, started + self.ahead);
        let last = mind.before.last_look;
        let look = ProbedUpdates { kind, last, now, seen: seen.as_ref(), except: None };
        let rate = self.rate.as_ref().map(|known| (&known.rate, known.updates));
        let bursts = BurstParams { test: self.test, ..BurstParams::default() };
        let prior = PriorKnowledge { rate, bursts, cycle: CYCLE, newest: mind.newest };
        answered.model = learn_from_probe(&mut mind.beliefs, &look, &prior, None);
        let strange = last.is_none() || seen.as_ref().is_some_and(|seen| seen.first_contact);
        mind.before = Before { last_look: Some(now), seen_until: started, strange: false };
        let watched = rate.is_some_and(|(_, updates)| updates >= WELL_FOUNDED) && !strange;
        Seen { started, answered_by, result: Ok(answered), mind: Some(mind), watched }
    }

    /// Stores what came of a probe.
    fn keep(&mut self, ended: &ProbeResult, now: Timestamp) {
        let id = ended.source;
        let mut seen = self.seen.remove(&id).unwrap();
        if ended.discarded {
            (seen.result, seen.mind, seen.answered_by) = (Err(Failure::Interrupted), None, None);
        }
        self.log.entry(id).or_default().push((seen.started, now));
        self.ledger.ended(id, now, seen.answered_by.as_ref(), &seen.result, &ended.notes);
        ended.notes.iter().for_each(|note| self.ledger.noted(id, note));
        if id == ONE && seen.result.is_ok() {
            self.ledger.remembered(id, &ended.memory, seen.watched);
        }
        if let Some(asks) = &ended.host {
            let asked = (asks.host.clone(), asks.paused_until, asks.crawl_delay);
            self.hosts.insert(asks.host.key.clone(), asked);
        }
        if let Some(mind) = seen.mind {
            self.mind = Mind { newest: ended.memory.burst.newest, ..mind };
        }
        if id == ONE && self.shelf.is_some() {
            self.shelf = Some(ended.memory.clone());
        }
    }

    /// What is believed, from the bytes that are stored of it.
    fn recall_beliefs(&mut self) {
        let history = |history: &History| {
            History::from_bytes(&history.to_bytes(), history.zone().clone(), HALF_LIFE).unwrap()
        };
        let SourceModel { history: evidence, watch, aside, diary } = &self.mind.beliefs;
        let stored = SourceModel {
            history: history(evidence),
            watch: BurstDetector::from_bytes(&watch.to_bytes()).unwrap(),
            aside: aside
                .as_ref()
                .map(|aside| PostBurstEvidence::from_bytes(&aside.to_bytes(), evidence).unwrap()),
            diary: UpdateTimes::from_bytes(&diary.to_bytes()).unwrap(),
        };
        assert_eq!(stored, self.mind.beliefs);
        self.mind.beliefs = stored;
    }
}

impl Life {
    pub fn new(birth: &Birth) -> Self {
        let Birth { seed, per_hour, known, .. } = *birth;
        let kind = if birth.page { SourceKind::Page } else { SourceKind::Feed };
        let params = FleetParams { burst: birth.burst, ..FleetParams::default() };
        let mut history = History::new(TimeZone::UTC, HALF_LIFE, start());
        if known {
            let gap = Span::from_millis((3.6e6 / per_hour) as i64);
            history.exposed(start() - gap.scaled(41.0), start());
            (1..=40).for_each(|nth| history.update(start() - gap.scaled(f64::from(nth))));
        }
        let rate = known.then(|| KnownRate {
            rate: Rate::constant(per_hour),
            origin: if birth.grouped { RateOrigin::Blend } else { RateOrigin::Individual },
            updates: 40,
        });
        let before = Before { last_look: None, seen_until: start(), strange: false };
        let side = Side {
            ledger: Ledger::new(birth.burst),
            publisher: Publisher::new(seed, kind, birth.dated, per_hour, start()),
            neighbour_throttled: None,
            ahead: Span::ZERO,
            test: birth.test,
            host: birth.terms.host.clone(),
            seen: BTreeMap::new(),
            mind: Mind { beliefs: SourceModel::new(history), before, newest: None },
            rate,
            shelf: None,
            log: BTreeMap::new(),
            hosts: BTreeMap::new(),
            chance: Stream::new(seed, "world"),
            answer: None,
        };
        let mut life = Self {
            engine: Loader::new(params.clone(), seed, start()).finish(),
            side,
            pending: Pending::default(),
            terms: birth.terms.clone(),
            params,
            birth: birth.clone(),
            now: start(),
            due_unasked: Default::default(),
        };
        let updates = if known { 40 } else { 0 };
        let memory = SourceMemory { known_updates: updates, ..SourceMemory::default() };
        life.side.ledger.open(ONE, &life.terms, updates);
        life.side.ledger.open(NEIGHBOUR, &neighbour_terms(), 0);
        let known = vec![life.known(ONE, memory), life.known(NEIGHBOUR, SourceMemory::default())];
        life.begin(known);
        life
    }

    /// Begins with what is stored.
    fn begin(&mut self, known: Vec<KnownSource>) {
        let mut loader = Loader::new(self.params.clone(), self.birth.seed, self.clock());
        for (host, paused_until, crawl_delay) in self.side.hosts.values() {
            loader.host(host, *paused_until, *crawl_delay);
        }
        loader.sources(known);
        self.check_recording();
        (self.engine, self.pending) = (loader.finish(), Pending::default());
        self.pending.record(&self.engine);
        self.tell(EngineEvent::Tick);
    }

    /// What was recorded so far is answered in the same way again.
    pub fn check_recording(&self) {
        if !self.pending.recorded().is_empty() {
            let replayed = replay(self.pending.recorded()).unwrap();
            assert_eq!(replayed.difference, None);
        }
    }

    pub fn clock(&self) -> Timestamp {
        self.now + self.side.ahead
    }

    fn tell(&mut self, event: EngineEvent) {
        let clock = self.clock();
        self.pending.deliver(&mut self.engine, &mut self.side, clock, event);
    }

    fn known(&self, id: SourceId, memory: SourceMemory) -> KnownSource {
        let terms = if id == ONE { self.terms.clone() } else { neighbour_terms() };
        let probes = self.probes_since(id, terms.budget.per);
        KnownSource { id, terms, memory, probes, answered_by: None, moved: Moved::Same }
    }

    /// What the store is asked for: probes that began within T and an hour, and when they ended.
    pub fn probes_since(&self, id: SourceId, per: Span) -> Vec<Timestamp> {
        let since = self.now - per - Span::from_hours(1);
        let all = self.side.log.get(&id).into_iter().flatten();
        all.filter(|probe| probe.0 >= since).map(|probe| probe.1 + self.side.ahead).collect()
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Span) {
        let clock = self.clock();
        self.pending.run(&mut self.engine, &mut self.side, clock, clock + span);
        self.now += span;
    }

    /// Lets time pass until the next probe is sent, if that is soon.
    pub fn launch(&mut self) {
        let next = self.engine.next_start().map(|at| at - self.clock());
        if let Some(wait) = next.filter(|&wait| wait < Span::from_hours(12)) {
            self.pass(wait.max(Span::ZERO));
        }
    }

    /// Awaits what is on its way; nothing more is sent.
    pub fn drain(&mut self) {
        let clock = self.clock();
        self.now = self.pending.drain(&mut self.engine, &mut self.side, clock) - self.side.ahead;
    }

    pub fn ask(&mut self) {
        let due = self.engine.memory(ONE).map(|memory| (memory.due, memory.reason));
        self.side.answer = None;
        self.tell(EngineEvent::ProbeRequested { source: ONE, request: 1 });
        if self.side.answer == Some(true) {
            self.due_unasked = due.filter(|due| due.1 != Reason::Manual).unwrap_or(self.due_unasked);
        }
    }

    pub fn refit(&mut self) {
        let history = &self.side.mind.beliefs.history;
        if history.span().is_some() {
            let evidence = history.evidence(self.clock());
            let rate = fit(&evidence, &WeeklyPrior::flat(level(&evidence)), &TimeZone::UTC).rate;
            let origin = if self.birth.grouped { RateOrigin::Blend } else { RateOrigin::Individual };
            self.side.rate = Some(KnownRate { rate, origin, updates: history.seen() });
            self.tell(EngineEvent::RatesFitted(vec![ONE, NEIGHBOUR]));
        }
    }

    pub fn set_clock(&mut self, by: Span) {
        self.side.ahead = self.side.ahead + by;
        if let Due::At(at) = &mut self.due_unasked.0 {
            *at += by;
        }
        self.pending.shift(by);
        if let Some(shelf) = &mut self.side.shelf {
            shelf.shift(by);
        }
        let hosts = self.side.hosts.values_mut();
        hosts.for_each(|host| host.1 = host.1.map(|at| at + by));
        self.tell(EngineEvent::ClockSet { by });
    }

    /// A configuration that changes nothing.
    fn same(&self) -> Configuration {
        let (added, changed, removed) = (Vec::new(), Vec::new(), Vec::new());
        Configuration { params: self.params.clone(), added, changed, removed, rules: None, replan: false }
    }

    fn configure(&mut self, new: Configuration) {
        self.tell(EngineEvent::Configured(Box::new(new)));
    }

    pub fn set_burst(&mut self, burst: BurstTerms) {
        self.params.burst = burst;
        self.side.ledger.set_burst(burst);
        self.configure(Configuration { replan: true, ..self.same() });
    }

    /// Reads the configuration again. What was logged is read a little before anything is changed.
    pub fn reload(&mut self, budget: Budget, own_budget: bool, policy: Policy) {
        if self.side.shelf.is_some() {
            return;
        }
        let host = self.terms.host.clone();
        let terms = Terms { budget, own_budget, policy, host, ..neighbour_terms() };
        let longer = budget.per > self.terms.budget.per;
        let probes = if longer { self.probes_since(ONE, budget.per) } else { Vec::new() };
        self.pass(Span::from_secs(20));
        let changed = vec![Changed { id: ONE, terms: terms.clone(), moved: Moved::Same, probes }];
        self.side.ledger.regranted(ONE, &terms);
        self.terms = terms;
        self.configure(Configuration { changed, ..self.same() });
    }

    /// It has another address, where the same document is or another.
    pub fn relocate(&mut self, number: usize, strange: bool) {
        if self.side.shelf.is_some() {
            return;
        }
        self.terms.host = host(number);
        self.side.host = host(number);
        let (terms, moved, probes) = (self.terms.clone(), Moved::Elsewhere, Vec::new());
        self.side.publisher.redirects_to = None;
        self.side.mind.before.strange |= strange;
        self.side.ledger.moved(ONE);
        self.side.ledger.regranted(ONE, &self.terms);
        self.side.ledger.reborn(ONE);
        self.configure(Configuration {
            changed: vec![Changed { id: ONE, terms, moved, probes }],
            ..self.same()
        });
    }

    pub fn remove(&mut self) {
        if self.side.shelf.is_none() {
            self.side.shelf = self.engine.memory(ONE).cloned();
            self.side.ledger.count("removals");
            self.configure(Configuration { removed: vec![ONE], ..self.same() });
        }
    }

    /// Puts it back on the list, as the store keeps it: it is due when the engine says so.
    pub fn put_back(&mut self, budget: Budget, policy: Policy) {
        let Some(mut memory) = self.side.shelf.take() else { return };
        self.terms = Terms { budget, policy, ..self.terms.clone() };
        (memory.state, memory.due, memory.reason) =
            (SourceState::Learning, Due::Unscheduled, Reason::default());
        self.side.ledger.returned(ONE, &self.terms, &memory);
        let added = vec![self.known(ONE, memory)];
        self.configure(Configuration { added, ..self.same() });
    }

    /// Stops and begins again with what is stored. What was in progress is awaited or lost; what was lost
    /// counts all the same.
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
                    lost.push((report.source, report.started - self.side.ahead))
                }
                _ => {}
            }
        }
        for (source, started) in lost {
            self.side.log.entry(source).or_default().push((started, self.now));
            self.side.ledger.cut_off(source, self.now);
            self.side.ledger.count("lost");
        }
        self.side.seen.clear();
        self.side.recall_beliefs();
        let mut known = vec![self.known(NEIGHBOUR, self.engine.memory(NEIGHBOUR).unwrap().clone())];
        if self.side.shelf.is_none() {
            let mut memory = self.engine.memory(ONE).unwrap().clone();
            if memory.reason == Reason::Manual {
                (memory.due, memory.reason) = self.due_unasked;
            }
            known.push(self.known(ONE, memory));
        }
        self.side.ledger.restarted();
        self.side.ledger.count("restarts");
        self.begin(known);
    }
}

fn neighbour_terms() -> Terms {
    let budget = Budget { probes: 12, per: Span::from_days(1), min_spacing: Span::from_hours(1) };
    Terms {
        budget,
        own_budget: true,
        policy: Policy::Uniform,
        weight: 1.0,
        price: 0.0,
        max_gap: None,
        cost: None,
        host: host(0),
    }
}
