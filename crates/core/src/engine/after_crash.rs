//! What an engine does about sources that may have ended the process before.
//!
//! Must not know in which order suspects are probed.

use crate::source_id::SourceId;
use crate::time::Timestamp;

use super::action::{Action, Attempt, BackoffChange, Persist};
use super::crash_suspects::{ALONE_AFTER, CrashSuspects};
use super::event::{CrashEvidence, CrashSuspect, Failure};
use super::note::Note;
use super::source::{ProbeProposal, Source};
use super::state::Engine;

impl Engine {
    /// Takes the sources that may have ended the process before. One that was alone in progress gets a backoff.
    pub(super) fn suspect(
        &mut self,
        suspects: Vec<CrashSuspect>,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let known: Vec<CrashSuspect> =
            suspects.into_iter().filter(|suspect| self.sources.get(&suspect.source).is_some()).collect();
        self.crash_suspects = CrashSuspects::new(&known);
        for CrashSuspect { source, deaths, evidence } in known {
            if evidence == CrashEvidence::Alone && deaths >= ALONE_AFTER {
                self.back_off_after_death(source, deaths, now, actions);
            }
        }
    }

    fn back_off_after_death(
        &mut self,
        id: SourceId,
        deaths: u32,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let seed = self.seed;
        let Some(source) = self.sources.get_mut(&id) else { return };
        // A source that is not probed by itself needs no backoff.
        let Some(due) = source.memory.due.at() else { return };
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        source.fail(Failure::Unreadable, now, seed);
        let (because, by) = (source.memory.reason, source.memory.burst.asked_by);
        source.set_due(&self.hosts, ProbeProposal { at: due.max(now), because, by });
        source.enqueue(&mut self.hosts);
        let memory = &source.memory;
        actions.push(Action::Persist(Persist::Backoff(Box::new(BackoffChange {
            state: memory.state,
            error_streak: memory.error_streak,
            until: memory.backoff_until,
            due: source.due_change(),
        }))));
        let until = memory.due.at().unwrap_or(now);
        self.reindex_deadline(id);
        self.persist_notes(id, now, Some(Note::DiedAlone { deaths, until }), actions);
    }

    /// Starts the source that must be alone, as soon as nothing else is in progress.
    pub(super) fn start_alone(&mut self, id: SourceId, now: Timestamp) -> Option<Attempt> {
        if self.in_progress > 0 {
            return None;
        }
        let is_due = |source: &&mut Box<Source>| source.memory.due.at().is_some_and(|due| due <= now);
        let Some(source) = self.sources.get_mut(&id).filter(is_due) else {
            self.crash_suspects.not_started(id);
            return None;
        };
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        self.start(id, now)
    }

    /// Queues the suspects that may start now.
    pub(super) fn queue_suspects(&mut self, now: Timestamp) {
        for id in self.crash_suspects.take_next(now) {
            // It may have been queued meanwhile.
            if let Some(source) = self.sources.get_mut(&id).filter(|source| source.is_idle()) {
                source.enqueue(&mut self.hosts);
            }
        }
    }
}
