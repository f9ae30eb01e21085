//! The politeness constraints that can defer a probe, by name.

use serde::{Deserialize, Serialize};

/// A constraint that defers a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Constraint {
    /// δ since the last probe.
    Spacing,
    /// n per T.
    Budget,
    /// `max-age` or `Expires`.
    MaxAge,
    /// `Retry-After` and similar headers, for this source.
    RetryAfter,
    /// Backoff after failures.
    Backoff,
    /// RSS `ttl`.
    Ttl,
    /// `sy:updatePeriod`.
    UpdatePeriod,
    /// `skipHours` and `skipDays`.
    Skip,
    /// The host group asked for a pause.
    HostPause,
    /// Spacing between requests to one host group.
    HostSpacing,
    /// Stopped: no probe is due until one is requested.
    Resting,
}

impl Constraint {
    /// Every constraint.
    pub const ALL: [Self; 11] = [
        Self::Spacing,
        Self::Budget,
        Self::MaxAge,
        Self::RetryAfter,
        Self::Backoff,
        Self::Ttl,
        Self::UpdatePeriod,
        Self::Skip,
        Self::HostPause,
        Self::HostSpacing,
        Self::Resting,
    ];

    /// The name in the store and at the terminal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Spacing => "min_spacing",
            Self::Budget => "budget",
            Self::MaxAge => "max-age",
            Self::RetryAfter => "retry-after",
            Self::Backoff => "backoff",
            Self::Ttl => "ttl",
            Self::UpdatePeriod => "update period",
            Self::Skip => "skip hours/days",
            Self::HostPause => "host pause",
            Self::HostSpacing => "host spacing",
            Self::Resting => "resting",
        }
    }
}
