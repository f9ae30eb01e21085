//! The politeness budget of one source: at most n probes in any span T, at least δ apart.
//!
//! Holds the arithmetic of the constraint. May not know the purpose of the probes.

use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::time::{Span, Timestamp};

/// n probes per T, at least δ apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// n: the maximum number of probes in any window of length `per`. At least 1.
    pub probes: u32,
    /// T: the window.
    pub per: Span,
    /// δ: the minimum time between two probes.
    pub min_spacing: Span,
}

impl Default for Budget {
    /// The default without configuration: 48 a day, a quarter of an hour apart.
    fn default() -> Self {
        Self { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) }
    }
}

/// The default price of a probe: the least waiting time of updates that it is expected to save.
pub const PRICE: Span = Span::from_secs(82);

impl Budget {
    /// The gap between probes of an evenly spread budget, at least the spacing.
    pub fn even_gap(&self) -> Span {
        Span::from_millis(self.per.as_millis() / i64::from(self.probes.max(1))).max(self.min_spacing)
    }
}

/// The spent probes: the times of the last n probes, and of all within T.
///
/// A probe counts at its *end*. The server received it no later, so spacing and budget also hold at the
/// server, for any network latency.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent(SmallVec<[Timestamp; 2]>);

impl Spent {
    /// Adds a probe that ended at `at`, and removes those that no window of this budget reaches.
    pub fn note(&mut self, at: Timestamp, budget: &Budget) {
        // Times are in order unless the clock was set back; the list stays sorted in any case.
        let place = self.0.partition_point(|&t| t <= at);
        self.0.insert(place, at);
        // Removal by count *and* age: after a smaller n, a later larger one still needs the probes within T.
        let reach = self.0.last().map_or(at, |&last| last - budget.per);
        let too_many = self.0.len().saturating_sub(budget.probes.max(1) as usize);
        let too_old = self.0[..too_many].partition_point(|&t| t <= reach);
        self.0.drain(..too_old);
    }

    /// The end of the last probe.
    pub fn last(&self) -> Option<Timestamp> {
        self.0.last().copied()
    }

    /// The end times of the recorded probes, ascending.
    pub fn times(&self) -> impl Iterator<Item = Timestamp> {
        self.0.iter().copied()
    }

    /// The earliest probe under the spacing δ.
    pub fn spacing_allows(&self, budget: &Budget) -> Timestamp {
        self.last().map_or(Timestamp::MIN, |t| t + budget.min_spacing)
    }

    /// The earliest probe under n per T.
    pub fn budget_allows(&self, budget: &Budget) -> Timestamp {
        let n = budget.probes.max(1) as usize;
        match self.0.len().checked_sub(n) {
            Some(index) => self.0[index] + budget.per,
            None => Timestamp::MIN,
        }
    }

    /// The remaining probes of the window that ends at `now`.
    pub fn left(&self, budget: &Budget, now: Timestamp) -> u32 {
        let used = self.0.iter().filter(|&&t| t + budget.per > now).count();
        budget.probes.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// Shifts all times after a correction of the clock.
    pub fn shift(&mut self, by: Span) {
        for at in &mut self.0 {
            *at += by;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Probes sent as soon as the budget allows never exceed it.
        #[test]
        fn greedy_probes_never_exceed_any_window(
            probes in 1_u32..6,
            per in 1_i64..2000,
            spacing in 0_i64..200,
            wants in prop::collection::vec((0_i64..300, 0_i64..50), 1..80),
        ) {
            let budget = Budget {
                probes,
                per: Span::from_millis(per),
                min_spacing: Span::from_millis(spacing),
            };
            let mut spent = Spent::default();
            let mut now = Timestamp::from_millis(0);
            let mut seen_by_server = Vec::new();
            for (wait, latency) in wants {
                now += Span::from_millis(wait);
                let start = now.max(spent.spacing_allows(&budget)).max(spent.budget_allows(&budget));
                let end = start + Span::from_millis(latency);
                // The server sees the request at some time within the probe; the middle represents it.
                seen_by_server.push(start + Span::from_millis(latency / 2));
                spent.note(end, &budget);
                now = end;
            }
            for (i, &at) in seen_by_server.iter().enumerate() {
                if let Some(&next) = seen_by_server.get(i + 1) {
                    prop_assert!((next - at).as_millis() >= spacing);
                }
                if let Some(&nth) = seen_by_server.get(i + probes as usize) {
                    prop_assert!((nth - at).as_millis() >= per);
                }
            }
        }
    }

    #[test]
    fn left_counts_only_the_window() {
        let budget = Budget { probes: 3, per: Span::from_secs(10), min_spacing: Span::ZERO };
        let mut spent = Spent::default();
        for at in [0, 4, 8] {
            spent.note(Timestamp::from_secs(at), &budget);
        }
        assert_eq!(spent.left(&budget, Timestamp::from_secs(9)), 0);
        assert_eq!(spent.left(&budget, Timestamp::from_secs(10)), 1);
        assert_eq!(spent.budget_allows(&budget), Timestamp::from_secs(10));
    }
}
