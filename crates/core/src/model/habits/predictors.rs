//! The accounts: ways of foretelling the next update from those before it.

use crate::model::week::{DAY_MS, HOUR_MS, WEEK_MS};
use crate::time::Timestamp;

/// What repeats, in an account that tells minutes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Periodic {
    /// The minute of the hour; the rhythm says how busy each hour is.
    Hour,
    /// The time of day.
    Day,
    /// The time of day, of working days and weekends.
    WorkWeek,
    /// The time of the week.
    Week,
}

impl Periodic {
    /// After how long its times come again. What is nearer than half of that has not come *again*: it is
    /// for echoes to foretell.
    pub(super) fn period_ms(self) -> i64 {
        match self {
            Self::Hour => HOUR_MS,
            Self::Day | Self::WorkWeek => DAY_MS,
            Self::Week => WEEK_MS,
        }
    }

    /// Days of watching that count for it, of so many.
    pub(super) fn exposure_days(self, memory: PredictorMemory, days: f64) -> f64 {
        memory.exposure_days(days - self.period_ms() as f64 / DAY_MS as f64 / 2.0)
    }
}

/// One way of foretelling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Predictor {
    /// The weekly rate that was fitted.
    Rhythm,
    /// As many as lately, at any time.
    Level(PredictorMemory),
    /// When it updated before, give or take so many minutes.
    Comb(Periodic, u16, PredictorMemory),
    /// Each update brings others, after so many minutes on average.
    Echo(u16),
}

/// How fast an account forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PredictorMemory {
    /// Habits.
    Long,
    /// What is usual these days.
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

    /// Days that count as watched, of so many that were.
    pub(super) fn exposure_days(self, days: f64) -> f64 {
        let mean = self.half_life_days() / std::f64::consts::LN_2;
        (mean * (1.0 - (-days.max(0.0) / mean).exp())).max(1.0 / 24.0)
    }

    /// What an update at `at` weighs beside one at `reference`.
    pub(super) fn weight(self, at: Timestamp, reference: Timestamp) -> f64 {
        ((at - reference).as_secs_f64() / 86_400.0 / self.half_life_days()).exp2()
    }
}

/// Every account. The rhythm comes first.
pub(super) const ACCOUNTS: [Predictor; 27] = [
    Predictor::Rhythm,
    Predictor::Level(PredictorMemory::Long),
    Predictor::Level(PredictorMemory::Middle),
    Predictor::Level(PredictorMemory::Short),
    Predictor::Comb(Periodic::Day, 90, PredictorMemory::Long),
    Predictor::Comb(Periodic::Day, 30, PredictorMemory::Long),
    Predictor::Comb(Periodic::Day, 10, PredictorMemory::Long),
    Predictor::Comb(Periodic::Day, 3, PredictorMemory::Long),
    Predictor::Comb(Periodic::WorkWeek, 90, PredictorMemory::Long),
    Predictor::Comb(Periodic::WorkWeek, 30, PredictorMemory::Long),
    Predictor::Comb(Periodic::WorkWeek, 10, PredictorMemory::Long),
    Predictor::Comb(Periodic::WorkWeek, 3, PredictorMemory::Long),
    Predictor::Comb(Periodic::Week, 90, PredictorMemory::Long),
    Predictor::Comb(Periodic::Week, 30, PredictorMemory::Long),
    Predictor::Comb(Periodic::Week, 10, PredictorMemory::Long),
    Predictor::Comb(Periodic::Week, 3, PredictorMemory::Long),
    Predictor::Comb(Periodic::Day, 90, PredictorMemory::Middle),
    Predictor::Comb(Periodic::Day, 30, PredictorMemory::Short),
    Predictor::Comb(Periodic::Day, 10, PredictorMemory::Short),
    Predictor::Comb(Periodic::Day, 3, PredictorMemory::Short),
    Predictor::Comb(Periodic::Hour, 3, PredictorMemory::Middle),
    Predictor::Comb(Periodic::Hour, 1, PredictorMemory::Middle),
    Predictor::Echo(4),
    Predictor::Echo(15),
    Predictor::Echo(60),
    Predictor::Echo(240),
    Predictor::Echo(1440),
];

pub(super) const COUNT: usize = ACCOUNTS.len();

/// The widest comb, in minutes, and the widest of the hour's.
pub(super) const WIDEST: f64 = 90.0;
pub(super) const WIDEST_OF_HOUR: f64 = 3.0;

/// No hour is impossible: this share of an account that tells times apart is spread over all.
pub(super) const ANYWHEN: f64 = 0.03;

impl Predictor {
    pub(super) fn is_echo(self) -> bool {
        matches!(self, Self::Echo(_))
    }
}
