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
use crate::config::profile::RulesConfig;
use crate::fetch::client::Fetcher;
use crate::store::attempts::RequestInputs;
use crate::store::record::EventRecord as StoredEvent;
use crate::store::writer::{Health, Receipt, Write};
use tidewatch_core::engine::action::{Action, Persist, ProbeResult, Refusal};
use tidewatch_core::engine::event::{Committed, Configuration, CrashSuspect, EngineEvent, Moved};
use tidewatch_core::engine::state::Engine;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::activity::{ActivityCounters, ActivityLog};
use super::messages::{Control, Launch, ProbeRequest, Reconfiguration};
use super::notes::{event, log_note};
use super::probe::Finished;
use super::probe_record::probe_record;
use super::record::{RecordTo, Recording};
use super::startup::{Roster, learning_of, rule_set};
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
    /// Of the probes that the engine sends in answer to the receipt being handled.
    request_inputs: HashMap<SourceId, RequestInputs>,
    stopping: bool,
    /// Since when each write is awaited whose receipt is outstanding, by the clock of the mark, in order.
    awaited: VecDeque<u64>,
    /// Since when a step is due.
    step_due_since: Option<u64>,
    shown: Progress,
    /// Reused buffer of actions; empty between events.
    actions: Vec<Action>,
    recording: Option<Recording>,
    activity: ActivityLog,
}

/// Largest number of messages of a kind that one iteration handles.
const TOGETHER: usize = 64;

/// Longest real time between two iterations of the loop.
const IDLE_ITERATION: Duration = Duration::from_millis(500);

impl Scheduler {
    /// A scheduler for this engine.
    pub fn new(
        engine: Engine,
        roster: Roster,
        clock: Clock,
        fetcher: Option<Fetcher>,
        rules: Arc<RulesConfig>,
        channels: Channels,
    ) -> Self {
        // Until the first tick.
        let mut pending = clock.pending_work();
        pending.set(1);
        Self {
            engine,
            roster,
            clock_watch: clock.watch(),
            fetcher,
            rules,
            channels,
            alarm: clock.alarm(),
            pending,
            planning: 0,
            alarm_expired: false,
            clock,
            requests: BTreeMap::new(),
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
                () = crate::clock::real_pause(IDLE_ITERATION) => self.watch_clock(),
            }
        }
    }

    /// Passes an event to the engine, and carries out the resulting actions.
    fn handle(&mut self, event: EngineEvent) {
        self.watch_clock();
        self.hand_over(event, None);
    }

    /// Passes a receipt of the store to the engine. What requests need is kept until they are sent.
    fn committed(&mut self, receipt: Receipt) {
        self.awaited.pop_front();
        let committed = match receipt {
            Receipt::Started(inputs) => {
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
    fn end(&mut self, finished: Box<Finished>) {
        self.watch_clock();
        self.hand_over(EngineEvent::ProbeEnded(Box::new(finished.report())), Some(finished));
    }

    /// Reports a change of the wall clock to the engine, before any later event.
    fn watch_clock(&mut self) {
        if let Some(by) = self.clock_watch.jumped() {
            let (which_way, by_how_much) = match by < Span::ZERO {
                true => ("back", Span::ZERO - by),
                false => ("forward", by),
            };
            tracing::warn!("the clock was set {which_way} by {by_how_much}; the schedule moves with it");
            self.hand_over(EngineEvent::ClockSet { by }, None);
        }
    }

    fn hand_over(&mut self, event: EngineEvent, mut ended: Option<Box<Finished>>) {
        let mut actions = std::mem::take(&mut self.actions);
        let now = self.clock.now();
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
                    inputs: self.request_inputs.remove(&attempt.source).unwrap_or_default(),
                    spec,
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
            Persist::Note { at, source, note } => match event(source, at, &note) {
                Some(event) => Write::Event(event),
                None => return,
            },
            Persist::Load(load) => Write::Load(load),
            Persist::Price(price) => Write::Price(price),
            Persist::ClockSet { by, at, since } => {
                self.write(Write::Shift { by, since });
                let detail = Some(by.to_string());
                Write::Event(StoredEvent { at, kind: "clock_set", source: None, detail })
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
        self.activity.probe_ended(source, &finished, memory.error_streak, memory.due.at());
        Write::Ended(Box::new(probe_record(*finished, result)))
    }

    fn name(&self, id: SourceId) -> &str {
        self.roster.get(&id).map_or("", |spec| &spec.source.name)
    }

    fn adopt_address(&mut self, id: SourceId, to: &str) {
        let (Some(spec), Ok(url)) = (self.roster.get_mut(&id), url::Url::parse(to)) else { return };
        tracing::info!(source = %spec.source.name, %to, "permanent redirect: probes go to the new address; change `url` in the configuration");
        spec.adopted = Some(Box::new(url.into()));
    }

    fn request(&mut self, ProbeRequest { number: request, source, answer }: ProbeRequest) {
        if let Some(answer) = answer {
            self.requests.insert(request, answer);
        }
        self.handle(EngineEvent::ProbeRequested { source, request });
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
        for (mut known, spec) in new.added {
            let before = self.roster.insert(known.id, spec.clone());
            // The source was removed and added again with another URL, while a probe of the old URL is in
            // progress.
            if before.is_some_and(|before| before.address() != spec.address()) {
                known.moved = Moved::Elsewhere;
            }
            added.push(known);
        }
        let mut changed = Vec::with_capacity(new.changed.len());
        for (change, spec) in new.changed {
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
        let is_due = self.engine.next_start().is_some_and(|at| at <= now);
        self.step_due_since = is_due.then(|| self.step_due_since.unwrap_or_else(|| mark.now()));
        let waits_since = [self.awaited.front().copied(), self.step_due_since].into_iter().flatten().min();
        mark.iterated(waits_since, self.shown.stalled.is_some());
    }

    fn write(&self, write: Write) {
        // The task that joins the writer notices its end.
        let _ = self.channels.writes.send(write);
    }
}
