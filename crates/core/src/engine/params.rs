//! What the engine is told by its user, and the identity of a source within it.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::planning::budget::Budget;
use crate::planning::policy::Policy;
use crate::planning::ttl::Form;
use crate::time::Span;

/// Limits over all sources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FleetParams {
    /// The length of a step.
    pub step: Span,
    /// c: probes per step.
    pub probes_per_step: u32,
    /// Who of those that are sampled gets the slots to spare.
    pub allocator: Allocator,
    /// k: what the probes of a step may cost together; `None`: as much as they do.
    pub capacity: Option<f64>,
    /// What a probe costs where its source does not say.
    pub cost_by: CostBy,
    /// Least time between two requests to one host group.
    pub host_spacing: Span,
    /// What is done about a burst, and how the age of an update counts.
    pub burst: BurstTerms,
}

/// What is done about a burst, and how the age of an update counts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BurstTerms {
    /// What is done.
    pub response: Response,
    /// The share of each budget that bursts may cost.
    pub reserve: f64,
    /// Which time to live.
    pub ttl_form: Form,
    /// α.
    pub ttl_factor: f64,
    /// θ, for the prefetching form.
    pub freshness_threshold: f64,
}

impl Default for BurstTerms {
    fn default() -> Self {
        Self {
            response: Response::default(),
            reserve: 0.2,
            ttl_form: Form::default(),
            ttl_factor: 0.2,
            freshness_threshold: 1.0,
        }
    }
}

/// What `auto` does about a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Response {
    /// The papers' switch: time to live while it lasts, paid for by the reserve.
    #[default]
    Ttl,
    /// The rest of the period is planned anew, with λ + P(burst)·β where there is only a rhythm.
    Replan,
}

impl Response {
    /// Every response.
    pub const ALL: [Self; 2] = [Self::Ttl, Self::Replan];

    /// The name in configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ttl => "ttl",
            Self::Replan => "replan",
        }
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
            burst: BurstTerms::default(),
        }
    }
}

/// What a probe's cost is learned from. A mean probe costs 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum CostBy {
    /// Bytes of the body.
    #[default]
    Bytes,
    /// How long it takes.
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
    /// In turn.
    RoundRobin,
    /// The bad example.
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

    /// The allocator of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|allocator| allocator.name() == name)
    }
}

/// Sources that share a server, as far as we can tell: one request at a time among them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostGroup {
    /// The registrable domain of a public name, else host and port.
    pub key: Arc<str>,
    /// A public name: a server's plea for rest is then taken for the whole group.
    pub public: bool,
}

/// What the user grants a source.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// n per T, δ apart.
    pub budget: Budget,
    /// The user chose the budget for this source, so it need not start at the cautious hourly pace.
    pub own_budget: bool,
    /// Who decides when it is probed.
    pub policy: Policy,
    /// How much its updates matter beside those of other sources.
    pub weight: f32,
    /// z: how long an update's wait a probe must spare, in hours, to be worth sending; 0 if the budget is
    /// to be spent whole.
    pub price: f32,
    /// w: it is to be looked at at least so often.
    pub max_gap: Option<Span>,
    /// c: what a probe of it costs, beside a mean one; `None`: what its probes have shown.
    pub cost: Option<f32>,
    /// Where it lives.
    pub host: HostGroup,
}

impl Terms {
    /// z as its weight has it, in update·hours: what matters half as much must spare twice as long a wait.
    pub fn worth(&self) -> f64 {
        (f64::from(self.price) / f64::from(self.weight).max(1e-9)).min(1e6)
    }
}
