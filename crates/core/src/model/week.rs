//! Local time: the position of an instant in its week, and the changes of the zone's offset.
//!
//! A cyclic rate is a function of local time, because people and cron jobs follow it. Local time advances
//! like real time between two offset changes. So an integral over real time is a sum over these stretches.

use jiff::tz::TimeZone;

use crate::time::Timestamp;

/// Milliseconds in an hour.
pub const HOUR_MS: i64 = 3_600_000;
/// Milliseconds in a day.
pub const DAY_MS: i64 = 86_400_000;
/// Milliseconds in a week.
pub const WEEK_MS: i64 = 7 * DAY_MS;

/// The local offset at an instant, in milliseconds.
fn offset(zone: &TimeZone, at: Timestamp) -> i64 {
    match jiff::Timestamp::from_millisecond(at.as_millis()) {
        Ok(at) => i64::from(zone.to_offset(at).seconds()) * 1000,
        Err(_) => 0,
    }
}

/// Local milliseconds since the Monday before the epoch; weeks start at multiples of [`WEEK_MS`].
pub fn local_millis(zone: &TimeZone, at: Timestamp) -> i64 {
    // 1970-01-01 was a Thursday.
    at.as_millis().saturating_add(offset(zone, at)).saturating_add(3 * DAY_MS)
}

/// The stretches of [from, until) with a constant offset, as local milliseconds [start, end). Real and local
/// time advance alike within each.
pub fn stretches(zone: &TimeZone, from: Timestamp, until: Timestamp) -> Stretches<'_> {
    Stretches { zone, at: from, until }
}

/// See [`stretches`].
#[derive(Debug)]
pub struct Stretches<'z> {
    zone: &'z TimeZone,
    at: Timestamp,
    until: Timestamp,
}

impl Iterator for Stretches<'_> {
    type Item = (i64, i64);

    fn next(&mut self) -> Option<(i64, i64)> {
        if self.at >= self.until {
            return None;
        }
        let start = local_millis(self.zone, self.at);
        let change = jiff::Timestamp::from_millisecond(self.at.as_millis())
            .ok()
            .and_then(|at| self.zone.following(at).next())
            .map_or(Timestamp::MAX, |change| Timestamp::from_millis(change.timestamp().as_millisecond()));
        let end = self.until.min(change);
        let stretch = (start, start + (end - self.at).as_millis());
        self.at = end;
        Some(stretch)
    }
}
