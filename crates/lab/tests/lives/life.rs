//! One life: a source and a quiet neighbour on its host, watched by a fleet that is driven as the daemon
//! drives it, with a store that keeps what the daemon's keeps.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::tz::TimeZone;
use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{Answered, Changed, Failure, Known, Moved, Report};
use tidewatch_core::engine::memory::Memory;
use tidewatch_core::engine::params::{BurstTerms, FleetParams};
use tidewatch_core::engine::params::{HostGroup, Terms};
use tidewatch_core::engine::reason::{Reason, State};
use tidewatch_core::engine::state::Engine;
use tidewatch_core::model::aggregate::Origin;
use tidewatch_core::model::beliefs::{Aside, Beliefs, Foretold};
use tidewatch_core::model::burst::watch::Watch;
use tidewatch_core::model::burst::{Params, Test};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{Prior, fit, level};
use tidewatch_core::model::habits::diary::Diary;
use tidewatch_core::model::history::History;
use tidewatch_core::model::learn::Look;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use crate::account::Ledger;
use crate::planner::{self, KnownRate};
use crate::publisher::{Before, Publisher};

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
    beliefs: Beliefs,
    before: Before,
    newest: Option<Timestamp>,
}

/// A probe on its way: what will come of it, and what will be stored of what it saw.
#[derive(Debug)]
struct Flight {
    order: Order,
    started: Timestamp,
    answered_by: Option<HostGroup>,
    result: Result<Answered, Failure>,
    mind: Option<Mind>,
    watched: bool,
}

#[derive(Debug)]
enum Event {
    /// The store has taken note of an order.
    TookOff(Order),
    Answer(Box<Flight>),
    Landed(SourceId),
    Planned(SourceId, Plan),
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

pub struct Life {
    pub fleet: Fleet,
    pub ledger: Ledger,
    pub publisher: Publisher,
    pub terms: Terms,
    pub params: FleetParams,
    birth: Birth,
    /// Real time, and how far the clock is ahead of it.
    pub now: Timestamp,
    ahead: Span,
    events: Vec<(Timestamp, Event)>,
    mind: Mind,
    rate: Option<KnownRate>,
    /// Its address was changed while an answer was under way.
    left_behind: bool,
    /// What is stored of it while it is off the list.
    pub shelf: Option<Memory>,
    /// When it was due before someone asked by hand, which is not stored.
    due_unasked: (Timestamp, Reason),
    /// When logged probes began and ended, in real time.
    log: BTreeMap<SourceId, Vec<(Timestamp, Timestamp)>>,
    hosts: HashMap<Arc<str>, (HostGroup, Timestamp, Span)>,
    pub neighbour_throttled: Option<Option<Span>>,
    chance: Stream,
}

impl Life {
    pub fn new(birth: &Birth) -> Self {
        let Birth { seed, per_hour, known, .. } = *birth;
        let kind = if birth.page {
            tidewatch_core::observe::Kind::Page
        } else {
            tidewatch_core::observe::Kind::Feed
        };
        let params = FleetParams { burst: birth.burst, ..FleetParams::default() };
        let mut history = History::new(TimeZone::UTC, HALF_LIFE, start());
        if known {
            let gap = Span::from_millis((3.6e6 / per_hour) as i64);
            history.exposed(start() - gap.scaled(41.0), start());
            (1..=40).for_each(|nth| history.update(start() - gap.scaled(f64::from(nth))));
        }
        let rate = known.then(|| KnownRate {
            rate: Rate::constant(per_hour),
            origin: if birth.grouped { Origin::Blend } else { Origin::Individual },
            updates: 40,
        });
        let before = Before { last_look: None, seen_until: start(), strange: false };
        let mut life = Self {
            fleet: Fleet::new(params.clone(), seed, start()),
            ledger: Ledger::new(birth.burst),
            publisher: Publisher::new(seed, kind, birth.dated, per_hour, start()),
            terms: birth.terms.clone(),
            params,
            birth: birth.clone(),
            now: start(),
            ahead: Span::ZERO,
            events: Vec::new(),
            mind: Mind { beliefs: Beliefs::new(history), before, newest: None },
            rate,
            left_behind: false,
            shelf: None,
            due_unasked: Default::default(),
            log: BTreeMap::new(),
            hosts: HashMap::new(),
            neighbour_throttled: None,
            chance: Stream::new(seed, "world"),
        };
        let updates = if known { 40 } else { 0 };
        let memory = Memory { known_updates: updates, ..Memory::default() };
        let known = [life.known(ONE, memory), life.known(NEIGHBOUR, Memory::default())];
        life.ledger.open(ONE, &life.terms, updates);
        life.ledger.open(NEIGHBOUR, &neighbour_terms(), 0);
        life.fleet.load(known.to_vec(), start());
        life
    }

    pub fn clock(&self) -> Timestamp {
        self.now + self.ahead
    }

    fn known(&self, id: SourceId, memory: Memory) -> Known {
        let terms = if id == ONE { self.terms.clone() } else { neighbour_terms() };
        let probes = self.probes_since(id, terms.budget.per);
        Known { id, terms, memory, probes, answered_by: None }
    }

    /// What the store is asked for: probes that began within T and an hour, and when they ended.
    pub fn probes_since(&self, id: SourceId, per: Span) -> Vec<Timestamp> {
        let since = self.now - per - Span::from_hours(1);
        let all = self.log.get(&id).into_iter().flatten();
        all.filter(|probe| probe.0 >= since).map(|probe| probe.1 + self.ahead).collect()
    }

    /// Lets time pass.
    pub fn pass(&mut self, span: Span) {
        let until = self.now + span;
        for turn in 0.. {
            assert!(turn < 20_000, "nothing moves at {}", self.now);
            self.come_in();
            self.plan();
            let clock = self.clock();
            for order in self.fleet.step(clock) {
                self.ledger.ordered(order.source, self.now);
                let slow = if self.chance.unit() < 0.05 { 5_400_000.0 } else { 0.0 };
                let at = self.now + Span::from_millis((self.chance.unit() * slow) as i64);
                self.events.push((at, Event::TookOff(order)));
            }
            let next_step = self.fleet.next_step(clock).map(|at| at - self.ahead);
            let next = self.events.iter().map(|event| event.0).chain(next_step).min();
            match next.filter(|&next| next <= until) {
                Some(next) => self.now = self.now.max(next),
                None => break,
            }
        }
        self.now = until;
    }

    /// Lets time pass until the next probe is sent, if that is soon.
    pub fn launch(&mut self) {
        let next = self.fleet.next_step(self.clock()).map(|at| at - self.clock());
        if let Some(wait) = next.filter(|&wait| wait < Span::from_hours(12)) {
            self.pass(wait.max(Span::ZERO));
        }
    }

    /// Awaits what is under way; nothing more is sent.
    pub fn drain(&mut self) {
        while let Some(next) = self.events.iter().map(|event| event.0).min() {
            self.now = self.now.max(next);
            self.come_in();
        }
    }

    fn come_in(&mut self) {
        let due = |events: &[(Timestamp, Event)], now| {
            let first = events.iter().enumerate().min_by_key(|(_, event)| event.0)?;
            (first.1.0 <= now).then_some(first.0)
        };
        while let Some(index) = due(&self.events, self.now) {
            match self.events.remove(index).1 {
                Event::TookOff(order) => self.take_off(order),
                Event::Answer(flight) => self.absorb(*flight),
                Event::Landed(id) => self.fleet.landed(id),
                Event::Planned(id, plan) => self.adopt(id, plan),
            }
        }
    }

    fn take_off(&mut self, order: Order) {
        if !self.fleet.may_go(order.source, self.clock()) {
            self.fleet.recall(order.source);
            self.left_behind &= order.source != ONE;
            self.ledger.count("recalled");
            return;
        }
        self.ledger.sent(&order, self.now, self.clock());
        let slow = if self.chance.unit() < 0.05 { 1_800_000.0 } else { 4_000.0 };
        let took = Span::from_millis((self.chance.unit() * slow) as i64);
        let flight = if order.source == ONE { self.probe(order) } else { self.probe_neighbour(order) };
        self.events.push((self.now + took, Event::Answer(Box::new(flight))));
    }

    fn probe_neighbour(&mut self, order: Order) -> Flight {
        let result = match self.neighbour_throttled.take() {
            Some(retry_after) => Err(Failure::Throttled { retry_after }),
            None if self.chance.unit() < 0.1 => Err(Failure::Unreachable),
            None => Ok(Answered::default()),
        };
        Flight { order, started: self.now, answered_by: None, result, mind: None, watched: true }
    }

    fn probe(&mut self, order: Order) -> Flight {
        let mut mind = self.mind.clone();
        let answer = self.publisher.answer(self.now, self.ahead, &mind.before);
        let silent = matches!(answer, Err(Failure::Interrupted | Failure::Unreachable));
        let answered_by = self.publisher.redirects_to.clone().filter(|_| !silent);
        let answered_by = answered_by.or((!silent).then(|| self.terms.host.clone()));
        let flight =
            |result, mind, watched| Flight { order, started: self.now, answered_by, result, mind, watched };
        let (mut answered, seen) = match answer {
            Err(failure) => return flight(Err(failure), None, true),
            Ok(answer) => answer,
        };
        let (kind, now) = (self.publisher.kind, self.clock());
        let last = mind.before.last_look;
        let look = Look { kind, last, now, seen: seen.as_ref(), except: None };
        let rate = self.rate.as_ref().filter(|known| known.updates >= 10);
        let params = Params { test: self.birth.test, ..Params::default() };
        let foretold = rate.map(|known| Foretold { rate: &known.rate, params, cycle: CYCLE });
        answered.heard = mind.beliefs.look(&look, foretold.as_ref(), mind.newest);
        let strange = last.is_none() || seen.as_ref().is_some_and(|seen| seen.first_contact);
        mind.before = Before { last_look: Some(now), seen_until: self.now, strange: false };
        flight(Ok(answered), Some(mind), foretold.is_some() && !strange)
    }

    fn absorb(&mut self, flight: Flight) {
        let id = flight.order.source;
        let Flight { mut result, mut mind, mut answered_by, .. } = flight;
        if id == ONE && std::mem::take(&mut self.left_behind) {
            (result, mind, answered_by) = (Err(Failure::Interrupted), None, None);
        }
        let report = Report {
            source: id,
            started: flight.started + self.ahead,
            finished: self.clock(),
            answered_by,
            crawl_delay: None,
            result,
        };
        let absorbed = self.fleet.absorb(&report).unwrap();
        self.log.entry(id).or_default().push((flight.started, self.now));
        let (by, notes) = (report.answered_by.as_ref(), &absorbed.notes);
        self.ledger.ended(id, self.now, by, &report.result, notes);
        notes.iter().for_each(|note| self.ledger.noted(id, note));
        if id == ONE && report.result.is_ok() {
            self.ledger.remembered(id, &absorbed.memory, flight.watched);
        }
        if let Some(asks) = absorbed.host {
            self.hosts.insert(asks.host.key.clone(), (asks.host, asks.paused_until, asks.crawl_delay));
        }
        if let Some(mind) = mind {
            self.mind = Mind { newest: absorbed.memory.life.newest, ..mind };
        }
        if id == ONE && self.shelf.is_some() {
            self.shelf = Some(absorbed.memory);
        }
        let commit = Span::from_millis((self.chance.unit() * 3_000.0) as i64);
        self.events.push((self.now + commit, Event::Landed(id)));
    }

    fn plan(&mut self) {
        let clock = self.clock();
        for order in self.fleet.plan_orders(clock, usize::MAX) {
            let Some(plan) = self.rate.as_ref().and_then(|rate| planner::plan(&order, rate)) else {
                continue;
            };
            if self.chance.unit() < 0.9 {
                self.adopt(order.source, plan);
            } else {
                let late = Span::from_millis((self.chance.unit() * 3_600_000.0) as i64);
                self.events.push((self.now + late, Event::Planned(order.source, plan)));
            }
        }
    }

    fn adopt(&mut self, id: SourceId, plan: Plan) {
        match self.fleet.adopt(id, plan, self.clock()) {
            Ok(note) => {
                note.iter().for_each(|note| self.ledger.noted(id, note));
                self.ledger.count("plans adopted");
            }
            Err(_) => self.ledger.count("plans stale"),
        }
    }

    /// Whether a probe of it is ordered or under way.
    fn in_flight(&self) -> bool {
        self.events.iter().any(|(_, event)| match event {
            Event::TookOff(order) => order.source == ONE,
            Event::Answer(flight) => flight.order.source == ONE,
            Event::Landed(_) | Event::Planned(..) => false,
        })
    }

    pub fn ask(&mut self) {
        let due = self.fleet.memory(ONE).map(|memory| (memory.due, memory.reason));
        match self.fleet.request(ONE, self.clock()) {
            Ok(()) => {
                self.due_unasked = due.filter(|due| due.1 != Reason::Manual).unwrap_or(self.due_unasked);
                self.ledger.asked(ONE);
            }
            Err(_) => self.ledger.count("refused by hand"),
        }
    }

    pub fn refit(&mut self) {
        let history = &self.mind.beliefs.history;
        if history.span().is_some() {
            let evidence = history.evidence(self.clock());
            let rate = fit(&evidence, &Prior::flat(level(&evidence)), &TimeZone::UTC).rate;
            let origin = if self.birth.grouped { Origin::Blend } else { Origin::Individual };
            self.rate = Some(KnownRate { rate, origin, updates: history.seen() });
            self.fleet.refitted(&[ONE, NEIGHBOUR]);
        }
    }

    pub fn set_clock(&mut self, by: Span) {
        self.ahead = self.ahead + by;
        if self.due_unasked.0 != Timestamp::MAX {
            self.due_unasked.0 += by;
        }
        self.fleet.shift(by);
        if let Some(shelf) = &mut self.shelf {
            shelf.shift(by);
        }
        self.hosts.values_mut().for_each(|host| host.1 += by);
    }

    pub fn set_burst(&mut self, burst: BurstTerms) {
        self.params.burst = burst;
        self.fleet.set_params(self.params.clone(), self.clock());
        self.fleet.replan_all();
        self.ledger.set_burst(burst);
    }

    /// Reads the configuration again. What was logged is read a little before anything is changed.
    pub fn reload(&mut self, budget: Budget, own_budget: bool, policy: Policy) {
        if self.shelf.is_some() {
            return;
        }
        let terms = Terms {
            budget,
            own_budget,
            policy,
            weight: 1.0,
            price: 0.0,
            max_gap: None,
            cost: None,
            host: self.terms.host.clone(),
        };
        let longer = budget.per > self.terms.budget.per;
        let probes = if longer { self.probes_since(ONE, budget.per) } else { Vec::new() };
        let ahead = self.ahead;
        self.pass(Span::from_secs(20));
        assert_eq!(ahead, self.ahead);
        let change = Changed { id: ONE, terms: terms.clone(), moved: Moved::Same, probes };
        self.fleet.reconfigure(Vec::new(), vec![change], &[], self.clock());
        self.ledger.regranted(ONE, &terms);
        self.terms = terms;
    }

    /// It has another address, where the same document is or another.
    pub fn relocate(&mut self, number: usize, strange: bool) {
        if self.shelf.is_some() {
            return;
        }
        self.terms.host = host(number);
        let change =
            Changed { id: ONE, terms: self.terms.clone(), moved: Moved::Elsewhere, probes: Vec::new() };
        self.fleet.reconfigure(Vec::new(), vec![change], &[], self.clock());
        self.left_behind = self.in_flight();
        self.publisher.redirects_to = None;
        self.mind.before.strange |= strange;
        self.ledger.moved(ONE);
        self.ledger.regranted(ONE, &self.terms);
        self.ledger.reborn(ONE);
    }

    pub fn remove(&mut self) {
        if self.shelf.is_none() {
            self.shelf = self.fleet.memory(ONE).cloned();
            self.fleet.reconfigure(Vec::new(), Vec::new(), &[ONE], self.clock());
            self.ledger.count("removals");
        }
    }

    /// Puts it back on the list, as the store keeps it: it is due when the fleet says so.
    pub fn put_back(&mut self, budget: Budget, policy: Policy) {
        let Some(memory) = self.shelf.take() else { return };
        self.terms = Terms { budget, policy, ..self.terms.clone() };
        let back = (State::Learning, Timestamp::default(), Reason::default());
        let mut memory = memory;
        (memory.state, memory.due, memory.reason) = back;
        self.ledger.returned(ONE, &self.terms, &memory);
        let known = self.known(ONE, memory);
        self.fleet.reconfigure(vec![known], Vec::new(), &[], self.clock());
    }

    /// Stops and begins again with what is stored. What was under way is awaited or lost; what was lost
    /// counts all the same.
    pub fn restart(&mut self, gently: bool) {
        if gently {
            self.drain();
        }
        for (_, event) in std::mem::take(&mut self.events) {
            let (source, started) = match event {
                Event::TookOff(order) => (order.source, self.now),
                Event::Answer(flight) => (flight.order.source, flight.started),
                Event::Landed(_) | Event::Planned(..) => continue,
            };
            self.log.entry(source).or_default().push((started, self.now));
            self.ledger.cut_off(source, self.now);
            self.ledger.count("lost");
        }
        self.left_behind = false;
        self.recall_beliefs();
        let mut known = vec![self.known(NEIGHBOUR, self.fleet.memory(NEIGHBOUR).unwrap().clone())];
        if self.shelf.is_none() {
            let mut memory = self.fleet.memory(ONE).unwrap().clone();
            if memory.reason == Reason::Manual {
                (memory.due, memory.reason) = self.due_unasked;
            }
            known.push(self.known(ONE, memory));
        }
        self.fleet = Fleet::new(self.params.clone(), self.birth.seed, self.clock());
        for (host, paused_until, crawl_delay) in self.hosts.values() {
            self.fleet.load_host(host, *paused_until, *crawl_delay);
        }
        self.fleet.load(known, self.clock());
        self.ledger.restarted();
        self.ledger.count("restarts");
    }

    /// What is believed, from the bytes that are stored of it.
    fn recall_beliefs(&mut self) {
        let history = |history: &History| {
            History::from_bytes(&history.to_bytes(), history.zone().clone(), HALF_LIFE).unwrap()
        };
        let Beliefs { history: evidence, watch, aside, diary } = &self.mind.beliefs;
        let stored = Beliefs {
            history: history(evidence),
            watch: Watch::from_bytes(&watch.to_bytes()).unwrap(),
            aside: aside.as_ref().map(|aside| Aside::from_bytes(&aside.to_bytes(), evidence).unwrap()),
            diary: Diary::from_bytes(&diary.to_bytes()).unwrap(),
        };
        assert_eq!(stored, self.mind.beliefs);
        self.mind.beliefs = stored;
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
