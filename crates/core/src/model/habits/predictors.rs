//! The accounts: ways of foretelling the next update from those before it.

use crate::model::week::{DAY_MS, HOUR_MS, WEEK_MS};
use crate::time::Timestamp;

/// What repeats, in an account that tells minutes apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comb {
    /// The minute of the hour; the rhythm says how busy each hour is.
    Hour,
    /// The time of day.
    Day,
    /// The time of day, of working days and weekends.
    WorkWeek,
    /// The time of the week.
    Week,
}

impl Comb {
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
    pub(super) fn exposure_days(self, memory: Memory, days: f64) -> f64 {
        memory.exposure_days(days - self.period_ms() as f64 / DAY_MS as f64 / 2.0)
    }
}

/// One way of foretelling.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Account {
    /// The weekly rate that was fitted.
    Rhythm,
    /// As many as lately, at any time.
    Level(Memory),
    /// When it updated before, give or take so many minutes.
    Comb(Comb, u16, Memory),
    /// Each update brings others, after so many minutes on average.
    Echo(u16),
}

/// How fast an account forgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// Habits.
    Long,
    /// What is usual these days.
    Middle,
    /// The last few days.
    Short,
}

impl Memory {
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
pub(super) const ACCOUNTS: [Account; 27] = [
    Account::Rhythm,
    Account::Level(Memory::Long),
    Account::Level(Memory::Middle),
    Account::Level(Memory::Short),
    Account::Comb(Comb::Day, 90, Memory::Long),
    Account::Comb(Comb::Day, 30, Memory::Long),
    Account::Comb(Comb::Day, 10, Memory::Long),
    Account::Comb(Comb::Day, 3, Memory::Long),
    Account::Comb(Comb::WorkWeek, 90, Memory::Long),
    Account::Comb(Comb::WorkWeek, 30, Memory::Long),
    Account::Comb(Comb::WorkWeek, 10, Memory::Long),
    Account::Comb(Comb::WorkWeek, 3, Memory::Long),
    Account::Comb(Comb::Week, 90, Memory::Long),
    Account::Comb(Comb::Week, 30, Memory::Long),
    Account::Comb(Comb::Week, 10, Memory::Long),
    Account::Comb(Comb::Week, 3, Memory::Long),
    Account::Comb(Comb::Day, 90, Memory::Middle),
    Account::Comb(Comb::Day, 30, Memory::Short),
    Account::Comb(Comb::Day, 10, Memory::Short),
    Account::Comb(Comb::Day, 3, Memory::Short),
    Account::Comb(Comb::Hour, 3, Memory::Middle),
    Account::Comb(Comb::Hour, 1, Memory::Middle),
    Account::Echo(4),
    Account::Echo(15),
    Account::Echo(60),
    Account::Echo(240),
    Account::Echo(1440),
];

pub(super) const COUNT: usize = ACCOUNTS.len();

/// The widest comb, in minutes, and the widest of the hour's.
pub(super) const WIDEST: f64 = 90.0;
pub(super) const WIDEST_OF_HOUR: f64 = 3.0;

/// No hour is impossible: this share of an account that tells times apart is spread over all.
pub(super) const ANYWHEN: f64 = 0.03;

impl Account {
    pub(super) fn is_echo(self) -> bool {
        matches!(self, Self::Echo(_))
    }
}
