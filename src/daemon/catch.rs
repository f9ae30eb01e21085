//! What rules ask for among what a look found.
//!
//! Exists apart from probes and from the engine because only here both an item's words and a rule's
//! question are at hand. An edit of an item that is known is no update to a rule. Knows questions and words;
//! must not know counts, nor when anyone is told.

use crate::config::profile::Rules;
use crate::config::source::Source;
use tidewatch_core::engine::book::Told;
use tidewatch_core::observe::Observation;
use tidewatch_core::observe::query::Field;
use tidewatch_core::rule_matching::match_rules;

/// What a look means to each rule that has to do with the source. Words that nobody is told are let go of.
pub fn told(rules: &Rules, source: &Source, seen: &mut Observation) -> Vec<Told> {
    let query = |id| rules.get(id).map(|rule| rule.query());
    let told = match_rules(&rules.of(source), query, &seen.updates);
    let mut kept = vec![false; seen.updates.len()];
    let quotes =
        |told: &&Told| rules.named(&told.rule).is_some_and(|rule| rule.fields.contains(&Field::Text));
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
