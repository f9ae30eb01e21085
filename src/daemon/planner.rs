//! Builds plans outside the scheduler's loop.
//!
//! Takes the queued orders as one batch. Reads the rates of their sources in one query and their update
//! times in another, then computes on a blocking thread. The scheduler receives the plans and may reject
//! them as stale. A source without a rate gets no plan; it is ordered again after its next probe or fit.
//! Must not know how a plan is used.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::config::configuration::Config;
use crate::store::StoreError;
use crate::store::known_rate::KnownRate;
use crate::store::reader::Reader;
use crate::store::rhythm::UpdateTimesRow;
use tidewatch_core::engine::event::{EngineEvent, MadePlan, PlansReady, PredictedIntervals, SourceProfile};
use tidewatch_core::model::aggregate::Borrow;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::habits::predict::UpdateForecast;
use tidewatch_core::model::habits::update_times::UpdateTimes;
use tidewatch_core::model::habits::weights::FEW;
use tidewatch_core::model::hourly_profile::HourlyProfile;
use tidewatch_core::model::source_model::WELL_FOUNDED;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::build::{self, KnownRhythm, PlanParams};
use tidewatch_core::source_id::SourceId;

use super::messages::Control;

/// Builds plans until the order channel closes.
#[derive(Debug)]
pub struct Planner {
    /// Source of rates and update times.
    pub reader: Reader,
    /// Orders for plans.
    pub orders: mpsc::UnboundedReceiver<PlanOrder>,
    /// Receives the plans, as events for the engine.
    pub control: mpsc::UnboundedSender<Control>,
    /// Plan parameters from the configuration.
    pub params: watch::Receiver<Arc<PlanParams>>,
}

/// Largest number of orders in one batch, and in the queue.
pub const BATCH: usize = 256;

/// The plan parameters of a configuration.
pub fn params(config: &Config) -> Arc<PlanParams> {
    // A validated configuration always converts; the fallback is never used.
    let importance = Steps::try_from(&config.importance);
    Arc::new(PlanParams {
        importance: importance.unwrap_or_else(|_| Steps::from(&Rate::constant(1.0))),
        freshness_threshold: config.rate.freshness_threshold,
        switches: matches!(config.rate.borrow, Borrow::Switch { .. }),
    })
}

impl Planner {
    /// Builds plans until the order channel closes.
    pub async fn run(mut self) {
        let mut orders = Vec::with_capacity(BATCH);
        while self.orders.recv_many(&mut orders, BATCH).await > 0 {
            let requests = orders.len();
            let ready = match self.plan(std::mem::take(&mut orders)).await {
                Ok(ready) => {
                    tracing::debug!(requests, made = ready.plans.len(), "plans made");
                    PlansReady { requests, ..ready }
                }
                Err(error) => {
                    tracing::warn!(%error, "rates cannot be read now; nothing is planned");
                    PlansReady { requests, ..PlansReady::default() }
                }
            };
            if self.control.send(Control::Event(EngineEvent::PlansReady(ready))).is_err() {
                return;
            }
        }
    }

    async fn plan(&self, orders: Vec<PlanOrder>) -> Result<PlansReady, StoreError> {
        let ids: Vec<SourceId> = orders.iter().map(|order| order.source).collect();
        let mut rates = self.reader.rates(&ids).await?;
        let closely = orders.iter().filter(|order| order.input.closely).map(|order| order.source);
        let mut update_times = self.reader.update_times(&closely.collect::<Vec<_>>()).await?;
        let unknown =
            orders.iter().filter(|order| order.predictions.is_some() && !rates.contains_key(&order.source));
        let mut intervals: Vec<PredictedIntervals> = unknown
            .map(|&PlanOrder { source, made_from, .. }| PredictedIntervals {
                source,
                made_from,
                intervals: None,
            })
            .collect();
        // If a source has two orders, the earlier one is stale.
        let jobs: Vec<Job> = orders
            .into_iter()
            .rev()
            .filter_map(|order| {
                let known = rates.remove(&order.source)?;
                let update_times = update_times.remove(&order.source);
                Some(Job { order, known, update_times })
            })
            .collect();
        let params = Arc::clone(&self.params.borrow());
        let jobs = Arc::new(jobs);
        let profiles = compute(Arc::clone(&jobs), Arc::clone(&params), profile).await;
        if jobs.iter().any(|job| job.order.predictions.is_some()) {
            intervals.extend(compute(Arc::clone(&jobs), Arc::clone(&params), predict).await);
        }
        let plans = compute(jobs, params, make).await;
        Ok(PlansReady { requests: 0, profiles, plans, intervals })
    }
}

/// An order, with the stored inputs of its source.
#[derive(Debug)]
struct Job {
    order: PlanOrder,
    known: KnownRate,
    /// Only for a source that is planned closely.
    update_times: Option<UpdateTimesRow>,
}

impl Job {
    /// The forecast from the source's last updates, if its predictors have weights.
    fn forecast(&self) -> Option<Arc<UpdateForecast>> {
        let UpdateTimesRow { update_times, habits, .. } = self.update_times.as_ref()?;
        let habits = PredictorMix::from_bytes(habits.as_deref()?)?;
        let times = UpdateTimes::from_bytes(update_times).filter(|times| times.entries().len() >= FEW)?;
        Some(Arc::new(UpdateForecast::new(times, habits, self.known.rate.zone(), self.order.input.now)))
    }
}

/// Computes on a blocking thread. If one source panics, the sources of the batch are computed again one by
/// one, and only that source has no result.
async fn compute<T: Send + 'static>(
    jobs: Arc<Vec<Job>>,
    params: Arc<PlanParams>,
    make: fn(&Job, &PlanParams) -> Option<T>,
) -> Vec<T> {
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
                let source = jobs[index].order.source.0;
                tracing::error!(source, "planning this source panicked; please report it");
            }
        }
    }
    plans
}

fn profile(Job { order, known, .. }: &Job, _: &PlanParams) -> Option<SourceProfile> {
    let (profile, per_hour) = HourlyProfile::of(&Steps::from(&known.rate), order.input.now)?;
    let KnownRate { updates, dispersion, .. } = *known;
    Some(SourceProfile { source: order.source, profile, per_hour, updates, dispersion })
}

fn predict(Job { order, known, .. }: &Job, _: &PlanParams) -> Option<PredictedIntervals> {
    let wants = order.predictions.as_ref()?;
    let founded = known.updates >= WELL_FOUNDED;
    let intervals =
        founded.then(|| build::predicted_intervals(wants, &Steps::from(&known.rate), order.input.now));
    Some(PredictedIntervals { source: order.source, made_from: order.made_from, intervals })
}

fn make(job: &Job, params: &PlanParams) -> Option<MadePlan> {
    let Job { order, known, .. } = job;
    let KnownRate { origin, updates, dispersion, .. } = *known;
    let (rate, foresight) = (Steps::from(&known.rate), job.forecast());
    let rhythm = KnownRhythm { rate, origin, updates, dispersion, foresight };
    let ahead = build::build_plan(order, &rhythm, params)?;
    let numbers = [ahead.expected_cost, ahead.lower_bound, ahead.price, ahead.overflow.unwrap_or(0.0)];
    if numbers.iter().any(|number| !number.is_finite()) {
        // A non-finite number cannot be stored and is a bug.
        tracing::error!(source = order.source.0, ?numbers, "a plan makes no sense; please report it");
        return None;
    }
    Some(MadePlan { source: order.source, made_from: order.made_from, at: order.input.now, ahead })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::model::aggregate::RateOrigin;
    use tidewatch_core::planning::budget::Budget;
    use tidewatch_core::planning::plan::Revision;
    use tidewatch_core::planning::plan_input::PlanInput;
    use tidewatch_core::planning::plan_input::PlannedTimes;
    use tidewatch_core::planning::policy::Policy;
    use tidewatch_core::time::Span;
    use tidewatch_core::time::Timestamp;

    fn job(id: i64) -> Job {
        let input = PlanInput::new(Timestamp::from_secs(0), Budget::default());
        let order = PlanOrder {
            source: SourceId(id),
            policy: Policy::Plan,
            made_from: Revision(1),
            input,
            predictions: None,
        };
        let rate = Rate::constant(1.0);
        Job {
            order,
            known: KnownRate { rate, origin: RateOrigin::Individual, updates: 50, dispersion: 1.0 },
            update_times: None,
        }
    }

    #[test]
    fn a_source_with_a_rate_has_a_profile_even_without_a_plan() {
        let mut job = job(1);
        job.order.policy = Policy::Adaptive;
        let params = PlanParams {
            importance: Steps::from(&Rate::constant(1.0)),
            freshness_threshold: 1.0,
            switches: false,
        };
        let made = profile(&job, &params).unwrap();
        assert_eq!((made.source, made.per_hour, made.updates), (SourceId(1), 1.0, 50));
        assert_eq!(made.profile.at(Timestamp::from_secs(0)), 1.0);
        assert_eq!(make(&job, &params), None);
    }

    /// A source with 200 updates, each four minutes past the hour.
    fn by_the_clock(habits: bool) -> Job {
        let now = Timestamp::parse_iso("2026-11-16T09:30:00Z").unwrap();
        let mut update_times = UpdateTimes::default();
        for hours in (0..200).rev() {
            let at = now - Span::from_mins(26) - Span::from_hours(hours);
            update_times.watched_since(at);
            update_times.note(at, Some(1.0));
        }
        let mut job = job(1);
        job.order.policy = Policy::Auto;
        job.order.input =
            PlanInput { closely: true, ..PlanInput::new(now, Budget { probes: 24, ..Budget::default() }) };
        let rhythm = Steps::from(&job.known.rate);
        let weighed =
            habits.then(|| PredictorMix::fit_weights(&update_times, &rhythm, now, true).to_bytes());
        job.update_times = Some(UpdateTimesRow {
            update_times: update_times.to_bytes(),
            habits: weighed,
            weighed_at: None,
        });
        job
    }

    #[test]
    fn predictor_weights_move_planned_probes_close_to_the_update_minute() {
        let params = PlanParams {
            importance: Steps::from(&Rate::constant(1.0)),
            freshness_threshold: 1.0,
            switches: false,
        };
        let late = |job: &Job| -> Vec<i64> {
            let times = make(job, &params).unwrap().ahead.times;
            let hour = Span::from_hours(1).as_millis();
            times.iter().take(3).map(|at| (at.as_millis() - 4 * 60_000).rem_euclid(hour) / 60_000).collect()
        };
        let informed = late(&by_the_clock(true));
        assert!(informed.iter().all(|&late| late <= 3), "{informed:?}");
        let unweighed = late(&by_the_clock(false));
        assert!(unweighed.iter().any(|&late| late > 3), "{unweighed:?}");
        let mut broken = by_the_clock(true);
        broken.update_times =
            broken.update_times.map(|row| UpdateTimesRow { habits: Some(vec![1]), ..row });
        assert_eq!(late(&broken), unweighed, "unreadable weights are ignored");
        let mut seldom = by_the_clock(true);
        seldom.order.input.closely = false;
        assert_ne!(late(&seldom), informed, "predictors are used only for close planning");
    }

    #[tokio::test]
    async fn a_panic_in_planning_loses_only_that_sources_plan() {
        fn make(Job { order, .. }: &Job, _: &PlanParams) -> Option<MadePlan> {
            assert_ne!(order.source, SourceId(2), "panics for source 2");
            let at = order.input.now;
            let ahead = PlannedTimes {
                by: Policy::Plan,
                times: vec![at],
                starts: at,
                ends: at,
                expected_cost: 0.0,
                lower_bound: 0.0,
                price: 0.0,
                overflow: None,
            };
            Some(MadePlan { source: order.source, made_from: order.made_from, at, ahead })
        }
        let jobs = Arc::new((1..5).map(job).collect());
        let params = PlanParams {
            importance: Steps::from(&Rate::constant(1.0)),
            freshness_threshold: 1.0,
            switches: false,
        };
        let plans = compute(jobs, Arc::new(params), make).await;
        assert_eq!(plans.iter().map(|plan| plan.source.0).collect::<Vec<_>>(), [1, 3, 4]);
    }
}
