//! Computes the weights of the predictors from their past predictions.

use jiff::tz::TimeZone;

use crate::model::steps::Steps;
use crate::model::week::{DAY_MS, HOUR_MS, WEEK_MS, local_millis};
use crate::time::{Span, Timestamp};

use super::mixture::PredictorMix;
use super::predict::Tables;
use super::predictors::{
    ANYWHEN, COUNT, PREDICTORS, Periodic, Predictor, PredictorMemory, WIDEST, WIDEST_OF_HOUR,
};
use super::regular::{Regularity, UpdateGap};
use super::update_times::UpdateTimes;

/// Weights are recomputed after this time without new updates, because old updates decay.
pub const WEIGHED_FOR: Span = Span::from_days(1);

/// Minimum number of updates for computing weights.
pub const FEW: usize = 2;

/// Prior weight of the weekly rate, and of all other predictors together, in updates.
const PRIOR: (f64, f64) = (1.0, 0.3);

/// Prior weight of each self-exciting predictor, in updates: updates of most sources cluster.
const SELF_EXCITING_PRIOR: f64 = 0.2;

/// Half-life of an update's weight, in days.
const WEIGHS_HALF_AFTER: f64 = 28.0;

/// Rounds of expectation maximisation; weights change little afterwards.
const ROUNDS: usize = 25;

/// The share of the last updates that is held back to test the self-exciting predictors, if there are at
/// least …
const HELD_BACK: f64 = 0.3;
/// … this.
const LEAST_HELD_BACK: usize = 8;

/// The rate of every predictor at each update, from the updates before it.
pub(super) type PredictedUpdate = Vec<[f64; COUNT]>;

impl PredictorMix {
    /// The weights that predict these updates best.
    pub fn fit_weights(
        update_times: &UpdateTimes,
        rhythm: &Steps,
        now: Timestamp,
        self_exciting: bool,
    ) -> Self {
        let zone = rhythm.zone();
        let predictions = predicted(update_times, zone);
        let ages: Vec<f64> =
            update_times.entries().map(|entry| (now - entry.at).as_secs_f64() / 86_400.0).collect();
        let held_back = (predictions.len() as f64 * HELD_BACK) as usize;
        let (first, last) = predictions.split_at(predictions.len() - held_back);
        let improves = || {
            held_back < LEAST_HELD_BACK || {
                let score = |self_exciting| {
                    let shares = maximise(first, &ages, self_exciting);
                    last.iter().map(|row| mixed(row, &shares).ln()).sum::<f64>()
                };
                score(true) > score(false)
            }
        };
        let shares = maximise(&predictions, &ages, self_exciting && improves());
        let habits = Self { shares: shares.map(|share| share as f32), regularity: Regularity::NONE };
        let times: Vec<Timestamp> = update_times.entries().map(|entry| entry.at).collect();
        let expected = Tables::new(update_times, &habits, zone, now).expected(rhythm, &times);
        // For every update but the first: the predicted rate and the expected updates of the gap.
        let later = predictions.iter().zip(&ages).skip(1);
        let gap = |((row, age), expected): ((&[f64; COUNT], &f64), f64)| {
            let indices = (0..COUNT).filter(|&predictor| PREDICTORS[predictor].is_self_exciting());
            let self_exciting_rate =
                indices.map(|predictor| row[predictor] * shares[predictor]).sum::<f64>();
            UpdateGap {
                expected,
                predicted_rate: mixed(row, &shares) - self_exciting_rate,
                self_exciting_rate,
                weight: weight(*age),
            }
        };
        let gaps: Vec<UpdateGap> = later.zip(expected).map(gap).collect();
        Self { regularity: Regularity::of(&gaps), ..habits }
    }
}

/// The weight of an update `age` days ago.
fn weight(age: f64) -> f64 {
    (-age / WEIGHS_HALF_AFTER).exp2()
}

fn mixed(row: &[f64; COUNT], shares: &[f64; COUNT]) -> f64 {
    row.iter().zip(shares).map(|(rate, share)| rate * share).sum::<f64>().max(f64::MIN_POSITIVE)
}

/// The weights θ of maximum likelihood, including the prior.
fn maximise(predictions: &[[f64; COUNT]], ages: &[f64], self_exciting: bool) -> [f64; COUNT] {
    let allowed = |predictor: usize| self_exciting || !PREDICTORS[predictor].is_self_exciting();
    let others = (1..COUNT).filter(|&predictor| allowed(predictor)).count() as f64;
    let prior: [f64; COUNT] = std::array::from_fn(|predictor| match predictor {
        0 => PRIOR.0,
        _ if !allowed(predictor) => 0.0,
        _ if PREDICTORS[predictor].is_self_exciting() => SELF_EXCITING_PRIOR,
        _ => PRIOR.1 / others,
    });
    let total: f64 = prior.iter().sum();
    let mut shares = prior.map(|prior| prior / total);
    // Initial weights are positive for every allowed predictor.
    shares.iter_mut().enumerate().for_each(|(predictor, share)| {
        *share = 0.5 * *share + if allowed(predictor) { 0.5 / (others + 1.0) } else { 0.0 };
    });
    let weights: Vec<f64> = ages.iter().copied().map(weight).collect();
    for _ in 0..ROUNDS {
        let (mut sums, mut all) = (prior, total);
        for (row, &weight) in predictions.iter().zip(&weights) {
            let part = weight / mixed(row, &shares);
            for (sum, (rate, share)) in sums.iter_mut().zip(row.iter().zip(&shares)) {
                *sum += part * rate * share;
            }
            all += weight;
        }
        shares = sums.map(|sum| sum / all);
    }
    shares
}

/// The rate of every predictor at every update, in updates per hour, from the updates before it.
pub(super) fn predicted(update_times: &UpdateTimes, zone: &TimeZone) -> PredictedUpdate {
    let Some(since) = update_times.since() else { return Vec::new() };
    let reference = since;
    struct PastUpdate {
        at: Timestamp,
        local: i64,
        weights: [f64; 3],
    }
    let mut before: Vec<PastUpdate> = Vec::with_capacity(update_times.entries().len());
    let mut totals = [0.0; 3];
    let mut excited = [0.0; COUNT];
    let mut rows = Vec::with_capacity(update_times.entries().len());
    for entry in update_times.entries() {
        let at = entry.at;
        let local = local_millis(zone, at);
        let days = (at - since).as_secs_f64() / 86_400.0;
        let weights = PredictorMemory::ALL.map(|memory| memory.weight(at, reference));
        let exposure = PredictorMemory::ALL.map(|memory| memory.exposure_days(days));
        // Updates per hour for each half-life, with half an update added.
        let level: [f64; 3] = std::array::from_fn(|memory| {
            (totals[memory] / weights[memory] + 0.5) / (exposure[memory] * 24.0 + 1.0)
        });
        let mut row = [0.0; COUNT];
        let mut near = [0.0; COUNT];
        let mut hours = 0.0;
        for earlier in &before {
            if local - earlier.local >= HOUR_MS / 2 {
                hours += earlier.weights[PredictorMemory::Middle as usize];
            }
            let lags = Lags::between(earlier.local, local);
            if lags.are_too_long() {
                continue;
            }
            for (predictor, sum) in PREDICTORS.iter().zip(&mut near) {
                if let &Predictor::Periodic(periodic, width, memory) = predictor
                    && local - earlier.local >= periodic.period_ms() / 2
                {
                    *sum += lags.kernel(periodic, width) * earlier.weights[memory as usize];
                }
            }
        }
        let rhythm = entry.predicted_rate.map_or(level[0], f64::from);
        for (index, predictor) in PREDICTORS.iter().enumerate() {
            row[index] = match *predictor {
                Predictor::Rhythm => rhythm,
                Predictor::Level(memory) => level[memory as usize],
                Predictor::Periodic(periodic, _, memory) => {
                    let m = memory as usize;
                    let found = near[index] / weights[m];
                    let rate = match periodic {
                        Periodic::Hour if hours > 0.0 => rhythm * near[index] / hours,
                        Periodic::Hour => rhythm,
                        _ => {
                            found / (periodic.exposure_days(memory, days) * periods_a_day(periodic, local))
                        }
                    };
                    (1.0 - ANYWHEN) * rate + ANYWHEN * level[m]
                }
                Predictor::SelfExciting(mean) => {
                    let mean = f64::from(mean) / 60.0;
                    match before.last() {
                        None => 0.0,
                        Some(last) => {
                            let passed = (at - last.at).as_secs_f64() / 3600.0;
                            excited[index] = (excited[index] + 1.0 / mean) * (-passed / mean).exp();
                            excited[index]
                        }
                    }
                }
            };
        }
        rows.push(row);
        totals.iter_mut().zip(weights).for_each(|(total, weight)| *total += weight);
        before.push(PastUpdate { at, local, weights });
    }
    rows
}

/// Periods per day, for times of this kind.
fn periods_a_day(periodic: Periodic, local: i64) -> f64 {
    match periodic {
        Periodic::Hour => 24.0,
        Periodic::Day => 1.0,
        Periodic::WorkWeek => {
            if is_weekend(local) {
                2.0 / 7.0
            } else {
                5.0 / 7.0
            }
        }
        Periodic::Week => 1.0 / 7.0,
    }
}

fn is_weekend(local: i64) -> bool {
    local.rem_euclid(WEEK_MS) >= 5 * DAY_MS
}

/// Distance of two times in each cycle, in minutes.
struct Lags {
    hour: f64,
    day: f64,
    week: f64,
    alike: bool,
}

impl Lags {
    fn between(earlier: i64, later: i64) -> Self {
        let apart = |cycle: i64| {
            let lag = (later - earlier).rem_euclid(cycle);
            lag.min(cycle - lag) as f64 / 60_000.0
        };
        let alike = is_weekend(earlier) == is_weekend(later);
        Self { hour: apart(HOUR_MS), day: apart(DAY_MS), week: apart(WEEK_MS), alike }
    }

    /// Whether the distance exceeds every width.
    fn are_too_long(&self) -> bool {
        self.day >= WIDEST && self.hour >= WIDEST_OF_HOUR
    }

    /// A triangular kernel, in shares per hour; for the hour cycle, relative to a uniform hour.
    fn kernel(&self, periodic: Periodic, width: u16) -> f64 {
        let width = f64::from(width);
        let lag = match periodic {
            Periodic::Hour => self.hour,
            Periodic::Day => self.day,
            Periodic::WorkWeek if self.alike => self.day,
            Periodic::WorkWeek => return 0.0,
            Periodic::Week => self.week,
        };
        (1.0 - lag / width).max(0.0) * 60.0 / width
    }
}
