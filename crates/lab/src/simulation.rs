//! The daemon's own policies on simulated and recorded sources.
//!
//! It runs the daemon's engine, refits and plans without the daemon. Must not know a source's future updates,
//! nor the other policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::event::{
    EngineEvent, Failure, KnownSource, MadePlan, Moved, PlansReady, PredictedIntervals, ProbeReport,
};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::params::{Allocator, BurstTerms, FleetParams, HostGroup, SourcePrice, Terms};
use tidewatch_core::engine::rule_counts::RuleSet;
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::aggregate::Aggregate;
use tidewatch_core::model::source_model::WELL_FOUNDED;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::SourceKind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::{PlanOrder, PlanParams, build_plan, predicted_intervals};
use tidewatch_core::planning::plan_input;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::rule::RulePart;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::calibration::Calibration;
use super::driver::{Pending, SimulatedWorld};
use super::learned_feed::{LearnedFeed, Watching};
use super::simulated_rules::SimulatedRules;

/// A source to be probed.
#[derive(Debug, Clone)]
pub struct SimulatedFeed<'w> {
    /// Update times, ascending.
    pub events: &'w [Timestamp],
    /// Its probe budget.
    pub budget: Budget,
    /// The aggregates of its group, each valid from its time on.
    pub group_rates: &'w [(Timestamp, Aggregate)],
    /// Its true rate, if plans are to use it.
    pub truth: Option<&'w Steps>,
    /// True if it is a page, even if the others are not.
    pub page: bool,
    /// z: the minimum value of a probe, in hours of delay of one update.
    pub price: f32,
    /// The maximum interval between probes.
    pub max_gap: Option<Span>,
    /// Its part in each rule.
    pub parts: &'w [RulePart],
}

impl<'w> SimulatedFeed<'w> {
    /// A feed without known rate, deadline or rules.
    pub fn new(events: &'w [Timestamp], budget: Budget) -> Self {
        let (group_rates, truth, page) = (&[][..], None, false);
        Self { events, budget, group_rates, truth, page, price: 0.0, max_gap: None, parts: &[] }
    }
}

/// How sources are probed.
#[derive(Debug, Clone)]
pub struct SimulationSetup<'s> {
    /// The policy.
    pub policy: Policy,
    /// Burst settings and the weight of age.
    pub burst: BurstTerms,
    /// θ: the freshness threshold.
    pub freshness_threshold: f64,
    /// a: the importance.
    pub importance: &'s Steps,
    /// How probes are evaluated.
    pub watching: Watching,
    /// The interval between fits of the rates.
    pub refit_every: Span,
    /// The duration of a probe.
    pub latency: Span,
    /// The share of probes that fail.
    pub errors: f64,
    /// Slots per step for all sources, the length of a step, and the allocator; `None` for no limit.
    pub slots: Option<(u32, Span, Allocator)>,
    /// The rules besides the policy.
    pub rules: Option<&'s Arc<SimulatedRules>>,
    /// Seed of jitter and failures.
    pub seed: u64,
}

/// The probes of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SourceProbeTimes {
    /// Probe times, ascending.
    pub times: Vec<Timestamp>,
    /// The probes that were sent because of a rule, with its name.
    pub for_rules: Vec<(Timestamp, Arc<str>)>,
    /// What its model stated, and what came of it.
    pub calibration: Calibration,
}

impl SourceProbeTimes {
    /// Probes at these times, of no model and for no rule.
    pub fn at(times: Vec<Timestamp>) -> Self {
        Self { times, ..Self::default() }
    }
}

/// Runs all sources together from `from` until before `until` and returns the probes of each. After each
/// refit, `refitted` is called with the models.
pub fn watch(
    sources: &[SimulatedFeed<'_>],
    setup: &SimulationSetup<'_>,
    (from, until): (Timestamp, Timestamp),
    mut refitted: impl FnMut(Timestamp, &[LearnedFeed]),
) -> Vec<SourceProbeTimes> {
    let ids: Vec<SourceId> = (1..).take(sources.len()).map(SourceId).collect();
    let mut loader = Loader::new(setup.params(), setup.seed, from);
    let known = ids.iter().zip(sources).map(|(&id, source)| setup.known(id, source));
    loader.sources(known.collect());
    if let Some(rules) = setup.rules {
        let terms = rules.rules.iter().map(|rule| Arc::clone(&rule.terms)).collect();
        let concerned = ids.iter().zip(sources).filter(|(_, source)| !source.parts.is_empty());
        let parts = concerned.map(|(&id, source)| (id, source.parts.into())).collect();
        loader.rules(RuleSet { terms, parts }, &[]);
    }
    let mut engine = loader.finish();
    let mut world = Watcher::new(sources, setup, from);
    let mut now = from;
    let mut fitted = &[][..];
    while now < until {
        let stop = (now + setup.refit_every).min(until);
        let mut pending = Pending::default();
        if !fitted.is_empty() {
            pending.deliver(&mut engine, &mut world, now, EngineEvent::RatesFitted(fitted.to_vec()));
        }
        pending.deliver(&mut engine, &mut world, now, EngineEvent::Tick);
        let last = pending.run(&mut engine, &mut world, now, stop - Span::from_millis(1));
        pending.drain(&mut engine, &mut world, last);
        if setup.fits() {
            for (feed, source) in world.feeds.iter_mut().zip(sources) {
                let since = source.group_rates.partition_point(|(since, _)| *since <= stop);
                feed.refit(stop, since.checked_sub(1).map(|at| &source.group_rates[at].1));
            }
            fitted = &ids;
        }
        refitted(stop, &world.feeds);
        now = stop;
    }
    let feeds = world.feeds.iter();
    world
        .probed
        .iter_mut()
        .zip(feeds)
        .for_each(|(probed, feed)| probed.calibration = feed.calibration().clone());
    world.probed
}

/// The sources and their models.
struct Watcher<'w> {
    sources: &'w [SimulatedFeed<'w>],
    setup: &'w SimulationSetup<'w>,
    params: PlanParams,
    feeds: Vec<LearnedFeed>,
    probed: Vec<SourceProbeTimes>,
    /// The rule that each source's next probe is for.
    due_for: BTreeMap<SourceId, Arc<str>>,
}

impl<'w> Watcher<'w> {
    fn new(sources: &'w [SimulatedFeed<'w>], setup: &'w SimulationSetup<'w>, from: Timestamp) -> Self {
        let feed = |source: &SimulatedFeed<'_>| {
            let mut watching = setup.watching.clone();
            if source.page {
                watching.kind = SourceKind::Page;
            }
            let feed = LearnedFeed::new(source.events.to_vec(), watching, from);
            match setup.rules {
                Some(rules) => feed.with_rules(rules, source.parts),
                None => feed,
            }
        };
        Self {
            sources,
            setup,
            params: PlanParams {
                importance: setup.importance.clone(),
                freshness_threshold: setup.freshness_threshold,
                switches: false,
            },
            feeds: sources.iter().map(feed).collect(),
            probed: vec![SourceProbeTimes::default(); sources.len()],
            due_for: BTreeMap::new(),
        }
    }

    fn note_due(&mut self, source: SourceId, rule: Option<&Arc<str>>) {
        match rule {
            Some(rule) => drop(self.due_for.insert(source, Arc::clone(rule))),
            None => drop(self.due_for.remove(&source)),
        }
    }

    fn planned(&self, order: &PlanOrder) -> Option<MadePlan> {
        let (source, made_from, at) = (order.source, order.made_from, order.input.now);
        let ahead = match self.sources[place(source)].truth {
            Some(truth) => plan_input::plan(&order.input, truth, &self.params.importance)?,
            None => build_plan(order, &self.feeds[place(source)].rhythm()?, &self.params)?,
        };
        Some(MadePlan { source, made_from, at, ahead })
    }

    /// The predicted intervals of updates that rules request, if any rule does.
    fn predicted(&self, order: &PlanOrder) -> Option<PredictedIntervals> {
        let wants = order.predictions.as_ref()?;
        let known = self.feeds[place(order.source)].rhythm().filter(|known| known.updates >= WELL_FOUNDED);
        let intervals = match self.sources[place(order.source)].truth {
            Some(truth) => Some(predicted_intervals(wants, truth, order.input.now)),
            None => known.map(|known| predicted_intervals(wants, &known.rate, order.input.now)),
        };
        Some(PredictedIntervals { source: order.source, made_from: order.made_from, intervals })
    }
}

impl SimulatedWorld for Watcher<'_> {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        let (source, at) = (attempt.source, place(attempt.source));
        self.probed[at].times.push(attempt.started);
        if let Some(rule) = self.due_for.remove(&source) {
            self.probed[at].for_rules.push((attempt.started, rule));
        }
        let result = match self.setup.fails(source, now) {
            true => Err(Failure::Unreachable),
            false => Ok(self.feeds[at].probe(now)),
        };
        let (started, finished) = (now, now + self.setup.latency);
        ProbeReport { source, started, finished, answered_by: None, crawl_delays: Vec::new(), result }
    }

    fn plan(&mut self, order: &PlanOrder, _: Timestamp) -> (Span, PlansReady) {
        let plans = self.planned(order).into_iter().collect();
        let intervals = self.predicted(order).into_iter().collect();
        (Span::ZERO, PlansReady { requests: 1, plans, intervals, ..PlansReady::default() })
    }

    fn watch(&mut self, action: &Action, _: Timestamp) {
        match action {
            Action::Persist(Persist::Ended(result)) => {
                self.note_due(result.source, result.memory.rule.as_ref());
            }
            Action::Persist(Persist::Due(changes)) => {
                changes.iter().for_each(|change| self.note_due(change.source, change.rule.as_ref()));
            }
            Action::Persist(Persist::Plans(plans)) => {
                plans.iter().for_each(|plan| self.note_due(plan.due.source, plan.due.rule.as_ref()));
            }
            _ => {}
        }
    }
}

/// Sources are numbered from 1 in their order.
fn place(id: SourceId) -> usize {
    (id.0 - 1) as usize
}

impl SimulationSetup<'_> {
    fn params(&self) -> FleetParams {
        let (probes_per_step, step, allocator) =
            self.slots.unwrap_or((u32::MAX, Span::from_secs(10), Allocator::default()));
        FleetParams {
            step,
            probes_per_step,
            allocator,
            host_spacing: Span::ZERO,
            burst: self.burst,
            ..FleetParams::default()
        }
    }

    fn known(&self, id: SourceId, source: &SimulatedFeed<'_>) -> KnownSource {
        let host = HostGroup { key: Arc::from(format!("s{}.example", id.0)), public: true };
        KnownSource {
            id,
            terms: Terms {
                max_gap: source.max_gap,
                cost: None,
                budget: source.budget,
                policy: self.policy,
                weight: 1.0,
                price: SourcePrice::Own(source.price),
                host,
            },
            memory: SourceMemory::default(),
            probes: Vec::new(),
            answered_by: None,
            moved: Moved::Same,
        }
    }

    /// Whether rates are needed. Rules need them under every policy.
    fn fits(&self) -> bool {
        self.rules.is_some() || !matches!(self.policy, Policy::Ttl | Policy::Uniform | Policy::Adaptive)
    }

    fn fails(&self, id: SourceId, at: Timestamp) -> bool {
        self.errors > 0.0
            && Stream::new(self.seed, format!("fails/{}/{}", id.0, at.as_millis())).unit() < self.errors
    }
}
