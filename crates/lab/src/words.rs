//! Numbers, spans, days and zones as text, for tables and pictures.
//!
//! Must not know the meaning of the numbers.

use std::fmt::Write;

use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthStr;

use tidewatch_core::time::{Span, Timestamp};

/// Names of the days, Monday first.
pub const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A number with its significant digits.
pub fn number(value: f64) -> String {
    match value {
        v if v <= 0.0 => "0".to_owned(),
        v if v < 1e-6 => "<0.000001".to_owned(),
        v if v < 0.1 => {
            let zeros = (-v.log10()).floor() as usize;
            format!("{v:.*}", zeros + 2)
        }
        v if v < 10.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// An expected number of updates.
pub fn count(value: f64) -> String {
    match value {
        v if v <= 0.0 => "0".to_owned(),
        v if v < 0.01 => "<0.01".to_owned(),
        v if v < 1.0 => format!("{v:.2}"),
        v if v < 100.0 => format!("{v:.1}"),
        v => format!("{v:.0}"),
    }
}

/// The plural ending for a count.
pub fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

/// The zone's name, or its offset if it has none.
pub fn zone(zone: &TimeZone) -> String {
    match (zone.iana_name(), zone.to_fixed_offset()) {
        (Some(name), _) => name.to_owned(),
        (None, Ok(offset)) => offset.to_string(),
        (None, Err(_)) => "local time".to_owned(),
    }
}

/// An instant in a zone, as `strftime` formats it.
pub fn local(at: Timestamp, zone: &TimeZone, format: &str) -> String {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(instant) => instant.to_zoned(zone.clone()).strftime(format).to_string(),
        Err(_) => at.iso(),
    }
}

/// A delay in seconds; a dash where there is none.
pub fn delay(secs: Option<f64>) -> String {
    secs.map_or_else(|| "–".to_owned(), |secs| Span::from_secs(1).scaled(secs).to_string())
}

/// A span to the millisecond, in the form that options accept.
pub fn exact(span: Span) -> String {
    let mut left = span.as_millis().unsigned_abs();
    let mut text = String::new();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        if left >= size {
            // Writing to a string does not fail.
            let _ = write!(text, "{}{unit}", left / size);
            left %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

/// A text cut to a width, with an ellipsis if it was longer.
pub fn cut(text: &str, width: usize) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if line.width() <= width {
        return line;
    }
    let mut short = String::new();
    for c in line.chars() {
        if short.width() + 2 > width {
            break;
        }
        short.push(c);
    }
    short + "…"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_significant_digits() {
        let message = [0.0, 1e-9, 0.000_24, 0.0412, 0.41, 1.02, 12.34, 1234.5].map(number);
        assert_eq!(message, ["0", "<0.000001", "0.00024", "0.041", "0.41", "1.02", "12.3", "1234"]);
    }

    #[test]
    fn exact_durations_parse_back() {
        for text in ["0s", "28d", "1d6h30m", "59s", "1h1ms", "250ms"] {
            let span = Span::parse(text).unwrap();
            assert_eq!(exact(span), text);
        }
    }

    #[test]
    fn long_texts_are_cut_with_an_ellipsis() {
        assert_eq!(cut("abcdef", 6), "abcdef");
        assert_eq!(cut("abcdefg", 6), "abcde…");
        assert_eq!(cut("a\nb", 6), "a b");
    }
}
