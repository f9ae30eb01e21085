//! Plans as the daemon makes them: by what is known of a source's rhythm, and where that is from.

use tidewatch::fleet::PlanOrder;
use tidewatch::rate::aggregate::Origin;
use tidewatch::rate::cyclic::Rate;
use tidewatch::rate::steps::Steps;
use tidewatch::schedule::ask::Knowledge;
use tidewatch::schedule::chain;
use tidewatch::schedule::plan::Plan;
use tidewatch::schedule::policy::Policy;
use tidewatch::schedule::rolling::{self, Ahead};

/// What is known of a source's rhythm.
#[derive(Debug, Clone)]
pub struct KnownRate {
    pub rate: Rate,
    pub origin: Origin,
    pub updates: u32,
}

/// A rate that rests on fewer updates is thin.
pub const WELL_FOUNDED: u32 = 10;

pub fn plan(order: &PlanOrder, known: &KnownRate) -> Option<Plan> {
    let ahead = ahead(order, known)?;
    assert!(ahead.times.is_sorted() && !ahead.times.is_empty(), "{ahead:?}");
    assert!(ahead.expected_cost.is_finite() && ahead.lower_bound.is_finite() && ahead.price.is_finite());
    Some(Plan::new(order.made_from, &ahead))
}

fn ahead(order: &PlanOrder, known: &KnownRate) -> Option<Ahead> {
    let (standing, rate) = (&order.standing, Steps::from(&known.rate));
    let even = Steps::constant(1.0).unwrap();
    let best = || rolling::plan(standing, &rate, &even);
    let follow = |policy| {
        let knowledge = Knowledge {
            rate: Some(&rate),
            aggregate: Some((&rate, 1.0)),
            ..Knowledge::nothing(standing.budget, &even)
        };
        chain::follow(policy, standing, &knowledge, &rate)
    };
    let borrowed = known.origin != Origin::Individual;
    match order.policy {
        Policy::Plan => best(),
        Policy::AggHist => follow(Policy::AggHist).filter(|_| borrowed),
        Policy::IndHist | Policy::Threshold | Policy::FirstArrival => follow(order.policy),
        Policy::Auto if known.updates >= WELL_FOUNDED => best(),
        Policy::Auto if borrowed => best().map(|ahead| Ahead { by: Policy::AggHist, ..ahead }),
        Policy::Auto | Policy::Ttl | Policy::Adaptive | Policy::Uniform => None,
    }
}
