//! Times without probes: windows from options, and the hours and days that a feed skips.
//!
//! Knows weekly windows. Must not know why a time is closed.

use jiff::tz::TimeZone;

use crate::config::week;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::time::{Span, Timestamp};

/// A window from an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClosedWindow(pub WeekWindow);

/// Parses days, hours or both: `sat,sun`, `22:00-06:00`, `mon-fri 22:00-06:00`.
pub fn window(text: &str) -> Result<ClosedWindow, String> {
    let text = text.trim();
    let (days, hours) = match text.rsplit_once(char::is_whitespace) {
        Some((days, hours)) if hours.contains(':') => (days, hours),
        None if text.contains(':') => ("daily", text),
        _ => (text, "00:00-24:00"),
    };
    week::window(days, hours).map(ClosedWindow).map_err(|error| format!("{error}; {}", error.hint()))
}

/// The windows that a feed skips, in UTC. If a feed skips the whole week, its hints are ignored.
pub fn skipped(hints: &FeedHints) -> Vec<WeekWindow> {
    let hours = (0..24_u16).filter(|hour| hints.skip_hours >> hour & 1 == 1);
    let windows = hours.map(|hour| WeekWindow {
        days: week::ALL_DAYS,
        from_minute: hour * 60,
        until_minute: (hour + 1) * 60,
    });
    let days = WeekWindow { days: hints.skip_days, from_minute: 0, until_minute: week::DAY_MINUTES };
    let all: Vec<WeekWindow> = windows.chain((hints.skip_days != 0).then_some(days)).collect();
    let week = Timestamp::default() + Span::from_days(7);
    let closed = times(&[(TimeZone::UTC, all.clone())], Timestamp::default(), week);
    if closed.first().is_some_and(|&(from, until)| from == Span::ZERO && until >= Span::from_days(7)) {
        return Vec::new();
    }
    all
}

/// The closed times after `from`, relative to it, ascending and disjoint. A closed time that contains
/// `until` keeps its own end, up to about a week later.
pub fn times(
    windows: &[(TimeZone, Vec<WeekWindow>)],
    from: Timestamp,
    until: Timestamp,
) -> Vec<(Span, Span)> {
    let mut closed: Vec<(Span, Span)> = Vec::new();
    for (zone, windows) in windows {
        let rows: Vec<(WeekWindow, f64)> = windows.iter().map(|&window| (window, 1.0)).collect();
        // The values 0 and 1 are always valid.
        let Ok(steps) = Steps::windows(zone.clone(), 0.0, &rows) else { continue };
        let mut begins = 0;
        for (ends, value) in steps.over(from, until + Span::from_days(8)) {
            if value > 0.0 {
                closed.push((Span::from_millis(begins), Span::from_millis(ends)));
            }
            begins = ends;
        }
    }
    closed.sort_unstable();
    let mut apart: Vec<(Span, Span)> = Vec::with_capacity(closed.len());
    for (begins, ends) in closed {
        match apart.last_mut() {
            Some(last) if begins <= last.1 => last.1 = last.1.max(ends),
            _ => apart.push((begins, ends)),
        }
    }
    apart.retain(|&(begins, _)| begins <= until - from);
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(closed: &[(Span, Span)]) -> Vec<(i64, i64)> {
        closed.iter().map(|(a, b)| (a.as_millis() / 3_600_000, b.as_millis() / 3_600_000)).collect()
    }

    #[test]
    fn windows_are_parsed() {
        let nights = WeekWindow { days: 0b111_1111, from_minute: 1320, until_minute: 360 };
        assert_eq!(window("daily 22:00-06:00"), Ok(ClosedWindow(nights)));
        assert_eq!(window("22:00-06:00"), Ok(ClosedWindow(nights)));
        let weekend = WeekWindow { days: 0b110_0000, from_minute: 0, until_minute: 1440 };
        assert_eq!(window(" sat, sun "), Ok(ClosedWindow(weekend)));
        assert_eq!(window("sat,sun 00:00-24:00"), Ok(ClosedWindow(weekend)));
        let wrong = window("mon-fry 09:00-10:00").unwrap_err();
        assert!(wrong.starts_with("`fry` is not a day of the week; expected days such as"), "{wrong}");
        assert!(window("").is_err() && window("22-06").is_err());
    }

    #[test]
    fn closed_times_are_merged_and_extend_beyond_the_end() {
        let monday = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let night = window("22:00-06:00").unwrap().0;
        let noon = window("05:00-07:00").unwrap().0;
        let all = [(zone, vec![night]), (TimeZone::UTC, vec![noon])];
        let closed = times(&all, monday, monday + Span::from_hours(22));
        assert_eq!(hours(&closed), [(0, 7), (21, 31)]);
    }

    #[test]
    fn skipped_hours_and_days_become_windows() {
        let hints = FeedHints { skip_hours: 0b11, skip_days: 1, ..FeedHints::default() };
        let sunday = Timestamp::parse_iso("2026-11-15T00:00:00Z").unwrap();
        let closed = times(&[(TimeZone::UTC, skipped(&hints))], sunday, sunday + Span::from_days(3));
        assert_eq!(hours(&closed), [(0, 2), (24, 50), (72, 74)]);
        let never = FeedHints { skip_hours: 0xFF_FFFF, ..FeedHints::default() };
        assert_eq!(skipped(&never), []);
        assert_eq!(skipped(&FeedHints::default()), []);
    }
}
