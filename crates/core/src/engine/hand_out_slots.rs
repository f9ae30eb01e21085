//! Assigns the slots of a step.
//!
//! A source gets a slot only if its gate is open and its host is free. First come probes with a deadline
//! that takes precedence: of a rule, or of the longest allowed gap. Some of the latter come early if a
//! shortage of slots is forecast (`deadline_index`). Then come due sources; if there are too many, those
//! whose delay costs most go first, and the others wait. Sampled sources get the remaining slots. The cost
//! of a step grows with the probes sent and the sources newly due, not with the length of the queue.

use crate::source_id::SourceId;
use crate::time::Timestamp;

use super::action::{Action, Attempt, Persist};
use super::crash_suspects::Admission;
use super::reason::Reason;
use super::source_memory::Due;
use super::state::Engine;
use super::wait_state::{Condition, InProgress, SlotClass};
use super::wait_transitions::closed_until;

impl Engine {
    /// Starts the probes of this step: sources with deadlines, early ones, due ones, then sampled ones.
    /// Each needs a free slot, an open gate and a free host.
    pub(super) fn hand_out_slots(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        self.begin_step(now);
        self.allowance = self.outage.allowance(now);
        let mut started = Vec::new();
        if self.slots_left() == 0 {
            return;
        }
        if self.slot_queue.is_full(now) {
            self.requeue_for_slots(now);
        }
        self.promote_due_deadlines(now);
        self.queue_suspects(now);
        self.release_due(now, &mut started);
        if let Some(id) = self.crash_suspects.alone() {
            started.extend(self.start_alone(id, now));
        }
        if self.crash_suspects.alone().is_none() {
            self.start_class(SlotClass::Deadline, now, &mut started);
            self.start_early(now, &mut started);
            self.start_class(SlotClass::Due, now, &mut started);
            self.start_class(SlotClass::Sampled, now, &mut started);
        }
        self.slot_stats.waiting = self.slot_queue.waiting() as u64;
        if !started.is_empty() {
            actions.push(Action::Persist(Persist::Started(started)));
        }
    }

    fn begin_step(&mut self, now: Timestamp) {
        let step = self.step_length().step_of(now);
        if self.slots.0 != step {
            // The excess of an expensive probe is charged to later steps.
            let passed = step.0.saturating_sub(self.slots.0.0).max(0) as f64;
            let charged = self.params.capacity.map_or(self.work, |capacity| capacity * passed);
            let excess = self.work - charged;
            // Ignores rounding errors.
            (self.slots, self.work) = ((step, 0), if excess > 1e-9 { excess } else { 0.0 });
        }
    }

    fn start_early(&mut self, now: Timestamp, started: &mut Vec<Attempt>) {
        for id in self.chosen_early(now) {
            let Some(source) = self.sources.get_mut(&id) else { continue };
            source.withdraw(&mut self.hosts, &mut self.slot_queue);
            (source.memory.due, source.memory.reason, source.ready_at) =
                (Due::At(now), Reason::MaxGap, now);
            started.extend(self.start(id, now));
        }
    }

    /// Starts sources of a slot class, as many as the step has slots and capacity for.
    fn start_class(&mut self, class: SlotClass, now: Timestamp, started: &mut Vec<Attempt>) {
        // Nothing starts beside a probe that must be alone.
        while self.crash_suspects.alone().is_none() {
            let most = self.affordable();
            let chosen = self.slot_queue.choose(class, now, most);
            let (wanted, before, mut full) = (chosen.len(), started.len(), false);
            for id in chosen {
                full |= class == SlotClass::Deadline && !self.fits(id);
                if full {
                    // It goes first in the next step.
                    if let Some(source) = self.sources.get_mut(&id) {
                        source.wait_for_slot(&mut self.slot_queue, self.fleet_mean.prior(), now);
                    }
                } else {
                    started.extend(self.start(id, now));
                }
            }
            let all_went = started.len() - before == wanted;
            // Slots of deferred sources are free for others.
            if full || wanted == 0 || all_went && (wanted < most || self.params.capacity.is_none()) {
                return;
            }
        }
    }

    /// About how many probes the step has capacity for.
    fn affordable(&self) -> usize {
        let slots = self.slots_left() as usize;
        // The mean probe costs 1.
        self.room().map_or(slots, |room| slots.min(room.ceil() as usize))
    }

    /// True if the probe fits the step's remaining capacity. The first probe of a step always fits; the
    /// excess is charged to later steps.
    fn fits(&self, id: SourceId) -> bool {
        // Not by `work`, which holds the excess of earlier steps too: sources without a deadline would then pass
        // it on for ever, and none with one would fit.
        let Some(room) = self.room().filter(|_| self.slots.1 > 0) else { return true };
        self.cost(id).is_none_or(|cost| cost <= room + 1e-9)
    }

    /// Moves due sources to the slot queue. A requested probe is started at once.
    fn release_due(&mut self, now: Timestamp, started: &mut Vec<Attempt>) {
        while let Some((host, id, parked)) = self.hosts.pop(now) {
            let expected = if parked { Condition::Parked } else { Condition::Queued };
            // A source with another condition, or a removed one, is skipped.
            let source = self.sources.get_mut(&id).filter(|source| *source.condition() == expected);
            let Some(source) = source else {
                self.hosts.open_queue(host);
                continue;
            };
            source.leave();
            if source.defer_if_gated(&mut self.hosts, now) {
                self.hosts.open_queue(host);
                continue;
            }
            // A pause or a busy host does not count as lateness.
            let closed = self.hosts.paused_until(host).max(self.hosts.closed_until_known(host));
            let ready = source.memory.due.at().max(closed).unwrap_or(now);
            source.ready_at = if parked { now } else { ready.min(now) };
            if source.memory.reason == Reason::Manual && self.slots.1 < self.params.probes_per_step {
                started.extend(self.start(id, now));
            } else {
                source.wait_for_slot(&mut self.slot_queue, self.fleet_mean.prior(), now);
            }
        }
    }

    /// Starts the probe of a selected source, unless the gate or a host has closed since.
    pub(super) fn start(&mut self, id: SourceId, now: Timestamp) -> Option<Attempt> {
        let source = self.sources.get_mut(&id)?;
        debug_assert!(!source.condition().is_in_progress(), "one at a time");
        let condition = source.leave();
        let sampled = condition == Condition::WaitsForSlot(SlotClass::Sampled);
        if source.defer_if_gated(&mut self.hosts, now) {
            self.crash_suspects.not_started(id);
            return None;
        }
        match self.crash_suspects.admit(id, self.in_progress, now) {
            Admission::Now => {}
            Admission::LaterInQueue => {
                source.wait_for_slot(&mut self.slot_queue, self.fleet_mean.prior(), now);
                return None;
            }
            Admission::AfterSuspect => {
                self.hosts.open_queue(source.host);
                return None;
            }
        }
        let (host, also) = source.hosts();
        let goes_last = source.memory.reason != Reason::Manual && self.hosts.goes_last(host, id, now);
        let open = closed_until(&self.hosts, host, now).is_none() && !goes_last;
        if let Some(until) =
            open.then(|| self.hosts.claim_start(host, self.params.host_spacing, now).err()).flatten()
        {
            self.hosts.close_until(host, until);
        } else if open {
            let memory = &source.memory;
            let due = memory.due.at().max(self.hosts.paused_until(host)).map_or(now, |due| due.min(now));
            let (policy, reason) = (memory.burst.asked_by, memory.reason);
            let forecast = source.forecast(now);
            let attempt = Attempt { source: id, due, started: now, policy, reason, forecast };
            let probe = InProgress { attempt, hosts: (host, also), moved: false, deliver: false };
            source.begin(probe);
            self.reservations
                .release(source.pending_intervals.as_mut().and_then(|pending| pending.slot.take()));
            for host in [Some(host), also].into_iter().flatten() {
                self.hosts.occupy(host);
            }
            self.slots.1 += 1;
            self.outage.started();
            self.allowance = self.allowance.map(|left| left.saturating_sub(1));
            self.in_progress += 1;
            let cost = self.deadlines.cost(source, self.params.cost_by);
            self.work += cost;
            self.deadlines.mark_sent(source);
            self.slot_stats.sent(sampled, now - source.ready_at, self.params.step, cost);
            return Some(attempt);
        }
        source.park(&mut self.hosts, sampled);
        self.crash_suspects.not_started(id);
        None
    }

    /// When slots are next assigned; `None` while no source is queued.
    pub(super) fn next_step(&self, now: Timestamp) -> Option<Timestamp> {
        let length = self.step_length();
        let current = length.step_of(now);
        let boundary = length.start_of(current.plus(1));
        let spent = self.slots.0 == current && self.slots_left() == 0;
        let own = self.outage.next_start();
        if self.crash_suspects.alone().is_some() {
            // The end of the last probe in progress comes first.
            let next = if spent { boundary } else { now };
            return (self.in_progress == 0).then_some(own.map_or(next, |own| next.max(own)));
        }
        let next = [self.hosts.next(), self.crash_suspects.next_start()].into_iter().flatten().min();
        let next = next.map(|next| if spent { next.max(boundary) } else { next });
        // All sources that could be probed were started: the others need the next step's slots.
        let waiting = (self.slot_queue.waiting() > 0).then_some(boundary);
        // The same holds for early probes.
        let early = self.deadlines.next_early().map(|step| length.start_of(step));
        let early = early.map(|early| if self.slots.0 == current { early.max(boundary) } else { early });
        let first = [next, waiting, early].into_iter().flatten().min()?;
        Some(own.map_or(first, |own| first.max(own)))
    }
}
