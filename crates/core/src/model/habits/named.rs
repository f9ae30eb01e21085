//! Names of predictors for display.
//!
//! Merges the predictors with the same name and omits those with small weight. May not know where the names
//! are displayed.

use super::mixture::PredictorMix;
use super::predictors::{PREDICTORS, Periodic, Predictor};

/// Smaller weights are omitted.
const LEAST_SHOWN: f64 = 0.05;

/// A named group of predictors and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PredictorShare {
    /// The displayed name.
    pub name: &'static str,
    /// Its share of the total weight.
    pub share: f64,
}

impl Predictor {
    fn name(self) -> &'static str {
        match self {
            Self::Rhythm => "weekly rhythm",
            Self::Level(_) => "as many as lately",
            Self::Periodic(Periodic::Hour, ..) => "minute of the hour",
            Self::Periodic(Periodic::Day, ..) => "time of day",
            Self::Periodic(Periodic::WorkWeek, ..) => "time of working days and weekends",
            Self::Periodic(Periodic::Week, ..) => "time of the week",
            Self::SelfExciting(..=9) => "an echo within minutes",
            Self::SelfExciting(10..=30) => "an echo after about 15 min",
            Self::SelfExciting(31..=120) => "an echo after about 1 h",
            Self::SelfExciting(121..=720) => "an echo after about 4 h",
            Self::SelfExciting(_) => "an echo after about a day",
        }
    }
}

impl PredictorMix {
    /// The named predictors by descending weight.
    pub fn named_shares(&self) -> Vec<PredictorShare> {
        let mut all: Vec<PredictorShare> = Vec::new();
        for (predictor, &share) in PREDICTORS.iter().zip(&self.shares) {
            let (name, share) = (predictor.name(), f64::from(share));
            match all.iter_mut().find(|known| known.name == name) {
                Some(known) => known.share += share,
                None => all.push(PredictorShare { name, share }),
            }
        }
        all.retain(|named| named.share >= LEAST_SHOWN);
        all.sort_by(|a, b| b.share.total_cmp(&a.share));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::cyclic::Rate;
    use crate::model::habits::regular::Regularity;
    use crate::model::habits::update_times::UpdateTimes;
    use crate::model::steps::Steps;
    use crate::time::{Span, Timestamp};

    #[test]
    fn an_hourly_source_is_named_by_its_minute() {
        let start = Timestamp::parse_iso("2026-11-16T00:04:00Z").unwrap();
        let mut update_times = UpdateTimes::default();
        (0..150).for_each(|n| update_times.note(start + Span::from_hours(n), Some(1.0)));
        let habits = PredictorMix::fit_weights(
            &update_times,
            &Steps::from(&Rate::constant(1.0)),
            start + Span::from_hours(150),
            true,
        );
        let named = habits.named_shares();
        assert_eq!(named[0].name, "minute of the hour", "{named:?}");
        assert!(named[0].share > 0.5, "{named:?}");
        assert!(named.is_sorted_by(|a, b| a.share >= b.share));
        assert!(named.iter().map(|one| one.share).sum::<f64>() <= 1.0 + 1e-6);
    }

    #[test]
    fn predictors_of_the_same_name_are_merged() {
        let mut shares = PREDICTORS.map(|_| 0.0);
        shares[0] = 0.28;
        let hourly = |predictor: &Predictor| matches!(predictor, Predictor::Periodic(Periodic::Hour, ..));
        shares[PREDICTORS.iter().position(hourly).unwrap()] += 0.3;
        shares[PREDICTORS.iter().rposition(hourly).unwrap()] += 0.22;
        shares
            [PREDICTORS.iter().position(|predictor| *predictor == Predictor::SelfExciting(15)).unwrap()] =
            0.2;
        let named: Vec<_> = PredictorMix { shares, regularity: Regularity::NONE }
            .named_shares()
            .iter()
            .map(|one| (one.name, (one.share * 100.0).round()))
            .collect();
        let wanted =
            [("minute of the hour", 52.0), ("weekly rhythm", 28.0), ("an echo after about 15 min", 20.0)];
        assert_eq!(named, wanted);
    }
}
