//! What an engine does about sources that may have ended the process before.
//!
//! Must not know in which order suspects are probed.

use crate::source_id::SourceId;
use crate::time::Timestamp;

use super::action::{Action, Attempt, BackoffChange, Persist};
use super::crash_suspects::ALONE_AFTER;
use super::event::{CrashSuspect, Failure};
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
        for CrashSuspect { source: id, deaths, alone } in suspects {
            if self.sources.get(&id).is_none() {
                continue;
            }
            self.crash_suspects.add(id, deaths);
            if alone && deaths >= ALONE_AFTER {
                self.back_off_after_death(id, deaths, now, actions);
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
        source.fail(Failure::Unreadable, now, false, seed);
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

    /// A probe is over: the next suspect is queued, and others may start again.
    pub(super) fn release_suspect(&mut self, id: SourceId) {
        let Some(next) = self.crash_suspects.over(id) else { return };
        // It may have been removed or queued meanwhile.
        if let Some(source) = self.sources.get_mut(&next).filter(|source| source.is_idle()) {
            source.enqueue(&mut self.hosts);
        }
    }
}
