//! The terms of a rule that the engine uses.
//!
//! Venu Gopal et al. define a notification rule ⟨Q, Tr, 𝒯, U⟩: a query, a trigger, a period, a utility. This
//! module holds the part that determines probe times: the trigger, the lifetime of an update (*life*), the
//! confidence and the active period. May not know the query or the recipients.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::active::ActiveHours;
use super::execution::RuleId;
use super::prediction::Lifetime;

/// The terms of a rule that the engine uses.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleTerms {
    /// The displayed name: `profile/rule`.
    pub name: Arc<str>,
    /// Whether updates of the queried sources themselves trigger it, not those of others.
    pub own: bool,
    /// X: every X-th such update triggers it.
    pub every: u32,
    /// The time within which a probe must find the update.
    pub life: Lifetime,
    /// The required probability that a probe is in time.
    pub confidence: f64,
    /// The active period. Prediction and matching apply it; the engine does not record it.
    #[serde(skip)]
    pub active: ActiveHours,
}

/// The role of a source in a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RulePart {
    /// The rule.
    pub rule: RuleId,
    /// Its updates are queried.
    pub asked: bool,
    /// Its updates trigger the rule.
    pub triggers: bool,
}
