//! Builds an engine from stored state.

use std::collections::VecDeque;

use crate::source_id::SourceId;
use crate::source_table::SourceTable;
use crate::step::{Step, StepLength};
use crate::time::{Span, Timestamp};

use super::crash_suspects::CrashSuspects;
use super::deadline_index::DeadlineIndex;
use super::event::KnownSource;
use super::fleet_mean::FleetMean;
use super::fleet_price::{FleetPrice, PriceControl};
use super::hosts::Hosts;
use super::new_source_probes::EarlyProbes;
use super::outage::Outage;
use super::params::{FleetParams, HostGroup};
use super::rule_counts::{RuleRegistry, RuleSet, RuleState};
use super::shared_limits::SharedLimits;
use super::slot_queue::SlotQueue;
use super::slot_reservations::Reservations;
use super::slot_stats::SlotStats;
use super::source_memory::Due;
use super::state::Engine;

/// The mean time between first contacts at a start.
const FIRST_CONTACT_PACE: Span = Span::from_secs(3);

/// How often slot statistics are stored.
pub(super) const LOADS_EVERY: Span = Span::from_mins(1);

/// An engine that does not run yet.
#[derive(Debug)]
pub struct Loader {
    engine: Engine,
    now: Timestamp,
}

impl Loader {
    /// No sources yet. Equal seeds give equal jitter.
    pub fn new(params: FleetParams, seed: u64, now: Timestamp) -> Self {
        let step = StepLength::new(params.step).step_of(now);
        let engine = Engine {
            slot_queue: SlotQueue::new(&params, seed, now),
            fleet_mean: FleetMean::default(),
            prices: PriceControl::new(params.pricing, now),
            slot_stats: SlotStats::new(now),
            stats_at: now + LOADS_EVERY,
            rule_registry: RuleRegistry::default(),
            reservations: Reservations::default(),
            early_probes: EarlyProbes::default(),
            deadlines: DeadlineIndex::new(&params, step),
            work: 0.0,
            params,
            seed,
            sources: SourceTable::default(),
            hosts: Hosts::default(),
            outage: Outage::default(),
            allowance: None,
            to_plan: VecDeque::new(),
            limits: SharedLimits::default(),
            plans_requested: 0,
            taken_in: 0,
            slots: (Step::FIRST, 0),
            step_due: None,
            wake: None,
            stopping: false,
            in_progress: 0,
            crash_suspects: CrashSuspects::default(),
        };
        Self { engine, now }
    }

    /// Restores the limits that a host group set before a restart.
    pub fn host(&mut self, host: &HostGroup, paused_until: Option<Timestamp>, crawl_delay: Span) {
        let ix = self.engine.hosts.host(&host.key);
        if let Some(until) = paused_until {
            self.engine.hosts.pause(ix, until);
        }
        self.engine.hosts.set_crawl_delay(ix, "", crawl_delay);
    }

    /// Restores the crawl delay of an origin, after the host groups.
    pub fn crawl_delay(&mut self, host: &HostGroup, origin: &str, delay: Span) {
        let ix = self.engine.hosts.host(&host.key);
        self.engine.hosts.set_crawl_delay(ix, origin, delay);
    }

    /// Adds sources. Those with a due time keep it. First contacts are spread over time, within each
    /// source's spacing δ.
    pub fn sources(&mut self, known: Vec<KnownSource>) {
        let new = known.iter().filter(|known| known.memory.due == Due::Unscheduled).count();
        let pace = FIRST_CONTACT_PACE.scaled(new as f64);
        let bound = known.iter().filter(|known| known.terms.max_gap.is_some());
        let bound: Vec<SourceId> = bound.map(|known| known.id).collect();
        for known in known {
            let within = pace.min(known.terms.budget.min_spacing);
            self.engine.add_source(known, self.now, within);
        }
        self.engine.recompute_deadlines(&bound, self.now);
    }

    /// Sets the rules and their stored progress.
    pub fn rules(&mut self, rules: RuleSet, states: &[RuleState]) {
        let mut registry = RuleRegistry::new(rules);
        registry.resume(states);
        self.engine.set_rules(registry, self.now);
    }

    /// Restores the price of before a restart.
    pub fn price(&mut self, price: FleetPrice) {
        self.engine.prices.resume(price);
    }

    /// The engine, ready for events.
    pub fn finish(mut self) -> Engine {
        let engine = &mut self.engine;
        // The price or the total may have been changed since, and all sources are counted now.
        engine.prices.reprice(engine.params.pricing);
        for source in engine.sources.values_mut() {
            source.price = engine.prices.of(source.terms.price);
        }
        engine.forget_unused_hosts(self.now);
        self.engine
    }
}
