//! One rule for due and spare: who is probed in this step.
//!
//! Whoever's time has come, whose gate is open and whose host is free stands in line for a slot. Those
//! who are due go first; if they are more than the step has slots, the ones go whose waiting costs
//! most, and the others are late, not lost. Before them go those who must be looked at by a certain time: for a
//! rule, or because they may go unseen for no longer, and a few of these before their time comes where it is
//! foreseen that slots will be short (`tardiness`). What is left goes to those who may be sampled. A slot is
//! spent on nobody who may not go. Per step this costs as much as it sends and as has newly come due,
//! however many wait.

use std::cmp::Reverse;

use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::allocate::Turn;
use super::bounds::Demand;
use super::frontier::{Frontier, HostIx};
use super::gate::Constraint;
use super::load::Load;
use super::source::{Member, Reason};
use super::state::{Fleet, Order};
use super::tardiness::Bed;
use super::turns::{End, Turns, Waits};
use crate::model::estimate::Prior;
use crate::model::pulse::{self, Pulse};
use crate::source_id::SourceId;

/// How soon a host that is busy is looked at again by a source whose redirects lead there.
const BUSY_AGAIN: Span = Span::from_secs(1);

/// A source's rate changes for good about once in so many hours: two months.
const CHANGES_EVERY: f64 = 1440.0;

/// Before anything is known, two updates a day are expected, as firmly as after half a day.
const NEWCOMER: (f64, f64) = (1.0, 12.0);

/// What all sources found counts over about so many hours of watching, all together.
const REMEMBERED_HOURS: f64 = 1e6;

/// What is expected of a source of which nothing is known: what all of them do in the mean.
#[derive(Debug, Clone, Copy)]
pub(super) struct Mean {
    found: f64,
    hours: f64,
}

impl Default for Mean {
    fn default() -> Self {
        Self { found: NEWCOMER.0, hours: NEWCOMER.1 }
    }
}

impl Mean {
    /// So many were found over so many hours.
    pub fn learn(&mut self, found: f64, hours: f64) {
        (self.found, self.hours) = (self.found + found, self.hours + hours);
        if self.hours > REMEMBERED_HOURS {
            (self.found, self.hours) = (self.found / 2.0, self.hours / 2.0);
        }
    }

    pub fn prior(self) -> Prior {
        Prior { rate: self.found / self.hours, changes: CHANGES_EVERY.recip() }
    }
}

impl Fleet {
    /// What is to be probed now: sources that are due, as many as the step still has slots for, each
    /// with the gate's consent and none on a host that is busy; then sampled ones.
    pub fn step(&mut self, now: Timestamp) -> Vec<Order> {
        let step = self.step_of(now);
        if self.slots.0 != step {
            // What a dear probe took beyond a step's capacity is taken from the steps after it.
            let passed = step.saturating_sub(self.slots.0).max(0) as f64;
            let paid = self.params.capacity.map_or(self.work, |capacity| capacity * passed);
            let owed = self.work - paid;
            // What is left by rounding is nothing.
            (self.slots, self.work) = ((step, 0), if owed > 1e-9 { owed } else { 0.0 });
        }
        let mut orders = Vec::new();
        if self.slots.1 >= self.params.probes_per_step {
            return orders;
        }
        if self.turns.is_full(now) {
            self.start_lines_anew(now);
        }
        self.ring(now);
        self.line_up(now, &mut orders);
        self.serve(Waits::Ends, now, &mut orders);
        for id in self.early(now) {
            let Some(member) = self.members.get_mut(&id) else { continue };
            Self::withdraw(member, &mut self.frontier, &mut self.turns);
            (member.memory.due, member.memory.reason, member.ready_at) = (now, Reason::MaxGap, now);
            orders.extend(self.send(id, now));
        }
        self.serve(Waits::Due, now, &mut orders);
        self.serve(Waits::Spare, now, &mut orders);
        self.load.waiting = self.turns.waiting() as u64;
        orders
    }

    /// Sends those who wait so, as many as the step has slots and capacity for.
    fn serve(&mut self, waits: Waits, now: Timestamp, orders: &mut Vec<Order>) {
        loop {
            let most = self.affordable();
            let chosen = self.turns.choose(waits, now, most);
            let (wanted, before, mut full) = (chosen.len(), orders.len(), false);
            for id in chosen {
                full |= waits == Waits::Ends && !self.fits(id);
                if full {
                    // It goes first in the next step.
                    if let Some(member) = self.members.get_mut(&id) {
                        Self::stand(member, &mut self.turns, self.mean.prior(), now);
                    }
                } else {
                    orders.extend(self.send(id, now));
                }
            }
            let all_went = orders.len() - before == wanted;
            // The slots of those that were turned away are there for others.
            if full || wanted == 0 || all_went && (wanted < most || self.params.capacity.is_none()) {
                return;
            }
        }
    }

    /// What the step may still cost, where that is bound.
    pub(super) fn room(&self) -> Option<f64> {
        self.params.capacity.map(|capacity| (capacity - self.work).max(0.0))
    }

    /// How many probes the step has room for, about.
    fn affordable(&self) -> usize {
        let slots = self.params.probes_per_step.saturating_sub(self.slots.1) as usize;
        // A mean probe costs 1.
        self.room().map_or(slots, |room| slots.min(room.ceil() as usize))
    }

    /// Whether there is room for this one, as MEDD has it: what costs more than a whole step has goes when nothing else
    /// did. Others go while there is any room, and the steps after them pay: so nobody stands in the way of the rest.
    fn fits(&self, id: SourceId) -> bool {
        let Some(room) = self.room().filter(|_| self.work > 0.0) else { return true };
        self.cost(id).is_none_or(|cost| cost <= room + 1e-9)
    }

    /// Lets whoever's time has come stand in line. Who was asked for by hand goes at once.
    fn line_up(&mut self, now: Timestamp, orders: &mut Vec<Order>) {
        while let Some((host, id, parked)) = self.frontier.pop(now) {
            let waits = if parked { Waits::Parked } else { Waits::Queued };
            // One that has been elsewhere since, or has left, is passed over.
            let Some(member) = self.members.get_mut(&id).filter(|member| member.waits == waits) else {
                self.frontier.let_others_go(host);
                continue;
            };
            member.waits = Waits::Not;
            if Self::put_off(member, &mut self.frontier, now) {
                self.frontier.let_others_go(host);
                continue;
            }
            // A host that rests or was busy makes nobody late.
            let closed = self.frontier.paused_until(host).max(self.frontier.held_until(host));
            let ready = member.memory.due.max(closed);
            member.ready_at = if parked { now } else { ready.min(now) };
            if member.memory.reason == Reason::Manual && self.slots.1 < self.params.probes_per_step {
                orders.extend(self.send(id, now));
            } else {
                Self::stand(member, &mut self.turns, self.mean.prior(), now);
            }
        }
    }

    /// Puts off a source that may not be probed now, by the gate or by the host that its redirects lead
    /// to; says whether it did.
    fn put_off(member: &mut Member, frontier: &mut Frontier, now: Timestamp) -> bool {
        let verdict = Self::ask_gate(member, frontier, now);
        let also = member.hosts().1.and_then(|also| closed_until(frontier, also, now));
        let (until, reason) = match also {
            _ if verdict.at > now => {
                (verdict.at, verdict.binding.map_or(Reason::Policy, Reason::Constraint))
            }
            Some(until) => (until, Reason::Constraint(Constraint::HostSpacing)),
            None => return false,
        };
        (member.memory.due, member.memory.reason) = (until, reason);
        Self::queue(member, frontier);
        true
    }

    /// Stands in line for a slot.
    pub(super) fn stand(member: &mut Member, turns: &mut Turns, prior: Prior, now: Timestamp) {
        let next = member.serving.as_ref().and_then(|serving| serving.next.as_ref());
        // Of one that is over there is no hurry.
        let next = next.filter(|next| member.memory.rule.is_some() && next.until >= now);
        let rule = next.map(|next| End {
            step: turns.step_of(next.until),
            cost: 0,
            window: Reverse(u32::MAX),
            at: next.until,
        });
        let bed = member.bed.as_deref().filter(|bed| bed.look_at <= now);
        let gap = bed.map(|Bed { step, plant, by, .. }| End {
            step: *step,
            cost: plant.cost,
            window: Reverse(plant.window),
            at: *by,
        });
        if let Some(end) = rule.into_iter().chain(gap).min() {
            turns.open_until(member.place, end);
            member.waits = Waits::Ends;
            return;
        }
        member.waits = if member.is_sampled() { Waits::Spare } else { Waits::Due };
        let turn = member.turn(turns, prior, now);
        turns.open(member.place, turn, member.waits);
    }

    /// Sends a source whose turn it is, unless something has come up against it since.
    fn send(&mut self, id: SourceId, now: Timestamp) -> Option<Order> {
        let member = self.members.get_mut(&id)?;
        let sampled = std::mem::take(&mut member.waits) == Waits::Spare;
        debug_assert!(member.in_flight.is_none(), "one at a time");
        if Self::put_off(member, &mut self.frontier, now) {
            return None;
        }
        let hosts = member.hosts();
        let host = hosts.0;
        let open = closed_until(&self.frontier, host, now).is_none();
        if let Some(until) = open.then(|| self.spacing.allow(host, now).err()).flatten() {
            self.frontier.hold(host, until);
        } else if open {
            (member.in_flight, member.pressing) = (Some(hosts), false);
            self.kept.release(member.serving.as_mut().and_then(|serving| serving.slot.take()));
            for host in [Some(hosts.0), hosts.1].into_iter().flatten() {
                self.frontier.occupy(host);
            }
            self.slots.1 += 1;
            let cost = self.tardiness.cost(member, self.params.cost_by);
            self.work += cost;
            self.tardiness.sent(member);
            self.load.sent(sampled, now - member.ready_at, self.params.step, cost);
            let memory = &member.memory;
            let due = memory.due.max(self.frontier.paused_until(host)).min(now);
            return Some(Order { source: id, due, policy: memory.life.asked_by, reason: memory.reason });
        }
        member.waits = Waits::Parked;
        self.frontier.park(host, id, sampled);
        None
    }

    /// When [`Fleet::step`] is next worth calling; `None` while nothing waits.
    pub fn next_step(&self, now: Timestamp) -> Option<Timestamp> {
        let current = self.step_of(now);
        let boundary = (current + 1).saturating_mul(self.params.step.as_millis());
        let boundary = Timestamp::from_millis(boundary);
        let spent = self.slots.0 == current && self.slots.1 >= self.params.probes_per_step;
        let next = self.frontier.next().map(|next| if spent { next.max(boundary) } else { next });
        match (next, self.turns.waiting()) {
            (next, 0) => next,
            // Whoever could go has gone: the others wait for the next step's slots.
            (next, _) => Some(next.map_or(boundary, |next| next.min(boundary))),
        }
    }

    pub(super) fn step_of(&self, now: Timestamp) -> i64 {
        now.as_millis().div_euclid(self.params.step.as_millis().max(1))
    }

    /// Waits for its time in its host's queue.
    pub(super) fn queue(member: &mut Member, frontier: &mut Frontier) {
        frontier.push(member.host, member.memory.due, member.id);
        member.waits = if member.memory.due == Timestamp::MAX { Waits::Not } else { Waits::Queued };
    }

    /// Waits no longer, for whatever it did.
    pub(super) fn withdraw(member: &mut Member, frontier: &mut Frontier, turns: &mut Turns) {
        match std::mem::take(&mut member.waits) {
            Waits::Queued => frontier.remove(member.host, member.memory.due, member.id),
            waits @ (Waits::Ends | Waits::Due | Waits::Spare) => {
                turns.close(member.place, waits);
                frontier.let_others_go(member.host);
            }
            // Who is parked is passed over when its host opens.
            Waits::Parked | Waits::Not => {}
        }
    }

    /// What sources that can be probed ask of it: their weighted rates per step by what their probes
    /// found, and their budgets.
    pub fn demands(&self) -> Vec<Demand> {
        let (prior, step_hours) = (self.mean.prior(), self.turns.step_hours());
        let well = self.members.values().filter(|member| member.is_well());
        well.map(|member| Demand {
            rate: f64::from(member.terms.weight) * member.memory.estimate.rate(prior) * step_hours,
            least_gap: member.terms.budget.even_gap().as_secs_f64() / 3600.0 / step_hours,
        })
        .collect()
    }

    /// How many updates, by weight, are expected to lie undiscovered now at sources that can be probed: π
    /// for every step since the last look, and for half of the one that is on.
    pub fn undiscovered(&self, now: Timestamp) -> f64 {
        let (prior, half_step) = (self.mean.prior(), self.turns.step_hours() / 2.0);
        let well = self.members.values().filter(|member| member.is_well());
        let expected = |member: &Member| {
            let looked = member.memory.looked?;
            let hours = pulse::hours(member.pulse.as_deref(), looked, now.max(looked)) + half_step;
            Some(f64::from(member.terms.weight) * member.memory.estimate.rate(prior) * hours)
        };
        well.filter_map(|member| expected(member)).sum()
    }

    /// What was done since this was last asked.
    pub fn take_load(&mut self, now: Timestamp) -> Load {
        let next = Load { waiting: self.load.waiting, ..Load::new(now) };
        let overdue = self.tardiness.tardy;
        Load { until: now, overdue, ..std::mem::replace(&mut self.load, next) }
    }

    /// How busy a source is at which hour, and how many updates an hour it has in the mean, by so many.
    pub fn take_pulse(&mut self, id: SourceId, pulse: Pulse, per_hour: f64, updates: u32) {
        if let Some(member) = self.members.get_mut(&id) {
            member.pulse = Some(Box::new(pulse));
            // Once it has learned from its own probes it knows better what has changed since.
            if member.memory.estimate.known_rate().is_none() {
                let span = f64::from(updates.max(1)) / per_hour;
                member.memory.estimate = crate::model::estimate::Forgetting::seeded(per_hour, span);
            }
        }
    }
}

impl Member {
    /// Whether it is sampled: probed as slots are to spare.
    pub fn is_sampled(&self) -> bool {
        let known = self.memory.last_probe.is_some();
        self.memory.life.asked_by == Policy::Adaptive && known && !self.pressing
    }

    /// Its turn, by what is believed of it at this hour.
    fn turn(&self, turns: &Turns, prior: Prior, now: Timestamp) -> Turn {
        let beat = self.pulse.as_ref().map_or(1.0, |pulse| pulse.at(now));
        let per_step = self.memory.estimate.rate(prior) * beat * turns.step_hours();
        let root = (f64::from(self.terms.weight) * per_step).sqrt().max(f64::from(f32::MIN_POSITIVE));
        let last = self.spent.last().max(self.memory.last_probe);
        let last = last.unwrap_or_else(|| self.memory.due - self.gap());
        Turn { root: root as f32, last: turns.steps(last) }
    }

    /// Learns from a look that found so many updates; says for how many hours how many were expected to
    /// lie undiscovered until it.
    pub fn learn(&mut self, found: u32, ended: Timestamp, mean: &mut Mean, step: Span) -> f64 {
        let Some(looked) = self.memory.looked.replace(ended).filter(|&looked| looked < ended) else {
            return 0.0;
        };
        let prior = mean.prior();
        let hours = pulse::hours(self.pulse.as_deref(), looked, ended);
        let expected = self.memory.estimate.rate(prior) * hours;
        self.memory.estimate.learn(u64::from(found), hours, prior);
        mean.learn(f64::from(found), hours);
        // A gap of ℓ steps costs π·ℓ(ℓ+1)/2: half of what came, over one step more than it lasted.
        let lasted = (ended - looked + step).as_secs_f64() / 3600.0;
        f64::from(self.terms.weight) * expected * lasted / 2.0
    }
}

/// Until when a host cannot be asked, if it cannot now.
fn closed_until(frontier: &Frontier, host: HostIx, now: Timestamp) -> Option<Timestamp> {
    match frontier.open_from(host) {
        None => Some(now + BUSY_AGAIN),
        Some(from) => (from > now).then_some(from),
    }
}
