//! A daily profile that is learned from the last updates, for the test for other hours.
//!
//! Divides the local day into blocks of three hours and counts updates in each, with decay. May not know the
//! fitted rate, except to divide time where either of the two changes.

use jiff::tz::TimeZone;

use crate::model::cyclic::Rate;
use crate::model::week::{self, DAY_MS, HOUR_MS, local_millis};
use crate::time::{Span, Timestamp};

/// Blocks of the local day.
pub const BLOCKS: usize = 8;
/// Length of a block in milliseconds.
pub const BLOCK_MS: i64 = DAY_MS / BLOCKS as i64;

/// The profile's memory and the weight of the flat prior, in counted updates.
const MEMORY: f32 = 24.0;
const PRIOR: f64 = 4.0;

/// Counted updates by block of the local day, with decay.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct DailyProfile([f32; BLOCKS]);

impl DailyProfile {
    /// From the counts.
    pub fn new(counts: [f32; BLOCKS]) -> Self {
        Self(counts)
    }

    /// The counts.
    pub fn counts(&self) -> [f32; BLOCKS] {
        self.0
    }

    /// The block of the local day of an instant.
    pub fn block(zone: &TimeZone, at: Timestamp) -> usize {
        block(local_millis(zone, at))
    }

    /// Counts an update in a block.
    pub fn count(&mut self, block: usize) {
        self.0.iter_mut().for_each(|count| *count *= 1.0 - MEMORY.recip());
        self.0[block] += 1.0;
    }

    /// The share of each block; their mean is 1.
    pub fn shares(&self) -> [f64; BLOCKS] {
        let total: f64 = self.0.iter().map(|&count| f64::from(count)).sum();
        let flat = PRIOR / BLOCKS as f64;
        self.0.map(|count| BLOCKS as f64 * (f64::from(count) + flat) / (total + PRIOR))
    }

    /// The stretches of an interval in which the rate and this profile are constant.
    pub fn stretches<'r>(&self, rate: &'r Rate, from: Timestamp, until: Timestamp) -> RateStretches<'r> {
        let stretches = week::stretches(rate.zone(), from, until);
        let (shares, constant) = (self.shares(), (0.0, 0.0));
        RateStretches { rate, shares, at: from, stretches, local: 0, end: 0, constant, constant_until: 0 }
    }
}

fn block(local: i64) -> usize {
    (local.rem_euclid(DAY_MS) / BLOCK_MS) as usize
}

/// Time in which a rate and a profile are constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RateStretch {
    /// Its start.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
    /// Updates that the rate expects in it.
    pub expected: f64,
    /// The profile times hours.
    pub share_hours: f64,
}

/// See [`DailyProfile::stretches`].
#[derive(Debug)]
pub struct RateStretches<'r> {
    rate: &'r Rate,
    shares: [f64; BLOCKS],
    at: Timestamp,
    stretches: week::Stretches<'r>,
    /// The rest of a stretch with a constant offset, in local milliseconds.
    local: i64,
    end: i64,
    /// Updates per hour and share, and until when they are constant.
    constant: (f64, f64),
    constant_until: i64,
}

impl RateStretches<'_> {
    /// The next stretch, at most until `limit`. `None` at the limit and at the end of the interval.
    pub fn next_until(&mut self, limit: Timestamp) -> Option<RateStretch> {
        if self.at >= limit {
            return None;
        }
        if self.local >= self.end {
            (self.local, self.end) = self.stretches.next()?;
            self.constant_until = self.local;
        }
        if self.local >= self.constant_until {
            let (per_hour, segment_end) = self.rate.segment(self.local);
            let block_end = (self.local.div_euclid(BLOCK_MS) + 1) * BLOCK_MS;
            self.constant = (per_hour, self.shares[block(self.local)]);
            self.constant_until = segment_end.min(block_end).min(self.end);
        }
        let length = (self.constant_until - self.local).min((limit - self.at).as_millis());
        let (from, hours) = (self.at, length as f64 / HOUR_MS as f64);
        self.at += Span::from_millis(length);
        self.local += length;
        let (per_hour, share) = self.constant;
        Some(RateStretch { from, until: self.at, expected: per_hour * hours, share_hours: share * hours })
    }
}

impl Iterator for RateStretches<'_> {
    type Item = RateStretch;

    fn next(&mut self) -> Option<RateStretch> {
        self.next_until(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_fill_an_interval_with_the_updates_that_the_rate_expects() {
        let zone = TimeZone::get("Europe/Berlin").unwrap();
        let hour = |hour: u32| ((hour + 1) * 3600, f64::from(hour % 5));
        let rate = Rate::of_days(zone, [0; 7], (0..24).map(hour)).unwrap();
        let mut profile = DailyProfile::default();
        (0..9).for_each(|n| profile.count(n % 3));
        // The clock is set back in the night to 25 October.
        let from = Timestamp::parse_iso("2026-10-24T13:17:00Z").unwrap();
        let until = from + Span::from_hours(72);
        let mut stretches = profile.stretches(&rate, from, until);
        let (mut at, mut expected, mut share_hours) = (from, 0.0, 0.0);
        for limit in [from + Span::from_mins(5), from + Span::from_hours(11), until] {
            while let Some(stretch) = stretches.next_until(limit) {
                assert!(stretch.from == at && stretch.until > at);
                (at, expected) = (stretch.until, expected + stretch.expected);
                share_hours += stretch.share_hours;
            }
            assert_eq!(at, limit);
        }
        assert_eq!(stretches.next(), None);
        assert!((expected - rate.expected(from, until)).abs() < 1e-9, "{expected}");
        // Three days and the repeated hour of the first block, but for one of the fifth.
        let shares = profile.shares();
        let wanted = 72.0 + shares[0] - shares[4];
        assert!((share_hours - wanted).abs() < 1e-9, "{share_hours} {wanted}");
    }
}
