//! The rate of a source at each hour of the week, relative to its mean.
//!
//! The engine uses it to account for the current hour without storing rates: four bits per hour, in steps of
//! √2. In UTC, for the coming week. Each fit of the rate recomputes it, so it follows an offset change
//! within hours. May not know the source.

use serde::{Deserialize, Serialize};

use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

const HOURS: usize = 7 * 24;

/// The step of sixteen that represents the mean rate.
const MEAN: i32 = 8;

/// Relative rate of a source at each hour of the week.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Vec<u8>", into = "Vec<u8>")]
pub struct HourlyProfile {
    steps: [u8; HOURS / 2],
    /// The mean of the steps as rates, so that ratios have the mean 1 …
    mean: f32,
    /// … and the mean of their roots.
    mean_root: f32,
}

impl From<HourlyProfile> for Vec<u8> {
    fn from(profile: HourlyProfile) -> Self {
        profile.steps.to_vec()
    }
}

impl TryFrom<Vec<u8>> for HourlyProfile {
    type Error = &'static str;

    fn try_from(bytes: Vec<u8>) -> Result<Self, Self::Error> {
        bytes.try_into().map(Self::of_steps).map_err(|_| "a week has another number of hours")
    }
}

/// Milliseconds of an hour.
const HOUR: i64 = 3_600_000;

impl HourlyProfile {
    /// From a rate in updates per hour, over the week that begins now; also returns the mean rate. `None` if
    /// the rate is zero.
    pub fn of(rate: &Steps, now: Timestamp) -> Option<(Self, f64)> {
        let first = now.as_millis().div_euclid(HOUR);
        let hour_at = |hour: i64| Timestamp::from_millis(hour * HOUR);
        let pieces = rate.over(hour_at(first), hour_at(first + HOURS as i64));
        let mut hours = [0.0; HOURS];
        let mut from = first * HOUR;
        for (passed, per_hour) in pieces {
            let until = first * HOUR + passed;
            while from < until {
                let hour = from.div_euclid(HOUR);
                let to = until.min((hour + 1) * HOUR);
                hours[place(hour)] += per_hour * (to - from) as f64 / HOUR as f64;
                from = to;
            }
        }
        let mean = hours.iter().sum::<f64>() / HOURS as f64;
        if mean <= 0.0 {
            return None;
        }
        let mut steps = [0; HOURS / 2];
        for (at, per_hour) in hours.into_iter().enumerate() {
            let step = (2.0 * (per_hour / mean).max(1e-9).log2()).round() as i32 + MEAN;
            steps[at / 2] |= (step.clamp(0, 15) as u8) << (4 * (at % 2));
        }
        Some((Self::of_steps(steps), mean))
    }

    /// The ratio of the rate at this time to the mean rate.
    pub fn at(&self, now: Timestamp) -> f64 {
        self.of_hour(now.as_millis().div_euclid(HOUR))
    }

    /// The length of an interval in hours at the mean rate.
    pub fn weighted_hours(&self, from: Timestamp, until: Timestamp) -> f64 {
        weighted(from, until, |hour| self.of_hour(hour))
    }

    /// Mean over the week of the root of the ratio.
    pub fn mean_root(&self) -> f64 {
        f64::from(self.mean_root) / f64::from(self.mean).sqrt()
    }

    fn of_steps(steps: [u8; HOURS / 2]) -> Self {
        let mut profile = Self { steps, mean: 1.0, mean_root: 1.0 };
        let hours = || (0..HOURS as i64).map(|hour| profile.step(hour));
        let (sum, roots) = (hours().sum::<f64>(), hours().map(f64::sqrt).sum::<f64>());
        profile.mean = (sum / HOURS as f64) as f32;
        profile.mean_root = (roots / HOURS as f64) as f32;
        profile
    }

    fn of_hour(&self, hour: i64) -> f64 {
        self.step(hour) / f64::from(self.mean)
    }

    /// The root of the ratio, relative to its mean.
    fn root_of_hour(&self, hour: i64) -> f64 {
        self.step(hour).sqrt() / f64::from(self.mean_root)
    }

    fn step(&self, hour: i64) -> f64 {
        let at = place(hour);
        let step = i32::from(self.steps[at / 2] >> (4 * (at % 2)) & 15) - MEAN;
        (f64::from(step) / 2.0).exp2()
    }
}

/// The hours of an interval, each times a factor with the mean 1 over a week.
fn weighted(from: Timestamp, until: Timestamp, factor: impl Fn(i64) -> f64) -> f64 {
    let (mut at, end) = (from.as_millis(), until.as_millis());
    let weeks = (end - at).max(0).div_euclid(HOURS as i64 * HOUR) * HOURS as i64;
    at += weeks * HOUR;
    let mut hours = weeks as f64;
    while at < end {
        let hour = at.div_euclid(HOUR);
        let to = end.min((hour + 1) * HOUR);
        hours += factor(hour) * (to - at) as f64 / HOUR as f64;
        at = to;
    }
    hours
}

fn place(hour: i64) -> usize {
    hour.rem_euclid(HOURS as i64) as usize
}

/// The length of an interval in hours at the mean rate, by a profile if there is one.
pub fn hours(profile: Option<&HourlyProfile>, from: Timestamp, until: Timestamp) -> f64 {
    match profile {
        Some(profile) => profile.weighted_hours(from, until),
        None => (until - from).max(Span::ZERO).as_secs_f64() / 3600.0,
    }
}

/// The same, by the root of the rate: at a price, probes are as dense as that.
pub fn root_hours(profile: Option<&HourlyProfile>, from: Timestamp, until: Timestamp) -> f64 {
    match profile {
        Some(profile) => weighted(from, until, |hour| profile.root_of_hour(hour)),
        None => (until - from).max(Span::ZERO).as_secs_f64() / 3600.0,
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::importance::WeekWindow;

    #[test]
    fn the_profile_follows_the_rate() {
        let busy = WeekWindow { days: 0b001_1111, from_minute: 9 * 60, until_minute: 17 * 60 };
        let rate = Steps::windows(TimeZone::UTC, 0.5, &[(busy, 4.0)]).unwrap();
        let monday = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
        let (profile, mean) = HourlyProfile::of(&rate, monday + Span::from_mins(90)).unwrap();
        assert!((mean - (40.0 * 4.0 + 128.0 * 0.5) / 168.0).abs() < 1e-9, "{mean}");
        let at = |hours: i64| profile.at(monday + Span::from_hours(hours));
        // To the nearest √2, with a mean of 1.
        assert!((at(10) / at(3)).log2() - 3.0 <= 0.5 + 1e-9, "{}", at(10) / at(3));
        let week = profile.weighted_hours(monday, monday + Span::from_days(7) - Span::from_millis(1));
        assert!((week / 168.0 - 1.0).abs() < 1e-4, "{week}");
        assert_eq!(at(10 + 24 * 7), at(10));
        assert!(at(5 * 24 + 10) < 1.0, "Saturday");
        let day = profile.weighted_hours(monday, monday + Span::from_days(1));
        assert!((day - 8.0 * at(10) - 16.0 * at(3)).abs() < 1e-9);
        assert_eq!(profile.weighted_hours(monday, monday + Span::from_days(14)), 336.0);
        let more = profile.weighted_hours(monday, monday + Span::from_days(15));
        assert!((more - 336.0 - day).abs() < 1e-6, "weeks and hours count in one unit: {more}");
        // Roots, relative to their mean.
        let mean_root = (40.0 * at(10).sqrt() + 128.0 * at(3).sqrt()) / 168.0;
        assert!((profile.mean_root() - mean_root).abs() < 1e-6, "{}", profile.mean_root());
        let roots = |from: i64, until: i64| {
            let at = |hours: i64| monday + Span::from_hours(hours);
            root_hours(Some(&profile), at(from), at(until))
        };
        assert!((roots(10, 11) - at(10).sqrt() / mean_root).abs() < 1e-5);
        assert!((roots(0, 168) - 168.0).abs() < 1e-9);
    }

    #[test]
    fn a_zero_rate_has_no_profile() {
        assert_eq!(HourlyProfile::of(&Steps::constant(0.0).unwrap(), Timestamp::from_secs(0)), None);
    }
}
