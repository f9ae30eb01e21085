//! The user's settings for the engine.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::planning::budget::{Budget, PRICE};
use crate::planning::policy::Policy;
use crate::planning::ttl::TtlForm;
use crate::time::Span;

/// Limits over all sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetParams {
    /// The length of a step.
    pub step: Span,
    /// c: probes per step.
    pub probes_per_step: u32,
    /// Which sampled sources get the remaining slots.
    pub allocator: Allocator,
    /// k: the total cost of a step's probes; `None`: unlimited.
    pub capacity: Option<f64>,
    /// The measure from which a probe's cost is learned, unless the source's section states it.
    pub cost_by: CostBy,
    /// Least time between two requests to one host group.
    pub host_spacing: Span,
    /// The price of a probe for sources without their own.
    pub pricing: Pricing,
    /// The response to bursts, and time-to-live settings.
    pub burst: BurstTerms,
}

/// How the price of a probe is set for sources without their own.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Pricing {
    /// z: the hours of update waiting that a probe must be expected to save; 0 to use whole budgets.
    Price(f32),
    /// The price at which all sources together spend a total.
    Total {
        /// The probes …
        probes: u64,
        /// … in this time.
        per: Span,
    },
}

impl Default for Pricing {
    fn default() -> Self {
        Self::Price((PRICE.as_secs_f64() / 3600.0) as f32)
    }
}

/// The response to bursts, and time-to-live settings.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BurstTerms {
    /// The share of each budget that bursts may use.
    pub reserve: f64,
    /// The form of time to live.
    pub ttl_form: TtlForm,
    /// α.
    pub ttl_factor: f64,
    /// θ, for the prefetching form.
    pub freshness_threshold: f64,
}

impl Default for BurstTerms {
    fn default() -> Self {
        Self { reserve: 0.2, ttl_form: TtlForm::default(), ttl_factor: 0.2, freshness_threshold: 1.0 }
    }
}

impl Default for FleetParams {
    fn default() -> Self {
        Self {
            step: Span::from_secs(10),
            probes_per_step: 20,
            allocator: Allocator::default(),
            capacity: None,
            cost_by: CostBy::default(),
            host_spacing: Span::from_secs(2),
            pricing: Pricing::default(),
            burst: BurstTerms::default(),
        }
    }
}

/// The measure from which a probe's cost is learned. The mean probe costs 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CostBy {
    /// Bytes of the body.
    #[default]
    Bytes,
    /// Duration.
    Milliseconds,
}

impl CostBy {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Bytes, Self::Milliseconds];

    /// The name in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Milliseconds => "milliseconds",
        }
    }
}

/// The allocators, under the papers' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Allocator {
    /// Algorithm 1 of Mahmoody et al.
    #[default]
    Adaptive,
    /// Largest Whittle index.
    Index,
    /// R.
    Memoryless,
    /// D.
    Cyclic,
    /// One after the other.
    RoundRobin,
    /// The greedy rule, as a bad example.
    Greedy,
}

impl Allocator {
    /// Every allocator.
    pub const ALL: [Self; 6] =
        [Self::Adaptive, Self::Index, Self::Memoryless, Self::Cyclic, Self::RoundRobin, Self::Greedy];

    /// The name in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Adaptive => "adaptive",
            Self::Index => "index",
            Self::Memoryless => "memoryless",
            Self::Cyclic => "cyclic",
            Self::RoundRobin => "round_robin",
            Self::Greedy => "greedy",
        }
    }

    /// The allocator with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|allocator| allocator.name() == name)
    }
}

/// Sources that appear to share a server. One request at a time is sent to them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostGroup {
    /// The registrable domain of a public name, else host and port.
    pub key: Arc<str>,
    /// The name is public: a pause that a server asks for then applies to the whole group.
    pub public: bool,
}

/// The user's limits for a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// n per T, δ apart.
    pub budget: Budget,
    /// The policy that sets its due times.
    pub policy: Policy,
    /// The weight of its updates relative to other sources.
    pub weight: f32,
    /// The price of its probes.
    pub price: SourcePrice,
    /// w: the longest allowed time between two probes.
    pub max_gap: Option<Span>,
    /// c: the cost of a probe relative to the mean probe; `None`: learned from its probes.
    pub cost: Option<f32>,
    /// Its host group.
    pub host: HostGroup,
}

/// The price of a source's probes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum SourcePrice {
    /// z, in hours of update waiting; 0 to use the whole budget.
    Own(f32),
    /// The one that sources share.
    Fleet,
}
