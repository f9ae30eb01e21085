//! The updates of the last while, for the tests that count within windows.
//!
//! Holds a bounded number of times: where more updates come, the oldest are taken together in pairs
//! at the earlier time, so that they leave a window a little early and never late. Must not know
//! which windows are asked for.

use std::collections::VecDeque;

use crate::time::{Span, Timestamp};

/// Times kept at most.
const MOST: usize = 128;

/// When the latest updates were, oldest first, and how many at each time.
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

    /// Adds updates and forgets those that are longer ago than `keep`.
    pub fn push(&mut self, at: Timestamp, count: u32, keep: Span) {
        while self.0.front().is_some_and(|&(first, _)| first <= at - keep) {
            self.0.pop_front();
        }
        self.0.push_back((at, count));
        if self.0.len() > MOST {
            self.thin();
        }
    }

    /// The older half in pairs.
    fn thin(&mut self) {
        let old: Vec<_> = self.0.drain(..MOST / 2).collect();
        for pair in old.chunks(2).rev() {
            let count = pair.iter().fold(0_u32, |sum, &(_, count)| sum.saturating_add(count));
            self.0.push_front((pair[0].0, count));
        }
    }

    /// How many in (from, until].
    pub fn count(&self, from: Timestamp, until: Timestamp) -> u32 {
        let end = self.0.partition_point(|&(at, _)| at <= until);
        let within = self.0.iter().take(end).rev().take_while(|&&(at, _)| at > from);
        within.fold(0, |sum, &(_, count)| sum.saturating_add(count))
    }

    /// Moves every time when the clock was found to have been set.
    pub fn shift(&mut self, by: Span) {
        for (at, _) in &mut self.0 {
            *at += by;
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.0 = VecDeque::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_updates_are_thinned_from_the_old_end_and_none_is_lost() {
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
