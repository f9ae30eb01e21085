//! Single values: durations, sizes, shares, words from a list, names, time zones, parts of a week.
//!
//! All settings of one kind are checked by the same rules, with the same messages. This module must not
//! know the setting beyond the name of its key.

use jiff::tz::TimeZone;

use tidewatch_core::time::{Span, SpanError};

use super::fault::Faults;
use super::reader::{At, Size};
use super::{spelling, week};

/// Longest name of a source or group, in characters.
pub const LONGEST_NAME: usize = 200;
/// Largest count of probes in a budget or step.
pub const MOST_PROBES: u32 = 1_000_000;

/// The shortest duration that a setting accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LowerBound {
    /// Zero is allowed.
    Zero,
    /// At least a millisecond.
    Positive,
}

/// Checks a duration.
pub fn span(key: &str, text: &At<String>, least: LowerBound, faults: &mut Faults) -> Option<Span> {
    if text.value.trim_start().starts_with('-') {
        faults.add_with_hint(
            text.at,
            format!("`{key}` can't be negative"),
            "expected a duration such as 15m, 6h or 1d",
        );
        return None;
    }
    match Span::parse(&text.value) {
        Ok(span) if span == Span::ZERO && least == LowerBound::Positive => {
            faults.add_with_hint(
                text.at,
                format!("`{key}` can't be zero"),
                "expected a duration of at least 1ms, such as 10s or 1d",
            );
            None
        }
        Ok(span) => Some(span),
        Err(error) => {
            let (what, hint) = match &error {
                SpanError::Empty => ("it is empty".to_owned(), "write it like 15m, 6h or 1d".to_owned()),
                SpanError::NoUnit(number) => (
                    format!("`{number}` has no unit"),
                    format!("write it like {number}s, {number}m or {number}h"),
                ),
                SpanError::UnknownUnit(unit) => {
                    (format!("unknown unit `{unit}`"), "use ms, s, m, h, d or w".to_owned())
                }
                SpanError::Malformed(text) => {
                    (format!("`{text}` is not a duration"), "write it like 15m, 1h30m or 7d".to_owned())
                }
            };
            faults.add_with_hint(text.at, format!("`{key}`: {what}"), hint);
            None
        }
    }
}

/// Checks a count of probes.
pub fn count(key: &str, number: At<i64>, faults: &mut Faults) -> Option<u32> {
    let hint = format!("expected a whole number from 1 to {MOST_PROBES}");
    match u32::try_from(number.value) {
        Ok(count @ 1..=MOST_PROBES) => Some(count),
        _ if number.value < 1 => {
            faults.add_with_hint(number.at, format!("`{key}` must be at least 1"), hint);
            None
        }
        _ => {
            faults.add_with_hint(number.at, format!("`{key}` is too large"), hint);
            None
        }
    }
}

/// Checks a number by `good`; `expected` describes the valid range.
pub fn number(
    key: &str,
    number: At<f64>,
    good: impl Fn(f64) -> bool,
    expected: &str,
    faults: &mut Faults,
) -> Option<f64> {
    // NaN fails every comparison, but infinity does not.
    if number.value.is_finite() && good(number.value) {
        return Some(number.value);
    }
    faults.add_with_hint(
        number.at,
        format!("`{key}` can't be {}", number.value),
        format!("expected a number {expected}"),
    );
    None
}

/// Checks a weight.
pub fn weight(key: &str, value: At<f64>, faults: &mut Faults) -> Option<f64> {
    number(key, value, |w| (0.0..=1e6).contains(&w), "from 0 to a million", faults)
}

/// Checks a word from a closed set.
pub fn choice<T>(key: &str, word: &At<String>, all: &[(&'static str, T)], faults: &mut Faults) -> Option<T>
where
    T: Copy,
{
    if let Some((_, value)) = all.iter().find(|(name, _)| *name == word.value) {
        return Some(*value);
    }
    let names: Vec<&str> = all.iter().map(|(name, _)| *name).collect();
    let list = format!("expected one of {}", names.join(", "));
    let hint = match spelling::closest(&word.value, names) {
        Some(meant) => format!("did you mean `{meant}`? {list}"),
        None => list,
    };
    faults.add_with_hint(word.at, format!("unknown {key} `{}`", word.value), hint);
    None
}

/// The fault of a source or group name, if any, and its fix.
pub fn bad_name(name: &str) -> Option<(&'static str, String)> {
    if name.is_empty() {
        Some(("is empty", "give it a short name such as \"lwn\"".to_owned()))
    } else if name.chars().any(char::is_control) {
        Some(("holds a control character", "use printable characters only".to_owned()))
    } else if name.trim() != name {
        Some(("starts or ends with white space", format!("write \"{}\"", name.trim())))
    } else if name.chars().count() > LONGEST_NAME {
        Some(("is too long", format!("expected at most {LONGEST_NAME} characters")))
    } else {
        None
    }
}

/// Smallest and largest allowed body, in bytes.
const BODY: std::ops::RangeInclusive<u64> = 1_000..=1_000_000_000;

/// Checks a number of bytes.
pub fn size(key: &str, size: &At<Size>, faults: &mut Faults) -> Option<usize> {
    let bytes = match &size.value {
        Size::Bytes(bytes) => Some(u64::try_from(*bytes).unwrap_or(0)),
        Size::Text(text) => bytes(text),
    };
    let Some(bytes) = bytes else {
        faults.add_with_hint(
            size.at,
            format!("`{key}` is not a size"),
            "write it like 500kB, 10MB, 8MiB, or as a whole number of bytes",
        );
        return None;
    };
    if !BODY.contains(&bytes) {
        let way = if bytes < *BODY.start() { "small" } else { "large" };
        faults.add_with_hint(size.at, format!("`{key}` is too {way}"), "expected a size from 1kB to 1GB");
        return None;
    }
    usize::try_from(bytes).ok()
}

fn bytes(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let factor: f64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kb" => 1e3,
        "m" | "mb" => 1e6,
        "g" | "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        _ => return None,
    };
    Some((number * factor).round() as u64)
}

/// Checks days or hours of a window, or returns the default.
pub fn week_part<T>(
    text: Option<At<String>>,
    read: impl Fn(&str) -> Result<T, week::WeekError>,
    default: T,
    faults: &mut Faults,
) -> Option<T> {
    let Some(text) = text else { return Some(default) };
    read(&text.value).map_err(|error| faults.add_with_hint(text.at, error.to_string(), error.hint())).ok()
}

/// The time zone with that name.
pub fn time_zone(name: &At<String>, faults: &mut Faults) -> Option<TimeZone> {
    if name.value == "UTC" {
        return Some(TimeZone::UTC);
    }
    if let Ok(zone) = TimeZone::get(&name.value) {
        return Some(zone);
    }
    let zones: Vec<String> = jiff::tz::db().available().map(|zone| zone.as_str().to_owned()).collect();
    let hint = match spelling::closest(&name.value, zones.iter().map(String::as_str)) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => "expected a name such as UTC, Europe/London or America/New_York".to_owned(),
    };
    faults.add_with_hint(name.at, format!("unknown time zone `{}`", name.value), hint);
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed_with_units() {
        for (text, expected) in [
            ("10MB", Some(10_000_000)),
            ("10 mb", Some(10_000_000)),
            ("1.5MiB", Some(1_572_864)),
            ("512", Some(512)),
            ("2k", Some(2000)),
            ("MB", None),
            ("10 elephants", None),
            ("-1MB", None),
            ("", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }

    #[test]
    fn names_are_checked() {
        for good in ["lwn", "LWN news", "日本", &"x".repeat(200)] {
            assert_eq!(bad_name(good), None, "{good}");
        }
        for bad in ["", " lwn", "lwn\u{a0}", "a\nb", "a\u{7f}", &"é".repeat(201)] {
            assert!(bad_name(bad).is_some(), "{bad:?}");
        }
    }
}
