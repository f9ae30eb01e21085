//! The policies of a source, under the names of the papers.
//!
//! A closed set. May not know how policies are stored or configured.

use serde::{Deserialize, Serialize};

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
    pub const ALL: [Self; 10] = [
        Self::Auto,
        Self::Plan,
        Self::IndHist,
        Self::AggHist,
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
            | Self::Threshold
            | Self::FirstArrival => true,
            Self::Ttl | Self::Adaptive | Self::Uniform | Self::Profile => false,
        }
    }

    /// Whether a price per probe applies to it.
    pub fn has_price(self) -> bool {
        matches!(self, Self::Auto | Self::Plan | Self::Adaptive)
    }

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
