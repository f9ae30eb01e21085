//! Numbers, days and zones in plain words, for terminals and pictures alike.
//!
//! Must not know what the numbers are about.

use jiff::tz::TimeZone;

use tidewatch_core::time::Timestamp;

/// The days, Monday first.
pub const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A rate with the digits that matter.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_keep_the_digits_that_matter() {
        let said = [0.0, 1e-9, 0.000_24, 0.0412, 0.41, 1.02, 12.34, 1234.5].map(number);
        assert_eq!(said, ["0", "<0.000001", "0.00024", "0.041", "0.41", "1.02", "12.3", "1234"]);
    }
}
