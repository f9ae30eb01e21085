//! Instants and spans.
//!
//! All modules use the time unit of the store: whole milliseconds since the Unix epoch, UTC. Parses
//! durations and formats instants. May not know the current time.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::num::NonZeroI64;
use std::ops::{Add, AddAssign, Neg, Sub};

use jiff::tz::TimeZone;

/// A number of milliseconds without a bit pattern of zeros.
///
/// So an `Option` of it has the same size: with a million sources that is a hundred megabytes. Numbers from zero on
/// are stored one higher, and the largest one is not used.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Millis(NonZeroI64);

impl Millis {
    const fn new(millis: i64) -> Self {
        let raised = if millis < 0 { millis } else { millis.saturating_add(1) };
        match NonZeroI64::new(raised) {
            Some(raised) => Self(raised),
            None => Self(NonZeroI64::MIN),
        }
    }

    const fn get(self) -> i64 {
        let raised = self.0.get();
        if raised < 0 { raised } else { raised - 1 }
    }
}

/// An instant: milliseconds since the Unix epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "i64", into = "i64")]
pub struct Timestamp(Millis);

/// A signed length of time in milliseconds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "i64", into = "i64")]
pub struct Span(Millis);

impl Timestamp {
    /// The earliest instant, displayed as "always".
    pub const MIN: Self = Self::from_millis(i64::MIN);
    /// The latest instant, displayed as "never".
    pub const MAX: Self = Self::from_millis(i64::MAX);

    /// An instant from Unix milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(Millis::new(millis))
    }

    /// An instant from Unix seconds.
    pub const fn from_secs(secs: i64) -> Self {
        Self::from_millis(secs.saturating_mul(1000))
    }

    /// Unix milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0.get()
    }

    /// The hour of the day in UTC, 0 to 23.
    pub fn utc_hour(self) -> u32 {
        (self.as_millis().div_euclid(3_600_000)).rem_euclid(24) as u32
    }

    /// The day of the week in UTC, 0 = Monday to 6 = Sunday.
    pub fn utc_weekday(self) -> u32 {
        // 1970-01-01 was a Thursday, day 3 of a week that starts on Monday.
        (self.as_millis().div_euclid(86_400_000) + 3).rem_euclid(7) as u32
    }

    /// ISO 8601 in UTC with milliseconds, as in the readable views of the store.
    ///
    /// ```
    /// # use tidewatch_core::time::Timestamp;
    /// assert_eq!(Timestamp::from_millis(0).iso(), "1970-01-01T00:00:00.000Z");
    /// ```
    pub fn iso(self) -> String {
        match jiff::Timestamp::from_millisecond(self.as_millis()) {
            Ok(at) => format!("{at:.3}"),
            Err(_) if self.as_millis() < 0 => "always".to_owned(),
            Err(_) => "never".to_owned(),
        }
    }

    /// ISO 8601 in a time zone, to the second, with the offset: for terminal output.
    pub fn iso_in(self, zone: &TimeZone) -> String {
        match jiff::Timestamp::from_millisecond(self.as_millis()) {
            Ok(at) => at.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M:%S %:z").to_string(),
            Err(_) => self.iso(),
        }
    }

    /// Parses RFC 3339 / ISO 8601 with an offset or `Z`.
    pub fn parse_iso(text: &str) -> Option<Self> {
        let at: jiff::Timestamp = text.parse().ok()?;
        Some(Self::from_millis(at.as_millisecond()))
    }
}

impl Span {
    /// Zero length.
    pub const ZERO: Self = Self::from_millis(0);

    /// A span of milliseconds.
    pub const fn from_millis(millis: i64) -> Self {
        Self(Millis::new(millis))
    }

    /// A span of seconds.
    pub const fn from_secs(secs: i64) -> Self {
        Self::from_millis(secs.saturating_mul(1000))
    }

    /// A span of minutes.
    pub const fn from_mins(mins: i64) -> Self {
        Self::from_secs(mins.saturating_mul(60))
    }

    /// A span of hours.
    pub const fn from_hours(hours: i64) -> Self {
        Self::from_mins(hours.saturating_mul(60))
    }

    /// A span of days of 24 hours.
    pub const fn from_days(days: i64) -> Self {
        Self::from_hours(days.saturating_mul(24))
    }

    /// Milliseconds.
    pub const fn as_millis(self) -> i64 {
        self.0.get()
    }

    /// Seconds, with fraction.
    pub fn as_secs_f64(self) -> f64 {
        self.as_millis() as f64 / 1000.0
    }

    /// As a standard duration; a negative span is zero.
    pub fn to_duration(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.as_millis().max(0).unsigned_abs())
    }

    /// From a standard duration.
    pub fn from_duration(duration: std::time::Duration) -> Self {
        Self::from_millis(i64::try_from(duration.as_millis()).unwrap_or(i64::MAX))
    }

    /// This span times a factor, rounded to the millisecond, saturating.
    pub fn scaled(self, factor: f64) -> Self {
        Self::from_millis((self.as_millis() as f64 * factor).round() as i64)
    }

    /// Parses a duration such as `90s`, `15m`, `1h30m`, `1d`, `8w`, `250ms`, `1.5h`. Units may be words (`10
    /// minutes`), and spaces may separate the parts.
    ///
    /// ```
    /// # use tidewatch_core::time::Span;
    /// assert_eq!(Span::parse("1h 30m"), Ok(Span::from_mins(90)));
    /// assert!(Span::parse("90").is_err());
    /// ```
    pub fn parse(text: &str) -> Result<Self, SpanError> {
        let mut rest = text.trim();
        if rest.is_empty() {
            return Err(SpanError::Empty);
        }
        let mut total = 0.0_f64;
        while !rest.is_empty() {
            let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, tail) = rest.split_at(digits);
            let number: f64 = number.parse().map_err(|_| SpanError::Malformed(text.to_owned()))?;
            let tail = tail.trim_start();
            let letters = tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len());
            let (unit, tail) = tail.split_at(letters);
            total += number * unit_millis(unit, text)?;
            rest = tail.trim_start();
        }
        if total > i64::MAX as f64 / 4.0 {
            return Err(SpanError::Malformed(text.to_owned()));
        }
        Ok(Self::from_millis(total.round() as i64))
    }
}

fn unit_millis(unit: &str, text: &str) -> Result<f64, SpanError> {
    Ok(match unit {
        "ms" | "msec" | "millisecond" | "milliseconds" => 1.0,
        "s" | "sec" | "secs" | "second" | "seconds" => 1e3,
        "m" | "min" | "mins" | "minute" | "minutes" => 60e3,
        "h" | "hr" | "hour" | "hours" => 3_600e3,
        "d" | "day" | "days" => 86_400e3,
        "w" | "week" | "weeks" => 604_800e3,
        "" => return Err(SpanError::NoUnit(text.trim().to_owned())),
        other => return Err(SpanError::UnknownUnit(other.to_owned())),
    })
}

/// The error of a text that is not a duration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// An empty text.
    #[error("an empty duration; write it like `15m`, `6h` or `1d`")]
    Empty,
    /// A bare number.
    #[error("`{0}` has no unit; write it like `{0}s`, `{0}m` or `{0}h`")]
    NoUnit(String),
    /// An unknown unit.
    #[error("unknown unit `{0}`; use ms, s, m, h, d or w")]
    UnknownUnit(String),
    /// Anything else.
    #[error("`{0}` is not a duration; write it like `15m`, `1h30m` or `7d`")]
    Malformed(String),
}

impl Default for Timestamp {
    fn default() -> Self {
        Self::from_millis(0)
    }
}

impl From<i64> for Timestamp {
    fn from(millis: i64) -> Self {
        Self::from_millis(millis)
    }
}

impl From<Timestamp> for i64 {
    fn from(at: Timestamp) -> Self {
        at.as_millis()
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Timestamp").field(&self.as_millis()).finish()
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.iso())
    }
}

impl Default for Span {
    fn default() -> Self {
        Self::ZERO
    }
}

impl From<i64> for Span {
    fn from(millis: i64) -> Self {
        Self::from_millis(millis)
    }
}

impl From<Span> for i64 {
    fn from(span: Span) -> Self {
        span.as_millis()
    }
}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Span").field(&self.as_millis()).finish()
    }
}

impl fmt::Display for Span {
    /// The two largest nonzero units: `2d3h`, `1h30m`, `15m`, `2.5s`, `40ms`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self < Self::ZERO {
            f.write_str("-")?;
        }
        let millis = self.as_millis().unsigned_abs();
        if millis < 1000 {
            return match millis {
                0 => f.write_str("0s"),
                _ => write!(f, "{millis}ms"),
            };
        }
        if millis < 10_000 && !millis.is_multiple_of(1000) {
            return write!(f, "{:.1}s", millis as f64 / 1e3);
        }
        let mut secs = millis / 1000;
        let mut shown = 0;
        for (unit, size) in [("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)] {
            if secs >= size && shown < 2 {
                write!(f, "{}{unit}", secs / size)?;
                secs %= size;
                shown += 1;
            } else if shown > 0 {
                break;
            }
        }
        Ok(())
    }
}

impl Add<Span> for Timestamp {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self::from_millis(self.as_millis().saturating_add(span.as_millis()))
    }
}

impl AddAssign<Span> for Timestamp {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Sub<Span> for Timestamp {
    type Output = Self;
    fn sub(self, span: Span) -> Self {
        Self::from_millis(self.as_millis().saturating_sub(span.as_millis()))
    }
}

impl Sub for Timestamp {
    type Output = Span;
    fn sub(self, other: Self) -> Span {
        Span::from_millis(self.as_millis().saturating_sub(other.as_millis()))
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self::from_millis(self.as_millis().saturating_add(other.as_millis()))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self::from_millis(self.as_millis().saturating_sub(other.as_millis()))
    }
}

impl Neg for Span {
    type Output = Self;
    fn neg(self) -> Self {
        Self::from_millis(self.as_millis().saturating_neg())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instant_and_no_instant_take_eight_bytes_and_keep_their_order() {
        assert_eq!((size_of::<Option<Timestamp>>(), size_of::<Option<Span>>()), (8, 8));
        let millis = [i64::MIN, i64::MIN + 1, -2, -1, 0, 1, 2, i64::MAX - 2, i64::MAX - 1];
        let instants = millis.map(Timestamp::from_millis);
        assert!(instants.is_sorted_by(|a, b| a < b));
        assert_eq!(instants.map(Timestamp::as_millis), millis);
        assert_eq!((instants[0], instants[8]), (Timestamp::MIN, Timestamp::MAX));
        assert_eq!(Timestamp::from_millis(i64::MAX), Timestamp::MAX);
        assert_eq!(Timestamp::MAX + Span::from_secs(1), Timestamp::MAX);
        assert_eq!(serde_json::to_string(&instants[3..6]).unwrap(), "[-1,0,1]");
        assert_eq!(serde_json::from_str::<Timestamp>("-7").unwrap().as_millis(), -7);
    }

    #[test]
    fn durations_are_parsed() {
        for (text, millis) in [
            ("10s", 10_000),
            ("15m", 900_000),
            ("1h30m", 5_400_000),
            ("1h 30m", 5_400_000),
            ("1.5h", 5_400_000),
            ("180d", 180 * 86_400_000),
            ("8w", 8 * 604_800_000),
            ("250ms", 250),
            ("10 minutes", 600_000),
            ("0s", 0),
        ] {
            assert_eq!(Span::parse(text), Ok(Span::from_millis(millis)), "{text}");
        }
        assert_eq!(Span::parse("90"), Err(SpanError::NoUnit("90".into())));
        assert_eq!(Span::parse("3 fortnights"), Err(SpanError::UnknownUnit("fortnights".into())));
        assert_eq!(Span::parse(""), Err(SpanError::Empty));
        assert!(Span::parse("-5m").is_err());
        assert!(Span::parse("1..5h").is_err());
        assert!(Span::parse("99999999999999999999w").is_err());
    }

    #[test]
    fn spans_are_displayed_with_two_units() {
        for (millis, text) in [
            (0, "0s"),
            (40, "40ms"),
            (2_500, "2.5s"),
            (60_000, "1m"),
            (5_400_000, "1h30m"),
            (90_061_000, "1d1h"),
            (86_400_000 + 60_000, "1d"),
            (-900_000, "-15m"),
        ] {
            assert_eq!(Span::from_millis(millis).to_string(), text);
        }
    }

    #[test]
    fn weekday_and_hour_in_utc() {
        let monday_noon = Timestamp::parse_iso("2026-11-16T12:30:00Z").expect("valid");
        assert_eq!((monday_noon.utc_weekday(), monday_noon.utc_hour()), (0, 12));
        let before_epoch = Timestamp::from_millis(-1);
        assert_eq!((before_epoch.utc_weekday(), before_epoch.utc_hour()), (2, 23));
    }

    #[test]
    fn extreme_instants_do_not_overflow() {
        assert_eq!(Timestamp::MAX + Span::from_days(1), Timestamp::MAX);
        assert_eq!(Timestamp::MIN - Span::from_days(1), Timestamp::MIN);
        assert_eq!(Timestamp::MAX.iso(), "never");
    }
}
