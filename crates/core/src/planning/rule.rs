//! What a rule asks of the engine.
//!
//! Venu Gopal et al. have a notification rule ⟨Q, Tr, 𝒯, U⟩: a query, a trigger, a period, a utility. Here is
//! what of it says *when* somebody wants a probe: what triggers it, how long what it waits for can be
//! had (*life*), how sure that is to be, and when it is in force. The query, and who is told, are others'
//! business.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use super::active::Active;
use super::execution::RuleId;
use super::prediction::Life;

/// What a rule asks of the engine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RuleTerms {
    /// As people know it: `profile/rule`.
    pub name: Arc<str>,
    /// It waits for updates of the very sources that it asks about, not of others.
    pub own: bool,
    /// X: with every how many of these.
    pub every: u32,
    /// How long a probe finds what is wanted in time.
    pub life: Life,
    /// How sure it is to be that a probe comes in time.
    pub confidence: f64,
    /// When it is in force. An engine leaves that to whatever predicts and matches, and does not record it.
    #[serde(skip)]
    pub active: Active,
}

/// What a source is to a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Which rule.
    pub rule: RuleId,
    /// Its updates are asked for.
    pub asked: bool,
    /// Its updates are what the rule waits for.
    pub triggers: bool,
}
