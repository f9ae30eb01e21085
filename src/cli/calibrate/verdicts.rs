//! The statements of a period, each with its verdict.
//!
//! Must not know how statements are stored or shown.

use crate::store::predictions::{PeriodPredictions, PredictionSums};
use tidewatch_core::model::count_check::{CountCheck, at_most};
use tidewatch_core::time::{Span, Timestamp};

/// The period that `calibrate` and `status` show by default.
pub const USUAL_PERIOD: Span = Span::from_days(28);

/// The statements of a period on one source or on all.
#[derive(Debug, Clone, PartialEq)]
pub struct StatedPeriod {
    /// The source, if one was named.
    pub source: Option<String>,
    /// Length of the period.
    pub span: Span,
    /// Its end.
    pub until: Timestamp,
    /// What was stated, and what came of it.
    pub predictions: PeriodPredictions,
}

/// A rare event with a stated frequency that it must not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RareEvent {
    /// The event.
    pub name: &'static str,
    /// How many cases there were.
    pub cases: u64,
    /// What a case is.
    pub case: &'static str,
    /// How many events are stated, at most.
    pub stated: f64,
    /// How many there were.
    pub found: u64,
}

impl RareEvent {
    /// Whether it was as rare as stated.
    pub fn fits(&self) -> bool {
        at_most(self.stated, self.found)
    }
}

/// Updates expected and found.
pub fn updates(sums: &PredictionSums) -> CountCheck {
    CountCheck { expected: sums.expected, variance: sums.variance, found: sums.found }
}

/// The rare events on which something was stated.
pub fn rare_events(sums: &PredictionSums) -> Vec<RareEvent> {
    let alarm = |name, found| RareEvent {
        name,
        cases: sums.found,
        case: "updates",
        stated: sums.alarms_stated,
        found,
    };
    let alarms =
        [alarm("burst called", sums.bursts), alarm("called quiet, then updated", sums.quiet_ended)];
    let overflow = RareEvent {
        name: "feed overflowed",
        cases: sums.probes,
        case: "probes",
        stated: sums.overflow,
        found: sums.overflowed,
    };
    let late = RareEvent {
        name: "found too late for a rule",
        cases: sums.rule_updates,
        case: "updates",
        stated: (sums.rule_updates as f64 - sums.rule_confidence).max(0.0),
        found: sums.rule_updates.saturating_sub(sums.rule_in_time),
    };
    let alarms = alarms.into_iter().filter(|_| sums.alarms_stated > 0.0);
    let overflow = Some(overflow).filter(|event| event.stated > 0.0 || event.found > 0);
    alarms.chain(overflow).chain(Some(late).filter(|event| event.cases > 0)).collect()
}

/// The verdict on a number of updates.
pub fn verdict(check: &CountCheck) -> String {
    let CountCheck { expected, found, .. } = *check;
    match check.fits() {
        true => "fits".to_owned(),
        false => {
            let chance = match check.probability() {
                p if p < 1e-4 => "under 0.0001".to_owned(),
                p => format!("{p:.4}"),
            };
            format!(
                "does not fit: found {}, expected {} (probability {chance})",
                grouped(found as f64),
                grouped(expected)
            )
        }
    }
}

/// The numbers of updates and the verdict.
pub fn described(check: &CountCheck) -> String {
    let (expected, found) = (grouped(check.expected), grouped(check.found as f64));
    match check.fits() {
        true => format!("{expected} expected, {found} found; fits"),
        false => verdict(check),
    }
}

/// A number of updates, with commas between thousands.
pub fn grouped(number: f64) -> String {
    if number < 100.0 && number.fract() != 0.0 {
        return tidewatch_lab::words::count(number);
    }
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// One line for `status`; `None` if nothing was stated.
pub fn summary(sums: &PredictionSums, span: Span) -> Option<String> {
    if sums.probes == 0 {
        return None;
    }
    let check = updates(sums);
    let (expected, found) = (grouped(check.expected), grouped(check.found as f64));
    let verdict = if check.fits() { "fits" } else { "does not fit: see `tidewatch calibrate`" };
    Some(format!("calibration: {expected} updates expected, {found} found in the last {span}; {verdict}"))
}
