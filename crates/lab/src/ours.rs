//! Our own policies on made-up and recorded sources: the daemon's fleet, refits and plans, without the
//! daemon.
//!
//! Knows how a source is watched, fitted and planned for, which is what the daemon does. Must not know
//! what a source will publish, nor who else watches it.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidewatch_core::engine::action::{Action, Attempt, Persist};
use tidewatch_core::engine::book::RuleSet;
use tidewatch_core::engine::event::{
    EngineEvent, Failure, KnownSource, MadePlan, Moved, PlansReady, PredictedIntervals, ProbeReport,
};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::memory::SourceMemory;
use tidewatch_core::engine::params::{Allocator, BurstTerms, FleetParams, HostGroup, Terms};
use tidewatch_core::model::aggregate::Aggregate;
use tidewatch_core::model::beliefs::WELL_FOUNDED;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::Kind;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::{PlanOrder, PlanParams, ahead, spans};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::rolling;
use tidewatch_core::planning::rule::Part;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::driver::{Pending, World};
use super::feed::{Feed, Watching};
use super::served_rules::SimulatedRules;

/// A source to be watched.
#[derive(Debug, Clone)]
pub struct Watched<'w> {
    /// When it publishes, ascending.
    pub events: &'w [Timestamp],
    /// What may be spent on it.
    pub budget: Budget,
    /// What its group has in common, from these times on.
    pub kin: &'w [(Timestamp, Aggregate)],
    /// Its true rate, if the plan is to follow that.
    pub truth: Option<&'w Steps>,
    /// It is a page, whatever the others are.
    pub page: bool,
    /// z: what a probe must be worth, in hours that an update would wait.
    pub price: f32,
    /// It must be probed at least this often.
    pub max_gap: Option<Span>,
    /// What it is to rules.
    pub parts: &'w [Part],
}

impl<'w> Watched<'w> {
    /// A feed of which nothing is known, without a deadline or rules.
    pub fn new(events: &'w [Timestamp], budget: Budget) -> Self {
        let (kin, truth, page) = (&[][..], None, false);
        Self { events, budget, kin, truth, page, price: 0.0, max_gap: None, parts: &[] }
    }
}

/// How sources are watched.
#[derive(Debug, Clone)]
pub struct Setup<'s> {
    /// By whom.
    pub policy: Policy,
    /// What is done about bursts, and how age counts.
    pub burst: BurstTerms,
    /// θ.
    pub freshness_threshold: f64,
    /// a.
    pub importance: &'s Steps,
    /// How they are looked at.
    pub watching: Watching,
    /// How often rates are fitted.
    pub refit_every: Span,
    /// How long an answer takes.
    pub latency: Span,
    /// The share of probes that fail.
    pub errors: f64,
    /// How many slots there are for all together, in steps of which length, and who gets them; `None`
    /// if there are enough.
    pub slots: Option<(u32, Span, Allocator)>,
    /// The rules that are served beside the policy.
    pub rules: Option<&'s Arc<SimulatedRules>>,
    /// For jitter and failures.
    pub seed: u64,
}

/// How a source was probed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Probed {
    /// When, ascending.
    pub times: Vec<Timestamp>,
    /// Those of them that were sent because of a rule, with its name.
    pub for_rules: Vec<(Timestamp, Arc<str>)>,
}

/// Every probe of each of these sources, which are watched together from `from` until before `until`.
/// After each refit `refitted` is shown what is known of each.
pub fn watch(
    sources: &[Watched<'_>],
    setup: &Setup<'_>,
    (from, until): (Timestamp, Timestamp),
    mut refitted: impl FnMut(Timestamp, &[Feed]),
) -> Vec<Probed> {
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
            pending.tell(&mut engine, &mut world, now, EngineEvent::RatesFitted(fitted.to_vec()));
        }
        pending.tell(&mut engine, &mut world, now, EngineEvent::Tick);
        let last = pending.run(&mut engine, &mut world, now, stop - Span::from_millis(1));
        pending.drain(&mut engine, &mut world, last);
        if setup.fits() {
            for (feed, source) in world.feeds.iter_mut().zip(sources) {
                let since = source.kin.partition_point(|(since, _)| *since <= stop);
                feed.refit(stop, since.checked_sub(1).map(|at| &source.kin[at].1));
            }
            fitted = &ids;
        }
        refitted(stop, &world.feeds);
        now = stop;
    }
    world.probed
}

/// The sources, and what is learned of them.
struct Watcher<'w> {
    sources: &'w [Watched<'w>],
    setup: &'w Setup<'w>,
    params: PlanParams,
    feeds: Vec<Feed>,
    probed: Vec<Probed>,
    /// The rule that each source's next probe is for.
    due_for: BTreeMap<SourceId, Arc<str>>,
}

impl<'w> Watcher<'w> {
    fn new(sources: &'w [Watched<'w>], setup: &'w Setup<'w>, from: Timestamp) -> Self {
        let feed = |source: &Watched<'_>| {
            let mut watching = setup.watching.clone();
            if source.page {
                watching.kind = Kind::Page;
            }
            let feed = Feed::new(source.events.to_vec(), watching, from);
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
            probed: vec![Probed::default(); sources.len()],
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
        let (source, made_from, at) = (order.source, order.made_from, order.standing.now);
        let ahead = match self.sources[place(source)].truth {
            Some(truth) => rolling::plan(&order.standing, truth, &self.params.importance)?,
            None => ahead(order, &self.feeds[place(source)].rhythm()?, &self.params)?,
        };
        Some(MadePlan { source, made_from, at, ahead })
    }

    /// When updates are predicted that rules wait for, if any do.
    fn predicted(&self, order: &PlanOrder) -> Option<PredictedIntervals> {
        let wants = order.wants.as_ref()?;
        let known = self.feeds[place(order.source)].rhythm().filter(|known| known.updates >= WELL_FOUNDED);
        let intervals = match self.sources[place(order.source)].truth {
            Some(truth) => Some(spans(wants, truth, order.standing.now)),
            None => known.map(|known| spans(wants, &known.rate, order.standing.now)),
        };
        Some(PredictedIntervals { source: order.source, made_from: order.made_from, intervals })
    }
}

impl World for Watcher<'_> {
    fn probe(&mut self, attempt: &Attempt, now: Timestamp) -> ProbeReport {
        let (source, at) = (attempt.source, place(attempt.source));
        self.probed[at].times.push(attempt.started);
        if let Some(rule) = self.due_for.remove(&source) {
            self.probed[at].for_rules.push((attempt.started, rule));
        }
        let result = match self.setup.fails(source, now) {
            true => Err(Failure::Unreachable),
            false => Ok(self.feeds[at].look(now)),
        };
        let (started, finished) = (now, now + self.setup.latency);
        ProbeReport { source, started, finished, answered_by: None, crawl_delay: None, result }
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

/// Sources are numbered from 1, in their order.
fn place(id: SourceId) -> usize {
    (id.0 - 1) as usize
}

impl Setup<'_> {
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

    fn known(&self, id: SourceId, source: &Watched<'_>) -> KnownSource {
        let host = HostGroup { key: Arc::from(format!("s{}.example", id.0)), public: true };
        KnownSource {
            id,
            terms: Terms {
                max_gap: source.max_gap,
                cost: None,
                budget: source.budget,
                own_budget: true,
                policy: self.policy,
                weight: 1.0,
                price: source.price,
                host,
            },
            memory: SourceMemory::default(),
            probes: Vec::new(),
            answered_by: None,
            moved: Moved::Same,
        }
    }

    /// Whether anybody asks for rates: rules do, whatever the policy is.
    fn fits(&self) -> bool {
        self.rules.is_some() || !matches!(self.policy, Policy::Ttl | Policy::Uniform | Policy::Adaptive)
    }

    fn fails(&self, id: SourceId, at: Timestamp) -> bool {
        self.errors > 0.0
            && Stream::new(self.seed, format!("fails/{}/{}", id.0, at.as_millis())).unit() < self.errors
    }
}
