//! All sources.

use crate::time::Span;

/// `[fleet]`: limits over all sources.
#[derive(Debug, Clone, PartialEq)]
pub struct FleetParams {
    /// The length of a step.
    pub step: Span,
    /// c: probes per step.
    pub probes_per_step: u32,
    /// Who chooses when more are due than c.
    pub allocator: Allocator,
    /// Least time between two requests to one host group.
    pub host_spacing: Span,
}

impl Default for FleetParams {
    fn default() -> Self {
        Self {
            step: Span::from_secs(10),
            probes_per_step: 20,
            allocator: Allocator::default(),
            host_spacing: Span::from_secs(2),
        }
    }
}

/// The allocators, under the papers' names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
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
