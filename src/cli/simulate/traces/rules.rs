//! Converts configured rules for a simulation.

use std::sync::Arc;

use crate::cli::error::CliError;
use crate::config::profile::{RuleConfig, RulesConfig, Where};
use tidewatch_core::planning::policy::Policy;
use tidewatch_lab::contest::entrant_policy::EntrantPolicy;
use tidewatch_lab::simulated_rules::{SimulatedRule, SimulatedRules};

/// The rules for sources with these names and groups; `None` if there are no rules.
pub fn simulated<'s>(
    rules: &RulesConfig,
    sources: impl IntoIterator<Item = (&'s str, Option<&'s str>)>,
) -> Option<Arc<SimulatedRules>> {
    if rules.is_empty() {
        return None;
    }
    let condition = |text: &Option<Where>| text.as_ref().map(|text| text.condition.clone());
    let rule = |rule: &Arc<RuleConfig>| SimulatedRule {
        terms: Arc::clone(&rule.terms),
        wanted: condition(&rule.wanted),
        counts: condition(&rule.counts),
    };
    let parts = sources.into_iter().filter_map(|(name, group)| {
        let parts = rules.parts(name, group);
        (!parts.is_empty()).then(|| (name.to_owned(), parts.into_boxed_slice()))
    });
    Some(Arc::new(SimulatedRules { parts: parts.collect(), rules: rules.all().iter().map(rule).collect() }))
}

/// Refuses the policy `profile` if there are no rules.
pub fn check_policies(policies: &[EntrantPolicy], has_rules: bool, remedy: &str) -> Result<(), CliError> {
    match policies.contains(&EntrantPolicy::Ours(Policy::Profile)) && !has_rules {
        true => {
            Err(CliError::Usage(format!("`profile` probes only for rules, and there are none; {remedy}")))
        }
        false => Ok(()),
    }
}
