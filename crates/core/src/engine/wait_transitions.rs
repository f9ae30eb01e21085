//! The scheduling condition of one source, and its transitions.
//!
//! A source waits for its due time in the queue of its host, then for a slot. The gate is checked before
//! each. Knows one source, the hosts and the slot queue; must not know other sources.

use std::cmp::Reverse;
use std::sync::Arc;

use crate::model::change_point_rate::RatePrior;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::action::DueChange;
use super::allocate::OpenSource;
use super::constraint::Constraint;
use super::deadline::Deadline;
use super::gate::{self, GateVerdict};
use super::hosts::{HostIx, Hosts};
use super::reason::Reason;
use super::slot_queue::{SlotDeadline, SlotQueue};
use super::source::{ProbeProposal, Source};
use super::source_memory::{Due, SourceMemory};
use super::wait_state::{Condition, InProgress, SlotClass};

/// How soon a busy host that redirects lead to is checked again.
const BUSY_AGAIN: Span = Span::from_secs(1);

impl Source {
    /// Its condition.
    pub fn condition(&self) -> &Condition {
        self.waiting.condition()
    }

    /// Whether it is in no queue and not in progress.
    pub fn is_idle(&self) -> bool {
        *self.condition() == Condition::Idle
    }

    /// The probe in progress, for changes.
    pub fn probe_mut(&mut self) -> Option<&mut InProgress> {
        self.waiting.probe_mut()
    }

    /// Marks the source as idle after a queue released it. Returns its condition before.
    pub fn leave(&mut self) -> Condition {
        self.waiting.leave()
    }

    /// Starts its probe.
    pub fn begin(&mut self, probe: InProgress) {
        self.waiting.enter(Condition::InProgress(Box::new(probe)));
    }

    /// Parks the source until its host opens.
    pub fn park(&mut self, hosts: &mut Hosts, sampled: bool) {
        self.waiting.enter(Condition::Parked);
        hosts.park(self.host, self.id, sampled);
    }

    /// Makes a requested probe due now.
    pub fn request(&mut self, now: Timestamp) {
        self.urgency = self.urgency.requested(self.memory.due == Due::Stopped);
        self.memory.due = Due::At(now);
        (self.memory.reason, self.memory.rule) = (Reason::Manual, None);
    }

    /// The first time at or after `wanted` that the gate allows.
    pub fn ask_gate(&self, hosts: &Hosts, wanted: Timestamp) -> GateVerdict {
        let paused = hosts.paused_until(self.host);
        gate::verdict(wanted, &self.memory, &self.spent, &self.terms.budget, paused)
    }

    /// Sets the due time to the first time that the gate allows at or after the proposal.
    pub fn set_due(&mut self, hosts: &Hosts, proposal: ProbeProposal) {
        let verdict = self.ask_gate(hosts, proposal.at);
        self.memory.due = Due::At(verdict.at);
        self.memory.reason = verdict.binding.map_or(proposal.because, Reason::Constraint);
        self.memory.burst.asked_by = proposal.by;
        let next = self.pending_intervals.as_ref().and_then(|pending| pending.next.as_ref());
        self.memory.rule =
            next.filter(|_| proposal.because == Reason::Rule).map(|next| Arc::clone(&next.name));
        self.urgency = self.urgency.due_for(proposal.because);
    }

    /// Its due time in the form that is stored.
    pub fn due_change(&self) -> DueChange {
        let SourceMemory { due, reason, rule, burst, .. } = &self.memory;
        DueChange {
            source: self.id,
            due: *due,
            reason: *reason,
            asked_by: burst.asked_by,
            rule: rule.clone(),
        }
    }

    /// Stops the source: no probe is due until one is requested.
    pub fn stop(&mut self) {
        (self.memory.due, self.memory.reason) = (Due::Stopped, Reason::Constraint(Constraint::Resting));
    }

    /// Queues the source at its host until its due time. If a probe is in progress, that happens when its
    /// end is committed.
    pub fn enqueue(&mut self, hosts: &mut Hosts) {
        if self.condition().is_in_progress() {
            return;
        }
        let condition = match self.memory.due {
            Due::At(due) => {
                hosts.push(self.host, due, self.id);
                Condition::Queued
            }
            Due::Unscheduled | Due::Stopped => Condition::Idle,
        };
        self.waiting.enter(condition);
    }

    /// Removes the source from its queue. A probe in progress continues.
    pub fn withdraw(&mut self, hosts: &mut Hosts, slot_queue: &mut SlotQueue) {
        match self.condition() {
            Condition::Queued => {
                if let Due::At(due) = self.memory.due {
                    hosts.remove(self.host, due, self.id);
                }
            }
            Condition::WaitsForSlot(class) => {
                slot_queue.close(self.place, *class);
                hosts.open_queue(self.host);
            }
            // A parked source is skipped when its host opens.
            Condition::Parked | Condition::Idle => {}
            Condition::InProgress(_) => return,
        }
        self.waiting.enter(Condition::Idle);
    }

    /// Defers the source if the gate or its redirect host is closed. Returns whether it was deferred.
    pub fn defer_if_gated(&mut self, hosts: &mut Hosts, now: Timestamp) -> bool {
        let verdict = self.ask_gate(hosts, now);
        let also = self.hosts().1.and_then(|also| closed_until(hosts, also, now));
        let (until, reason) = match also {
            _ if verdict.at > now => {
                (verdict.at, verdict.binding.map_or(Reason::Policy, Reason::Constraint))
            }
            Some(until) => (until, Reason::Constraint(Constraint::HostSpacing)),
            None => return false,
        };
        (self.memory.due, self.memory.reason) = (Due::At(until), reason);
        self.enqueue(hosts);
        true
    }

    /// Queues the source for a slot.
    pub fn wait_for_slot(&mut self, slot_queue: &mut SlotQueue, prior: RatePrior, now: Timestamp) {
        let next = self.pending_intervals.as_ref().and_then(|pending| pending.next.as_ref());
        // An interval that is over sets no deadline.
        let next = next.filter(|next| self.memory.rule.is_some() && next.until >= now);
        let rule = next.map(|next| SlotDeadline {
            step: slot_queue.step_of(next.until),
            cost: 0,
            window: Reverse(u32::MAX),
            at: next.until,
        });
        let deadline = self.deadline.as_deref().filter(|deadline| deadline.probe_at <= now);
        let gap = deadline.map(|Deadline { step, task, by, .. }| SlotDeadline {
            step: *step,
            cost: task.cost,
            window: Reverse(task.window),
            at: *by,
        });
        let class = if let Some(end) = rule.into_iter().chain(gap).min() {
            slot_queue.open_until(self.place, end);
            SlotClass::Deadline
        } else {
            let class = if self.is_sampled() { SlotClass::Sampled } else { SlotClass::Due };
            slot_queue.open(self.place, self.allocator_input(slot_queue, prior, now), class);
            class
        };
        self.waiting.enter(Condition::WaitsForSlot(class));
    }

    /// Whether it is sampled: probed in remaining slots.
    fn is_sampled(&self) -> bool {
        let known = self.memory.last_probe.is_some();
        self.memory.burst.asked_by == Policy::Adaptive && known && self.urgency.may_be_sampled()
    }

    /// Its allocator input, with the rate of this hour.
    fn allocator_input(&self, slot_queue: &SlotQueue, prior: RatePrior, now: Timestamp) -> OpenSource {
        let relative_rate = self.profile.as_ref().map_or(1.0, |profile| profile.at(now));
        let per_step = self.memory.estimate.rate(prior) * relative_rate * slot_queue.step_hours();
        let root = (f64::from(self.terms.weight) * per_step).sqrt().max(f64::from(f32::MIN_POSITIVE));
        let last = self.spent.last().max(self.memory.last_probe);
        let last = last.unwrap_or_else(|| self.memory.due.at().unwrap_or(now) - self.gap());
        OpenSource { root: root as f32, last: slot_queue.steps(last) }
    }
}

/// The end of a host's closure, if it is closed now.
pub(super) fn closed_until(hosts: &Hosts, host: HostIx, now: Timestamp) -> Option<Timestamp> {
    match hosts.open_from(host) {
        None => Some(now + BUSY_AGAIN),
        Some(from) => (from > now).then_some(from),
    }
}
