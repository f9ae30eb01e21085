//! The task that owns the fleet and obeys it.
//!
//! A loop over a handful of messages: a step is due, a probe has ended, something was committed,
//! plans were made, the list changed, stop. It decides nothing itself and waits for nobody: the store and the
//! network answer by message. Knows no socket and no SQL, so a test can sit at the other ends of
//! its channels.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, watch};

use crate::clock::{Clock, Watch};
use crate::config::Config;
use crate::config::profile::Rules;
use crate::fetch::client::Fetcher;
use crate::fetch::host_group::host_group;
use crate::store::record::{DueRecord, Event, Flight, PlanRecord};
use crate::store::writer::{Health, Receipt, Write};
use tidewatch_core::engine::life::burst_event;
use tidewatch_core::engine::{Absorbed, Answered, Failure, Fleet, FleetParams, Moved, Note};
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::execution::RuleId;
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::landing::{event, landing};
use super::muster::{self, Roster, Spec, learning_of};
use super::orders::{Control, Launch, Reconfiguration};
use super::planner::{Beat, Foretold, Made};
use super::probe::Finished;

/// What the pilot shows of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Counts turns of the loop: as long as it grows, the scheduler lives.
    pub beats: u64,
    /// Sources watched.
    pub sources: usize,
    /// Probes under way.
    pub in_flight: usize,
    /// Probes ended since the start.
    pub probes: u64,
    /// Updates found since the start.
    pub updates: u64,
    /// When the next step is.
    pub next_step: Option<Timestamp>,
    /// What the last reload did.
    pub last_reload: Option<String>,
    /// Why nothing can be stored.
    pub stalled: Option<String>,
}

/// What holds until the configuration is read again.
#[derive(Debug)]
pub struct Settings {
    /// Limits for all.
    pub params: FleetParams,
    /// How long probes are kept.
    pub retain: Span,
    /// What is asked for.
    pub rules: Arc<Rules>,
}

impl From<&Config> for Settings {
    fn from(config: &Config) -> Self {
        let (params, rules) = (config.fleet.clone(), Arc::clone(&config.rules));
        Self { params, retain: config.daemon.retain_probes, rules }
    }
}

/// The pilot's channels.
#[derive(Debug)]
pub struct Lines {
    /// Orders to it.
    pub control: mpsc::UnboundedReceiver<Control>,
    /// Probes that ended.
    pub finished: mpsc::UnboundedReceiver<Finished>,
    /// What was committed.
    pub receipts: mpsc::UnboundedReceiver<Receipt>,
    /// What is to be written.
    pub writes: mpsc::UnboundedSender<Write>,
    /// What is to be sent.
    pub launches: mpsc::UnboundedSender<Launch>,
    /// Plans to be made. As many wait here as it holds, the others in the fleet.
    pub plans: mpsc::Sender<PlanOrder>,
    /// Whether writing works.
    pub health: watch::Receiver<Health>,
    /// Where it shows itself.
    pub progress: watch::Sender<Progress>,
    /// Poked when somebody is to be told something that was stored.
    pub poke: Arc<Notify>,
}

/// Owns the fleet.
#[derive(Debug)]
pub struct Pilot {
    fleet: Fleet,
    roster: Roster,
    clock: Clock,
    clock_watch: Watch,
    fetcher: Option<Fetcher>,
    params: FleetParams,
    retain: Span,
    rules: Arc<Rules>,
    lines: Lines,
    /// Of these something is to be told once it is stored.
    telling: HashSet<SourceId>,
    in_flight: HashMap<SourceId, Flight>,
    /// Asked at an address that they have left since: the answer says nothing about them.
    left_behind: HashSet<SourceId>,
    stopping: bool,
    next_prune: Timestamp,
    next_load: Timestamp,
    shown: Progress,
}

/// How often, in real time, the pilot looks up from its work even when there is none.
const BEAT: Duration = Duration::from_millis(500);

/// How often old probes are pruned.
const PRUNE_EVERY: Span = Span::from_hours(1);

/// How often it is noted what the fleet did.
const LOADS_EVERY: Span = Span::from_mins(1);

impl Pilot {
    /// A pilot for this fleet.
    pub fn new(
        fleet: Fleet,
        roster: Roster,
        clock: Clock,
        fetcher: Option<Fetcher>,
        settings: Settings,
        lines: Lines,
    ) -> Self {
        let Settings { params, retain, rules } = settings;
        let next_prune = clock.now() + Span::from_mins(1);
        let next_load = clock.now() + LOADS_EVERY;
        let clock_watch = clock.watch();
        Self {
            fleet,
            roster,
            clock,
            clock_watch,
            fetcher,
            params,
            retain,
            rules,
            lines,
            telling: HashSet::new(),
            in_flight: HashMap::new(),
            left_behind: HashSet::new(),
            stopping: false,
            next_prune,
            next_load,
            shown: Progress::default(),
        }
    }

    /// Flies until told to stop and everything under way has been stored.
    pub async fn fly(mut self) {
        loop {
            self.show();
            if self.stopping && self.in_flight.is_empty() {
                return;
            }
            let now = self.clock.now();
            let next_step = if self.stopping { None } else { self.fleet.next_step(now) };
            let wake = next_step.unwrap_or(Timestamp::MAX);
            tokio::select! {
                biased;
                Some(receipt) = self.lines.receipts.recv() => self.committed(receipt),
                Some(finished) = self.lines.finished.recv() => self.absorb(finished),
                order = self.lines.control.recv() => match order {
                    Some(order) => self.obey(order),
                    None => self.stopping = true,
                },
                () = self.clock.sleep_until(wake), if next_step.is_some() => self.step(),
                () = crate::clock::real_pause(BEAT) => {}
            }
            self.keep_house();
            self.order_plans();
        }
    }

    fn step(&mut self) {
        let now = self.clock.now();
        let flights: Vec<Flight> = self
            .fleet
            .step(now)
            .into_iter()
            .map(|order| Flight {
                source: order.source,
                due: order.due,
                started: now,
                policy: order.policy,
                reason: order.reason,
            })
            .collect();
        if !flights.is_empty() {
            self.in_flight.extend(flights.iter().map(|flight| (flight.source, *flight)));
            self.write(Write::TakeOff(flights));
        }
    }

    fn committed(&mut self, receipt: Receipt) {
        match receipt {
            Receipt::TookOff(flights) => {
                let now = self.clock.now();
                for flight in flights {
                    let Some(spec) = self.roster.get(&flight.source).cloned() else { continue };
                    if !self.fleet.may_go(flight.source, now) {
                        // The store took its time, and what was allowed no longer is.
                        self.fleet.recall(flight.source);
                        self.in_flight.remove(&flight.source);
                        self.write(Write::Recall(flight.source));
                        continue;
                    }
                    self.left_behind.remove(&flight.source);
                    let launch = Launch {
                        flight,
                        spec,
                        fetcher: self.fetcher.clone(),
                        host_spacing: self.params.host_spacing,
                        rules: Arc::clone(&self.rules),
                    };
                    // A prober that is gone is noticed by whoever joins it.
                    let _ = self.lines.launches.send(launch);
                }
            }
            Receipt::Landed(id) => {
                self.in_flight.remove(&id);
                self.fleet.landed(id);
                if self.telling.remove(&id) {
                    self.lines.poke.notify_one();
                }
                if self.fleet.memory(id).is_none() {
                    self.roster.remove(&id);
                }
            }
        }
    }

    fn absorb(&mut self, mut finished: Finished) {
        let id = finished.flight.source;
        if self.left_behind.remove(&id) {
            // It was sent and counts; what it brought belongs to the old address.
            let said = "its address was changed while the answer was under way".to_owned();
            let status = finished.http_status;
            finished = Finished::failed(finished.flight, finished.finished, Failure::Interrupted, said);
            finished.http_status = status;
        }
        self.renumber(&mut finished);
        let Some(absorbed) = self.fleet.absorb(&finished.report()) else {
            tracing::warn!(source = id.0, "an answer for a source that nobody knows");
            self.in_flight.remove(&id);
            return;
        };
        self.shown.probes += 1;
        let found = finished.observation.as_ref().map_or(0, |seen| seen.updates.len());
        self.shown.updates += found as u64;
        self.log(&finished, &absorbed, found);
        for note in &absorbed.notes {
            self.heed(id, note);
        }
        if absorbed.follows.notices.iter().any(|notice| notice.tells) {
            self.telling.insert(id);
        }
        let at = finished.finished;
        let others: Vec<SourceId> = absorbed.others.iter().map(|&(other, _)| other).collect();
        for (other, notes) in &absorbed.others {
            self.tell_of(*other, at, notes);
        }
        self.write_due(&others);
        self.write(Write::Land(Box::new(landing(finished, absorbed))));
    }

    /// Rules have numbers, which a reload may have changed while the answer was under way.
    fn renumber(&self, finished: &mut Finished) {
        if Arc::ptr_eq(&finished.rules, &self.rules) {
            return;
        }
        let before = std::mem::replace(&mut finished.rules, Arc::clone(&self.rules));
        let Ok(Answered { asked: Some(asked), .. }) = &mut finished.result else { return };
        asked.told.retain_mut(|told| {
            let name = before.get(told.rule).map(|rule| &rule.terms.name);
            let number = self.rules.all().iter().position(|rule| Some(&rule.terms.name) == name);
            let number = number.and_then(|number| u32::try_from(number).ok());
            told.rule = number.map_or(told.rule, RuleId);
            number.is_some()
        });
    }

    /// What is worth an event about a source that did not land.
    fn tell_of(&mut self, id: SourceId, at: Timestamp, notes: &[Note]) {
        for note in notes {
            self.heed(id, note);
            self.write(Write::Event(event(id, at, note)));
        }
    }

    /// Stores when these are due since.
    fn write_due(&self, ids: &[SourceId]) {
        let due = |&id: &SourceId| {
            let memory = self.fleet.memory(id)?;
            let (due, reason, asked_by) = (memory.due, memory.reason, memory.life.asked_by);
            Some(DueRecord { source: id, due, reason, asked_by, rule: memory.rule.clone() })
        };
        let due: Vec<DueRecord> = ids.iter().filter_map(due).collect();
        if !due.is_empty() {
            self.write(Write::Due(due));
        }
    }

    fn foretold(&mut self, all: Vec<Foretold>) {
        let now = self.clock.now();
        let mut moved = Vec::new();
        for Foretold { source, made_from, spans } in all {
            let before = self.fleet.memory(source).map(|memory| (memory.due, memory.rule.clone()));
            match self.fleet.adopt_spans(source, made_from, spans.as_deref(), now) {
                Err(stale) => tracing::debug!(source = source.0, "{stale}"),
                Ok(notes) => self.tell_of(source, now, &notes),
            }
            if before != self.fleet.memory(source).map(|memory| (memory.due, memory.rule.clone())) {
                moved.push(source);
            }
        }
        self.write_due(&moved);
    }

    fn log(&self, finished: &Finished, absorbed: &Absorbed, found: usize) {
        let Some(spec) = self.roster.get(&finished.flight.source) else { return };
        let next = absorbed.memory.due;
        match &finished.error {
            Some(error) => tracing::warn!(source = %spec.source.name, %error, %next, "probe failed"),
            None => tracing::info!(
                source = %spec.source.name, outcome = finished.outcome.name(), updates = found, %next, "probed"
            ),
        }
        if let Some(note) = finished.observation.as_ref().and_then(|seen| seen.note.as_deref()) {
            tracing::info!(source = %spec.source.name, "{note}");
        }
    }

    /// An adopted address is used from now on; an outage is worth a word.
    fn heed(&mut self, id: SourceId, note: &Note) {
        match note {
            Note::MoveAdopted { to } => self.adopt_address(id, to),
            Note::OutageBegan => {
                tracing::error!(
                    "no host can be reached: the network here is down; no source is blamed for it"
                );
            }
            Note::OutageEnded => tracing::info!("the network is up again"),
            Note::HostPaused { host, until } => tracing::warn!(%host, %until, "the host asks for rest"),
            Note::Burst(change) => {
                let (kind, said) = burst_event(change);
                tracing::info!(source = self.name(id), "{kind}: {said}");
            }
            Note::BurstForgotten => {
                tracing::info!(source = self.name(id), "its burst is no longer known to be on");
            }
            Note::RhythmChanged => {
                tracing::info!(source = self.name(id), "its rhythm has changed; it is learned anew");
            }
            Note::PolicySwitched { from, to, why } => {
                tracing::info!(source = self.name(id), from = from.name(), to = to.name(), "{why}");
            }
            Note::WentQuiet { expected, .. } => {
                tracing::warn!(source = self.name(id), expected, "it should have updated and has not");
            }
            Note::SpokeAgain => tracing::info!(source = self.name(id), "it updates again"),
            Note::RuleUnmet { rule, until, why } => {
                let why = why.name();
                tracing::warn!(source = self.name(id), %rule, %until, why, "a rule cannot be served in time");
            }
            Note::RuleMissed { rule, until } => {
                tracing::warn!(source = self.name(id), %rule, %until, "a rule was served too late");
            }
            Note::Tardy { by, why } => {
                let why = why.map_or("slots or capacity", |why| why.name());
                tracing::warn!(source = self.name(id), %by, why, "it has gone unseen for longer than it may");
            }
            Note::TardyEnded { late } => tracing::info!(source = self.name(id), %late, "it was looked at"),
            Note::Rests { .. } | Note::StateChanged { .. } => {}
        }
    }

    fn name(&self, id: SourceId) -> &str {
        self.roster.get(&id).map_or("", |spec| &spec.source.name)
    }

    fn adopt_address(&mut self, id: SourceId, to: &str) {
        let (Some(spec), Ok(url)) = (self.roster.get_mut(&id), url::Url::parse(to)) else { return };
        tracing::info!(source = %spec.source.name, %to, "moved for good; asked there from now on");
        self.fleet.rehost(id, host_group(&url));
        *spec = Arc::new(Spec { adopted: Some(Box::new(url)), ..(**spec).clone() });
    }

    fn obey(&mut self, order: Control) {
        match order {
            Control::Stop => {
                tracing::info!(in_flight = self.in_flight.len(), "stopping: finishing what is under way");
                self.stopping = true;
            }
            Control::Apply(new) => self.apply(*new),
            Control::Refitted(ids) => self.fleet.refitted(&ids),
            Control::Planned(plans) => self.adopt(plans),
            Control::Pulses(beats) => {
                for Beat { source, pulse, per_hour, updates } in beats {
                    self.fleet.take_pulse(source, pulse, per_hour, updates);
                }
            }
            Control::Foretold(all) => self.foretold(all),
            Control::Request(request) => {
                let answer = match self.fleet.request(request.source, self.clock.now()) {
                    Ok(()) => "accepted".to_owned(),
                    Err(refusal) => format!("refused: {refusal}"),
                };
                self.write(Write::Answer { request: request.id, answer });
            }
        }
    }

    fn order_plans(&mut self) {
        let room = if self.stopping { 0 } else { self.lines.plans.capacity() };
        for order in self.fleet.plan_orders(self.clock.now(), room) {
            // There is room, and a planner that is gone is noticed by whoever joins it.
            let _ = self.lines.plans.try_send(order);
        }
    }

    fn adopt(&mut self, plans: Vec<Made>) {
        let now = self.clock.now();
        let mut adopted = HashMap::with_capacity(plans.len());
        for Made { source, made_from, at, ahead } in plans {
            let plan = Plan::new(made_from, &ahead);
            match self.fleet.adopt(source, plan, now) {
                Err(stale) => {
                    tracing::debug!(source = source.0, "{stale}");
                    continue;
                }
                Ok(None) => {}
                Ok(Some(note)) => {
                    self.heed(source, &note);
                    self.write(Write::Event(event(source, now, &note)));
                }
            }
            let Some(memory) = self.fleet.memory(source) else { continue };
            let spec = self.roster.get(&source);
            let record = PlanRecord {
                source,
                made_at: at,
                starts: ahead.starts,
                ends: ahead.ends,
                times: ahead.times,
                expected_cost: ahead.expected_cost,
                lower_bound: ahead.lower_bound,
                price: ahead.price,
                overflow: ahead.overflow,
                passing: spec.is_some_and(|spec| spec.source.policy == Policy::Auto),
                due: memory.due,
                reason: memory.reason,
                by: ahead.by,
                asked_by: memory.life.asked_by,
                rule: memory.rule.clone(),
                follows: memory.life.follows,
            };
            // The later of two: the other was never followed.
            adopted.insert(source, record);
        }
        if !adopted.is_empty() {
            self.write(Write::Plans(adopted.into_values().collect()));
        }
    }

    fn apply(&mut self, new: Reconfiguration) {
        let now = self.clock.now();
        self.fleet.set_params(new.params.clone(), now);
        self.params = new.params;
        self.retain = new.retain;
        if new.fetcher.is_some() {
            self.fetcher = new.fetcher;
        }
        let first: Vec<SourceId> = new.added.iter().map(|(known, _)| known.id).collect();
        let mut added = Vec::with_capacity(new.added.len());
        for (known, spec) in new.added {
            let before = self.roster.insert(known.id, Arc::clone(&spec));
            // Taken off the list, put back elsewhere, and the old address has yet to answer.
            let elsewhere = before.is_some_and(|before| before.url() != spec.url());
            if elsewhere && self.in_flight.contains_key(&known.id) {
                self.left_behind.insert(known.id);
            }
            added.push(known);
        }
        let mut changed = Vec::with_capacity(new.changed.len());
        for (change, spec) in new.changed {
            if change.moved == Moved::Elsewhere && self.in_flight.contains_key(&change.id) {
                self.left_behind.insert(change.id);
            }
            self.roster.insert(change.id, spec);
            changed.push(change);
        }
        if let Some(usual) = new.learning {
            for spec in self.roster.values_mut() {
                *spec = Arc::new(Spec { learning: learning_of(&usual, &spec.source), ..(**spec).clone() });
            }
        }
        self.fleet.reconfigure(added, changed, &new.removed, now);
        if let Some(rules) = new.rules {
            self.rules = rules;
            let book = muster::book(&self.rules, &self.roster, &self.fleet.rule_states());
            self.fleet.set_rules(book, now);
            self.write(Write::Rules(names(&self.rules)));
        }
        if new.replan {
            self.fleet.replan_all();
        }
        for id in &new.removed {
            if !self.in_flight.contains_key(id) {
                self.roster.remove(id);
            }
        }
        let due = first.into_iter().filter_map(|id| Some((id, self.fleet.memory(id)?.due))).collect();
        self.write(Write::FirstDue(due));
        self.write(Write::Event(Event {
            at: now,
            kind: "reloaded",
            source: None,
            detail: Some(new.summary.clone()),
        }));
        tracing::info!("reloaded: {}", new.summary);
        self.shown.last_reload = Some(new.summary);
        let _ = new.applied.send(());
    }

    /// What must be looked after now and then.
    fn keep_house(&mut self) {
        if let Some(by) = self.clock_watch.jumped() {
            tracing::warn!("the clock was set by {by}; the schedule moves with it");
            self.fleet.shift(by);
            let at = self.clock.now();
            let longest = self.roster.values().map(|spec| spec.source.budget.per).max();
            let since = at - by - longest.unwrap_or(Span::ZERO) - Span::from_hours(1);
            self.write(Write::Shift { by, since });
            self.write(Write::Event(Event {
                at,
                kind: "clock_set",
                source: None,
                detail: Some(by.to_string()),
            }));
        }
        let now = self.clock.now();
        for (id, note) in self.fleet.fell_late(now) {
            self.tell_of(id, now, &[note]);
        }
        if now >= self.next_load || now < self.next_load - LOADS_EVERY {
            self.next_load = now + LOADS_EVERY;
            let load = self.fleet.take_load(now);
            if !load.is_idle() {
                self.write(Write::Load(load));
            }
        }
        if now >= self.next_prune {
            self.next_prune = now + PRUNE_EVERY;
            self.fleet.tidy();
            self.write(Write::Prune { before: now - self.retain });
        }
    }

    fn show(&mut self) {
        self.shown.beats += 1;
        self.shown.sources = self.fleet.len();
        self.shown.in_flight = self.in_flight.len();
        self.shown.next_step = self.fleet.next_step(self.clock.now());
        self.shown.stalled = match &*self.lines.health.borrow() {
            Health::Well => None,
            Health::Stalled(why) => Some(why.clone()),
        };
        self.lines.progress.send_replace(self.shown.clone());
    }

    fn write(&self, write: Write) {
        // A writer that is gone is noticed by whoever joins it.
        let _ = self.lines.writes.send(write);
    }
}

/// The names of all rules.
pub fn names(rules: &Rules) -> Vec<Arc<str>> {
    rules.all().iter().map(|rule| Arc::clone(&rule.terms.name)).collect()
}
