//! The state of all sources.
//!
//! Only the state, and how many slots the step still has. What happens to it stands in the files of the stages.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

use crate::source_id::SourceId;
use crate::step::{Step, StepLength};
use crate::time::Timestamp;

use super::book::RuleRegistry;
use super::calendar::Reservations;
use super::deadline_index::DeadlineIndex;
use super::hosts::Hosts;
use super::load::SlotStats;
use super::mean::FleetMean;
use super::outage::Outage;
use super::params::FleetParams;
use super::source::Source;
use super::turns::SlotQueue;

/// All sources under one limit. Told of [events](super::event::Event), it says which
/// [actions](super::action::Action) are to be taken.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Engine {
    pub(super) params: FleetParams,
    pub(super) seed: u64,
    /// Boxed, because nodes of a tree that hold whole sources would be half empty.
    pub(super) members: BTreeMap<SourceId, Box<Source>>,
    pub(super) hosts: Hosts,
    pub(super) outage: Outage,
    /// Sources that want a plan.
    pub(super) unplanned: VecDeque<SourceId>,
    /// Plans that were requested and are not there yet.
    pub(super) plans_requested: usize,
    /// How many sources were ever taken in.
    pub(super) taken_in: u64,
    /// The step that slots were last taken from, and how many.
    pub(super) slots: (Step, u32),
    /// What the probes of the step cost so far.
    pub(super) work: f64,
    /// Sources that wait for a slot.
    pub(super) turns: SlotQueue,
    /// What is to be expected of a source of which nothing is known.
    pub(super) mean: FleetMean,
    pub(super) load: SlotStats,
    /// When the load is next written down.
    pub(super) load_at: Timestamp,
    /// What rules wait for.
    pub(super) book: RuleRegistry,
    /// Slots that are reserved for probes that rules want.
    pub(super) kept: Reservations,
    /// Sources whose next probe must start by a certain time.
    pub(super) tardiness: DeadlineIndex,
    /// When slots are next worth handing out.
    pub(super) step_due: Option<Timestamp>,
    /// When a tick was last asked for.
    pub(super) wake: Option<Timestamp>,
    /// No more probes are to be started.
    pub(super) stopping: bool,
    /// Probes in progress.
    pub(super) in_progress: usize,
}

impl Engine {
    pub(super) fn step_length(&self) -> StepLength {
        StepLength::new(self.params.step)
    }

    /// How many slots the step has left.
    pub(super) fn slots_left(&self) -> u32 {
        self.params.probes_per_step.saturating_sub(self.slots.1)
    }

    /// What the step may still cost, where that is bound.
    pub(super) fn room(&self) -> Option<f64> {
        self.params.capacity.map(|capacity| (capacity - self.work).max(0.0))
    }

    /// Takes a source out for good.
    pub(super) fn let_go(&mut self, id: SourceId) {
        if let Some(mut member) = self.members.remove(&id) {
            self.turns.leave(member.place);
            self.tardiness.forget(&mut member);
            self.tardiness.count_toll(member.memory.toll, false);
        }
    }
}
