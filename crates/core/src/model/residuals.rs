//! How well a rate fits the evidence.
//!
//! If the rate is right, the rescaled times Λ(t_{i−1}, t_i) between updates are exponential with mean 1, and
//! daily counts are Poisson around their expectation. [`dispersion`] is the ratio of the two variances:
//! about 1 for a source that follows its rate, well above 1 for bursts, below 1 for a periodic source.

use crate::time::Timestamp;

use super::cyclic::{DAY_S, Rate};
use super::history::WeeklyEvidence;

/// The variance of the daily counts over the variance that the rate predicts. `None` without evidence.
pub fn dispersion(evidence: &WeeklyEvidence, rate: &Rate) -> Option<f64> {
    let (mean, square) = evidence.daily;
    if mean <= 0.0 {
        return None;
    }
    let mut days = [0.0; 7];
    for (start, end, per_hour) in rate.segments() {
        for (day, total) in days.iter_mut().enumerate() {
            let (from, to) = (day as u32 * DAY_S, (day as u32 + 1) * DAY_S);
            *total += per_hour * f64::from(end.min(to).saturating_sub(start.max(from))) / 3600.0;
        }
    }
    let expected = days.iter().sum::<f64>() / 7.0;
    // The level of the rate may be newer than the evidence, so only its shape is compared.
    let scale = if expected > 0.0 { mean / expected } else { 0.0 };
    let between_days = days.iter().map(|day| (day * scale - mean).powi(2)).sum::<f64>() / 7.0;
    Some((square - mean * mean).max(0.0) / (mean + between_days))
}

/// The rescaled times between events: Λ(t_{i−1}, t_i).
pub fn rescaled(events: &[Timestamp], rate: &Rate) -> Vec<f64> {
    events.windows(2).map(|pair| rate.expected(pair[0], pair[1])).collect()
}
