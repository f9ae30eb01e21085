//! Sources whose next probe must start by a certain time: kept in the order of their deadlines, noticed when
//! one passes.

use crate::source_id::SourceId;
use crate::time::Timestamp;

use super::condition::Condition;
use super::memory::Due;
use super::note::Note;
use super::reason::Reason;
use super::source::ProbeWish;
use super::state::Engine;

impl Engine {
    /// Notes the deadline of a source anew.
    pub(super) fn tend(&mut self, id: SourceId) {
        if let Some(member) = self.members.get_mut(&id) {
            let hosts = &self.hosts;
            let looked = member.memory.looked;
            self.tardiness.tend(member, &self.params, looked, |member, at| member.ask_gate(hosts, at).at);
            if member.condition().is_in_progress() {
                self.tardiness.sent(member);
            }
        }
    }

    /// Notes all of them anew: the steps are others.
    pub(super) fn tend_all(&mut self, now: Timestamp) {
        let step = self.step_length().step_of(now);
        self.tardiness.restart(&self.params, step);
        let bound = self.members.values().filter(|member| member.terms.max_gap.is_some());
        for id in bound.map(|member| member.id).collect::<Vec<_>>() {
            // What it is noted as is gone with the old steps.
            let before = self.members.get_mut(&id).and_then(|member| member.bed.take());
            self.tend(id);
            let noted = self.members.get_mut(&id).filter(|member| member.bed.is_some());
            if let (Some(member), Some(before)) = (noted, before) {
                self.tardiness.resume(member, before.seen, before.said);
                self.tend(id);
            }
        }
        self.tardiness.settle();
    }

    /// Many came or went. These were noted while it was not known yet which others there are at their hosts.
    pub(super) fn settle_deadlines(&mut self, came: &[SourceId], now: Timestamp) {
        for &id in came {
            self.tend(id);
            self.bring_forward(id, now);
        }
        self.tardiness.settle();
    }

    /// A source with a deadline before its due time is due sooner, yet not at once.
    pub(super) fn bring_forward(&mut self, id: SourceId, now: Timestamp) {
        let member = self.members.get_mut(&id).filter(|member| !member.condition().is_in_progress());
        let Some(member) = member else { return };
        let Some(look_at) = member.bed.as_ref().map(|bed| bed.look_at) else { return };
        let soon = now + member.cautious_gap().scaled(0.1 * member.chance(self.seed, "changed", now));
        let look_at = look_at.max(soon);
        let is_later = match member.memory.due {
            Due::At(due) => due > look_at,
            Due::Stopped => true,
            Due::Unscheduled => false,
        };
        if member.memory.reason == Reason::FirstContact || !is_later {
            return;
        }
        member.withdraw(&mut self.hosts, &mut self.turns);
        let by = member.memory.life.asked_by;
        member.set_due(&self.hosts, ProbeWish { at: look_at, because: Reason::MaxGap, by });
        member.enqueue(&mut self.hosts);
    }

    /// Notices deadlines that have passed.
    pub(super) fn watch_deadlines(&mut self, now: Timestamp) {
        while let Some((by, id)) = self.tardiness.pop_passed(now) {
            let Some(member) = self.members.get_mut(&id) else { continue };
            let why = member.ask_gate(&self.hosts, by).binding;
            self.tardiness.mark_tardy(member, Some(Note::Tardy { by, why }));
        }
    }

    /// Sources whose deadlines have come wait before others, whatever else they waited for.
    pub(super) fn promote_due_deadlines(&mut self, now: Timestamp) {
        // Before anything is sent that is late already.
        self.watch_deadlines(now);
        let step = self.step_length().step_of(now);
        self.tardiness.turn_to(step);
        while let Some(id) = self.tardiness.pop_due(step) {
            let Some(member) = self.members.get_mut(&id) else { continue };
            if member.condition().waits_for_slot() {
                member.withdraw(&mut self.hosts, &mut self.turns);
                member.wait_for_slot(&mut self.turns, self.mean.prior(), now);
            }
        }
    }

    /// Sources to be probed before their deadlines come, because the coming steps will not have enough for all.
    pub(super) fn early(&mut self, now: Timestamp) -> Vec<SourceId> {
        let left = (self.slots_left(), self.room());
        let Self { tardiness, members, hosts, turns, params, .. } = self;
        let may = |place: usize| {
            let member = turns.who(place as u32).and_then(|id| members.get(&id));
            member.is_some_and(|member| {
                !member.condition().is_in_progress()
                    && member.condition() != Condition::Parked
                    && member.is_well()
                    && member
                        .bed
                        .as_ref()
                        .is_some_and(|bed| now - bed.seen >= member.terms.budget.even_gap())
                    && member.ask_gate(hosts, now).at <= now
                    && hosts.open_from(member.host).is_some_and(|from| from <= now)
            })
        };
        let places = tardiness.early(left, params, may);
        places.into_iter().filter_map(|place| self.turns.who(place as u32)).collect()
    }
}
