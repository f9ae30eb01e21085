//! The phase that a source is in and why its next probe is when it is: names that the store knows.

use serde::{Deserialize, Serialize};

use super::constraint::Constraint;

/// The phase a source is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum SourceState {
    /// Its rhythm is not known yet.
    #[default]
    Learning,
    /// Its rhythm is known.
    Planned,
    /// Its rhythm is broken by a burst.
    Burst,
    /// It fails; we come back later and later.
    Backoff,
    /// It asked not to be probed: gone for good, or closed to us by robots.txt.
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

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Why the next probe is when it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub enum Reason {
    /// Never probed before.
    #[default]
    FirstContact,
    /// The policy's own choice.
    Policy,
    /// The source's plan.
    Plan,
    /// A burst is chased.
    Burst,
    /// Items may have been lost; sooner than the policy would.
    Gap,
    /// A rule.
    Rule,
    /// It has not been looked at for as long as it may go unseen.
    MaxGap,
    /// Someone asked by hand.
    Manual,
    /// The gate: this constraint came last.
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
            Self::Gap => "gap",
            Self::Rule => "rule",
            Self::MaxGap => "max gap",
            Self::Manual => "manual",
            Self::Constraint(constraint) => constraint.name(),
        }
    }

    /// The reason of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::FirstContact, Self::Policy, Self::Plan, Self::Burst, Self::Gap, Self::Rule, Self::MaxGap]
            .into_iter()
            .chain([Self::Manual])
            .chain(Constraint::ALL.into_iter().map(Self::Constraint))
            .find(|reason| reason.name() == name)
    }
}
