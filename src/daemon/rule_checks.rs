//! The configured rules, applied to the updates of one probe.
//!
//! Passes the rules of a source to `rule_matching`, and keeps an item's text only if a matching rule
//! delivers it. Uses rules and observations; must not know rule counts, nor when a match is delivered.

use crate::config::profile::RulesConfig;
use crate::config::source::SourceConfig;
use tidewatch_core::engine::rule_counts::RuleMatches;
use tidewatch_core::observe::Observation;
use tidewatch_core::observe::query::QueryField;
use tidewatch_core::rule_matching::match_rules;

/// Matches the updates with each rule of the source. Drops the text of every update that no matching rule
/// delivers.
pub fn matches(rules: &RulesConfig, source: &SourceConfig, seen: &mut Observation) -> Vec<RuleMatches> {
    let query = |id| rules.get(id).map(|rule| rule.query());
    let found = match_rules(&rules.of(source), query, &seen.updates);
    let mut kept = vec![false; seen.updates.len()];
    let quotes = |found: &&RuleMatches| {
        rules.named(&found.rule).is_some_and(|rule| rule.fields.contains(&QueryField::Text))
    };
    for &index in found.iter().filter(quotes).flat_map(|found| &found.items) {
        if let Some(kept) = kept.get_mut(index as usize) {
            *kept = true;
        }
    }
    for (update, kept) in seen.updates.iter_mut().zip(kept) {
        update.text = update.text.take().filter(|_| kept);
    }
    found
}
