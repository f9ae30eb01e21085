//! The engine's only entry point: an event in, actions out.

use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::action::{Action, DueChange, Persist, Refusal};
use super::event::{Committed, EngineEvent};
use super::loading::LOADS_EVERY;
use super::note::Note;
use super::slot_stats::SlotStats;
use super::state::Engine;

impl Engine {
    /// Processes an event and appends the actions that follow, in order.
    ///
    /// Equal engines with equal events at equal times return equal actions.
    pub fn handle(&mut self, now: Timestamp, event: EngineEvent, actions: &mut Vec<Action>) {
        match event {
            EngineEvent::Tick => self.tick(now, actions),
            EngineEvent::Committed(Committed::Started(sources)) => {
                for id in sources {
                    self.start_committed(id, now, actions);
                }
            }
            EngineEvent::Committed(Committed::Ended(source)) => self.end_committed(source, actions),
            EngineEvent::ProbeEnded(report) => self.end_probe(*report, actions),
            EngineEvent::ProbeRedirected { source, to } => self.redirect(source, &to, now, actions),
            EngineEvent::PlansReady(ready) => self.take_plans(ready, now, actions),
            EngineEvent::RatesFitted(sources) => self.rates_fitted(&sources),
            EngineEvent::Configured(new) => self.configure(*new, now, actions),
            EngineEvent::ProbeRequested { source, request } => {
                actions.push(Action::Answer { request, answer: self.request(source, now) });
            }
            EngineEvent::Pardoned { whom, request } => self.pardon(whom, request, now, actions),
            EngineEvent::ClockSet { by } => self.clock_set(by, now, actions),
            EngineEvent::Died(suspects) => self.suspect(suspects, now, actions),
            EngineEvent::Stopping => self.stopping = true,
        }
        self.report_deadlines(now, actions);
        self.report_load(now, actions);
        if let Some(price) = self.prices.recompute_if_due(self.params.pricing, now) {
            actions.push(Action::Persist(Persist::Price(price)));
        }
        self.request_plans(now, actions);
        self.ask_to_wake(now, actions);
    }

    fn tick(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.wake = None;
        if !self.stopping && self.step_due.is_some_and(|at| at <= now) {
            self.step_due = None;
            self.hand_out_slots(now, actions);
        }
    }

    /// Requests a probe. The gate applies to it as to any other.
    fn request(&mut self, id: SourceId, now: Timestamp) -> Result<(), Refusal> {
        let source = self.sources.get_mut(&id).ok_or(Refusal::Unknown)?;
        if source.condition().is_in_progress() {
            return Err(Refusal::InFlight);
        }
        let verdict = source.ask_gate(&self.hosts, now);
        if let Some(constraint) = verdict.binding {
            return Err(Refusal::Until { constraint, until: verdict.at });
        }
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        source.request(now);
        source.enqueue(&mut self.hosts);
        Ok(())
    }

    fn clock_set(&mut self, by: Span, now: Timestamp, actions: &mut Vec<Action>) {
        self.shift(by, now);
        actions.push(Action::Persist(Persist::ClockSet { by, at: now }));
    }

    /// Reports deadlines that have passed.
    fn report_deadlines(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.collect_passed_deadlines(now);
        for (source, note) in self.deadlines.take_passed() {
            self.persist_notes(source, now, Some(note), actions);
        }
    }

    /// Stores slot statistics at regular intervals.
    fn report_load(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        if now < self.stats_at && now >= self.stats_at - LOADS_EVERY {
            return;
        }
        self.stats_at = now + LOADS_EVERY;
        let next = SlotStats { waiting: self.slot_stats.waiting, ..SlotStats::new(now) };
        let overdue = self.deadlines.tardy;
        let load = SlotStats { until: now, overdue, ..std::mem::replace(&mut self.slot_stats, next) };
        if !load.is_idle() {
            actions.push(Action::Persist(Persist::Load(load)));
        }
    }

    /// Requests a tick for the next time at which there is work, if that time changed.
    fn ask_to_wake(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        // Slots that could be assigned before now still can.
        if self.stopping {
            self.step_due = None;
        } else if self.step_due.is_none_or(|at| at > now) {
            self.step_due = self.next_step(now);
        }
        let deadline = self.deadlines.next_passing().map(|by| by + Span::from_millis(1));
        let load = (!self.slot_stats.is_idle()).then_some(self.stats_at);
        let wake = [self.step_due, deadline, load].into_iter().flatten().min();
        if wake != self.wake {
            self.wake = wake;
            actions.push(Action::WakeAt(wake));
        }
    }

    /// Logs and stores an event that belongs to no probe.
    pub(super) fn persist_notes(
        &self,
        source: SourceId,
        at: Timestamp,
        notes: impl IntoIterator<Item = Note>,
        actions: &mut Vec<Action>,
    ) {
        for note in notes {
            actions.push(Action::Log { source, note: note.clone() });
            actions.push(Action::Persist(Persist::Note { at, source, note }));
        }
    }

    /// Stores the due times of these sources.
    pub(super) fn persist_due(&self, sources: &[SourceId], actions: &mut Vec<Action>) {
        let due = sources.iter().filter_map(|id| Some(self.sources.get(id)?.due_change()));
        let due: Vec<DueChange> = due.collect();
        if !due.is_empty() {
            actions.push(Action::Persist(Persist::Due(due)));
        }
    }
}
