//! The JSON document of `calibrate`.

use serde::Serialize;

use crate::store::predictions::{PredictionSums, day_of};

use super::verdicts::{RareEvent, StatedPeriod, rare_events, updates};

/// The whole document.
#[derive(Debug, Serialize)]
pub struct CalibrationDocument<'p> {
    source: Option<&'p str>,
    since: String,
    until: String,
    total: StatedSums,
    days: Vec<StatedDay>,
    sources: Vec<StatedSource<'p>>,
}

#[derive(Debug, Serialize)]
struct StatedSums {
    probes: u64,
    expected: f64,
    variance: f64,
    found: u64,
    probability: f64,
    fits: bool,
    rare_events: Vec<StatedEvent>,
}

/// An event that must be rare.
#[derive(Debug, Serialize)]
struct StatedEvent {
    event: &'static str,
    cases: u64,
    case: &'static str,
    stated: f64,
    found: u64,
    fits: bool,
}

#[derive(Debug, Serialize)]
struct StatedDay {
    day: String,
    probes: u64,
    expected: f64,
    found: u64,
}

#[derive(Debug, Serialize)]
struct StatedSource<'p> {
    source: &'p str,
    #[serde(flatten)]
    sums: StatedSums,
}

/// The document of a period.
pub fn document(period: &StatedPeriod) -> CalibrationDocument<'_> {
    let of = &period.predictions;
    let days = of.days.iter().map(|(day, sums)| StatedDay {
        day: day.iso()[..10].to_owned(),
        probes: sums.probes,
        expected: sums.expected,
        found: sums.found,
    });
    let sources = of.sources.iter().map(|(name, of)| StatedSource { source: name, sums: sums(of) });
    CalibrationDocument {
        source: period.source.as_deref(),
        since: day_of(period.until - period.span).iso(),
        until: period.until.iso(),
        total: sums(&of.total),
        days: days.collect(),
        sources: sources.collect(),
    }
}

fn sums(of: &PredictionSums) -> StatedSums {
    let check = updates(of);
    StatedSums {
        probes: of.probes,
        expected: of.expected,
        variance: of.variance,
        found: of.found,
        probability: check.probability(),
        fits: check.fits(),
        rare_events: rare_events(of).iter().map(event).collect(),
    }
}

fn event(event: &RareEvent) -> StatedEvent {
    let RareEvent { name, cases, case, stated, found } = *event;
    StatedEvent { event: name, cases, case, stated, found, fits: event.fits() }
}
