//! The phase of a source and the reason for its due time: names used in the store.

use serde::{Deserialize, Serialize};

use super::constraint::Constraint;

/// The phase of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SourceState {
    /// Its update pattern is not known yet.
    #[default]
    Learning,
    /// Its update pattern is known.
    Planned,
    /// A burst deviates from its pattern.
    Burst,
    /// Its probes fail; the gap grows.
    Backoff,
    /// Gone for good, or disallowed by robots.txt, which is checked again daily.
    Resting,
    /// No longer in the configuration.
    Removed,
}

impl SourceState {
    const ALL: [Self; 6] =
        [Self::Learning, Self::Planned, Self::Burst, Self::Backoff, Self::Resting, Self::Removed];

    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Planned => "planned",
            Self::Burst => "burst",
            Self::Backoff => "backoff",
            Self::Resting => "resting",
            Self::Removed => "removed",
        }
    }

    /// The state with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// The reason for a due time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Reason {
    /// Never probed before.
    #[default]
    FirstContact,
    /// The policy.
    Policy,
    /// The plan.
    Plan,
    /// An extra probe in a burst.
    Burst,
    /// An early probe of a new source.
    Early,
    /// Items may have been lost: sooner than by the policy.
    Gap,
    /// A rule.
    Rule,
    /// The longest allowed gap.
    MaxGap,
    /// Requested by hand.
    Manual,
    /// The gate: this constraint binds.
    Constraint(Constraint),
}

impl Reason {
    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstContact => "first contact",
            Self::Policy => "policy",
            Self::Plan => "plan",
            Self::Burst => "burst",
            Self::Early => "early",
            Self::Gap => "gap",
            Self::Rule => "rule",
            Self::MaxGap => "max gap",
            Self::Manual => "manual",
            Self::Constraint(constraint) => constraint.name(),
        }
    }

    /// The reason with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::FirstContact, Self::Policy, Self::Plan, Self::Burst, Self::Gap, Self::Rule, Self::MaxGap]
            .into_iter()
            .chain([Self::Early, Self::Manual])
            .chain(Constraint::ALL.into_iter().map(Self::Constraint))
            .find(|reason| reason.name() == name)
    }
}
