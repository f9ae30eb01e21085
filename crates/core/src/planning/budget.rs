//! The politeness budget of one source: at most n probes in any span T, at least δ apart.
//!
//! Knows the arithmetic of the constraint and nothing of who wants to spend it.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use crate::time::{Span, Timestamp};

/// n probes per T, at least δ apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// n: how many probes any window of length `per` may hold. At least 1.
    pub probes: u32,
    /// T: the window.
    pub per: Span,
    /// δ: the least time between two probes.
    pub min_spacing: Span,
}

impl Default for Budget {
    /// The floor for a source whose owner said nothing: 48 a day, a quarter of an hour apart.
    fn default() -> Self {
        Self { probes: 48, per: Span::from_days(1), min_spacing: Span::from_mins(15) }
    }
}

impl Budget {
    /// The gap between probes when the budget is spread evenly, never under the spacing.
    pub fn even_gap(&self) -> Span {
        Span::from_millis(self.per.as_millis() / i64::from(self.probes.max(1))).max(self.min_spacing)
    }
}

/// What has been spent: the times of the last n probes, and of all within T.
///
/// A probe counts at the moment it *ended*. The server saw it no later than that, so spacing and
/// budget hold at the server's door too, whatever the network's latency did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spent(VecDeque<Timestamp>);

impl Spent {
    /// Notes a probe that ended at `at`, and forgets what no window of this budget can reach.
    pub fn note(&mut self, at: Timestamp, budget: &Budget) {
        // Notes come in order but for a clock that was set back; keep the ring sorted regardless.
        let place = self.0.partition_point(|&t| t <= at);
        self.0.insert(place, at);
        // By count *and* age: were a smaller n to cut the ring at once, a later larger one would
        // find probes missing that are still within T.
        let reach = self.0.back().map_or(at, |&last| last - budget.per);
        while self.0.len() > budget.probes.max(1) as usize && self.0.front().is_some_and(|&t| t <= reach) {
            self.0.pop_front();
        }
    }

    /// The end of the last probe.
    pub fn last(&self) -> Option<Timestamp> {
        self.0.back().copied()
    }

    /// When the probes that are still known ended, ascending.
    pub fn times(&self) -> impl Iterator<Item = Timestamp> {
        self.0.iter().copied()
    }

    /// From when the spacing δ allows a probe.
    pub fn spacing_allows(&self, budget: &Budget) -> Timestamp {
        self.last().map_or(Timestamp::MIN, |t| t + budget.min_spacing)
    }

    /// From when n per T allows a probe.
    pub fn budget_allows(&self, budget: &Budget) -> Timestamp {
        let n = budget.probes.max(1) as usize;
        match self.0.len().checked_sub(n) {
            Some(index) => self.0[index] + budget.per,
            None => Timestamp::MIN,
        }
    }

    /// How many probes are left in the window that ends at `now`.
    pub fn left(&self, budget: &Budget, now: Timestamp) -> u32 {
        let used = self.0.iter().filter(|&&t| t + budget.per > now).count();
        budget.probes.saturating_sub(u32::try_from(used).unwrap_or(u32::MAX))
    }

    /// Moves all times when the clock was found to have been moved.
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
        /// Whatever one wants, probes sent as soon as the budget allows never break it.
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
                // Anywhere within the probe; the middle stands for it.
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
