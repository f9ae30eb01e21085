//! The engine's state.
//!
//! Holds the state, and the slots and capacity left in the step. Other files change it.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::source_id::SourceId;
use crate::source_table::SourceTable;
use crate::step::{Step, StepLength};
use crate::time::Timestamp;

use super::crash_suspects::CrashSuspects;
use super::deadline_index::DeadlineIndex;
use super::fleet_mean::FleetMean;
use super::fleet_price::PriceControl;
use super::hosts::Hosts;
use super::new_source_probes::EarlyProbes;
use super::outage::Outage;
use super::params::FleetParams;
use super::rule_counts::RuleRegistry;
use super::shared_limits::SharedLimits;
use super::slot_queue::SlotQueue;
use super::slot_reservations::Reservations;
use super::slot_stats::SlotStats;
use super::source::Source;

/// All sources under one limit. Takes [events](super::event::EngineEvent) and returns
/// [actions](super::action::Action).
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Engine {
    pub(super) params: FleetParams,
    pub(super) seed: u64,
    pub(super) sources: SourceTable<Box<Source>>,
    pub(super) hosts: Hosts,
    /// The limits that sources have in common. After a replay each source has its own.
    #[serde(skip)]
    pub(super) limits: SharedLimits,
    pub(super) outage: Outage,
    /// How many more probes may start during an outage; `None`: any number.
    pub(super) allowance: Option<u32>,
    /// Sources in the queue for plans.
    pub(super) to_plan: VecDeque<SourceId>,
    /// Plans requested but not finished.
    pub(super) plans_requested: usize,
    /// How many sources were ever added.
    pub(super) taken_in: u64,
    /// The step that slots were last used in, and how many.
    pub(super) slots: (Step, u32),
    /// The cost of the step's probes so far.
    pub(super) work: f64,
    /// Sources that wait for a slot.
    pub(super) slot_queue: SlotQueue,
    /// The prior rate of a new source.
    pub(super) fleet_mean: FleetMean,
    /// The price that sources share.
    pub(super) prices: PriceControl,
    pub(super) slot_stats: SlotStats,
    /// When slot statistics are stored next.
    pub(super) stats_at: Timestamp,
    /// The rules and their progress.
    pub(super) rule_registry: RuleRegistry,
    /// Slots reserved for probes that rules need.
    pub(super) reservations: Reservations,
    /// The times of early probes.
    pub(super) early_probes: EarlyProbes,
    /// Deadlines.
    pub(super) deadlines: DeadlineIndex,
    /// When slots are next assigned.
    pub(super) step_due: Option<Timestamp>,
    /// The tick that was last requested.
    pub(super) wake: Option<Timestamp>,
    /// No more probes may start.
    pub(super) stopping: bool,
    /// Probes in progress.
    pub(super) in_progress: usize,
    /// Sources that may have ended the process before.
    pub(super) crash_suspects: CrashSuspects,
}

impl Engine {
    pub(super) fn step_length(&self) -> StepLength {
        StepLength::new(self.params.step)
    }

    /// Free slots of the step.
    pub(super) fn slots_left(&self) -> u32 {
        self.params.probes_per_step.saturating_sub(self.slots.1).min(self.allowance.unwrap_or(u32::MAX))
    }

    /// Free capacity of the step, if it is limited.
    pub(super) fn room(&self) -> Option<f64> {
        self.params.capacity.map(|capacity| (capacity - self.work).max(0.0))
    }

    /// Removes a source.
    pub(super) fn drop_source(&mut self, id: SourceId) {
        if let Some(mut source) = self.sources.remove(&id) {
            self.crash_suspects.clear(id);
            self.crash_suspects.over(id);
            self.slot_queue.leave(source.place);
            self.prices.replace(source.demand, None);
            self.deadlines.forget(&mut source);
            self.deadlines.count_cost(source.memory.cost, false);
        }
    }
}
