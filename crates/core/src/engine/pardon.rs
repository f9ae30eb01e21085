//! Lifts what a server asked for, or a backoff, because the user says so.
//!
//! Nothing else ends a `Retry-After` before its time. The budget and the spacing still hold. Must not know how the
//! user asked.

use std::sync::Arc;

use crate::source_id::SourceId;
use crate::time::Timestamp;

use super::action::{Action, PardonResult, Persist};
use super::constraint::Constraint;
use super::event::Pardon;
use super::reason::{Reason, SourceState};
use super::source::Source;
use super::source_memory::Due;
use super::state::Engine;

impl Engine {
    /// Lifts the limits of a source or a host group, and says which.
    pub(super) fn pardon(&mut self, whom: Pardon, request: i64, now: Timestamp, actions: &mut Vec<Action>) {
        let (lifted, again) = match &whom {
            Pardon::Source(id) => (self.pardon_source(*id, now), vec![*id]),
            Pardon::Host(key) => self.pardon_host(key, now),
        };
        let state = match &whom {
            Pardon::Source(id) => self.sources.get(id).map(|source| source.memory.state),
            Pardon::Host(_) => None,
        };
        if !lifted.is_empty() {
            again.iter().for_each(|&id| self.reschedule(id, now));
            self.persist_due(&again, actions);
        }
        actions.push(Action::Persist(Persist::Pardoned(PardonResult {
            request,
            at: now,
            whom,
            lifted,
            state,
        })));
    }

    fn pardon_source(&mut self, id: SourceId, now: Timestamp) -> Vec<(Constraint, Timestamp)> {
        let Some(source) = self.sources.get_mut(&id) else { return Vec::new() };
        let memory = &mut source.memory;
        let lifted = [
            (Constraint::RetryAfter, memory.retry_until.take()),
            (Constraint::Backoff, memory.backoff_until.take()),
        ];
        let lifted: Vec<_> = lifted
            .into_iter()
            .filter_map(|(limit, until)| Some((limit, until.filter(|&until| until > now)?)))
            .collect();
        let paused = matches!(memory.state, SourceState::Backoff | SourceState::Resting);
        if !lifted.is_empty() && paused && memory.due != Due::Stopped {
            memory.error_streak = 0;
            source.memory.state = source.state_when_well();
        }
        self.hosts.forget_refusal(source.host, id);
        lifted
    }

    /// The sources whose due time was that of the pause are to be scheduled again.
    fn pardon_host(
        &mut self,
        key: &Arc<str>,
        now: Timestamp,
    ) -> (Vec<(Constraint, Timestamp)>, Vec<SourceId>) {
        let Some(host) = self.hosts.known(key) else { return Default::default() };
        let lifted = self.hosts.lift_pause(host).filter(|&until| until > now);
        let deferred = |id: &SourceId| {
            let reason = self.sources.get(id).map(|source| source.memory.reason);
            reason == Some(Reason::Constraint(Constraint::HostPause))
        };
        let again = self.hosts.waiting(host).filter(deferred).collect();
        (lifted.map(|until| (Constraint::HostPause, until)).into_iter().collect(), again)
    }

    /// Sets the due time by the policy again.
    fn reschedule(&mut self, id: SourceId, now: Timestamp) {
        let (seed, terms) = (self.seed, self.params.burst);
        let Some(source) = self.sources.get_mut(&id) else { return };
        let Source { memory, spent, .. } = &**source;
        let last = spent.last().max(memory.last_probe);
        let (Some(last), false, false) =
            (last, source.condition().is_in_progress(), memory.due == Due::Stopped)
        else {
            return;
        };
        let mut proposal = source.proposal(last, seed, &terms);
        proposal.at = proposal.at.max(now);
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        source.set_due(&self.hosts, proposal);
        source.enqueue(&mut self.hosts);
        self.reindex_deadline(id);
    }
}
