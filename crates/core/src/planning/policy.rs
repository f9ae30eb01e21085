//! The policies a source may be given, under the papers' names.
//!
//! A closed set. Knows the names; must not know how they are stored or configured.

use serde::{Deserialize, Serialize};

/// Who decides when a source is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Policy {
    /// Whatever fits what is known of the source.
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
    /// Left to the allocator.
    Adaptive,
    /// The budget spread evenly.
    Uniform,
    /// Probes at equal steps of expected obsolescence.
    Threshold,
    /// Probes when an update has probably arrived.
    FirstArrival,
    /// Only for what rules ask.
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

    /// Whether it goes by the source's rate, so that its answers come as plans from whoever knows the rate.
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

    /// The policy of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }
}
