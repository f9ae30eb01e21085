//! The numbers behind the pictures: the week by hours, and the next 24 hours.
//!
//! The cells of the week are hours of the fitted local week, which has no clock changes. The next 24
//! hours are real time. Must not know how either is drawn.

use jiff::tz::TimeZone;

use tidewatch_core::model::cyclic::{DAY_S, Rate};
use tidewatch_core::model::week::{DAY_MS, WEEK_MS, local_millis};
use tidewatch_core::time::{Span, Timestamp};

const HOUR_MS: i64 = 3_600_000;

/// Expected updates by day (Monday first) and hour.
pub type Hours = [[f64; 24]; 7];

/// The cells of the week: the integral of the rate over each hour.
pub fn hours(rate: &Rate) -> Hours {
    let mut cells = [[0.0; 24]; 7];
    for (start, end, per_hour) in rate.segments() {
        for hour in start / 3600..end.div_ceil(3600) {
            let (from, to) = (start.max(hour * 3600), end.min((hour + 1) * 3600));
            let day = (hour * 3600 / DAY_S) as usize;
            cells[day][hour as usize % 24] += per_hour * f64::from(to - from) / 3600.0;
        }
    }
    cells
}

/// Updates in the busiest hour.
pub fn peak(hours: &Hours) -> f64 {
    hours.iter().flatten().copied().fold(0.0, f64::max)
}

/// The cell of an instant: (day, hour).
pub fn here(zone: &TimeZone, now: Timestamp) -> (usize, usize) {
    let into = local_millis(zone, now).rem_euclid(WEEK_MS);
    ((into / DAY_MS) as usize, (into % DAY_MS / HOUR_MS) as usize)
}

/// Expected updates in the next 24 hours.
#[derive(Debug, Clone, PartialEq)]
pub struct NextHours {
    /// Start of the current clock hour.
    pub from: Timestamp,
    /// Updates in the 24 hours from now.
    pub expected: f64,
    /// Updates by whole hour, starting at `from`.
    pub by_hour: [f64; 24],
}

impl NextHours {
    /// The 24 hours from `now`.
    pub fn of(rate: &Rate, now: Timestamp) -> Self {
        let into_hour = local_millis(rate.zone(), now).rem_euclid(HOUR_MS);
        let from = now - Span::from_millis(into_hour);
        let at = |hour: usize| from + Span::from_hours(hour as i64);
        Self {
            from,
            expected: rate.expected(now, now + Span::from_days(1)),
            by_hour: std::array::from_fn(|hour| rate.expected(at(hour), at(hour + 1))),
        }
    }

    /// Updates in the busiest hour.
    pub fn peak(&self) -> f64 {
        self.by_hour.iter().copied().fold(0.0, f64::max)
    }

    /// The longest run of hours with at least 90 % of the peak, as first and last hour; `None` if it
    /// covers all 24.
    pub fn likeliest(&self) -> Option<(usize, usize)> {
        let busiest = |value: f64| value >= 0.9 * self.peak();
        let (mut best, mut start) = (None, None);
        for (hour, &value) in self.by_hour.iter().enumerate() {
            start = busiest(value).then(|| start.unwrap_or(hour));
            if let Some(first) = start
                && best.is_none_or(|(from, to)| hour - first > to - from)
            {
                best = Some((first, hour));
            }
        }
        best.filter(|&run| run != (0, 23))
    }
}
