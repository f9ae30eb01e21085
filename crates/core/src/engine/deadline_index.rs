//! Deadlines: a source with a longest allowed gap w is probed at least every w, whatever its policy.
//!
//! A probe is due at the latest in the last whole step before w is over. It then goes before all probes
//! without a deadline, the longest overdue first. A probe that the policy sends earlier counts as well.
//! Slots are used earlier only if the coming steps lack capacity for all deadlines, and where that wastes
//! least (MEDD, `garden`). The gate takes precedence: it may make a source miss its deadline. Knows
//! deadlines, costs and steps. Must not know how a probe is sent.
//!
//! *Lateness.* A probe counts from its start, because updates during the request may not be in the answer.
//! Two starts are at most w apart while there is capacity. Lateness is from the deadline to the start of
//! the probe that missed it.
//!
//! *Work.* A step has c slots and, if configured, a capacity k for the costs of its probes. Both are one
//! measure here: a probe takes max(1, cost·c/k) of c. A schedule within c is therefore within both limits.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::source_id::SourceId;
use crate::step::{Step, StepLength};
use crate::time::{Span, Timestamp};

use super::deadline::Deadline;
use super::garden::medd::{Medd, SEEN};
use super::garden::{Task, UNIT, Work};
use super::hosts::HostIx;
use super::note::Note;
use super::params::{CostBy, FleetParams};
use super::reason::SourceState;
use super::source::Source;
use super::source_memory::{Due, ProbeCost};

/// All deadlines.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct DeadlineIndex {
    medd: Medd,
    /// Sources by the step from which their deadline takes precedence.
    due_by_step: BTreeSet<(Step, SourceId)>,
    /// Sources by the time at which they miss their deadline.
    passing: BTreeSet<(Timestamp, SourceId)>,
    /// The number of sources with deadlines per host.
    hosts: BTreeMap<HostIx, u32>,
    /// The number of sources past their deadline.
    pub tardy: u64,
    /// Events not yet taken.
    missed: Vec<(SourceId, Note)>,
    cost_sums: CostSums,
}

/// Sums over all sources, for the mean cost of a probe.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct CostSums {
    bytes: f64,
    millis: f64,
    sources: u32,
}

/// Bounds of learned costs, relative to the mean probe.
const COSTS: (f64, f64) = (0.125, 16.0);
/// Costs are rounded to 1/GRAIN, so that not every answer changes the forecast.
const GRAIN: f64 = 8.0;

impl CostSums {
    fn count(&mut self, cost: ProbeCost, sign: f64) {
        if cost.is_known() {
            self.bytes += sign * f64::from(cost.bytes);
            self.millis += sign * f64::from(cost.millis);
            self.sources = if sign > 0.0 { self.sources + 1 } else { self.sources - 1 };
        }
    }

    /// The cost of such a probe relative to the mean probe.
    fn cost(&self, cost: ProbeCost, by: CostBy) -> f64 {
        let (own, all) = match by {
            CostBy::Bytes => (cost.bytes, self.bytes),
            CostBy::Milliseconds => (cost.millis, self.millis),
        };
        if !cost.is_known() || all <= 0.0 {
            return 1.0;
        }
        let cost = f64::from(own) * f64::from(self.sources) / all;
        ((cost * GRAIN).round() / GRAIN).clamp(COSTS.0, COSTS.1)
    }
}

/// Statistics of all deadlines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DeadlineStats {
    /// Sources with a deadline.
    pub sources: u64,
    /// Sources past their deadline.
    pub tardy: u64,
    /// Ω: the capacity that all deadlines take per step, in slots.
    pub omega: f64,
}

impl DeadlineIndex {
    pub fn new(params: &FleetParams, step: Step) -> Self {
        Self {
            medd: Medd::new(whole(params), step.0),
            due_by_step: BTreeSet::new(),
            passing: BTreeSet::new(),
            hosts: BTreeMap::new(),
            tardy: 0,
            missed: Vec::new(),
            cost_sums: CostSums::default(),
        }
    }

    /// The cost of a probe of this source relative to the mean probe.
    pub fn cost(&self, source: &Source, by: CostBy) -> f64 {
        source.terms.cost.map_or_else(|| self.cost_sums.cost(source.memory.cost, by), f64::from)
    }

    /// Adds a source's probe cost to the sums, or removes it.
    pub fn count_cost(&mut self, cost: ProbeCost, counts: bool) {
        self.cost_sums.count(cost, if counts { 1.0 } else { -1.0 });
    }

    /// The rest of a step as work, from its free slots and its free capacity.
    fn left(slots: u32, room: Option<f64>, params: &FleetParams) -> Work {
        let slots = f64::from(slots);
        let of_room =
            |room: f64| room * f64::from(params.probes_per_step) / params.capacity.unwrap_or(room);
        let left = room.map_or(slots, |room| slots.min(of_room(room)));
        (left.max(0.0) * UNIT as f64) as Work
    }

    /// Drops all deadlines, after the steps changed. Cost sums and pending events stay.
    pub fn restart(&mut self, params: &FleetParams, step: Step) {
        let (cost_sums, missed) = (self.cost_sums, std::mem::take(&mut self.missed));
        *self = Self { cost_sums, missed, ..Self::new(params, step) };
    }

    /// Updates the forecast after many deadlines were indexed.
    pub fn recompute(&mut self) {
        self.medd.settle();
    }

    /// Advances to this step.
    pub fn advance_to(&mut self, step: Step) {
        self.medd.advance_to(step.0);
    }

    /// Takes out a source whose deadline takes precedence in this step.
    pub fn pop_due(&mut self, step: Step) -> Option<SourceId> {
        let &(due, id) = self.due_by_step.first().filter(|(due, _)| *due <= step)?;
        self.due_by_step.remove(&(due, id));
        Some(id)
    }

    /// The time of the next missed deadline.
    pub fn next_passing(&self) -> Option<Timestamp> {
        self.passing.first().map(|&(by, _)| by)
    }

    /// Takes out a deadline that has passed.
    pub fn pop_passed(&mut self, now: Timestamp) -> Option<(Timestamp, SourceId)> {
        let &(by, id) = self.passing.first().filter(|(by, _)| *by < now)?;
        self.passing.remove(&(by, id));
        Some((by, id))
    }

    /// Marks a source as past its deadline, and queues the event, if any.
    pub fn mark_tardy(&mut self, source: &mut Source, note: Option<Note>) {
        if let Some(deadline) = source.deadline.as_deref_mut() {
            deadline.reported = true;
            self.tardy += 1;
            self.missed.extend(note.map(|note| (source.id, note)));
        }
    }

    /// Marks a source that was past its deadline when it was added. No event is sent again.
    pub fn mark_if_passed(&mut self, source: &mut Source, now: Timestamp) {
        let by = source.deadline.as_ref().map(|deadline| deadline.by).filter(|&by| by < now);
        if by.is_some_and(|by| self.passing.remove(&(by, source.id))) {
            self.mark_tardy(source, None);
        }
    }

    /// Restores a deadline's state after the steps changed.
    pub fn resume(&mut self, source: &mut Source, seen: Timestamp, reported: bool) {
        if let Some(deadline) = source.deadline.as_deref_mut() {
            deadline.seen = seen;
            if reported && !deadline.reported {
                deadline.reported = true;
                self.tardy += 1;
            }
        }
    }

    /// Pending events, for changes.
    pub fn notes_mut(&mut self) -> impl Iterator<Item = &mut Note> {
        self.missed.iter_mut().map(|(_, note)| note)
    }

    /// Takes the pending events.
    pub fn take_passed(&mut self) -> Vec<(SourceId, Note)> {
        std::mem::take(&mut self.missed)
    }

    /// Indices of sources to probe before their deadlines, because the coming steps lack capacity for all.
    pub fn early(
        &mut self,
        (slots, room): (u32, Option<f64>),
        params: &FleetParams,
        may: impl FnMut(usize) -> bool,
    ) -> Vec<usize> {
        self.medd.early(Self::left(slots, room, params), may)
    }

    /// The next step in which an early probe is worth a slot, by the current forecast.
    pub fn next_early(&self) -> Option<Step> {
        self.medd.next_early().map(Step)
    }

    /// Ω: the capacity that all deadlines take per step, in slots.
    pub fn omega(&self) -> f64 {
        self.medd.omega()
    }

    /// Removes the deadline of a source.
    pub fn forget(&mut self, source: &mut Source) {
        self.medd.remove(source.place as usize);
        self.unindex(source);
    }

    /// Removes a deadline from the indices.
    fn unindex(&mut self, source: &mut Source) {
        let Some(deadline) = source.deadline.take() else { return };
        self.due_by_step.remove(&(deadline.step, source.id));
        self.passing.remove(&(deadline.by, source.id));
        self.tardy -= u64::from(deadline.reported);
        if let Some(count) = self.hosts.get_mut(&deadline.host) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&deadline.host);
            }
        }
    }

    /// An answered probe started at this time. Returns how late it was.
    pub fn mark_seen(&mut self, source: &mut Source, started: Timestamp) -> Option<Span> {
        let deadline = source.deadline.as_deref_mut()?;
        deadline.seen = deadline.seen.max(started);
        self.tardy -= u64::from(std::mem::take(&mut deadline.reported));
        Some((started - deadline.by).max(Span::ZERO))
    }

    /// Computes and indexes the deadline of a source. It counts from the last answered probe. `allowed`
    /// returns the first allowed time at or after a time.
    pub fn reindex(
        &mut self,
        source: &mut Source,
        params: &FleetParams,
        last_success: Option<Timestamp>,
        allowed: impl FnOnce(&Source, Timestamp) -> Timestamp,
    ) {
        let before = source.deadline.as_ref().map(|deadline| (deadline.seen, deadline.reported));
        self.unindex(source);
        let stopped = source.memory.due == Due::Stopped || source.memory.state == SourceState::Removed;
        let seen = before.map(|(seen, _)| seen).or(last_success);
        let (Some(gap), Some(seen), false) = (source.terms.max_gap, seen, stopped) else {
            self.medd.remove(source.place as usize);
            return;
        };
        let length = StepLength::new(params.step);
        let steps = u32::try_from(length.whole_steps_in(gap).max(2)).unwrap_or(u32::MAX) - 1;
        // Other sources of its host may be due at the same time; the host allows one request per spacing.
        let others = self.hosts.get(&source.host).copied().unwrap_or(0);
        let crowd = Span::from_millis(params.host_spacing.as_millis().saturating_mul(i64::from(others)));
        let crowd = u32::try_from(length.steps_to_cover(crowd)).unwrap_or(u32::MAX).min(steps / 4);
        let window = (steps - crowd).max(1);
        let by = seen + gap;
        // Not before the budget's even gap, so that the budget lasts for its period.
        let even = source.terms.budget.even_gap().max(source.terms.budget.min_spacing);
        let granted = length.step_of(seen + even).plus(1).min(length.step_of(by).plus(-1));
        let due =
            length.step_of(by).plus(-1 - i64::from(crowd)).max(granted).max(length.step_of(seen).plus(1));
        let probe_at = length.start_of(due);
        let slots = match params.capacity {
            Some(capacity) => {
                (self.cost(source, params.cost_by) * f64::from(params.probes_per_step) / capacity).max(1.0)
            }
            None => 1.0,
        };
        let task = Task::new(slots, window);
        let window_span = Span::from_millis(length.span().as_millis().saturating_mul(i64::from(window)));
        let apart = window_span.max(even.min(gap));
        let reported = before.is_some_and(|(_, reported)| reported);
        let deadline = Deadline { seen, by, step: due, probe_at, apart, task, host: source.host, reported };
        source.deadline = Some(Box::new(deadline));
        *self.hosts.entry(source.host).or_default() += 1;
        self.tardy += u64::from(reported);
        // Not before the gate allows it, and not beyond the forecast horizon.
        let furthest = due.plus(SEEN * i64::from(window));
        let from = length.step_of(allowed(source, probe_at)).min(furthest);
        self.medd.task(source.place as usize, task, due.max(from).0);
        self.due_by_step.insert((due, source.id));
        if !reported {
            self.passing.insert((by, source.id));
        }
    }

    /// A probe of a source was started.
    pub fn mark_sent(&mut self, source: &Source) {
        if let Some(deadline) = &source.deadline {
            self.medd.mark_served(source.place as usize);
            self.due_by_step.remove(&(deadline.step, source.id));
            self.passing.remove(&(deadline.by, source.id));
        }
    }
}

/// A step's slots, as work.
fn whole(params: &FleetParams) -> Work {
    u64::from(params.probes_per_step) * UNIT
}
