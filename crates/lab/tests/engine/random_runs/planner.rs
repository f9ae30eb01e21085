//! Plans as the daemon builds them, from the rhythm of a source and its origin.

use tidewatch_core::engine::event::MadePlan;
use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::build::{self, KnownRhythm, PlanParams};

/// The known rhythm of a source.
#[derive(Debug, Clone)]
pub struct KnownRate {
    pub rate: Rate,
    pub origin: RateOrigin,
    pub updates: u32,
}

pub fn plan(order: &PlanOrder, known: &KnownRate) -> Option<MadePlan> {
    let KnownRate { origin, updates, .. } = *known;
    let rhythm =
        KnownRhythm { rate: Steps::from(&known.rate), origin, updates, dispersion: 1.0, foresight: None };
    let params =
        PlanParams { importance: Steps::constant(1.0).unwrap(), freshness_threshold: 1.0, switches: false };
    let ahead = build::build_plan(order, &rhythm, &params)?;
    assert!(ahead.times.is_sorted() && !ahead.times.is_empty(), "{ahead:?}");
    assert!(ahead.expected_cost.is_finite() && ahead.lower_bound.is_finite() && ahead.price.is_finite());
    Some(MadePlan { source: order.source, made_from: order.made_from, at: order.input.now, ahead })
}
