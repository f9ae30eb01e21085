//! The limits of sources apart from their host group, kept once for all sources that have the same.
//!
//! A million sources seldom have more than some dozen different limits. Must not know the sources.

use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use crate::planning::budget::Budget;
use crate::planning::policy::Policy;
use crate::time::Span;

use super::params::{SourcePrice, Terms};

/// [`Terms`] without the host group.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SourceLimits {
    pub budget: Budget,
    pub policy: Policy,
    pub weight: f32,
    pub price: SourcePrice,
    pub max_gap: Option<Span>,
    pub cost: Option<f32>,
}

impl SourceLimits {
    /// In any order; equal limits have equal keys.
    fn key(&self) -> impl Ord {
        let Self { budget: Budget { probes, per, min_spacing }, policy, weight, price, max_gap, cost } =
            self;
        let price = match price {
            SourcePrice::Own(hours) => Some(hours.to_bits()),
            SourcePrice::Fleet => None,
        };
        let numbers = (weight.to_bits(), price, cost.map(f32::to_bits));
        (*probes, *per, *min_spacing, policy.name(), *max_gap, numbers)
    }
}

/// Ordered by value.
#[derive(Debug, Clone)]
struct ByValue(Arc<SourceLimits>);

impl Ord for ByValue {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.key().cmp(&other.0.key())
    }
}

impl PartialOrd for ByValue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByValue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByValue {}

/// The different limits of all sources.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedLimits {
    known: BTreeSet<ByValue>,
    /// Limits without a source are dropped when there are more than this.
    checked_above: usize,
}

impl SharedLimits {
    /// These limits, shared with the sources that have the same.
    pub fn share(&mut self, terms: &Terms) -> Arc<SourceLimits> {
        let Terms { budget, policy, weight, price, max_gap, cost, host: _ } = *terms;
        let limits = ByValue(Arc::new(SourceLimits { budget, policy, weight, price, max_gap, cost }));
        if let Some(ByValue(known)) = self.known.get(&limits) {
            return Arc::clone(known);
        }
        if self.known.len() > self.checked_above {
            self.known.retain(|ByValue(known)| Arc::strong_count(known) > 1);
            // Twice as many, so that a source costs the same on average, however many limits there are.
            self.checked_above = 64.max(2 * self.known.len());
        }
        self.known.insert(limits.clone());
        limits.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::params::HostGroup;

    fn terms(probes: u32, host: &str) -> Terms {
        Terms {
            budget: Budget { probes, ..Budget::default() },
            policy: Policy::Auto,
            weight: 1.0,
            price: SourcePrice::Fleet,
            max_gap: None,
            cost: None,
            host: HostGroup { key: host.into(), public: true },
        }
    }

    #[test]
    fn equal_limits_are_kept_once_and_unused_ones_dropped() {
        let mut shared = SharedLimits::default();
        let first = shared.share(&terms(1, "a.example"));
        assert!(Arc::ptr_eq(&first, &shared.share(&terms(1, "b.example"))));
        let of_own = [
            terms(2, "a.example"),
            Terms { policy: Policy::Plan, ..terms(1, "a.example") },
            Terms { weight: 2.0, ..terms(1, "a.example") },
            Terms { price: SourcePrice::Own(0.0), ..terms(1, "a.example") },
            Terms { max_gap: Some(Span::from_hours(1)), ..terms(1, "a.example") },
            Terms { cost: Some(1.0), ..terms(1, "a.example") },
        ];
        let of_own = of_own.map(|terms| shared.share(&terms));
        assert!(of_own.iter().all(|limits| !Arc::ptr_eq(limits, &first)));
        assert_eq!(shared.known.len(), 7);
        (10..1_000).for_each(|probes| drop(shared.share(&terms(probes, "a.example"))));
        assert!(shared.known.len() < 100, "{}", shared.known.len());
        assert!(Arc::ptr_eq(&first, &shared.share(&terms(1, "a.example"))));
    }
}
