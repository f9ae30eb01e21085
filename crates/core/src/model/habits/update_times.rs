//! The times of a source's last updates, to the second.
//!
//! A [`History`](crate::model::history::History) resolves hours only. A job at four minutes past the hour,
//! or updates that trigger others, are visible only in exact times. Each entry also holds the rate that was
//! predicted before it, the reference for other predictors. May not know the use of the times.

use std::collections::VecDeque;

use crate::time::{Span, Timestamp};

/// Maximum number of entries: three kilobytes.
pub const MOST: usize = 256;

/// Maximum age relative to the last update. (It also keeps exponential weights finite.)
const LONGEST: Span = Span::from_days(400);

/// Marks the layout of [`UpdateTimes::to_bytes`].
const LAYOUT: u8 = 1;

/// One update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct UpdateTime {
    /// Its time.
    pub at: Timestamp,
    /// The rate that was predicted for this time, in updates per hour; `None` without a prediction.
    pub predicted_rate: Option<f32>,
}

/// The last updates of a source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct UpdateTimes {
    /// Ascending.
    entries: VecDeque<UpdateTime>,
    /// The time since which no update is missing.
    since: Option<Timestamp>,
}

impl UpdateTimes {
    /// Declares the record complete since `at`.
    pub fn watched_since(&mut self, at: Timestamp) {
        self.since = Some(self.since.map_or(at, |since| since.min(at)));
    }

    /// Adds an update, in any order.
    pub fn note(&mut self, at: Timestamp, predicted_rate: Option<f32>) {
        let entry = UpdateTime { at, predicted_rate };
        match self.entries.back() {
            Some(newest) if newest.at > at => {
                let place = self.entries.partition_point(|entry| entry.at <= at);
                self.entries.insert(place, entry);
            }
            // Usually.
            _ => self.entries.push_back(entry),
        }
        let newest = self.entries.back().map_or(at, |newest| newest.at);
        while self.entries.len() > MOST || self.entries.front().is_some_and(|old| newest - old.at > LONGEST)
        {
            let Some(oldest) = self.entries.pop_front() else { break };
            self.since = Some(self.since.map_or(oldest.at, |since| since.max(oldest.at)));
        }
    }

    /// Removes the updates before `at`.
    pub fn forget_before(&mut self, at: Timestamp) {
        self.entries.retain(|entry| entry.at >= at);
        self.since = Some(self.since.map_or(at, |since| since.max(at)));
    }

    /// The updates, ascending.
    pub fn entries(&self) -> impl DoubleEndedIterator<Item = &UpdateTime> + ExactSizeIterator {
        self.entries.iter()
    }

    /// The time since which no update is missing; `None` if empty.
    pub fn since(&self) -> Option<Timestamp> {
        self.since.or(self.entries.front().map(|entry| entry.at))
    }

    /// Removes the updates after `now`, after the clock was set back. The clock that dated them is unknown,
    /// so they cannot be shifted: a job at four minutes past the hour would move to another minute.
    pub fn not_after(&mut self, now: Timestamp) {
        self.entries.retain(|entry| entry.at <= now);
        self.since = self.since.filter(|&since| since <= now);
    }

    /// The stored form.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(9 + 12 * self.entries.len());
        bytes.push(LAYOUT);
        bytes.extend(self.since.map_or(i64::MIN, Timestamp::as_millis).to_le_bytes());
        for entry in &self.entries {
            bytes.extend(entry.at.as_millis().to_le_bytes());
            bytes.extend(entry.predicted_rate.unwrap_or(f32::NAN).to_le_bytes());
        }
        bytes
    }

    /// Decodes [`UpdateTimes::to_bytes`]; `None` if the bytes are invalid.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (&[LAYOUT], rest) = bytes.split_first_chunk::<1>()? else { return None };
        let (since, rest) = rest.split_first_chunk::<8>()?;
        let since = Some(i64::from_le_bytes(*since)).filter(|&at| at != i64::MIN);
        if rest.len() % 12 != 0 || rest.len() / 12 > MOST {
            return None;
        }
        let entries = VecDeque::with_capacity(rest.len() / 12);
        let mut update_times = Self { entries, since: since.map(Timestamp::from_millis) };
        for entry in rest.chunks_exact(12) {
            let (at, predicted_rate) = entry.split_first_chunk::<8>()?;
            let predicted_rate = f32::from_le_bytes(*predicted_rate.first_chunk()?);
            let at = Timestamp::from_millis(i64::from_le_bytes(*at));
            update_times.note(at, Some(predicted_rate).filter(|rate| rate.is_finite()));
        }
        Some(update_times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_sorted_and_bounded_and_since_follows_the_oldest() {
        let at = |n: i64| Timestamp::from_secs(1_000_000 + 60 * n);
        let mut update_times = UpdateTimes::default();
        assert_eq!(update_times.since(), None);
        update_times.note(at(5), None);
        assert_eq!(update_times.since(), Some(at(5)));
        update_times.watched_since(at(0));
        update_times.note(at(3), Some(0.5));
        assert_eq!(update_times.entries().map(|entry| entry.at).collect::<Vec<_>>(), [at(3), at(5)]);
        assert_eq!(update_times.since(), Some(at(0)));
        assert_eq!(UpdateTimes::from_bytes(&update_times.to_bytes()), Some(update_times.clone()));
        (10..10 + MOST as i64).for_each(|n| update_times.note(at(n), None));
        assert_eq!((update_times.entries().len(), update_times.since()), (MOST, Some(at(5))));
        assert_eq!(UpdateTimes::from_bytes(&update_times.to_bytes()), Some(update_times));
        let mut later = UpdateTimes::default();
        (0..9).for_each(|n| later.note(at(n), None));
        later.forget_before(at(6));
        assert_eq!((later.entries().len(), later.since()), (3, Some(at(6))));
        later.not_after(at(7));
        assert_eq!((later.entries().len(), later.since()), (2, Some(at(6))));
        later.not_after(at(5));
        assert_eq!(later, UpdateTimes::default());
        assert_eq!(UpdateTimes::from_bytes(&[]), None);
        assert_eq!(UpdateTimes::from_bytes(&[LAYOUT, 0, 0]), None);
        assert_eq!(UpdateTimes::from_bytes(&[LAYOUT; 12]), None);
    }
}
