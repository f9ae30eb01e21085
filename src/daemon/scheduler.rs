//! The task that owns the engine and carries out its actions.
//!
//! A loop over a few message channels: each message becomes an event, and each action is carried out. It
//! decides nothing and never blocks: the store and the network answer by message. It uses no socket and no
//! SQL, so tests can replace the other ends of its channels.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, mpsc, oneshot, watch};

use crate::clock::{Alarm, Clock, PendingWork, WatchedClock};
use crate::config::address;
use crate::config::profile::RulesConfig;
use crate::fetch::client::Fetcher;
use crate::store::attempts::RequestInputs;
use crate::store::clock::{ClockSeen, Correction, CorrectionFound};
use crate::store::record::EventRecord as StoredEvent;
use crate::store::writer::{Health, Receipt, Write};
use tidewatch_core::engine::action::{Action, Persist, ProbeResult, Refusal};
use tidewatch_core::engine::event::{Committed, Configuration, CrashSuspect, EngineEvent, Moved};
use tidewatch_core::engine::state::Engine;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::activity::{ActivityCounters, ActivityLog};
use super::messages::{Control, Launch, ProbeRequest, Reconfiguration, Redirection};
use super::notes::{event, log_note};
use super::pardon;
use super::probe::Finished;
use super::probe_record::probe_record;
use super::record::{RecordTo, Recording};
use super::startup::{Loaded, Roster, learning_of, rule_set};
use super::watchdog::ProgressMark;

/// The scheduler's progress, for the status line and for tests.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// Iterations of the loop.
    pub iterations: u64,
    /// Sources watched.
    pub sources: usize,
    /// Probes in progress.
    pub in_progress: usize,
    /// Probes ended since the start.
    pub probes: u64,
    /// Probes cancelled before they were sent, since the start.
    pub cancelled: u64,
    /// Updates found since the start.
    pub updates: u64,
    /// Start of the next step.
    pub next_step: Option<Timestamp>,
    /// Summary of the last reload.
    pub last_reload: Option<String>,
    /// The error, while the store cannot be written.
    pub stalled: Option<String>,
}

/// The scheduler's channels.
#[derive(Debug)]
pub struct Channels {
    /// Messages to the scheduler.
    pub control: mpsc::UnboundedReceiver<Control>,
    /// Finished probes.
    pub finished: mpsc::UnboundedReceiver<Box<Finished>>,
    /// Receipts of the store.
    pub receipts: mpsc::UnboundedReceiver<Receipt>,
    /// Writes to the store.
    pub writes: mpsc::UnboundedSender<Write>,
    /// Probes to send.
    pub launches: mpsc::UnboundedSender<Launch>,
    /// Orders for plans. The engine bounds the length of this queue.
    pub plans: mpsc::UnboundedSender<PlanOrder>,
    /// State of the store's writer.
    pub health: watch::Receiver<Health>,
    /// Publishes the progress.
    pub progress: watch::Sender<Progress>,
    /// Notified when a delivery is stored.
    pub deliver: Arc<Notify>,
    /// Marks progress for the watchdog.
    pub mark: ProgressMark,
}

/// Owns the engine, and connects it to the other tasks.
#[derive(Debug)]
pub struct Scheduler {
    engine: Engine,
    roster: Roster,
    clock: Clock,
    clock_watch: WatchedClock,
    /// The sum of all corrections of the clock.
    corrected: Span,
    /// When it is stored next what the clock shows.
    clock_seen_at: Timestamp,
    fetcher: Option<Fetcher>,
    rules: Arc<RulesConfig>,
    channels: Channels,
    /// Time of the engine's next tick.
    alarm: Alarm,
    /// Number of probes in progress and of plans being built, for a paced clock.
    pending: PendingWork,
    /// Number of plans being built.
    planning: usize,
    /// Whether the alarm has expired and is not set again.
    alarm_expired: bool,
    /// Channels for the answers to requests, by request number.
    requests: BTreeMap<i64, oneshot::Sender<Result<(), Refusal>>>,
    /// Channels for the answers to redirects.
    redirects: HashMap<SourceId, oneshot::Sender<Result<(), Timestamp>>>,
    /// Of the probes that the engine sends in answer to the receipt being handled.
    request_inputs: HashMap<SourceId, RequestInputs>,
    stopping: bool,
    /// Since when each write is awaited whose receipt is outstanding, by the clock of the mark, in order.
    awaited: VecDeque<u64>,
    /// Since when a step is due.
    step_due_since: Option<(Timestamp, u64)>,
    shown: Progress,
    /// Reused buffer of actions; empty between events.
    actions: Vec<Action>,
    recording: Option<Recording>,
    activity: ActivityLog,
}

/// Largest number of messages of a kind that one iteration handles.
const TOGETHER: usize = 64;

/// How often it is stored what the clock shows.
const CLOCK_SEEN_EVERY: Span = Span::from_mins(5);

/// Longest real time between two iterations of the loop.
const IDLE_ITERATION: Duration = Duration::from_millis(500);

impl Scheduler {
    /// A scheduler for this engine.
    pub fn new(
        loaded: Loaded,
        clock: Clock,
        fetcher: Option<Fetcher>,
        rules: Arc<RulesConfig>,
        channels: Channels,
    ) -> Self {
        // Until the first tick.
        let mut pending = clock.pending_work();
        pending.set(1);
        let Loaded { engine, roster, clock: corrections, booted_at, .. } = loaded;
        let clock_watch = clock.watch(booted_at);
        Self {
            engine,
            roster,
            corrected: corrections.corrected(),
            clock_seen_at: clock.now() + CLOCK_SEEN_EVERY,
            clock_watch,
            fetcher,
            rules,
            channels,
            alarm: clock.alarm(),
            pending,
            planning: 0,
            alarm_expired: false,
            clock,
            requests: BTreeMap::new(),
            redirects: HashMap::new(),
            request_inputs: HashMap::new(),
            stopping: false,
            awaited: VecDeque::new(),
            step_due_since: None,
            shown: Progress::default(),
            actions: Vec::new(),
            recording: None,
            activity: ActivityLog::default(),
        }
    }

    /// Counts what is logged, for a summary.
    pub fn activity(&self) -> Arc<ActivityCounters> {
        self.activity.counters()
    }

    /// Starts to record the engine's events and actions. The receiver is signalled when everything is
    /// written.
    pub fn begin_recording(&mut self, to: &RecordTo) -> std::io::Result<oneshot::Receiver<()>> {
        let (recording, written) = Recording::begin(&self.engine, to)?;
        self.recording = Some(recording);
        Ok(written)
    }

    /// Passes the sources that may have ended an earlier daemon to the engine. Before the first probe.
    pub fn suspect(&mut self, suspects: Vec<CrashSuspect>) {
        if !suspects.is_empty() {
            self.handle(EngineEvent::Died(suspects));
        }
    }

    /// Runs until a stop message, and until all probes in progress are stored.
    pub async fn run(mut self) {
        self.handle(EngineEvent::Tick);
        let (mut receipts, mut ended) = (Vec::new(), Vec::new());
        loop {
            self.show();
            if self.stopping && self.engine.in_progress() == 0 {
                return;
            }
            tokio::select! {
                biased;
                1.. = self.channels.receipts.recv_many(&mut receipts, TOGETHER) => {
                    receipts.drain(..).for_each(|receipt| self.committed(receipt));
                }
                1.. = self.channels.finished.recv_many(&mut ended, TOGETHER) => {
                    ended.drain(..).for_each(|finished| self.end(finished));
                }
                control = self.channels.control.recv() => match control {
                    Some(Control::Event(event)) => self.handle(event),
                    Some(Control::Request(request)) => self.request(request),
                    Some(Control::Redirected(redirection)) => self.redirected(redirection),
                    Some(Control::Apply(new)) => self.apply(*new),
                    Some(Control::ReloadRefused(why)) => {
                        self.shown.last_reload = Some(format!("REFUSED, the old configuration keeps running: {why}"));
                    }
                    Some(Control::Stop) | None => self.stop(),
                },
                () = self.alarm.wait() => {
                    self.alarm_expired = true;
                    self.handle(EngineEvent::Tick);
                    if self.alarm_expired {
                        // The engine has set no other time.
                        self.alarm.set(None);
                    }
                }
                () = crate::clock::real_pause(IDLE_ITERATION) => drop(self.watch_clock()),
            }
        }
    }

    /// Passes an event to the engine, and carries out the resulting actions.
    fn handle(&mut self, event: EngineEvent) {
        let now = self.watch_clock();
        self.hand_over(now, event, None);
    }

    /// Passes a receipt of the store to the engine. What requests need is kept until they are sent.
    fn committed(&mut self, receipt: Receipt) {
        self.awaited.pop_front();
        let committed = match receipt {
            Receipt::Started(mut inputs) => {
                self.watch_clock();
                // The clock may have been set since they were read.
                inputs.iter_mut().for_each(|(_, inputs)| inputs.shift(self.corrected - inputs.corrected));
                let sources = inputs.iter().map(|(source, _)| *source).collect();
                self.request_inputs = inputs.into_iter().collect();
                Committed::Started(sources)
            }
            Receipt::Ended(source) => Committed::Ended(source),
        };
        self.handle(EngineEvent::Committed(committed));
        // Those of cancelled probes.
        self.request_inputs.clear();
    }

    /// Passes the end of a probe to the engine. Its observation is stored together with the engine's
    /// result.
    fn end(&mut self, mut finished: Box<Finished>) {
        let now = self.watch_clock();
        finished.shift(self.corrected - finished.corrected, now);
        self.hand_over(now, EngineEvent::ProbeEnded(Box::new(finished.report())), Some(finished));
    }

    /// Reports a change of the wall clock to the engine, before any later event. Returns the time.
    fn watch_clock(&mut self) -> Timestamp {
        let (now, set_by) = self.clock_watch.read();
        if let Some(by) = set_by {
            self.corrected = self.corrected + by;
            self.request_inputs.values_mut().for_each(|inputs| inputs.shift(by));
            self.hand_over(now, EngineEvent::ClockSet { by }, None);
            self.clock_seen_at = now + CLOCK_SEEN_EVERY;
        } else if now >= self.clock_seen_at {
            self.write(Write::ClockSeen(ClockSeen::now(&self.clock)));
            self.clock_seen_at = now + CLOCK_SEEN_EVERY;
        }
        now
    }

    fn hand_over(&mut self, now: Timestamp, event: EngineEvent, mut ended: Option<Box<Finished>>) {
        let mut actions = std::mem::take(&mut self.actions);
        let recorded_event = self.recording.as_ref().map(|_| event.clone());
        if let EngineEvent::PlansReady(ready) = &event {
            self.planning = self.planning.saturating_sub(ready.requests);
        }
        self.engine.handle(now, event, &mut actions);
        self.count_pending();
        if let (Some(recording), Some(recorded_event)) = (&mut self.recording, recorded_event)
            && !recording.note(&self.engine, now, recorded_event, actions.clone())
        {
            self.recording = None;
        }
        for action in actions.drain(..) {
            self.carry_out(action, &mut ended);
        }
        self.actions = actions;
        if let Some(finished) = ended {
            tracing::error!(
                source_id = finished.attempt.source.0,
                "a probe ended for a source that the engine does not know; its result is lost; please report it"
            );
        }
    }

    fn count_pending(&mut self) {
        self.pending.set(self.engine.in_progress() + self.planning);
    }

    fn carry_out(&mut self, action: Action, ended: &mut Option<Box<Finished>>) {
        match action {
            Action::Persist(persist) => self.persist(persist, ended),
            Action::Send(attempt) => {
                let Some(spec) = self.roster.get(&attempt.source).cloned() else { return };
                let launch = Launch {
                    attempt,
                    clock: self.clock_watch.steady(),
                    inputs: self.request_inputs.remove(&attempt.source).unwrap_or_default(),
                    spec,
                    corrected: self.corrected,
                    fetcher: self.fetcher.clone(),
                    host_spacing: self.engine.params().host_spacing,
                    rules: Arc::clone(&self.rules),
                };
                // The task that joins the prober notices its end.
                let _ = self.channels.launches.send(launch);
            }
            Action::BuildPlan(order) => {
                // The task that joins the planner notices its end.
                let _ = self.channels.plans.send(*order);
                self.planning += 1;
                self.count_pending();
            }
            Action::Redirect { source, answer } => {
                // A closed receiver needs no answer: its probe was cancelled.
                self.redirects.remove(&source).map(|reply| reply.send(answer));
            }
            Action::Deliver => self.channels.deliver.notify_one(),
            Action::Log { source, note } => log_note(self.name(source), &note),
            Action::AdoptAddress { source, url } => self.adopt_address(source, &url),
            Action::Forget(source) => drop(self.roster.remove(&source)),
            Action::Answer { request, answer } => match self.requests.remove(&request) {
                Some(reply) => drop(reply.send(answer)),
                None => {
                    let refused = |refusal| format!("refused: {refusal}");
                    let answer = answer.map_or_else(refused, |()| "accepted".to_owned());
                    self.write(Write::Answer { request, answer });
                }
            },
            Action::WakeAt(at) => {
                self.alarm.set(at);
                self.alarm_expired = false;
            }
        }
    }

    fn persist(&mut self, persist: Persist, ended: &mut Option<Box<Finished>>) {
        let write = match persist {
            Persist::Pardoned(result) => {
                let lifted: Vec<_> = result.lifted.iter().map(|(limit, _)| limit.name()).collect();
                tracing::info!(whom = ?result.whom, ?lifted, "pardoned by the user");
                pardon::writes(&result).into_iter().for_each(|write| self.write(write));
                return;
            }
            Persist::Started(attempts) => {
                self.awaited.push_back(self.channels.mark.now());
                Write::Started(attempts)
            }
            Persist::Cancelled(source) => {
                self.shown.cancelled += 1;
                Write::Cancelled(source)
            }
            Persist::Ended(result) => match ended.take() {
                Some(finished) => {
                    self.awaited.push_back(self.channels.mark.now());
                    self.record(finished, *result)
                }
                None => return,
            },
            Persist::Due(due) => Write::Due(due),
            Persist::FirstDue(due) => Write::FirstDue(due),
            Persist::Backoff(change) => Write::Backoff(change),
            Persist::SuspicionOver(source) => Write::SuspicionOver(source),
            Persist::Plans(plans) => Write::Plans(plans),
            Persist::Note { at, source, note } => {
                match event(source, at, &note, |to| self.shown(source, to)) {
                    Some(event) => Write::Event(event),
                    None => return,
                }
            }
            Persist::Load(load) => Write::Load(load),
            Persist::Price(price) => Write::Price(price),
            Persist::ClockSet { by, at } => {
                let correction = Correction { at, by, found: CorrectionFound::Running };
                tracing::warn!("the clock was {correction}; the schedule moves with it");
                Write::ClockSet(correction, ClockSeen::now(&self.clock))
            }
        };
        self.write(write);
    }

    /// Builds the write for a finished probe and its result.
    fn record(&mut self, mut finished: Box<Finished>, result: ProbeResult) -> Write {
        if result.discarded {
            *finished = finished.discarded();
        }
        // Matches are delivered under the current rules.
        finished.rules = Arc::clone(&self.rules);
        self.shown.probes += 1;
        let found = finished.observation.as_ref().map_or(0, |seen| seen.updates.len());
        self.shown.updates += found as u64;
        let source = self.roster.get(&finished.attempt.source).map_or("", |spec| &spec.source.name);
        let memory = &result.memory;
        match result.own_failure {
            true => self.activity.failed_by_our_fault(source, &finished),
            false => self.activity.probe_ended(source, &finished, memory.error_streak, memory.due.at()),
        }
        Write::Ended(Box::new(probe_record(*finished, result)))
    }

    fn name(&self, id: SourceId) -> &str {
        self.roster.get(&id).map_or("", |spec| &spec.source.name)
    }

    /// An address of the source without secrets.
    fn shown(&self, id: SourceId, address: &str) -> String {
        let source = self.roster.get(&id).map(|spec| &spec.source);
        source.map_or_else(|| address::shown(address, true), |source| source.shown(address))
    }

    fn adopt_address(&mut self, id: SourceId, to: &str) {
        let (Some(spec), Ok(url)) = (self.roster.get_mut(&id), url::Url::parse(to)) else { return };
        let address = spec.source.shown(to);
        tracing::info!(
            source = %spec.source.name, %address,
            "permanent redirect: probes go to {address}; change `url` in the configuration"
        );
        spec.adopted = Some(Box::new(url.into()));
    }

    fn request(&mut self, ProbeRequest { number: request, source, answer }: ProbeRequest) {
        if let Some(answer) = answer {
            self.requests.insert(request, answer);
        }
        self.handle(EngineEvent::ProbeRequested { source, request });
    }

    fn redirected(&mut self, Redirection { source, to, answer }: Redirection) {
        self.redirects.insert(source, answer);
        self.handle(EngineEvent::ProbeRedirected { source, to });
        // If the engine does not know the probe, the closed channel ends it.
        self.redirects.remove(&source);
    }

    fn stop(&mut self) {
        if !std::mem::replace(&mut self.stopping, true) {
            let in_progress = self.engine.in_progress();
            tracing::info!(in_progress, "stopping: finishing what is under way");
            self.handle(EngineEvent::Stopping);
        }
    }

    fn apply(&mut self, new: Reconfiguration) {
        if new.fetcher.is_some() {
            self.fetcher = new.fetcher;
        }
        let mut added = Vec::with_capacity(new.added.len());
        let now = self.watch_clock();
        let by = self.corrected - new.corrected;
        for (mut known, spec) in new.added {
            if by != Span::ZERO {
                known.memory.shift(by, now);
                known.probes.iter_mut().for_each(|at| *at += by);
            }
            let before = self.roster.insert(known.id, spec.clone());
            // The source was removed and added again with another URL, while a probe of the old URL is in
            // progress.
            if before.is_some_and(|before| before.address() != spec.address()) {
                known.moved = Moved::Elsewhere;
            }
            added.push(known);
        }
        let mut changed = Vec::with_capacity(new.changed.len());
        for (mut change, spec) in new.changed {
            change.probes.iter_mut().for_each(|at| *at += by);
            self.roster.insert(change.id, spec);
            changed.push(change);
        }
        if let Some(usual) = new.learning {
            for spec in self.roster.values_mut() {
                spec.learning = learning_of(&usual, &spec.source);
            }
        }
        let rules = new.rules.map(|rules| {
            self.rules = rules;
            self.write(Write::Rules(self.rules.names()));
            rule_set(&self.rules, &self.roster)
        });
        let (params, removed, replan) = (new.params, new.removed, new.replan);
        self.handle(EngineEvent::Configured(Box::new(Configuration {
            params,
            added,
            changed,
            removed,
            rules,
            replan,
        })));
        self.write(Write::Event(StoredEvent {
            at: self.clock.now(),
            kind: "reloaded",
            source: None,
            detail: Some(new.summary.clone()),
        }));
        tracing::info!("reloaded: {}", new.summary);
        self.shown.last_reload = Some(new.summary);
        let _ = new.applied.send(());
    }

    fn show(&mut self) {
        self.shown.iterations += 1;
        self.shown.sources = self.engine.len();
        self.shown.in_progress = self.engine.in_progress();
        self.shown.next_step = self.engine.next_start();
        self.shown.stalled = match &*self.channels.health.borrow() {
            Health::Well => None,
            Health::Stalled(why) => Some(why.clone()),
        };
        self.mark_progress();
        self.channels.progress.send_replace(self.shown.clone());
    }

    /// For the watchdog: since when a commit or a step that is due is awaited.
    fn mark_progress(&mut self) {
        let (mark, now) = (&self.channels.mark, self.clock.now());
        let due = self.engine.next_start().filter(|&at| at <= now);
        // Of the same step: a busy daemon may always have one that is due.
        self.step_due_since = due.map(|due| match self.step_due_since {
            Some((same, since)) if same == due => (due, since),
            _ => (due, mark.now()),
        });
        let due_since = self.step_due_since.map(|(_, since)| since);
        let waits_since = [self.awaited.front().copied(), due_since].into_iter().flatten().min();
        mark.iterated(waits_since, self.shown.stalled.is_some());
    }

    fn write(&self, write: Write) {
        // The task that joins the writer notices its end.
        let _ = self.channels.writes.send(write);
    }
}
