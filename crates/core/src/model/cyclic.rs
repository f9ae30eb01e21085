//! The recurrent piecewise-constant rate λ(t) of a source, with its expected updates Λ(s, f) = ∫ λ (eq. 4).
//!
//! A week of days in local time; each day has one of a few profiles, constant within segments (Bright, Gal,
//! Raschid, §4.1: the "RPC" model, whose subsets J_k may hold several intervals).
//!
//! The integral is exact across cycle ends and offset changes. May not know the origin of the rates.

use jiff::tz::TimeZone;

use crate::time::{Span, Timestamp};

use super::week::{DAY_MS, WEEK_MS, local_millis, stretches};

/// The day in seconds.
pub const DAY_S: u32 = 86_400;
/// The week in seconds.
pub const WEEK_S: u32 = 7 * DAY_S;
const DAY_MINUTES: u16 = 1440;
const MINUTE_MS: i64 = 60_000;

/// A rate that repeats every local week.
#[derive(Debug, Clone, PartialEq)]
pub struct Rate {
    zone: TimeZone,
    /// The profile of each day, Monday first. Profiles are consecutive on one time line, a day each.
    days: [u8; 7],
    /// End of each segment of the time line, in minutes. Each day ends with a segment.
    ends: Box<[u16]>,
    /// Updates per hour in each segment.
    per_hour: Box<[f32]>,
    /// Expected updates in a day of each profile.
    totals: Box<[f64]>,
    per_week: f64,
}

/// Invalid segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadRate {
    /// Ends that do not ascend, are not on the minute, or do not fill the days.
    #[error("segments must ascend by whole minutes and fill the days they are for")]
    Ends,
    /// NaN, infinite or negative.
    #[error("a rate must be a number of 0 or more")]
    Value,
}

impl Rate {
    /// A rate from a week of segments: (end in seconds into the week, updates per hour).
    ///
    /// ```
    /// # use tidewatch_core::model::cyclic::{Rate, WEEK_S};
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let rate = Rate::new(jiff::tz::TimeZone::UTC, [(WEEK_S, 0.5)]).unwrap();
    /// let from = Timestamp::from_secs(0);
    /// assert_eq!(rate.expected(from, from + Span::from_hours(4)), 2.0);
    /// ```
    pub fn new(zone: TimeZone, segments: impl IntoIterator<Item = (u32, f64)>) -> Result<Self, BadRate> {
        Self::of_days(zone, [0, 1, 2, 3, 4, 5, 6], segments)
    }

    /// A rate with day profiles. `days` holds the profile of each day, Monday first. `segments` fill the
    /// time line of the profiles, a day each: (end in seconds, updates per hour).
    pub fn of_days(
        zone: TimeZone,
        days: [u8; 7],
        segments: impl IntoIterator<Item = (u32, f64)>,
    ) -> Result<Self, BadRate> {
        let profiles = u32::from(days.into_iter().max().unwrap_or(0)) + 1;
        if profiles > 7 {
            return Err(BadRate::Ends);
        }
        let (mut ends, mut per_hour) = (Vec::<u16>::new(), Vec::<f32>::new());
        let mut totals = vec![0.0; profiles as usize];
        let mut from = 0_u32;
        for (end, rate) in segments {
            if end <= from || end > profiles * DAY_S || !end.is_multiple_of(60) {
                return Err(BadRate::Ends);
            }
            let rate = rate as f32;
            if !rate.is_finite() || rate < 0.0 {
                return Err(BadRate::Value);
            }
            while from < end {
                // Split at midnight, so that each profile is separate.
                let day = from / DAY_S;
                let piece_end = end.min((day + 1) * DAY_S);
                totals[day as usize] += f64::from(rate) * f64::from(piece_end - from) / 3600.0;
                if per_hour.last() == Some(&rate) && !from.is_multiple_of(DAY_S) {
                    ends.pop();
                    per_hour.pop();
                }
                // Seven days are 10,080 minutes.
                ends.push((piece_end / 60) as u16);
                per_hour.push(rate);
                from = piece_end;
            }
        }
        if from != profiles * DAY_S {
            return Err(BadRate::Ends);
        }
        let per_week = days.iter().map(|&profile| totals[usize::from(profile)]).sum();
        Ok(Self {
            zone,
            days,
            ends: ends.into(),
            per_hour: per_hour.into(),
            totals: totals.into(),
            per_week,
        })
    }

    /// The same rate at all times.
    pub fn constant(per_hour: f64) -> Self {
        let rate = (if per_hour.is_finite() { per_hour.max(0.0) } else { 0.0 }) as f32;
        let day = f64::from(rate) * 24.0;
        Self {
            zone: TimeZone::UTC,
            days: [0; 7],
            ends: [DAY_MINUTES].into(),
            per_hour: [rate].into(),
            totals: [day].into(),
            per_week: day * 7.0,
        }
    }

    /// The segments of the week: (start, end) in seconds and updates per hour. Adjacent rates differ.
    pub fn segments(&self) -> Vec<(u32, u32, f64)> {
        let mut list: Vec<(u32, u32, f64)> = Vec::new();
        for (day, &profile) in self.days.iter().enumerate() {
            let (line, week) = (u32::from(profile) * DAY_S, day as u32 * DAY_S);
            let mut index = self.first_of(usize::from(profile));
            let mut from = line;
            while from < line + DAY_S {
                let (end, rate) = (u32::from(self.ends[index]) * 60, f64::from(self.per_hour[index]));
                match list.last_mut() {
                    Some(last) if last.2 == rate => last.1 = week + end - line,
                    _ => list.push((week + from - line, week + end - line, rate)),
                }
                from = end;
                index += 1;
            }
        }
        list
    }

    /// The zone of the week.
    pub fn zone(&self) -> &TimeZone {
        &self.zone
    }

    /// Updates per hour at an instant.
    pub fn at(&self, at: Timestamp) -> f64 {
        self.segment(local_millis(&self.zone, at)).0
    }

    /// The rate at a local millisecond (see [`local_millis`]), in updates per hour, and the local end of its
    /// segment.
    pub fn segment(&self, local: i64) -> (f64, i64) {
        let into = local.rem_euclid(WEEK_MS);
        let profile = self.days[(into / DAY_MS) as usize];
        let line = i64::from(profile) * DAY_MS + into % DAY_MS;
        let segment = self.ends.partition_point(|&end| i64::from(end) * MINUTE_MS <= line);
        let end = self.ends.get(segment).map_or(line + DAY_MS, |&end| i64::from(end) * MINUTE_MS);
        (self.per_hour.get(segment).copied().map_or(0.0, f64::from), local + end - line)
    }

    /// Updates per week.
    pub fn per_week(&self) -> f64 {
        self.per_week
    }

    /// Λ(from, until): the expected number of updates (eq. 4). Sums of whole weeks and days are stored; the
    /// segments of a partial day are found in O(log K). The cost does not grow with the interval, except for
    /// the offset changes within it.
    pub fn expected(&self, from: Timestamp, until: Timestamp) -> f64 {
        if until <= from {
            return 0.0;
        }
        if self.ends.len() == 1 {
            // A constant rate does not depend on local time.
            return f64::from(self.per_hour[0]) * (until - from).as_secs_f64() / 3600.0;
        }
        stretches(&self.zone, from, until).map(|(start, end)| self.between(start, end)).sum()
    }

    /// Expected updates between two local milliseconds. Whole weeks are separate, which avoids a difference
    /// of large numbers.
    fn between(&self, start: i64, end: i64) -> f64 {
        let weeks = end.div_euclid(WEEK_MS) - start.div_euclid(WEEK_MS);
        weeks as f64 * self.per_week + self.since_monday(end.rem_euclid(WEEK_MS))
            - self.since_monday(start.rem_euclid(WEEK_MS))
    }

    /// Expected updates from the week's beginning to a millisecond into it.
    fn since_monday(&self, into: i64) -> f64 {
        let day = (into / DAY_MS) as usize;
        let days: f64 = self.days[..day].iter().map(|&profile| self.totals[usize::from(profile)]).sum();
        days + self.since_midnight(usize::from(self.days[day]), into % DAY_MS)
    }

    /// Expected updates from midnight to a millisecond into a day of a profile.
    fn since_midnight(&self, profile: usize, into: i64) -> f64 {
        let midnight = profile as i64 * DAY_MS;
        let mut from = 0;
        let mut sum = 0.0;
        for segment in self.first_of(profile)..self.ends.len() {
            let end = (i64::from(self.ends[segment]) * MINUTE_MS - midnight).min(into);
            sum += f64::from(self.per_hour[segment]) * (end - from) as f64 / 3_600_000.0;
            from = end;
            if end >= into {
                break;
            }
        }
        sum
    }

    /// The first segment of a profile.
    fn first_of(&self, profile: usize) -> usize {
        let midnight = profile * usize::from(DAY_MINUTES);
        self.ends.partition_point(|&end| usize::from(end) <= midnight)
    }

    /// The first instant at which `amount` updates are expected since `from`; `None` if more than a year
    /// away.
    pub fn reaches(&self, from: Timestamp, amount: f64) -> Option<Timestamp> {
        let (mut low, mut high) = (from, from + Span::from_days(366));
        if self.expected(from, high) < amount {
            return None;
        }
        while high - low > Span::from_millis(1) {
            let middle = low + Span::from_millis((high - low).as_millis() / 2);
            if self.expected(from, middle) < amount { low = middle } else { high = middle }
        }
        Some(high)
    }

    /// Bytes on the heap.
    pub fn heap_bytes(&self) -> usize {
        self.ends.len() * (size_of::<u16>() + size_of::<f32>()) + self.totals.len() * size_of::<f64>()
    }
}
