//! Sources that must be looked at every so often, whatever their rhythm: the garden in the engine.
//!
//! A source may state the longest that it may go unseen, w. That is a deadline beside any policy: its probe is due
//! at the latest in the last whole step before w is over, it then stands before all that are merely due, the one that
//! is late the longest first, and what comes sooner by its own policy counts as well. Slots are spent on it before
//! that only if the coming steps will not have enough for all deadlines, where that wastes least (MEDD, `garden`).
//! Politeness has the last word: the gate may make a source tardy, and never the other way round.
//!
//! A look counts from its start: what is published while an answer travels was not in it. Two starts are never more
//! than w apart while there is room, so tardiness is from the deadline until the start of the look that came too late.
//!
//! *Work.* A step has c slots and, where the user says so, a capacity k for the costs of its probes. Both are one
//! measure here: a probe takes max(1, cost·c/k) of c, so that whoever keeps within c keeps within both.
//!
//! Knows deadlines, costs and steps. Must not know how a probe is sent.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::source_id::SourceId;
use crate::step::{Step, StepLength};
use crate::time::{Span, Timestamp};

use super::deadline::Deadline;
use super::garden::medd::{Medd, SEEN};
use super::garden::{Task, UNIT, Work};
use super::hosts::HostIx;
use super::memory::{Due, ProbeCost};
use super::note::Note;
use super::params::{CostBy, FleetParams};
use super::reason::SourceState;
use super::source::Source;

/// All deadlines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DeadlineIndex {
    garden: Medd,
    /// When each is due by its deadline, in steps: then it goes before others.
    bells: BTreeSet<(Step, SourceId)>,
    /// When each will be tardy.
    passing: BTreeSet<(Timestamp, SourceId)>,
    /// How many of a host have deadlines.
    hosts: BTreeMap<HostIx, u32>,
    /// How many are tardy now.
    pub tardy: u64,
    /// What is worth an event, and was not asked for yet.
    fell: Vec<(SourceId, Note)>,
    tolls: CostSums,
}

/// What probes cost in the mean over all sources.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct CostSums {
    bytes: f64,
    millis: f64,
    sources: u32,
}

/// Learned costs lie between these, beside a mean probe.
const COSTS: (f64, f64) = (0.125, 16.0);
/// And are told apart in such steps, lest every answer move all that is foreseen.
const GRAIN: f64 = 8.0;

impl CostSums {
    fn count(&mut self, toll: ProbeCost, sign: f64) {
        if toll.is_known() {
            self.bytes += sign * f64::from(toll.bytes);
            self.millis += sign * f64::from(toll.millis);
            self.sources = if sign > 0.0 { self.sources + 1 } else { self.sources - 1 };
        }
    }

    /// What such a probe costs beside a mean one.
    fn cost(&self, toll: ProbeCost, by: CostBy) -> f64 {
        let (own, all) = match by {
            CostBy::Bytes => (toll.bytes, self.bytes),
            CostBy::Milliseconds => (toll.millis, self.millis),
        };
        if !toll.is_known() || all <= 0.0 {
            return 1.0;
        }
        let cost = f64::from(own) * f64::from(self.sources) / all;
        ((cost * GRAIN).round() / GRAIN).clamp(COSTS.0, COSTS.1)
    }
}

/// The deadlines of all sources as they stand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeadlineStats {
    /// How many sources have one.
    pub sources: u64,
    /// How many of them are tardy.
    pub tardy: u64,
    /// Ω: what keeping all of them takes of a step, in slots.
    pub omega: f64,
}

impl DeadlineIndex {
    pub fn new(params: &FleetParams, step: Step) -> Self {
        Self {
            garden: Medd::new(whole(params), step.0),
            bells: BTreeSet::new(),
            passing: BTreeSet::new(),
            hosts: BTreeMap::new(),
            tardy: 0,
            fell: Vec::new(),
            tolls: CostSums::default(),
        }
    }

    /// What a probe of this source costs beside a mean one.
    pub fn cost(&self, member: &Source, by: CostBy) -> f64 {
        member.terms.cost.map_or_else(|| self.tolls.cost(member.memory.toll, by), f64::from)
    }

    /// Counts what a source's probes cost, or no longer.
    pub fn count_toll(&mut self, toll: ProbeCost, counts: bool) {
        self.tolls.count(toll, if counts { 1.0 } else { -1.0 });
    }

    /// What is left of a step that many slots and so much capacity are left of.
    fn left(slots: u32, room: Option<f64>, params: &FleetParams) -> Work {
        let slots = f64::from(slots);
        let of_room =
            |room: f64| room * f64::from(params.probes_per_step) / params.capacity.unwrap_or(room);
        let left = room.map_or(slots, |room| slots.min(of_room(room)));
        (left.max(0.0) * UNIT as f64) as Work
    }

    /// No deadlines, by other steps: what probes cost stays, and what was not told yet.
    pub fn restart(&mut self, params: &FleetParams, step: Step) {
        let (tolls, fell) = (self.tolls, std::mem::take(&mut self.fell));
        *self = Self { tolls, fell, ..Self::new(params, step) };
    }

    /// Many deadlines were noted: looks ahead anew.
    pub fn settle(&mut self) {
        self.garden.settle();
    }

    /// The step that is on.
    pub fn turn_to(&mut self, step: Step) {
        self.garden.turn_to(step.0);
    }

    /// Takes out a source whose probe is due by its deadline in this step.
    pub fn pop_due(&mut self, step: Step) -> Option<SourceId> {
        let &(due, id) = self.bells.first().filter(|(due, _)| *due <= step)?;
        self.bells.remove(&(due, id));
        Some(id)
    }

    /// When the next deadline passes.
    pub fn next_passing(&self) -> Option<Timestamp> {
        self.passing.first().map(|&(by, _)| by)
    }

    /// Takes out a deadline that has passed.
    pub fn pop_passed(&mut self, now: Timestamp) -> Option<(Timestamp, SourceId)> {
        let &(by, id) = self.passing.first().filter(|(by, _)| *by < now)?;
        self.passing.remove(&(by, id));
        Some((by, id))
    }

    /// The source is tardy, and that is told unless it was before.
    pub fn mark_tardy(&mut self, member: &mut Source, note: Option<Note>) {
        if let Some(bed) = member.bed.as_deref_mut() {
            bed.said = true;
            self.tardy += 1;
            self.fell.extend(note.map(|note| (member.id, note)));
        }
    }

    /// The deadline of a source had passed when it was taken in: it is tardy, and that is not told again.
    pub fn mark_if_passed(&mut self, member: &mut Source, now: Timestamp) {
        let by = member.bed.as_ref().map(|bed| bed.by).filter(|&by| by < now);
        if by.is_some_and(|by| self.passing.remove(&(by, member.id))) {
            self.mark_tardy(member, None);
        }
    }

    /// Puts back what was known of a deadline before the steps changed.
    pub fn resume(&mut self, member: &mut Source, seen: Timestamp, said: bool) {
        if let Some(bed) = member.bed.as_deref_mut() {
            bed.seen = seen;
            if said && !bed.said {
                bed.said = true;
                self.tardy += 1;
            }
        }
    }

    /// What passed and was not told yet, to be changed.
    pub fn notes_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        self.fell.iter_mut().map(|(_, note)| note)
    }

    /// What passed and was not told yet.
    pub fn take_passed(&mut self) -> Vec<(SourceId, Note)> {
        std::mem::take(&mut self.fell)
    }

    /// Places to be probed before their deadlines come, because the coming steps will not have enough for all.
    pub fn early(
        &mut self,
        (slots, room): (u32, Option<f64>),
        params: &FleetParams,
        may: impl FnMut(usize) -> bool,
    ) -> Vec<usize> {
        self.garden.early(Self::left(slots, room, params), may)
    }

    /// When the next probe before its deadline comes is worth a slot, as far as is foreseen.
    pub fn next_early(&self) -> Option<Step> {
        self.garden.next_early().map(Step)
    }

    /// Ω: what keeping all deadlines takes of a step, in slots.
    pub fn omega(&self) -> f64 {
        self.garden.omega()
    }

    /// Nothing is known of a source's deadline any more.
    pub fn forget(&mut self, member: &mut Source) {
        self.garden.uproot(member.place as usize);
        self.strike(member);
    }

    /// Takes a deadline off the lists.
    fn strike(&mut self, member: &mut Source) {
        let Some(bed) = member.bed.take() else { return };
        self.bells.remove(&(bed.step, member.id));
        self.passing.remove(&(bed.by, member.id));
        self.tardy -= u64::from(bed.said);
        if let Some(count) = self.hosts.get_mut(&bed.host) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&bed.host);
            }
        }
    }

    /// A source was looked at from then on; says how late that was.
    pub fn seen(&mut self, member: &mut Source, started: Timestamp) -> Option<Span> {
        let bed = member.bed.as_deref_mut()?;
        bed.seen = bed.seen.max(started);
        self.tardy -= u64::from(std::mem::take(&mut bed.said));
        Some((started - bed.by).max(Span::ZERO))
    }

    /// Notes the deadline of a source that waits for its next probe and was last looked at then, if that is not
    /// noted yet; `allowed` says from when on one may be sent at or after a time.
    pub fn tend(
        &mut self,
        member: &mut Source,
        params: &FleetParams,
        looked: Option<Timestamp>,
        allowed: impl FnOnce(&Source, Timestamp) -> Timestamp,
    ) {
        let before = member.bed.as_ref().map(|bed| (bed.seen, bed.said));
        self.strike(member);
        let rests = member.memory.due == Due::Stopped || member.memory.state == SourceState::Removed;
        let seen = before.map(|(seen, _)| seen).or(looked);
        let (Some(gap), Some(seen), false) = (member.terms.max_gap, seen, rests) else {
            self.garden.uproot(member.place as usize);
            return;
        };
        let length = StepLength::new(params.step);
        let steps = u32::try_from(length.whole_steps_in(gap).max(2)).unwrap_or(u32::MAX) - 1;
        // Others at its host may be due at the same time, and are asked one after the other.
        let others = self.hosts.get(&member.host).copied().unwrap_or(0);
        let crowd = Span::from_millis(params.host_spacing.as_millis().saturating_mul(i64::from(others)));
        let crowd = u32::try_from(length.steps_to_cover(crowd)).unwrap_or(u32::MAX).min(steps / 4);
        let window = (steps - crowd).max(1);
        let by = seen + gap;
        // No sooner than its budget grants for good, lest that be spent before the day is over.
        let even = member.terms.budget.even_gap().max(member.terms.budget.min_spacing);
        let granted = length.step_of(seen + even).plus(1).min(length.step_of(by).plus(-1));
        let due =
            length.step_of(by).plus(-1 - i64::from(crowd)).max(granted).max(length.step_of(seen).plus(1));
        let look_at = length.start_of(due);
        let slots = match params.capacity {
            Some(capacity) => {
                (self.cost(member, params.cost_by) * f64::from(params.probes_per_step) / capacity).max(1.0)
            }
            None => 1.0,
        };
        let plant = Task::new(slots, window);
        let window_span = Span::from_millis(length.span().as_millis().saturating_mul(i64::from(window)));
        let apart = window_span.max(even.min(gap));
        let said = before.is_some_and(|(_, said)| said);
        let bed = Deadline { seen, by, step: due, look_at, apart, plant, host: member.host, said };
        member.bed = Some(Box::new(bed));
        *self.hosts.entry(member.host).or_default() += 1;
        self.tardy += u64::from(said);
        // Not while something forbids it, nor further ahead than anything is foreseen.
        let furthest = due.plus(SEEN * i64::from(window));
        let from = length.step_of(allowed(member, look_at)).min(furthest);
        self.garden.plant(member.place as usize, plant, due.max(from).0);
        self.bells.insert((due, member.id));
        if !said {
            self.passing.insert((by, member.id));
        }
    }

    /// A probe of a source is sent.
    pub fn sent(&mut self, member: &Source) {
        if let Some(bed) = &member.bed {
            self.garden.water(member.place as usize);
            self.bells.remove(&(bed.step, member.id));
            self.passing.remove(&(bed.by, member.id));
        }
    }
}

/// A step's slots, as work.
fn whole(params: &FleetParams) -> Work {
    u64::from(params.probes_per_step) * UNIT
}
