//! The predictors: rates for the next update, computed from the updates before it.

use crate::model::week::{DAY_MS, HOUR_MS, WEEK_MS};
use crate::time::Timestamp;

/// The cycle of a periodic predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Periodic {
    /// The minute of the hour; the weekly rate determines the level of each hour.
    Hour,
    /// The time of day.
    Day,
    /// The time of day, of working days and weekends.
    WorkWeek,
    /// The time of the week.
    Week,
}

impl Periodic {
    /// The period. Updates closer than half of it are not repetitions; the self-exciting predictors cover
    /// them.
    pub(super) fn period_ms(self) -> i64 {
        match self {
            Self::Hour => HOUR_MS,
            Self::Day | Self::WorkWeek => DAY_MS,
            Self::Week => WEEK_MS,
        }
    }

    /// Exposure in days for this cycle, after `days` days of observation.
    pub(super) fn exposure_days(self, memory: PredictorMemory, days: f64) -> f64 {
        memory.exposure_days(days - self.period_ms() as f64 / DAY_MS as f64 / 2.0)
    }
}

/// One predictor.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Predictor {
    /// The weekly rate that was fitted.
    Rhythm,
    /// The recent mean rate, at any time.
    Level(PredictorMemory),
    /// The times of earlier updates in the cycle, with a width in minutes.
    Periodic(Periodic, u16, PredictorMemory),
    /// Each update triggers others, after this many minutes on average.
    SelfExciting(u16),
}

/// The half-life of a predictor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PredictorMemory {
    /// Long-term patterns.
    Long,
    /// Patterns of recent weeks.
    Middle,
    /// The last few days.
    Short,
}

impl PredictorMemory {
    pub(super) const ALL: [Self; 3] = [Self::Long, Self::Middle, Self::Short];

    pub(super) fn half_life_days(self) -> f64 {
        match self {
            Self::Long => 56.0,
            Self::Middle => 10.0,
            Self::Short => 4.0,
        }
    }

    /// Exposure in days with decay, after `days` days of observation.
    pub(super) fn exposure_days(self, days: f64) -> f64 {
        let mean = self.half_life_days() / std::f64::consts::LN_2;
        (mean * (1.0 - (-days.max(0.0) / mean).exp())).max(1.0 / 24.0)
    }

    /// The weight of an update at `at` relative to one at `reference`.
    pub(super) fn weight(self, at: Timestamp, reference: Timestamp) -> f64 {
        ((at - reference).as_secs_f64() / 86_400.0 / self.half_life_days()).exp2()
    }
}

/// Every predictor. The weekly rate is first.
pub(super) const PREDICTORS: [Predictor; 27] = [
    Predictor::Rhythm,
    Predictor::Level(PredictorMemory::Long),
    Predictor::Level(PredictorMemory::Middle),
    Predictor::Level(PredictorMemory::Short),
    Predictor::Periodic(Periodic::Day, 90, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Day, 30, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Day, 10, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Day, 3, PredictorMemory::Long),
    Predictor::Periodic(Periodic::WorkWeek, 90, PredictorMemory::Long),
    Predictor::Periodic(Periodic::WorkWeek, 30, PredictorMemory::Long),
    Predictor::Periodic(Periodic::WorkWeek, 10, PredictorMemory::Long),
    Predictor::Periodic(Periodic::WorkWeek, 3, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Week, 90, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Week, 30, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Week, 10, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Week, 3, PredictorMemory::Long),
    Predictor::Periodic(Periodic::Day, 90, PredictorMemory::Middle),
    Predictor::Periodic(Periodic::Day, 30, PredictorMemory::Short),
    Predictor::Periodic(Periodic::Day, 10, PredictorMemory::Short),
    Predictor::Periodic(Periodic::Day, 3, PredictorMemory::Short),
    Predictor::Periodic(Periodic::Hour, 3, PredictorMemory::Middle),
    Predictor::Periodic(Periodic::Hour, 1, PredictorMemory::Middle),
    Predictor::SelfExciting(4),
    Predictor::SelfExciting(15),
    Predictor::SelfExciting(60),
    Predictor::SelfExciting(240),
    Predictor::SelfExciting(1440),
];

pub(super) const COUNT: usize = PREDICTORS.len();

/// The largest width of a periodic predictor in minutes, and the largest for the hour cycle.
pub(super) const WIDEST: f64 = 90.0;
pub(super) const WIDEST_OF_HOUR: f64 = 3.0;

/// The share of a periodic predictor that is spread over all times, so that no time has rate zero.
pub(super) const ANYWHEN: f64 = 0.03;

impl Predictor {
    pub(super) fn is_self_exciting(self) -> bool {
        matches!(self, Self::SelfExciting(_))
    }
}
