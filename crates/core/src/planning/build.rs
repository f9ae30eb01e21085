//! What a plan that was ordered looks like, for whoever knows the source's rhythm.
//!
//! The engine holds no rates; this is for whoever reads them, in the daemon or in a simulation. Knows
//! what each policy makes of a rate, and so what `auto` may follow. Must not know where rates come
//! from, nor what becomes of a plan.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::ask::Knowledge;
use super::chain;
use super::execution::Interval;
use super::plan::Revision;
use super::policy::Policy;
use super::prediction::{Want, intervals};
use super::rolling::{self, Ahead, Standing};
use crate::model::aggregate::RateOrigin;
use crate::model::beliefs::WELL_FOUNDED;
use crate::model::habits::foretell::Foresight;
use crate::model::steps::Steps;

use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::rule::RuleTerms;

/// A plan to be made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanOrder {
    /// For whom.
    pub source: SourceId,
    /// By which policy; `auto` leaves that to whoever knows its rhythm.
    pub policy: Policy,
    /// The state that the plan must name.
    pub made_from: Revision,
    /// That state, as far as a plan depends on it.
    pub standing: Standing,
    /// What is to be foretold for rules.
    pub wants: Option<Box<Wants>>,
}

/// What is to be foretold of a source for rules that wait for it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wants {
    /// All updates up to here are known.
    pub looked: Timestamp,
    /// How much faster than its rate it has been lately.
    pub factor: f64,
    /// Each with the rule's terms.
    pub of: Vec<(Want, Arc<RuleTerms>)>,
}

/// A source's rhythm, and how well founded it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Rhythm {
    /// λ, updates per hour.
    pub rate: Steps,
    /// Whose history it is from.
    pub origin: RateOrigin,
    /// Updates of its own in evidence.
    pub updates: u32,
    /// What its last updates foretell, where their times are known.
    pub foresight: Option<Arc<Foresight>>,
}

/// What plans follow beside rates.
#[derive(Debug, Clone, PartialEq)]
pub struct PlanParams {
    /// When it matters that news is fresh.
    pub importance: Steps,
    /// θ.
    pub freshness_threshold: f64,
    /// Whether the paper's switch says when a source's own history is too thin; else a number does.
    pub switches: bool,
}

/// The next times of a source by the policy that it is planned by.
pub fn ahead(order: &PlanOrder, known: &Rhythm, params: &PlanParams) -> Option<Ahead> {
    let rate = &known.rate;
    let standing = &order.standing.paced(rate, &params.importance);
    let best = || match &known.foresight {
        // By its habits, as they stand; the rest will be planned when more is known.
        Some(foresight) if standing.closely => {
            // What a burst adds to the rhythm is not added to habits: flurries are among them.
            let rates = |from, until| foresight.over(rate, standing.now, (from, until), standing.detail());
            rolling::plan_under(standing, rates, &params.importance)
        }
        // By a rhythm there is nothing more to know soon.
        _ => rolling::plan(&Standing { closely: false, ..standing.clone() }, rate, &params.importance),
    };
    let chain = |policy| {
        let knowledge = Knowledge {
            rate: Some(rate),
            aggregate: Some((rate, 1.0)),
            freshness_threshold: params.freshness_threshold,
            ..Knowledge::nothing(standing.budget, &params.importance)
        };
        chain::follow(policy, standing, &knowledge, rate)
    };
    let borrowed = known.origin != RateOrigin::Individual;
    match order.policy {
        Policy::Plan => best(),
        // The group's history at its own level; without a group there is none.
        Policy::AggHist => chain(Policy::AggHist).filter(|_| borrowed),
        Policy::IndHist | Policy::Threshold | Policy::FirstArrival => chain(order.policy),
        Policy::Auto => {
            let thin = match params.switches {
                true => known.origin == RateOrigin::Aggregate,
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
        Policy::Ttl | Policy::Adaptive | Policy::Uniform | Policy::Profile => None,
    }
}

/// So far ahead updates are foretold for rules.
const FORETOLD: Span = Span::from_days(7);

/// So far ahead it matters when rules are in force.
const IN_FORCE: Span = Span::from_days(60);

/// The spans in which a source's updates are to be looked for, for the rules that wait for them.
pub fn spans(wants: &Wants, rate: &Steps, now: Timestamp) -> Vec<Interval> {
    let Wants { looked, factor, ref of } = *wants;
    let mut spans = Vec::new();
    for (want, terms) in of {
        let active = terms.active.spans(looked, now + IN_FORCE);
        spans.extend(intervals(rate, factor, looked, want, &active, now + FORETOLD));
    }
    // What is over cannot be served any more.
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
    fn who_knows_the_rate_decides_what_auto_may_follow() {
        let standing = Standing::new(Timestamp::from_secs(0), Budget::default());
        let even = Steps::constant(1.0).unwrap();
        let by = |policy, origin, updates, switches| {
            let (source, made_from) = (SourceId(1), Revision(1));
            let order = PlanOrder { source, policy, made_from, standing: standing.clone(), wants: None };
            let params = PlanParams { importance: even.clone(), freshness_threshold: 1.0, switches };
            ahead(&order, &Rhythm { rate: even.clone(), origin, updates, foresight: None }, &params)
                .map(|ahead| ahead.by)
        };
        use RateOrigin::{Aggregate, Blend, Individual};
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
}
