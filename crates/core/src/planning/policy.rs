//! The policies of a source, under the names of the papers.
//!
//! A closed set. May not know how policies are stored or configured.

use serde::{Deserialize, Serialize};

use crate::model::aggregate::Borrow;

/// The policy that determines probe times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Policy {
    /// Selected by the evidence on the source.
    #[default]
    Auto,
    /// The optimal plan for the source's own rate.
    Plan,
    /// Next probe when the expected updates by the source's own history reach the threshold.
    IndHist,
    /// The same with the group's aggregate history.
    AggHist,
    /// The adaptive policy of Bright, Gal, Raschid, §8.2: `ind_hist`, and `ttl` in a burst.
    IndHistTtl,
    /// The adaptive policy of §8.1: `agg_hist` while the source's own history is thin, then `ind_hist`.
    IndHistAggHist,
    /// Time to live: a share of the age of the last update.
    Ttl,
    /// Sampled by the allocator.
    Adaptive,
    /// The budget spread evenly.
    Uniform,
    /// Probes at equal steps of expected obsolescence.
    Threshold,
    /// Probes when an update has probably arrived.
    FirstArrival,
    /// Probes only for rules.
    Profile,
}

impl Policy {
    /// Every policy.
    pub const ALL: [Self; 12] = [
        Self::Auto,
        Self::Plan,
        Self::IndHist,
        Self::AggHist,
        Self::IndHistTtl,
        Self::IndHistAggHist,
        Self::Ttl,
        Self::Adaptive,
        Self::Uniform,
        Self::Threshold,
        Self::FirstArrival,
        Self::Profile,
    ];

    /// The name in configuration and store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Plan => "plan",
            Self::IndHist => "ind_hist",
            Self::AggHist => "agg_hist",
            Self::IndHistTtl => "ind_hist_ttl",
            Self::IndHistAggHist => "ind_hist_agg_hist",
            Self::Ttl => "ttl",
            Self::Adaptive => "adaptive",
            Self::Uniform => "uniform",
            Self::Threshold => "threshold",
            Self::FirstArrival => "first_arrival",
            Self::Profile => "profile",
        }
    }

    /// Whether it uses the source's rate, so that its times arrive as plans.
    pub fn goes_by_rate(self) -> bool {
        match self {
            Self::Auto
            | Self::Plan
            | Self::IndHist
            | Self::AggHist
            | Self::IndHistTtl
            | Self::IndHistAggHist
            | Self::Threshold
            | Self::FirstArrival => true,
            Self::Ttl | Self::Adaptive | Self::Uniform | Self::Profile => false,
        }
    }

    /// Whether a price per probe applies to it.
    pub fn has_price(self) -> bool {
        matches!(self, Self::Auto | Self::Plan | Self::Adaptive)
    }

    /// Whether it follows one of several others, which changes with the evidence.
    pub fn switches(self) -> bool {
        matches!(self, Self::Auto | Self::IndHistTtl | Self::IndHistAggHist)
    }

    /// Whether the ratio test of §8.2.1 decides which one it follows.
    pub fn goes_by_ratio(self) -> bool {
        self == Self::IndHistTtl
    }

    /// The use of the group's shape in the rate of its sources: as configured, unless the policy fixes it.
    /// `individual_threshold` is T_ind.
    pub fn borrow(self, configured: Borrow, individual_threshold: f64) -> Borrow {
        match self {
            Self::IndHist | Self::IndHistTtl => Borrow::Never,
            Self::AggHist => Borrow::Always,
            Self::IndHistAggHist => Borrow::Switch { individual_threshold },
            _ => configured,
        }
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
