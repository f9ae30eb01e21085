//! Making plans, off the hot path.
//!
//! Takes the orders that wait, reads the rates of those sources in one query and what is known of their
//! habits in another, and computes on a thread where that may take its time; the scheduler hears of what
//! came of it, and may find it stale. A source without a rate is left out: it asks again when it lands
//! or has one. Knows where rates and habits come from; must not know what becomes of a plan.

use std::sync::Arc;

use tokio::sync::{mpsc, watch};

use crate::config::configuration::Config;
use crate::store::StoreError;
use crate::store::known_rate::KnownRate;
use crate::store::reader::Reader;
use crate::store::rhythm::DiaryRow;
use tidewatch_core::engine::event::{EngineEvent, MadePlan, PlansReady, PredictedIntervals, SourceProfile};
use tidewatch_core::model::aggregate::Borrow;
use tidewatch_core::model::beliefs::WELL_FOUNDED;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::habits::diary::UpdateTimes;
use tidewatch_core::model::habits::foretell::Foresight;
use tidewatch_core::model::habits::mixture::PredictorMix;
use tidewatch_core::model::habits::weigh::FEW;
use tidewatch_core::model::pulse::HourlyProfile;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::build::{self, PlanParams, Rhythm};
use tidewatch_core::source_id::SourceId;

use super::messages::Control;

/// Makes plans until nobody orders any.
#[derive(Debug)]
pub struct Planner {
    /// Where rates come from.
    pub reader: Reader,
    /// What is ordered.
    pub orders: mpsc::UnboundedReceiver<PlanOrder>,
    /// Where plans go.
    pub control: mpsc::UnboundedSender<Control>,
    /// What plans follow beside rates.
    pub params: watch::Receiver<Arc<PlanParams>>,
}

/// Orders that are taken at a time, and that may wait.
pub const BATCH: usize = 256;

/// What plans follow, from the configuration.
pub fn params(config: &Config) -> Arc<PlanParams> {
    // A configuration holds no other than good values.
    let importance = Steps::try_from(&config.importance);
    Arc::new(PlanParams {
        importance: importance.unwrap_or_else(|_| Steps::from(&Rate::constant(1.0))),
        freshness_threshold: config.rate.freshness_threshold,
        switches: matches!(config.rate.borrow, Borrow::Switch { .. }),
    })
}

impl Planner {
    /// Plans until nobody orders any.
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
            if self.control.send(Control::Tell(EngineEvent::PlansReady(ready))).is_err() {
                return;
            }
        }
    }

    async fn plan(&self, orders: Vec<PlanOrder>) -> Result<PlansReady, StoreError> {
        let ids: Vec<SourceId> = orders.iter().map(|order| order.source).collect();
        let mut rates = self.reader.rates(&ids).await?;
        let closely = orders.iter().filter(|order| order.standing.closely).map(|order| order.source);
        let mut diaries = self.reader.diaries(&closely.collect::<Vec<_>>()).await?;
        let unknown =
            orders.iter().filter(|order| order.wants.is_some() && !rates.contains_key(&order.source));
        let mut intervals: Vec<PredictedIntervals> = unknown
            .map(|&PlanOrder { source, made_from, .. }| PredictedIntervals {
                source,
                made_from,
                intervals: None,
            })
            .collect();
        // Of two orders for one source the first is stale.
        let jobs: Vec<Job> = orders
            .into_iter()
            .rev()
            .filter_map(|order| {
                let known = rates.remove(&order.source)?;
                let diary = diaries.remove(&order.source);
                Some(Job { order, known, diary })
            })
            .collect();
        let params = Arc::clone(&self.params.borrow());
        let jobs = Arc::new(jobs);
        let profiles = compute(Arc::clone(&jobs), Arc::clone(&params), profile).await;
        if jobs.iter().any(|job| job.order.wants.is_some()) {
            intervals.extend(compute(Arc::clone(&jobs), Arc::clone(&params), predict).await);
        }
        let plans = compute(jobs, params, make).await;
        Ok(PlansReady { requests: 0, profiles, plans, intervals })
    }
}

/// An order, and what is known of its source.
#[derive(Debug)]
struct Job {
    order: PlanOrder,
    known: KnownRate,
    /// Only of whoever is planned closely.
    diary: Option<DiaryRow>,
}

impl Job {
    /// What the source's last updates foretell, once its habits have been weighed.
    fn foresight(&self) -> Option<Arc<Foresight>> {
        let DiaryRow { diary, habits, .. } = self.diary.as_ref()?;
        let habits = PredictorMix::from_bytes(habits.as_deref()?)?;
        let diary = UpdateTimes::from_bytes(diary).filter(|diary| diary.entries().len() >= FEW)?;
        Some(Arc::new(Foresight::new(diary, habits, self.known.rate.zone(), self.order.standing.now)))
    }
}

/// Computes on a thread where it may take its time. A source that makes that panic costs its own
/// plan: the others of its batch are computed again one by one.
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
    let (pulse, per_hour) = HourlyProfile::of(&Steps::from(&known.rate), order.standing.now)?;
    Some(SourceProfile { source: order.source, pulse, per_hour, updates: known.updates })
}

fn predict(Job { order, known, .. }: &Job, _: &PlanParams) -> Option<PredictedIntervals> {
    let wants = order.wants.as_ref()?;
    let founded = known.updates >= WELL_FOUNDED;
    let intervals = founded.then(|| build::spans(wants, &Steps::from(&known.rate), order.standing.now));
    Some(PredictedIntervals { source: order.source, made_from: order.made_from, intervals })
}

fn make(job: &Job, params: &PlanParams) -> Option<MadePlan> {
    let Job { order, known, .. } = job;
    let KnownRate { origin, updates, .. } = *known;
    let rhythm = Rhythm { rate: Steps::from(&known.rate), origin, updates, foresight: job.foresight() };
    let ahead = build::ahead(order, &rhythm, params)?;
    let numbers = [ahead.expected_cost, ahead.lower_bound, ahead.price, ahead.overflow.unwrap_or(0.0)];
    if numbers.iter().any(|number| !number.is_finite()) {
        // Could not be stored, and cannot be right.
        tracing::error!(source = order.source.0, ?numbers, "a plan makes no sense; please report it");
        return None;
    }
    Some(MadePlan { source: order.source, made_from: order.made_from, at: order.standing.now, ahead })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::model::aggregate::RateOrigin;
    use tidewatch_core::planning::budget::Budget;
    use tidewatch_core::planning::plan::Revision;
    use tidewatch_core::planning::policy::Policy;
    use tidewatch_core::planning::rolling::Ahead;
    use tidewatch_core::planning::rolling::Standing;
    use tidewatch_core::time::Span;
    use tidewatch_core::time::Timestamp;

    fn job(id: i64) -> Job {
        let standing = Standing::new(Timestamp::from_secs(0), Budget::default());
        let order = PlanOrder {
            source: SourceId(id),
            policy: Policy::Plan,
            made_from: Revision(1),
            standing,
            wants: None,
        };
        let rate = Rate::constant(1.0);
        Job { order, known: KnownRate { rate, origin: RateOrigin::Individual, updates: 50 }, diary: None }
    }

    #[test]
    fn whoever_has_a_rate_has_a_pulse_also_where_nothing_is_planned() {
        let mut job = job(1);
        job.order.policy = Policy::Adaptive;
        let params = PlanParams {
            importance: Steps::from(&Rate::constant(1.0)),
            freshness_threshold: 1.0,
            switches: false,
        };
        let beat = profile(&job, &params).unwrap();
        assert_eq!((beat.source, beat.per_hour, beat.updates), (SourceId(1), 1.0, 50));
        assert_eq!(beat.pulse.at(Timestamp::from_secs(0)), 1.0);
        assert_eq!(make(&job, &params), None);
    }

    /// A source that updates at four minutes past each hour, and has long done so.
    fn by_the_clock(habits: bool) -> Job {
        let now = Timestamp::parse_iso("2026-11-16T09:30:00Z").unwrap();
        let mut diary = UpdateTimes::default();
        for hours in (0..200).rev() {
            let at = now - Span::from_mins(26) - Span::from_hours(hours);
            diary.watched_since(at);
            diary.note(at, Some(1.0));
        }
        let mut job = job(1);
        job.order.policy = Policy::Auto;
        job.order.standing =
            Standing { closely: true, ..Standing::new(now, Budget { probes: 24, ..Budget::default() }) };
        let rhythm = Steps::from(&job.known.rate);
        let weighed = habits.then(|| PredictorMix::weigh(&diary, &rhythm, now, true).to_bytes());
        job.diary = Some(DiaryRow { diary: diary.to_bytes(), habits: weighed, weighed_at: None });
        job
    }

    #[test]
    fn who_knows_the_minute_plans_by_it() {
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
        broken.diary = broken.diary.map(|row| DiaryRow { habits: Some(vec![1]), ..row });
        assert_eq!(late(&broken), unweighed, "what cannot be read is not followed");
        let mut seldom = by_the_clock(true);
        seldom.order.standing.closely = false;
        assert_ne!(late(&seldom), informed, "only what comes next is planned by habits");
    }

    #[tokio::test]
    async fn a_source_that_makes_planning_panic_costs_its_own_plan_only() {
        fn make(Job { order, .. }: &Job, _: &PlanParams) -> Option<MadePlan> {
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
