//! The times of recent updates, for the tests that count within windows.
//!
//! Holds a bounded number of times. On overflow the older half is merged in pairs at the earlier time, so
//! merged updates leave a window early, never late. May not know which windows are counted.

use std::collections::VecDeque;

use crate::time::{Span, Timestamp};

/// Maximum number of times.
const MOST: usize = 128;

/// Times of the latest updates, oldest first, and the count at each.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recent(VecDeque<(Timestamp, u32)>);

impl Recent {
    /// From times and counts.
    pub fn new(updates: impl IntoIterator<Item = (Timestamp, u32)>) -> Self {
        Self(updates.into_iter().collect())
    }

    /// Times and counts, oldest first.
    pub fn updates(&self) -> impl ExactSizeIterator<Item = (Timestamp, u32)> + '_ {
        self.0.iter().copied()
    }

    /// Adds updates and removes those older than `keep`.
    pub fn push(&mut self, at: Timestamp, count: u32, keep: Span) {
        while self.0.front().is_some_and(|&(first, _)| first <= at - keep) {
            self.0.pop_front();
        }
        self.0.push_back((at, count));
        if self.0.len() > MOST {
            self.thin();
        }
    }

    /// Merges the older half in pairs.
    fn thin(&mut self) {
        let old: Vec<_> = self.0.drain(..MOST / 2).collect();
        for pair in old.chunks(2).rev() {
            let count = pair.iter().fold(0_u32, |sum, &(_, count)| sum.saturating_add(count));
            self.0.push_front((pair[0].0, count));
        }
    }

    /// Number of updates in (from, until].
    pub fn count(&self, from: Timestamp, until: Timestamp) -> u32 {
        let end = self.0.partition_point(|&(at, _)| at <= until);
        let within = self.0.iter().take(end).rev().take_while(|&&(at, _)| at > from);
        within.fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// Shifts every time after a correction of the clock.
    pub fn shift(&mut self, by: Span) {
        for (at, _) in &mut self.0 {
            *at += by;
        }
    }

    /// Removes all.
    pub fn clear(&mut self) {
        self.0 = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_merges_old_updates_and_preserves_the_count() {
        let mut recent = Recent::default();
        let at = Timestamp::from_secs;
        for second in 1..=1000 {
            recent.push(at(second), 1, Span::from_days(1));
        }
        assert!(recent.updates().len() <= MOST);
        assert_eq!(recent.count(Timestamp::MIN, at(1000)), 1000);
        assert_eq!(recent.count(at(950), at(1000)), 50);
        assert!(recent.count(at(500), at(1000)) <= 500);
        recent.push(at(2000), 3, Span::from_secs(1005));
        assert_eq!(recent.count(at(0), at(2000)), recent.count(at(995), at(2000)));
        assert_eq!(recent.count(at(1000), at(2000)), 3);
    }
}
