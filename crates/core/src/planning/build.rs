//! Builds a requested plan from the rate of a source.
//!
//! The engine holds no rates; the daemon or a simulation calls this with them. Implements each policy for a
//! rate, and selects the one for `auto`. May not know the origin of rates or the use of a plan.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::chain;
use super::execution::Interval;
use super::next_probe::Knowledge;
use super::plan::Revision;
use super::plan_input::{self, PlanInput, PlannedTimes};
use super::policy::Policy;
use super::prediction::{Want, intervals};
use crate::model::aggregate::RateOrigin;
use crate::model::habits::predict::{Detail, UpdateForecast};
use crate::model::source_model::WELL_FOUNDED;
use crate::model::steps::Steps;
use crate::model::week::HOUR_MS;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::rule::RuleTerms;

/// A request for a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanOrder {
    /// The source.
    pub source: SourceId,
    /// The policy; `auto` is resolved when the plan is built.
    pub policy: Policy,
    /// The state revision that the plan refers to.
    pub made_from: Revision,
    /// The part of that state that a plan depends on.
    pub input: PlanInput,
    /// The predictions that rules require.
    pub predictions: Option<Box<PredictionOrder>>,
}

/// The predictions of a source that rules require.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictionOrder {
    /// All updates up to this time are known.
    pub known_until: Timestamp,
    /// The factor of the recent rate to the fitted one.
    pub factor: f64,
    /// The requirements, each with the terms of its rule.
    pub of: Vec<(Want, Arc<RuleTerms>)>,
}

/// The rate of a source and its evidence.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownRhythm {
    /// λ, updates per hour.
    pub rate: Steps,
    /// The origin of the rate.
    pub origin: RateOrigin,
    /// Number of own updates in the evidence.
    pub updates: u32,
    /// Variance over mean of its counts, at least 1.
    pub dispersion: f64,
    /// The prediction from its last updates, if their times are known.
    pub foresight: Option<Arc<UpdateForecast>>,
}

/// Parameters of plans besides rates.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanParams {
    /// The importance a(t).
    pub importance: Steps,
    /// θ.
    pub freshness_threshold: f64,
    /// Whether the switch of the paper decides if the own history is too thin; otherwise a minimum number of
    /// updates does.
    pub switches: bool,
}

/// The next probe times of a source under the policy of the request.
pub fn build_plan(order: &PlanOrder, known: &KnownRhythm, params: &PlanParams) -> Option<PlannedTimes> {
    let rate = &known.rate;
    let lowered = PlanInput { price: price_in_silence(&order.input, known), ..order.input.clone() };
    let input = &PlanInput { dispersion: known.dispersion, ..lowered.paced(rate, &params.importance) };
    let best = || match &known.foresight {
        // By the predictors in detail; the rest is planned later with more evidence.
        Some(foresight) if input.closely => {
            // The excess of a burst is not added: the predictors already include clusters of updates.
            let rates = |from, until| foresight.over(rate, input.now, (from, until), input.detail());
            plan_input::plan_under(input, rates, &params.importance)
        }
        // With the weekly rate alone, later evidence changes little.
        _ => plan_input::plan(&PlanInput { closely: false, ..input.clone() }, rate, &params.importance),
    };
    let chain = |policy| {
        let knowledge = Knowledge {
            rate: Some(rate),
            aggregate: Some((rate, 1.0)),
            // θ counts independent updates: of those that cluster, this many are one.
            freshness_threshold: params.freshness_threshold * known.dispersion,
            ..Knowledge::nothing(input.budget, &params.importance)
        };
        chain::follow(policy, input, &knowledge, rate)
    };
    let borrowed = known.origin != RateOrigin::Individual;
    match order.policy {
        Policy::Plan => best(),
        // The shape of the group at the source's level; `None` without a group.
        Policy::AggHist => chain(Policy::AggHist).filter(|_| borrowed),
        Policy::IndHist | Policy::Threshold | Policy::FirstArrival => chain(order.policy),
        // The engine orders a plan only while there is no burst.
        Policy::IndHistTtl => chain(Policy::IndHist),
        // The fit applied the switch.
        Policy::IndHistAggHist if known.origin == RateOrigin::Aggregate => chain(Policy::AggHist),
        Policy::IndHistAggHist => chain(Policy::IndHist),
        Policy::Auto => {
            let thin = match params.switches {
                true => known.origin == RateOrigin::Aggregate,
                false => known.updates < WELL_FOUNDED,
            };
            match (thin, borrowed) {
                (false, _) => best(),
                // The best plan under the group's rate. By θ alone, a source that rarely updates would be
                // probed least while its evidence is thinnest.
                (true, true) => best().map(|ahead| PlannedTimes { by: Policy::AggHist, ..ahead }),
                (true, false) => None,
            }
        }
        Policy::Ttl | Policy::Adaptive | Policy::Uniform | Policy::Profile => None,
    }
}

/// The price of a probe of this source. If the source is overdue, its rate has probably changed, and the new
/// one is Gamma distributed with shape 1 around the old one. After a silence of u expected updates its mean
/// is the old rate divided by 1 + u. A probe then finds fewer updates, which acts like a higher price.
fn price_in_silence(input: &PlanInput, known: &KnownRhythm) -> f64 {
    let Some(since) = input.silent_since.filter(|&since| since < input.now) else { return input.price };
    let total = |pieces: &[(i64, f64)]| {
        let mut before = 0;
        let part = |&(end, per_hour): &(i64, f64)| {
            let millis = end - std::mem::replace(&mut before, end);
            millis as f64 / HOUR_MS as f64 * per_hour
        };
        pieces.iter().map(part).sum::<f64>()
    };
    let silent = total(&known.rate.over(since, input.now)) / known.dispersion;
    let ahead = (input.now, input.now + input.at_least_every);
    let usual = total(&known.rate.over(ahead.0, ahead.1));
    // The predictors may expect less already.
    let predicted =
        known.foresight.as_ref().filter(|_| input.closely).map_or(usual, |foresight| {
            total(&foresight.over(&known.rate, input.now, ahead, Detail::MINUTES))
        });
    let share = usual / (1.0 + silent) / predicted.max(f64::MIN_POSITIVE);
    input.price / share.clamp(1e-4, 1.0)
}

/// Range of predictions for rules.
const PREDICTED_AHEAD: Span = Span::from_days(7);

/// Range in which the active hours of rules are considered.
const IN_FORCE: Span = Span::from_days(60);

/// The intervals in which updates of a source are expected, for the rules that require them.
pub fn predicted_intervals(wants: &PredictionOrder, rate: &Steps, now: Timestamp) -> Vec<Interval> {
    let PredictionOrder { known_until, factor, ref of } = *wants;
    let mut spans = Vec::new();
    for (want, terms) in of {
        let active = terms.active.spans(known_until, now + IN_FORCE);
        spans.extend(intervals(rate, factor, known_until, want, &active, now + PREDICTED_AHEAD));
    }
    // Intervals in the past are dropped.
    spans.retain(|span| span.until > now);
    spans
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::budget::Budget;
    use crate::planning::plan::Revision;
    use crate::source_id::SourceId;

    #[test]
    fn auto_selects_a_policy_by_the_evidence() {
        let input = PlanInput::new(Timestamp::from_secs(0), Budget::default());
        let even = Steps::constant(1.0).unwrap();
        let by = |policy, origin, updates, switches| {
            let (source, made_from) = (SourceId(1), Revision(1));
            let order = PlanOrder { source, policy, made_from, input: input.clone(), predictions: None };
            let params = PlanParams { importance: even.clone(), freshness_threshold: 1.0, switches };
            build_plan(
                &order,
                &KnownRhythm { rate: even.clone(), origin, updates, dispersion: 1.0, foresight: None },
                &params,
            )
            .map(|ahead| ahead.by)
        };
        use RateOrigin::{Aggregate, Blend, Individual};
        assert_eq!(by(Policy::Auto, Individual, 9, false), None, "no evidence yet");
        assert_eq!(by(Policy::Auto, Individual, 10, false), Some(Policy::Plan));
        assert_eq!(by(Policy::Auto, Blend, 9, false), Some(Policy::AggHist));
        assert_eq!(by(Policy::Auto, Aggregate, 10, false), Some(Policy::Plan));
        assert_eq!(by(Policy::Auto, Aggregate, 10, true), Some(Policy::AggHist));
        assert_eq!(by(Policy::Auto, Individual, 10, true), Some(Policy::Plan));
        for policy in [Policy::IndHist, Policy::Threshold, Policy::FirstArrival, Policy::Plan] {
            assert_eq!(by(policy, Individual, 3, false), Some(policy));
        }
        assert_eq!(by(Policy::AggHist, Aggregate, 3, false), Some(Policy::AggHist));
        assert_eq!(by(Policy::AggHist, Individual, 99, false), None, "without a group");
        assert_eq!(by(Policy::IndHistTtl, Individual, 3, false), Some(Policy::IndHist));
        assert_eq!(by(Policy::IndHistAggHist, Individual, 3, false), Some(Policy::IndHist));
        assert_eq!(by(Policy::IndHistAggHist, Aggregate, 99, false), Some(Policy::AggHist));
        for policy in [Policy::Ttl, Policy::Adaptive, Policy::Uniform] {
            assert_eq!(by(policy, Individual, 99, false), None);
        }
    }
}
