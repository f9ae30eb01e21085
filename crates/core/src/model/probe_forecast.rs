//! The forecast of one probe: the updates that it will find, made when it starts.
//!
//! A forecast is stored with the start of the probe and compared with its answer at the end, so that stated
//! probabilities can be checked. Takes the fitted rate as a mean and a length of time at that mean. May not
//! know the source or the answer.

use serde::{Deserialize, Serialize};

use super::negative_binomial::at_least;

/// Below this probability of an overflow, all expected updates are found.
const RARE: f64 = 1e-3;

/// Up to this many items, the mean of a count that the feed's length cuts off is computed in full.
const MOST_SUMMED: u32 = 200;

/// The level of a fitted rate.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FittedLevel {
    /// Mean updates per hour over the week.
    pub per_hour: f32,
    /// Variance over mean of its counts, at least 1.
    pub dispersion: f32,
}

/// What a probe is expected to find.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ProbeForecast {
    /// The expected number of updates that the answer shows.
    pub updates: f32,
    /// Variance over mean of that number.
    pub dispersion: f32,
    /// The probability that all items of the last answer have left the feed; `None` for a page.
    pub overflow: Option<f32>,
}

impl FittedLevel {
    /// The forecast for a probe this many hours after the last one, counted at the mean rate. `holds` is M, the
    /// number of items that the feed shows. A page has none: it shows that it changed, not how often.
    ///
    /// ```
    /// # use tidewatch_core::model::probe_forecast::FittedLevel;
    /// let level = FittedLevel { per_hour: 0.5, dispersion: 1.0 };
    /// let feed = level.forecast(4.0, Some(50));
    /// assert_eq!((feed.updates, feed.dispersion), (2.0, 1.0));
    /// assert!(feed.overflow.is_some_and(|overflow| overflow < 1e-6));
    /// // 1 − e⁻²
    /// assert!((level.forecast(4.0, None).updates - 0.864_665).abs() < 1e-5);
    /// ```
    pub fn forecast(&self, hours: f64, holds: Option<u32>) -> ProbeForecast {
        let (mean, dispersion) = (f64::from(self.per_hour) * hours, f64::from(self.dispersion));
        let Some(holds) = holds else {
            let changed = at_least(mean, dispersion, 1);
            return ProbeForecast { updates: changed as f32, dispersion: 1.0, overflow: None };
        };
        let overflow = at_least(mean, dispersion, holds);
        // E min(N, M) = Σ P(N ≥ k) for k from 1 to M.
        let updates = match holds {
            _ if overflow < RARE => mean,
            0..=MOST_SUMMED => (1..=holds).map(|least| at_least(mean, dispersion, least)).sum(),
            _ => mean.min(f64::from(holds)),
        };
        ProbeForecast {
            updates: updates as f32,
            dispersion: self.dispersion,
            overflow: Some(overflow as f32),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_feed_cuts_off_the_count() {
        let forecast = |dispersion, hours, holds| {
            FittedLevel { per_hour: 1.0, dispersion }.forecast(hours, Some(holds))
        };
        let short = forecast(1.0, 10.0, 5);
        // Σ P(N ≥ k), k = 1…5, for a Poisson number with mean 10.
        assert!((short.updates - 4.956_6).abs() < 1e-3, "{short:?}");
        assert!((short.overflow.unwrap() - 0.970_75).abs() < 1e-4, "{short:?}");
        // Where nothing is lost, clusters do not change the mean.
        assert_eq!(forecast(3.0, 2.0, 100).updates, 2.0);
        assert!(forecast(3.0, 10.0, 20).overflow > forecast(1.0, 10.0, 20).overflow);
        assert_eq!(forecast(1.0, 1e6, 1000).updates, 1000.0);
        assert_eq!(
            forecast(1.0, 0.0, 10),
            ProbeForecast { updates: 0.0, dispersion: 1.0, overflow: Some(0.0) }
        );
    }
}
