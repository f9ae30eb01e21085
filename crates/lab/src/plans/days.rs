//! The local days of a horizon.

use jiff::civil::Date;
use jiff::tz::TimeZone;

use tidewatch_core::time::Timestamp;

/// A local day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedDay {
    /// Its date.
    pub date: Date,
    /// Its start.
    pub from: Timestamp,
}

impl PlannedDay {
    /// The instant of a minute of its local clock.
    pub fn at(&self, minute: i64, zone: &TimeZone) -> Timestamp {
        let (hour, minute) = ((minute / 60).clamp(0, 23) as i8, (minute % 60) as i8);
        instant(self.date.at(hour, minute, 0, 0).to_zoned(zone.clone()).ok()).unwrap_or(self.from)
    }
}

fn instant(at: Option<jiff::Zoned>) -> Option<Timestamp> {
    at.map(|at| Timestamp::from_millis(at.timestamp().as_millisecond()))
}

/// The days that overlap [from, until), at most `most`.
pub fn days(zone: &TimeZone, from: Timestamp, until: Timestamp, most: usize) -> Vec<PlannedDay> {
    let Ok(first) = jiff::Timestamp::from_millisecond(from.as_millis()) else { return Vec::new() };
    let mut date = first.to_zoned(zone.clone()).date();
    let mut days = Vec::new();
    while days.len() < most {
        let Some(begins) = instant(date.to_zoned(zone.clone()).ok()) else { break };
        if begins >= until {
            break;
        }
        days.push(PlannedDay { date, from: begins });
        let Ok(next) = date.tomorrow() else { break };
        date = next;
    }
    days
}

/// The minute of the local day at an instant.
pub fn minute_of_day(zone: &TimeZone, at: Timestamp) -> i64 {
    jiff::Timestamp::from_millisecond(at.as_millis()).map_or(0, |at| {
        let clock = at.to_zoned(zone.clone()).time();
        i64::from(clock.hour()) * 60 + i64::from(clock.minute())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_follow_the_local_clock() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let at = |text: &str| Timestamp::parse_iso(text).unwrap();
        // A day of 25 hours after one of 24.
        let found = days(&zone, at("2026-10-24T10:00:00Z"), at("2026-10-26T23:00:00Z"), 99);
        let hours: Vec<i64> =
            found.windows(2).map(|two| (two[1].from - two[0].from).as_millis() / 3_600_000).collect();
        assert_eq!((found.len(), hours), (3, vec![24, 25]));
        assert_eq!(found[1].at(12 * 60, &zone), at("2026-10-25T11:00:00Z"));
        assert_eq!(minute_of_day(&zone, at("2026-10-25T11:30:00Z")), 750);
    }
}
