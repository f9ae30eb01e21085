//! Our own policies on made-up and recorded sources: the daemon's fleet, refits and plans, without the
//! daemon.
//!
//! Knows how a source is watched, fitted and planned for, which is what the daemon does. Must not know
//! what a source will publish, nor who else watches it.

use std::cell::RefCell;
use std::sync::Arc;

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{Failure, Known, MadePlan, Moved};
use tidewatch_core::engine::loading::Loader;
use tidewatch_core::engine::memory::Memory;
use tidewatch_core::engine::params::{Allocator, BurstTerms, FleetParams, HostGroup, Terms};
use tidewatch_core::model::aggregate::Aggregate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::build::{PlanOrder, PlanParams, ahead};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::rolling;
use tidewatch_core::rng::Stream;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::driver;
use super::feed::{Feed, Watching};

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
    /// z: what a probe must be worth, in hours that an update would wait.
    pub price: f32,
    /// For jitter and failures.
    pub seed: u64,
}

/// Every probe of each of these sources, which are watched together from `from` until before `until`.
/// After each refit `refitted` is shown what is known of each.
pub fn watch(
    sources: &[Watched<'_>],
    setup: &Setup<'_>,
    (from, until): (Timestamp, Timestamp),
    mut refitted: impl FnMut(Timestamp, &[Feed]),
) -> Vec<Vec<Timestamp>> {
    let ids: Vec<SourceId> = (1..).take(sources.len()).map(SourceId).collect();
    let mut loader = Loader::new(setup.params(), setup.seed, from);
    let known = ids.iter().zip(sources).map(|(&id, source)| setup.known(id, source.budget));
    loader.sources(known.collect());
    let mut engine = loader.finish();
    let feeds: RefCell<Vec<Feed>> = RefCell::new(
        sources
            .iter()
            .map(|source| Feed::new(source.events.to_vec(), setup.watching.clone(), from))
            .collect(),
    );
    let place = |id: SourceId| (id.0 - 1) as usize;
    let params = PlanParams {
        importance: setup.importance.clone(),
        freshness_threshold: setup.freshness_threshold,
        switches: false,
    };
    let planner = |order: &PlanOrder| {
        let (source, made_from, at) = (order.source, order.made_from, order.standing.now);
        let ahead = match sources[place(source)].truth {
            Some(truth) => rolling::plan(&order.standing, truth, &params.importance)?,
            None => ahead(order, &feeds.borrow()[place(source)].rhythm()?, &params)?,
        };
        Some(MadePlan { source, made_from, at, ahead })
    };
    let mut probes: Vec<Vec<Timestamp>> = vec![Vec::new(); sources.len()];
    let mut now = from;
    let mut fitted = &[][..];
    while now < until {
        let stop = (now + setup.refit_every).min(until);
        let world = |attempt: &Attempt, at: Timestamp| {
            if setup.fails(attempt.source, at) {
                return (setup.latency, Err(Failure::Unreachable));
            }
            (setup.latency, Ok(feeds.borrow_mut()[place(attempt.source)].look(at)))
        };
        let sent =
            driver::run_planned(&mut engine, world, planner, fitted, now, stop - Span::from_millis(1));
        sent.iter().for_each(|sent| probes[place(sent.source)].push(sent.started));
        if setup.fits() {
            for (feed, source) in feeds.borrow_mut().iter_mut().zip(sources) {
                let since = source.kin.partition_point(|(since, _)| *since <= stop);
                feed.refit(stop, since.checked_sub(1).map(|at| &source.kin[at].1));
            }
            fitted = &ids;
        }
        refitted(stop, &feeds.borrow());
        now = stop;
    }
    probes
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

    fn known(&self, id: SourceId, budget: Budget) -> Known {
        let host = HostGroup { key: Arc::from(format!("s{}.example", id.0)), public: true };
        Known {
            id,
            terms: Terms {
                max_gap: None,
                cost: None,
                budget,
                own_budget: true,
                policy: self.policy,
                weight: 1.0,
                price: self.price,
                host,
            },
            memory: Memory::default(),
            probes: Vec::new(),
            answered_by: None,
            moved: Moved::Same,
        }
    }

    /// Whether anybody asks for rates.
    fn fits(&self) -> bool {
        !matches!(self.policy, Policy::Ttl | Policy::Uniform | Policy::Adaptive)
    }

    fn fails(&self, id: SourceId, at: Timestamp) -> bool {
        self.errors > 0.0
            && Stream::new(self.seed, format!("fails/{}/{}", id.0, at.as_millis())).unit() < self.errors
    }
}
