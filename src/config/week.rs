//! Days and hours in text form: `mon-fri`, `09:00-18:00`.
//!
//! The configuration, rate files and importance files use the same form. This module knows the text
//! form of a [`WeekWindow`]; it must not know the file.

use tidewatch_core::model::importance::WeekWindow;

/// Every day of the week.
pub const ALL_DAYS: u8 = 0b111_1111;
/// Minutes in a day.
pub const DAY_MINUTES: u16 = 24 * 60;

const DAYS: [(&str, &str); 7] = [
    ("mon", "monday"),
    ("tue", "tuesday"),
    ("wed", "wednesday"),
    ("thu", "thursday"),
    ("fri", "friday"),
    ("sat", "saturday"),
    ("sun", "sunday"),
];

/// Why a text is not a set of days or a span of hours.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WeekError {
    /// Not the name of a day.
    #[error("`{0}` is not a day of the week")]
    Day(String),
    /// An empty list item, or an empty text.
    #[error("a day is missing")]
    NoDay,
    /// Not `from-until`.
    #[error("`{0}` is not a span of hours")]
    Hours(String),
    /// Not a time of day.
    #[error("`{0}` is not a time of day")]
    Time(String),
    /// Starts and ends at the same minute.
    #[error("`{0}` starts and ends at the same time")]
    Empty(String),
}

impl WeekError {
    /// The expected form.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Day(_) | Self::NoDay => {
                "expected days such as `mon`, `mon-fri`, `sat,sun`, `mon-wed,fri` or `daily`"
            }
            Self::Hours(_) | Self::Time(_) => "expected hours such as `09:00-18:00` or `22:00-06:00`",
            Self::Empty(_) => "write `00:00-24:00` for the whole day",
        }
    }
}

/// Parses days and hours into a window.
///
/// ```
/// # use tidewatch::config::week;
/// let window = week::window("mon-fri", "22:00-06:00").expect("well written");
/// assert_eq!((window.days, window.from_minute, window.until_minute), (0b1_1111, 1320, 360));
/// ```
pub fn window(days: &str, hours: &str) -> Result<WeekWindow, WeekError> {
    let days = self::days(days)?;
    let (from_minute, until_minute) = self::hours(hours)?;
    Ok(WeekWindow { days, from_minute, until_minute })
}

/// Parses a set of days; bit 0 is Monday. A range may cross the end of the week (`sat-mon`).
pub fn days(text: &str) -> Result<u8, WeekError> {
    let mut set = 0;
    for part in text.split(',') {
        let part = part.trim();
        if part == "*" || part.eq_ignore_ascii_case("daily") {
            set |= ALL_DAYS;
            continue;
        }
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (day(first)?, day(last)?),
            None => (day(part)?, day(part)?),
        };
        let mut at = first;
        set |= 1 << at;
        while at != last {
            at = (at + 1) % 7;
            set |= 1 << at;
        }
    }
    Ok(set)
}

fn day(text: &str) -> Result<u8, WeekError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(WeekError::NoDay);
    }
    let lower = text.to_ascii_lowercase();
    (0..7_u8)
        .zip(DAYS)
        .find(|(_, (short, long))| lower == *short || lower == *long)
        .map(|(index, _)| index)
        .ok_or_else(|| WeekError::Day(text.to_owned()))
}

/// Parses a span of hours into the first minute (0 to 1439) and the end (1 to 1440, exclusive). The
/// span crosses midnight if the end is not above the start.
pub fn hours(text: &str) -> Result<(u16, u16), WeekError> {
    let (from, until) = text.split_once('-').ok_or_else(|| WeekError::Hours(text.to_owned()))?;
    let (from, until) = (minute(from)?, minute(until)?);
    if from == DAY_MINUTES {
        return Err(WeekError::Time("24:00".to_owned()));
    }
    if from == until {
        return Err(WeekError::Empty(text.to_owned()));
    }
    Ok((from, if until == 0 { DAY_MINUTES } else { until }))
}

fn minute(text: &str) -> Result<u16, WeekError> {
    let text = text.trim();
    let wrong = || WeekError::Time(text.to_owned());
    let (hour, minute) = text.split_once(':').ok_or_else(wrong)?;
    let digits = |part: &str, fewest: usize| {
        ((fewest..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u16>().ok())
            .flatten()
    };
    match (digits(hour, 1), digits(minute, 2)) {
        (Some(24), Some(0)) => Ok(DAY_MINUTES),
        (Some(hour @ 0..=23), Some(minute @ 0..=59)) => Ok(hour * 60 + minute),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_of_days_are_parsed() {
        for (text, set) in [
            ("mon", 0b000_0001),
            ("mon-fri", 0b001_1111),
            ("sat,sun", 0b110_0000),
            ("mon-wed, fri", 0b001_0111),
            ("sat-mon", 0b110_0001),
            ("Sunday", 0b100_0000),
            ("fri-fri", 0b001_0000),
            ("daily", ALL_DAYS),
            ("*", ALL_DAYS),
            ("tue-mon", ALL_DAYS),
        ] {
            assert_eq!(days(text), Ok(set), "{text}");
        }
        assert_eq!(days(""), Err(WeekError::NoDay));
        assert_eq!(days("mon,"), Err(WeekError::NoDay));
        assert_eq!(days("mon-"), Err(WeekError::NoDay));
        assert_eq!(days("mon-fry"), Err(WeekError::Day("fry".into())));
        assert_eq!(days("mon-wed-fri"), Err(WeekError::Day("wed-fri".into())));
    }

    #[test]
    fn spans_of_hours_are_parsed() {
        for (text, span) in [
            ("09:00-18:00", (540, 1080)),
            ("9:30 - 10:00", (570, 600)),
            ("22:00-06:00", (1320, 360)),
            ("00:00-24:00", (0, 1440)),
            ("22:00-00:00", (1320, 1440)),
        ] {
            assert_eq!(hours(text), Ok(span), "{text}");
        }
        for text in
            ["", "09:00", "9-18", "25:00-26:00", "09:60-10:00", "24:01-1:00", "09:0-10:00", "+9:00-10:00"]
        {
            assert!(matches!(hours(text), Err(WeekError::Hours(_) | WeekError::Time(_))), "{text}");
        }
        assert_eq!(hours("24:00-06:00"), Err(WeekError::Time("24:00".into())));
        assert_eq!(hours("09:00-09:00"), Err(WeekError::Empty("09:00-09:00".into())));
    }
}
