//! Which updates of a probe the configured rules match.
//!
//! Hands the rules that concern a source to `rule_matching`, and keeps an item's text only where a rule delivers
//! it. Knows rules and observations; must not know counts, nor when anything is delivered.

use crate::config::profile::Rules;
use crate::config::source::Source;
use tidewatch_core::engine::book::RuleMatches;
use tidewatch_core::observe::Observation;
use tidewatch_core::observe::query::Field;
use tidewatch_core::rule_matching::match_rules;

/// What a look means to each rule that has to do with the source. Words that nobody is told are let go of.
pub fn told(rules: &Rules, source: &Source, seen: &mut Observation) -> Vec<RuleMatches> {
    let query = |id| rules.get(id).map(|rule| rule.query());
    let told = match_rules(&rules.of(source), query, &seen.updates);
    let mut kept = vec![false; seen.updates.len()];
    let quotes = |told: &&RuleMatches| {
        rules.named(&told.rule).is_some_and(|rule| rule.fields.contains(&Field::Text))
    };
    for &index in told.iter().filter(quotes).flat_map(|told| &told.caught) {
        if let Some(kept) = kept.get_mut(index as usize) {
            *kept = true;
        }
    }
    for (update, kept) in seen.updates.iter_mut().zip(kept) {
        update.text = update.text.take().filter(|_| kept);
    }
    told
}
