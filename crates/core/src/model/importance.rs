//! Importance a(t): the weight of an update's staleness at each time of the week.
//!
//! Holds weekly windows over a baseline in a time zone, as configured. Later windows override earlier ones.
//! May not know the origin of the windows.

use jiff::tz::TimeZone;

/// A set of weekdays and a span of minutes within each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WeekWindow {
    /// Bit 0 = Monday … bit 6 = Sunday.
    pub days: u8,
    /// First minute of the day, 0 to 1439.
    pub from_minute: u16,
    /// One past the last minute, 1 to 1440. At or below `from_minute`, the window runs past midnight.
    pub until_minute: u16,
}

/// The weekly importance function.
#[derive(Debug, Clone, PartialEq)]
pub struct Importance {
    /// The zone of the days and hours.
    pub time_zone: TimeZone,
    /// The weight outside all windows.
    pub baseline: f64,
    /// Windows with their weights.
    pub windows: Vec<(WeekWindow, f64)>,
}

impl Default for Importance {
    fn default() -> Self {
        Self { time_zone: TimeZone::UTC, baseline: 1.0, windows: Vec::new() }
    }
}
