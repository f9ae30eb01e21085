//! How well a rate fits: what is left when the rhythm is taken out.
//!
//! If the rate is right, the times Λ(t_{i−1}, t_i) between updates are exponential with mean 1
//! (time rescaling), and so the updates of a day scatter around their expectation as Poisson
//! numbers do. [`dispersion`] says by how much more they scatter: about 1 for a source that keeps
//! its rhythm, well above for one that comes in bursts, below for one that runs by the clock.

use crate::time::Timestamp;

use super::cyclic::{DAY_S, Rate};
use super::history::WeeklyEvidence;

/// The variance of the daily counts over what the rate foretells. `None` without evidence.
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
    // The rate's own level may be newer than the evidence's; only its rhythm is held against it.
    let scale = if expected > 0.0 { mean / expected } else { 0.0 };
    let between_days = days.iter().map(|day| (day * scale - mean).powi(2)).sum::<f64>() / 7.0;
    Some((square - mean * mean).max(0.0) / (mean + between_days))
}

/// The rescaled times between events: Λ(t_{i−1}, t_i).
pub fn rescaled(events: &[Timestamp], rate: &Rate) -> Vec<f64> {
    events.windows(2).map(|pair| rate.expected(pair[0], pair[1])).collect()
}
