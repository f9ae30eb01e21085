//! Names of predictors for display.
//!
//! Merges the predictors with the same name and omits those with small weight. May not know where the names
//! are displayed.

use super::mixture::PredictorMix;
use super::predictors::{PREDICTORS, Periodic, Predictor};

/// Smaller weights are omitted.
const WORTH_A_WORD: f64 = 0.05;

/// A named group of predictors and its weight.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Believed {
    /// The displayed name.
    pub account: &'static str,
    /// Its share of the total weight.
    pub share: f64,
}

impl Predictor {
    fn name(self) -> &'static str {
        match self {
            Self::Rhythm => "weekly rhythm",
            Self::Level(_) => "as many as lately",
            Self::Comb(Periodic::Hour, ..) => "minute of the hour",
            Self::Comb(Periodic::Day, ..) => "time of day",
            Self::Comb(Periodic::WorkWeek, ..) => "time of working days and weekends",
            Self::Comb(Periodic::Week, ..) => "time of the week",
            Self::Echo(..=9) => "an echo within minutes",
            Self::Echo(10..=30) => "an echo after about 15 min",
            Self::Echo(31..=120) => "an echo after about 1 h",
            Self::Echo(121..=720) => "an echo after about 4 h",
            Self::Echo(_) => "an echo after about a day",
        }
    }
}

impl PredictorMix {
    /// The named predictors by descending weight.
    pub fn believed(&self) -> Vec<Believed> {
        let mut all: Vec<Believed> = Vec::new();
        for (account, &share) in PREDICTORS.iter().zip(&self.shares) {
            let (account, share) = (account.name(), f64::from(share));
            match all.iter_mut().find(|known| known.account == account) {
                Some(known) => known.share += share,
                None => all.push(Believed { account, share }),
            }
        }
        all.retain(|believed| believed.share >= WORTH_A_WORD);
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
        let mut diary = UpdateTimes::default();
        (0..150).for_each(|n| diary.note(start + Span::from_hours(n), Some(1.0)));
        let habits = PredictorMix::fit_weights(
            &diary,
            &Steps::from(&Rate::constant(1.0)),
            start + Span::from_hours(150),
            true,
        );
        let believed = habits.believed();
        assert_eq!(believed[0].account, "minute of the hour", "{believed:?}");
        assert!(believed[0].share > 0.5, "{believed:?}");
        assert!(believed.is_sorted_by(|a, b| a.share >= b.share));
        assert!(believed.iter().map(|one| one.share).sum::<f64>() <= 1.0 + 1e-6);
    }

    #[test]
    fn predictors_of_the_same_name_are_merged() {
        let mut shares = PREDICTORS.map(|_| 0.0);
        shares[0] = 0.28;
        let hourly = |account: &Predictor| matches!(account, Predictor::Comb(Periodic::Hour, ..));
        shares[PREDICTORS.iter().position(hourly).unwrap()] += 0.3;
        shares[PREDICTORS.iter().rposition(hourly).unwrap()] += 0.22;
        shares[PREDICTORS.iter().position(|account| *account == Predictor::Echo(15)).unwrap()] = 0.2;
        let said: Vec<_> = PredictorMix { shares, regularity: Regularity::NONE }
            .believed()
            .iter()
            .map(|one| (one.account, (one.share * 100.0).round()))
            .collect();
        let wanted =
            [("minute of the hour", 52.0), ("weekly rhythm", 28.0), ("an echo after about 15 min", 20.0)];
        assert_eq!(said, wanted);
    }
}
