//! SUP without feedback, with feedback, and with a rate that is adjusted during the run.
//!
//! Each gets a rate, which need not be the true one, and the results of its own probes. Must not know a
//! source's updates before a probe has found them.

use std::collections::BTreeMap;

use tidewatch_core::model::drift::Drift;
use tidewatch_core::planning::execution::RuleId;
use tidewatch_core::planning::expected::Forecast;
use tidewatch_core::planning::prediction::{
    Lifetime, RulePrice, Want, intervals_at, intervals_once, price,
};
use tidewatch_core::time::{Span, Timestamp};

use super::sources::ProfileSource;
use super::{ProfileScore, Setting, score};

const WEEK: Span = Span::from_days(7);

/// The feedback taken from probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Feedback {
    /// fbSUP: the number of updates.
    Counts,
    /// SUP(λ): the number of updates, and a correction of the rate.
    CountsAndRate,
}

fn want(setting: &Setting, counted: u32) -> Want {
    let Setting { every, window, confidence } = *setting;
    Want { rule: RuleId(0), every, counted, life: Lifetime::Window(window), confidence }
}

/// SUP: the probes of the whole time, week by week, from expectations alone. `rate_factor` is the given rate
/// as a multiple of the true one.
pub fn sup(setting: &Setting, source: &ProfileSource, rate_factor: f64) -> Vec<Timestamp> {
    let mut probes = Vec::new();
    let mut monday = source.from;
    while monday < source.until {
        let until = (monday + WEEK).min(source.until);
        let by_then = rate_factor * Forecast::individual(&source.rate).expected(source.from, monday);
        let want = want(setting, (by_then.round() as u64 % u64::from(setting.every.max(1))) as u32);
        let found = intervals_once(&source.rate, rate_factor, monday, &want, &[(monday, until)], until);
        probes.extend(found.into_iter().map(|interval| interval.until));
        monday = until;
    }
    probes
}

/// The score of SUP at the highest confidence for which it sends at most `probes` probes to all sources.
pub fn sup_spending(
    probes: usize,
    setting: &Setting,
    sources: &[ProfileSource],
    rate_factor: f64,
) -> ProfileScore {
    let at = |confidence: f64| {
        let setting = Setting { confidence, ..*setting };
        score(&setting, sources, |source| sup(&setting, source, rate_factor))
    };
    let (mut low, mut high, mut best) = (0.0, 1.0, at(0.0));
    for _ in 0..12 {
        let middle = (low + high) / 2.0;
        let score = at(middle);
        match score.probes <= probes {
            true => (low, best) = (middle, score),
            false => high = middle,
        }
    }
    best
}

/// fbSUP and SUP(λ): from probe to probe.
pub fn with_feedback(
    setting: &Setting,
    source: &ProfileSource,
    rate_factor: f64,
    feedback: Feedback,
) -> Vec<Timestamp> {
    let mut probes = Vec::new();
    let (mut last_probe, mut seen, mut drift) = (source.from, 0, Drift::default());
    let mut known: BTreeMap<i32, Option<RulePrice>> = BTreeMap::new();
    while last_probe < source.until {
        // Rounded to eighths of a doubling, which does not matter, so that prices can be cached.
        let eighths = (8.0 * drift.factor().log2()).round() as i32;
        let factor = rate_factor * (f64::from(eighths) / 8.0).exp2();
        let want = want(setting, (seen % setting.every.max(1) as usize) as u32);
        let price = *known.entry(eighths).or_insert_with(|| {
            price(&source.rate, factor, source.from, &want, &[(source.from, source.from + WEEK)])
        });
        let Some(at) = price.and_then(|price| next(price, source, factor, last_probe, &want)) else {
            break;
        };
        let showed = source.updates.partition_point(|&update| update <= at);
        if feedback == Feedback::CountsAndRate {
            let expected = rate_factor * Forecast::individual(&source.rate).expected(last_probe, at);
            drift.learn((showed - seen) as u32, expected);
        }
        (last_probe, seen) = (at, showed);
        probes.push(at);
    }
    probes
}

/// The paper's own intervals. Each X-th update is assumed at the time when that many updates are expected,
/// and one probe is sent at the end of its window. With feedback the intervals are computed again after each
/// probe.
pub fn by_points(
    setting: &Setting,
    source: &ProfileSource,
    rate_factor: f64,
    feedback: bool,
) -> Vec<Timestamp> {
    let (every, mut last_probe, mut counted) = (setting.every.max(1) as usize, source.from, 0);
    let mut probes = Vec::new();
    loop {
        let missing = (every - counted) as f64 / rate_factor;
        let predicted = Forecast::individual(&source.rate).reaches(missing, last_probe);
        let Some(predicted) = predicted.filter(|&at| at + setting.window <= source.until) else {
            return probes;
        };
        probes.push(predicted + setting.window);
        (last_probe, counted) = match feedback {
            true => {
                let at = predicted + setting.window;
                (at, source.updates.partition_point(|&update| update <= at) % every)
            }
            false => (predicted, 0),
        };
    }
}

/// The end of the first interval, which is usually near.
fn next(
    price: RulePrice,
    source: &ProfileSource,
    factor: f64,
    last_probe: Timestamp,
    want: &Want,
) -> Option<Timestamp> {
    let window = if let Lifetime::Window(window) = want.life { window } else { Span::ZERO };
    let mut ahead = Span::from_hours(3).max(window.scaled(16.0));
    loop {
        let until = (last_probe + ahead).min(source.until);
        let found = intervals_at(
            price,
            &source.rate,
            factor,
            last_probe,
            want,
            &[(last_probe, source.until)],
            until,
        );
        match found.first() {
            Some(first) => return Some(first.until).filter(|&at| at <= source.until),
            None if until >= source.until => return None,
            None => ahead = ahead.scaled(4.0),
        }
    }
}
