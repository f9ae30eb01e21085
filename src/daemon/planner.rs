//! Making plans, off the hot path.
//!
//! Takes the orders that wait, reads the rates of those sources in one query, and computes on a
//! thread where that may take its time; the pilot hears of what came of it, and may find it stale.
//! A source without a rate is left out: it asks again when it lands or has one. Knows rates and
//! importance, and so what `auto` may follow; must not know what becomes of a plan.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::config::Config;
use crate::fleet::PlanOrder;
use crate::fleet::params::SourceId;
use crate::rate::aggregate::{Borrow, Origin};
use crate::rate::cyclic::Rate;
use crate::rate::steps::Steps;
use crate::schedule::ask::Knowledge;
use crate::schedule::chain;
use crate::schedule::plan::Revision;
use crate::schedule::policy::Policy;
use crate::schedule::rolling::{self, Ahead};
use crate::store::StoreError;
use crate::store::reader::Reader;
use crate::store::rhythm::KnownRate;
use crate::time::Timestamp;

use super::mind::WELL_FOUNDED;
use super::pilot::Control;

/// A plan that was made.
#[derive(Debug, Clone, PartialEq)]
pub struct Made {
    /// For whom.
    pub source: SourceId,
    /// From what state.
    pub made_from: Revision,
    /// When.
    pub at: Timestamp,
    /// The plan.
    pub ahead: Ahead,
}

/// Makes plans until nobody orders any.
#[derive(Debug)]
pub struct Planner {
    /// Where rates come from.
    pub reader: Reader,
    /// What is ordered.
    pub orders: mpsc::Receiver<PlanOrder>,
    /// Where plans go.
    pub control: mpsc::UnboundedSender<Control>,
    /// What plans follow beside rates.
    pub params: watch::Receiver<Arc<PlanParams>>,
}

/// What plans follow beside rates.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanParams {
    /// When it matters that news is fresh.
    importance: Steps,
    /// θ.
    freshness_threshold: f64,
    /// Whether the paper's switch says when a source's own history is too thin; else a number does.
    switches: bool,
}

impl PlanParams {
    /// From the configuration.
    pub fn new(config: &Config) -> Self {
        // A configuration holds no other than good values.
        let importance = Steps::try_from(&config.importance);
        Self {
            importance: importance.unwrap_or_else(|_| Steps::from(&Rate::constant(1.0))),
            freshness_threshold: config.rate.freshness_threshold,
            switches: matches!(config.rate.borrow, Borrow::Switch { .. }),
        }
    }
}

/// Orders that are taken at a time, and that may wait.
pub const BATCH: usize = 256;

impl Planner {
    /// Plans until nobody orders any.
    pub async fn run(mut self) {
        let mut orders = Vec::with_capacity(BATCH);
        while self.orders.recv_many(&mut orders, BATCH).await > 0 {
            let ordered = orders.len();
            match self.plan(std::mem::take(&mut orders)).await {
                Ok(plans) => {
                    tracing::debug!(ordered, made = plans.len(), "plans made");
                    if self.control.send(Control::Planned(plans)).is_err() {
                        return;
                    }
                }
                Err(error) => tracing::warn!(%error, "rates cannot be read now; nothing is planned"),
            }
        }
    }

    async fn plan(&self, orders: Vec<PlanOrder>) -> Result<Vec<Made>, StoreError> {
        let ids: Vec<SourceId> = orders.iter().map(|order| order.source).collect();
        let mut rates = self.reader.rates(&ids).await?;
        // Of two orders for one source the first is stale.
        let jobs: Vec<Job> = orders
            .into_iter()
            .rev()
            .filter_map(|order| rates.remove(&order.source).map(|rate| (order, rate)))
            .collect();
        let params = Arc::clone(&self.params.borrow());
        Ok(compute(Arc::new(jobs), params, make).await)
    }
}

type Job = (PlanOrder, KnownRate);

/// Computes on a thread where it may take its time. A source that makes that panic costs its own
/// plan: the others of its batch are computed again one by one.
async fn compute(
    jobs: Arc<Vec<Job>>,
    params: Arc<PlanParams>,
    make: fn(&Job, &PlanParams) -> Option<Made>,
) -> Vec<Made> {
    let (all, by) = (Arc::clone(&jobs), Arc::clone(&params));
    let batch = move || all.iter().filter_map(|job| make(job, &by)).collect();
    if let Ok(plans) = tokio::task::spawn_blocking(batch).await {
        return plans;
    }
    let mut plans = Vec::new();
    for index in 0..jobs.len() {
        let (all, by) = (Arc::clone(&jobs), Arc::clone(&params));
        match tokio::task::spawn_blocking(move || make(&all[index], &by)).await {
            Ok(plan) => plans.extend(plan),
            Err(_) => {
                let source = jobs[index].0.source.0;
                tracing::error!(source, "planning this source panicked; please report it");
            }
        }
    }
    plans
}

/// The next times of a source by the policy that it is planned by.
fn ahead(order: &PlanOrder, known: &KnownRate, params: &PlanParams) -> Option<Ahead> {
    let (standing, rate) = (&order.standing, Steps::from(&known.rate));
    let best = || rolling::plan(standing, &rate, &params.importance);
    let chain = |policy| {
        let knowledge = Knowledge {
            rate: Some(&rate),
            aggregate: Some((&rate, 1.0)),
            freshness_threshold: params.freshness_threshold,
            ..Knowledge::nothing(standing.budget, &params.importance)
        };
        chain::follow(policy, standing, &knowledge, &rate)
    };
    let borrowed = known.origin != Origin::Individual;
    match order.policy {
        Policy::Plan => best(),
        // The group's history at its own level; without a group there is none.
        Policy::AggHist => chain(Policy::AggHist).filter(|_| borrowed),
        Policy::IndHist | Policy::Threshold | Policy::FirstArrival => chain(order.policy),
        Policy::Auto => {
            let thin = match params.switches {
                true => known.origin == Origin::Aggregate,
                false => known.updates < WELL_FOUNDED,
            };
            match (thin, borrowed) {
                (false, _) => best(),
                // The best that can be made of what is borrowed. By θ alone, a source that seldom
                // updates would be seen least of all while it is least known.
                (true, true) => best().map(|ahead| Ahead { by: Policy::AggHist, ..ahead }),
                (true, false) => None,
            }
        }
        Policy::Ttl | Policy::Adaptive | Policy::Uniform => None,
    }
}

fn make((order, known): &Job, params: &PlanParams) -> Option<Made> {
    let ahead = ahead(order, known, params)?;
    let numbers = [ahead.expected_cost, ahead.lower_bound, ahead.price, ahead.overflow.unwrap_or(0.0)];
    if numbers.iter().any(|number| !number.is_finite()) {
        // Could not be stored, and cannot be right.
        tracing::error!(source = order.source.0, ?numbers, "a plan makes no sense; please report it");
        return None;
    }
    Some(Made { source: order.source, made_from: order.made_from, at: order.standing.now, ahead })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::FeedHints;
    use crate::schedule::budget::Budget;
    use crate::schedule::rolling::Standing;
    use crate::time::Span;

    fn job(id: i64) -> Job {
        let standing = Standing {
            now: Timestamp::from_secs(0),
            budget: Budget::default(),
            spent: Vec::new(),
            not_before: Timestamp::from_secs(0),
            fresh_for: Span::ZERO,
            hints: FeedHints::default(),
            holds: None,
            excess: None,
            phase: 0.0,
        };
        let order =
            PlanOrder { source: SourceId(id), policy: Policy::Plan, made_from: Revision(1), standing };
        let rate = Rate::constant(1.0);
        (order, KnownRate { rate, origin: Origin::Individual, updates: 50 })
    }

    fn params() -> PlanParams {
        PlanParams { importance: Steps::constant(1.0).unwrap(), freshness_threshold: 1.0, switches: false }
    }

    #[test]
    fn who_knows_the_rate_decides_what_auto_may_follow() {
        let by = |policy, origin, updates, switches| {
            let (order, known) = job(1);
            let (order, known) = (PlanOrder { policy, ..order }, KnownRate { origin, updates, ..known });
            ahead(&order, &known, &PlanParams { switches, ..params() }).map(|ahead| ahead.by)
        };
        use Origin::{Aggregate, Blend, Individual};
        assert_eq!(by(Policy::Auto, Individual, 9, false), None, "nothing is known yet");
        assert_eq!(by(Policy::Auto, Individual, 10, false), Some(Policy::Plan));
        assert_eq!(by(Policy::Auto, Blend, 9, false), Some(Policy::AggHist));
        assert_eq!(by(Policy::Auto, Aggregate, 10, false), Some(Policy::Plan));
        assert_eq!(by(Policy::Auto, Aggregate, 10, true), Some(Policy::AggHist));
        assert_eq!(by(Policy::Auto, Individual, 10, true), Some(Policy::Plan));
        for policy in [Policy::IndHist, Policy::Threshold, Policy::FirstArrival, Policy::Plan] {
            assert_eq!(by(policy, Individual, 3, false), Some(policy));
        }
        assert_eq!(by(Policy::AggHist, Aggregate, 3, false), Some(Policy::AggHist));
        assert_eq!(by(Policy::AggHist, Individual, 99, false), None, "it has no group");
        for policy in [Policy::Ttl, Policy::Adaptive, Policy::Uniform] {
            assert_eq!(by(policy, Individual, 99, false), None);
        }
    }

    #[tokio::test]
    async fn a_source_that_makes_planning_panic_costs_its_own_plan_only() {
        fn make((order, _): &Job, _: &PlanParams) -> Option<Made> {
            assert_ne!(order.source, SourceId(2), "this one is poison");
            let at = order.standing.now;
            let ahead = Ahead {
                by: Policy::Plan,
                times: vec![at],
                starts: at,
                ends: at,
                expected_cost: 0.0,
                lower_bound: 0.0,
                price: 0.0,
                overflow: None,
            };
            Some(Made { source: order.source, made_from: order.made_from, at, ahead })
        }
        let jobs = Arc::new((1..5).map(job).collect());
        let plans = compute(jobs, Arc::new(params()), make).await;
        assert_eq!(plans.iter().map(|plan| plan.source.0).collect::<Vec<_>>(), [1, 3, 4]);
    }
}
