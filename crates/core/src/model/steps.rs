//! A weekly step function in local time: a rate λ(t) or an importance a(t), configured or fitted.
//!
//! The planner divides both in the same way. Holds the week, its zone and the offset changes. May not know
//! the meaning of the values.

use jiff::tz::TimeZone;

use crate::time::Timestamp;

use super::cyclic::Rate;
use super::importance::{Importance, WeekWindow};
use super::week::{DAY_MS, WEEK_MS, stretches};

const MINUTE_MS: i64 = 60_000;

/// A weekly step function.
#[derive(Debug, Clone, PartialEq)]
pub struct Steps {
    zone: TimeZone,
    /// End of each step, in milliseconds into the local week, and its value. The last ends the week;
    /// adjacent values differ.
    steps: Vec<(i64, f64)>,
}

/// An invalid rate or importance.
#[derive(Debug, Clone, Copy, PartialEq, thiserror::Error)]
#[error("{0} is not a number of 0 or more")]
pub struct BadValue(pub f64);

impl Steps {
    /// The same value at all times.
    pub fn constant(value: f64) -> Result<Self, BadValue> {
        Self::windows(TimeZone::UTC, value, &[])
    }

    /// One value outside all windows and one in each. Later windows override earlier ones.
    ///
    /// ```
    /// # use tidewatch_core::model::{importance::WeekWindow, steps::Steps};
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let office = WeekWindow { days: 0b1_1111, from_minute: 540, until_minute: 1080 };
    /// let weight = Steps::windows(jiff::tz::TimeZone::UTC, 1.0, &[(office, 3.0)]).unwrap();
    /// let monday = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
    /// let day = weight.over(monday, monday + Span::from_days(1));
    /// let hour = 3_600_000;
    /// assert_eq!(day, [(9 * hour, 1.0), (18 * hour, 3.0), (24 * hour, 1.0)]);
    /// ```
    pub fn windows(zone: TimeZone, outside: f64, windows: &[(WeekWindow, f64)]) -> Result<Self, BadValue> {
        let all = windows.iter().map(|&(_, value)| value).chain([outside]);
        if let Some(bad) = all.into_iter().find(|value| !value.is_finite() || *value < 0.0) {
            return Err(BadValue(bad));
        }
        let mut ends = vec![WEEK_MS];
        for (window, _) in windows {
            ends.extend(spans(window).into_iter().flatten().flat_map(|(from, until)| [from, until]));
        }
        ends.sort_unstable();
        ends.dedup();
        let inside = |at: i64| {
            let holds = |window: &WeekWindow| {
                spans(window).into_iter().flatten().any(|(from, until)| (from..until).contains(&at))
            };
            windows.iter().rev().find(|(window, _)| holds(window)).map_or(outside, |&(_, value)| value)
        };
        let mut from = 0;
        let steps = ends.into_iter().filter(|&end| end > 0).map(|end| {
            let value = inside(from);
            from = end;
            (end, value)
        });
        Ok(Self { zone, steps: merged(steps) })
    }

    /// The pieces of [from, until): end in milliseconds after `from`, and value. Adjacent values differ.
    /// Real time, so an hour that the clock repeats occurs twice.
    pub fn over(&self, from: Timestamp, until: Timestamp) -> Vec<(i64, f64)> {
        let mut pieces = Vec::new();
        let mut passed = 0;
        for (start, end) in stretches(&self.zone, from, until) {
            let mut at = start;
            let mut index = self.steps.partition_point(|&(step_end, _)| step_end <= at.rem_euclid(WEEK_MS));
            while at < end {
                let (step_end, value) = self.steps[index];
                let piece_end = (at - at.rem_euclid(WEEK_MS) + step_end).min(end);
                passed += piece_end - at;
                pieces.push((passed, value));
                at = piece_end;
                index = (index + 1) % self.steps.len();
            }
        }
        merged(pieces)
    }

    /// The zone of the week.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }
}

impl From<&Rate> for Steps {
    /// In updates per hour.
    fn from(rate: &Rate) -> Self {
        let steps = rate.segments().into_iter().map(|(_, end, per_hour)| (i64::from(end) * 1000, per_hour));
        Self { zone: rate.zone().clone(), steps: merged(steps) }
    }
}

impl TryFrom<&Importance> for Steps {
    type Error = BadValue;

    fn try_from(importance: &Importance) -> Result<Self, BadValue> {
        Self::windows(importance.time_zone.clone(), importance.baseline, &importance.windows)
    }
}

/// Up to two spans of milliseconds of the week for every day of a window. A window may run past midnight and
/// past the end of the week.
fn spans(window: &WeekWindow) -> Vec<[(i64, i64); 2]> {
    let (from, until) =
        (i64::from(window.from_minute) * MINUTE_MS, i64::from(window.until_minute) * MINUTE_MS);
    let length = if until > from { until - from } else { until + DAY_MS - from };
    (0..7)
        .filter(|day| window.days >> day & 1 == 1)
        .map(|day| {
            let start = day * DAY_MS + from;
            [(start, (start + length).min(WEEK_MS)), (0, (start + length - WEEK_MS).max(0))]
        })
        .collect()
}

/// Merges two lists of pieces over one span, as returned by [`Steps::over`]: a boundary of either is a
/// boundary of the result. Each piece has its end and both values.
pub fn cut_together(one: &[(i64, f64)], other: &[(i64, f64)]) -> Vec<(i64, f64, f64)> {
    let (mut a, mut b) = (one.iter().peekable(), other.iter().peekable());
    let mut both = Vec::with_capacity(one.len() + other.len());
    while let (Some(&&(a_end, a_value)), Some(&&(b_end, b_value))) = (a.peek(), b.peek()) {
        let end = a_end.min(b_end);
        both.push((end, a_value, b_value));
        a.next_if(|_| a_end == end);
        b.next_if(|_| b_end == end);
    }
    both
}

/// Merges adjacent pieces of equal value.
fn merged(pieces: impl IntoIterator<Item = (i64, f64)>) -> Vec<(i64, f64)> {
    let mut list: Vec<(i64, f64)> = Vec::new();
    for (end, value) in pieces {
        match list.last_mut() {
            Some(last) if last.1 == value => last.0 = end,
            _ => list.push((end, value)),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Span;

    const HOUR: i64 = 3_600_000;

    fn window(days: u8, from: u16, until: u16) -> WeekWindow {
        WeekWindow { days, from_minute: from * 60, until_minute: until * 60 }
    }

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).unwrap()
    }

    #[test]
    fn windows_run_past_midnight_and_the_weeks_end() {
        let steps = Steps::windows(TimeZone::UTC, 0.0, &[(window(0b100_0000, 22, 6), 2.0)]).unwrap();
        let sunday = at("2026-11-22T00:00:00Z");
        let pieces = steps.over(sunday, sunday + Span::from_days(2));
        assert_eq!(pieces, [(22 * HOUR, 0.0), (30 * HOUR, 2.0), (48 * HOUR, 0.0)]);
    }

    #[test]
    fn later_windows_override_and_bad_values_are_errors() {
        let rows = [(window(0b111_1111, 8, 20), 2.0), (window(1, 12, 13), 5.0)];
        let monday = at("2026-11-16T00:00:00Z");
        let pieces =
            Steps::windows(TimeZone::UTC, 1.0, &rows).unwrap().over(monday, monday + Span::from_days(1));
        let values: Vec<f64> = pieces.iter().map(|piece| piece.1).collect();
        assert_eq!(values, [1.0, 2.0, 5.0, 2.0, 1.0]);
        assert!(Steps::constant(f64::NAN).is_err());
        assert_eq!(Steps::constant(-1.0), Err(BadValue(-1.0)));
    }

    #[test]
    fn a_repeated_hour_occurs_twice() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        // 02:00 to 03:00 local time happens twice on 25 October 2026.
        let steps = Steps::windows(zone, 0.0, &[(window(0b100_0000, 2, 3), 1.0)]).unwrap();
        let midnight = at("2026-10-24T22:00:00Z");
        let pieces = steps.over(midnight, midnight + Span::from_hours(25));
        assert_eq!(pieces, [(2 * HOUR, 0.0), (4 * HOUR, 1.0), (25 * HOUR, 0.0)]);
    }
}
