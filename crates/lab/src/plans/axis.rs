//! The time axis of a picture: tick lines and their labels.
//!
//! It uses local days, weeks, months and years, and selects readable ticks for lengths from a day to ten
//! years. Must not know what is drawn along it.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use crate::words::local;
use tidewatch_core::time::{Span, Timestamp};

use super::days::{PlannedDay, days};

/// A tick line across the picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tick {
    /// Its time.
    pub at: Timestamp,
    /// Its label. A line without label is fainter.
    pub label: Option<String>,
}

/// The ticks between two instants, in order.
pub fn ticks(zone: &TimeZone, from: Timestamp, until: Timestamp) -> Vec<Tick> {
    let all = days(zone, from, until, 5000);
    let length = until - from;
    let mut ticks = match length {
        length if length <= Span::from_days(3) => {
            let hours = if length <= Span::from_days(1) { 3 } else { 6 };
            all.iter().flat_map(|day| hourly(day, hours, zone)).collect()
        }
        length if length <= Span::from_days(10) => daily(&all, |_| true, "%a %d %b"),
        length if length <= Span::from_days(75) => daily(&all, is_monday, "%a %d %b"),
        length if length <= Span::from_days(800) => {
            let weeks_and_months: Vec<PlannedDay> =
                all.iter().copied().filter(|day| is_monday(day.date) || day.date.day() == 1).collect();
            daily(&weeks_and_months, |date| date.day() == 1, "%b %Y")
        }
        _ => {
            let months: Vec<PlannedDay> = all.iter().copied().filter(|day| day.date.day() == 1).collect();
            daily(&months, |date| date.day_of_year() == 1, "%Y")
        }
    };
    ticks.retain(|tick| tick.at >= from && tick.at < until);
    ticks
}

fn is_monday(date: Date) -> bool {
    date.weekday() == jiff::civil::Weekday::Monday
}

fn hourly(day: &PlannedDay, hours: i64, zone: &TimeZone) -> Vec<Tick> {
    let tick = |hour: i64| {
        let at = day.at(hour * 60, zone);
        let format = if hour == 0 { "%a %d %b" } else { "%H:%M" };
        Tick { at, label: Some(local(at, zone, format)) }
    };
    (0..24).step_by(hours.unsigned_abs() as usize).map(tick).collect()
}

fn daily(days: &[PlannedDay], labelled: impl Fn(Date) -> bool, format: &str) -> Vec<Tick> {
    let label = |day: &PlannedDay| labelled(day.date).then(|| day.date.strftime(format).to_string());
    days.iter().map(|day| Tick { at: day.from, label: label(day) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_of_labels_is_bounded_for_every_length() {
        let from = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
        for (days, lines, words, first) in [
            (1, 8, 8, "Mon 16 Nov"),
            (3, 12, 12, "Mon 16 Nov"),
            (7, 7, 7, "Mon 16 Nov"),
            (28, 28, 4, "Mon 16 Nov"),
            (365, 62, 12, "Dec 2026"),
            (3650, 120, 10, "2027"),
        ] {
            let ticks = ticks(&TimeZone::UTC, from, from + Span::from_days(days));
            let labels: Vec<&str> = ticks.iter().filter_map(|tick| tick.label.as_deref()).collect();
            assert_eq!((ticks.len(), labels.len(), labels[0]), (lines, words, first), "{days} days");
        }
    }
}
