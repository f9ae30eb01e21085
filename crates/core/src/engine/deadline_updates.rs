//! Indexes the deadlines of sources, and detects deadlines that pass.

use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::note::Note;
use super::reason::Reason;
use super::source::ProbeProposal;
use super::source_memory::Due;
use super::state::Engine;
use super::wait_state::Condition;

/// Probes that a change of the configuration moves forward are spread over a tenth of this, or of a shorter
/// allowed gap.
const SPREAD_WITHIN: Span = Span::from_hours(1);

impl Engine {
    /// Indexes the deadline of a source again.
    pub(super) fn reindex_deadline(&mut self, id: SourceId) {
        if let Some(source) = self.sources.get_mut(&id) {
            let hosts = &self.hosts;
            let last_success = source.memory.last_success;
            self.deadlines
                .reindex(source, &self.params, last_success, |source, at| source.ask_gate(hosts, at).at);
            if source.condition().is_in_progress() {
                self.deadlines.mark_sent(source);
            }
        }
    }

    /// Indexes all deadlines again, after the steps changed.
    pub(super) fn reindex_deadlines(&mut self, now: Timestamp) {
        let step = self.step_length().step_of(now);
        self.deadlines.restart(&self.params, step);
        let bound = self.sources.values().filter(|source| source.terms.max_gap.is_some());
        for id in bound.map(|source| source.id).collect::<Vec<_>>() {
            // The old index entries are gone with the old steps.
            let before = self.sources.get_mut(&id).and_then(|source| source.deadline.take());
            self.reindex_deadline(id);
            let noted = self.sources.get_mut(&id).filter(|source| source.deadline.is_some());
            if let (Some(source), Some(before)) = (noted, before) {
                self.deadlines.resume(source, before.seen, before.reported);
                self.reindex_deadline(id);
            }
        }
        self.deadlines.recompute();
    }

    /// Indexes these deadlines again after many sources were added or removed: the number of sources per
    /// host was incomplete before.
    pub(super) fn recompute_deadlines(&mut self, came: &[SourceId], now: Timestamp) {
        for &id in came {
            self.reindex_deadline(id);
            self.bring_forward(id, now);
        }
        self.deadlines.recompute();
    }

    /// Moves the due time of a source forward to its deadline, but not to the present.
    pub(super) fn bring_forward(&mut self, id: SourceId, now: Timestamp) {
        let source = self.sources.get_mut(&id).filter(|source| !source.condition().is_in_progress());
        let Some(source) = source else { return };
        let Some(probe_at) = source.deadline.as_ref().map(|deadline| deadline.probe_at) else { return };
        let gap = source.terms.max_gap.map_or(SPREAD_WITHIN, |gap| gap.min(SPREAD_WITHIN));
        let soon = now + gap.scaled(0.1 * source.unit_random(self.seed, "changed", now));
        let probe_at = probe_at.max(soon);
        let is_later = match source.memory.due {
            Due::At(due) => due > probe_at,
            Due::Stopped => true,
            Due::Unscheduled => false,
        };
        if source.memory.reason == Reason::FirstContact || !is_later {
            return;
        }
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        let by = source.memory.burst.asked_by;
        source.set_due(&self.hosts, ProbeProposal { at: probe_at, because: Reason::MaxGap, by });
        source.enqueue(&mut self.hosts);
    }

    /// Marks sources whose deadlines have passed.
    pub(super) fn collect_passed_deadlines(&mut self, now: Timestamp) {
        while let Some((by, id)) = self.deadlines.pop_passed(now) {
            let Some(source) = self.sources.get_mut(&id) else { continue };
            let why = source.ask_gate(&self.hosts, by).binding;
            self.deadlines.mark_tardy(source, Some(Note::Tardy { by, why }));
        }
    }

    /// Moves sources whose deadlines take precedence to the front of the slot queue.
    pub(super) fn promote_due_deadlines(&mut self, now: Timestamp) {
        // Before a late probe is sent.
        self.collect_passed_deadlines(now);
        let step = self.step_length().step_of(now);
        self.deadlines.advance_to(step);
        while let Some(id) = self.deadlines.pop_due(step) {
            let Some(source) = self.sources.get_mut(&id) else { continue };
            if source.condition().waits_for_slot() {
                source.withdraw(&mut self.hosts, &mut self.slot_queue);
                source.wait_for_slot(&mut self.slot_queue, self.fleet_mean.prior(), now);
            }
        }
    }

    /// Sources to probe before their deadlines, because the coming steps lack capacity for all.
    pub(super) fn chosen_early(&mut self, now: Timestamp) -> Vec<SourceId> {
        let left = (self.slots_left(), self.room());
        let Self { deadlines, sources, hosts, slot_queue, params, .. } = self;
        let may = |place: usize| {
            let source = slot_queue.source_at(place as u32).and_then(|id| sources.get(&id));
            source.is_some_and(|source| {
                !source.condition().is_in_progress()
                    && *source.condition() != Condition::Parked
                    && source.is_well()
                    && source
                        .deadline
                        .as_ref()
                        .is_some_and(|deadline| now - deadline.seen >= source.terms.budget.even_gap())
                    && source.ask_gate(hosts, now).at <= now
                    && hosts.open_from(source.host).is_some_and(|from| from <= now)
            })
        };
        let places = deadlines.early(left, params, may);
        places.into_iter().filter_map(|place| self.slot_queue.source_at(place as u32)).collect()
    }
}
