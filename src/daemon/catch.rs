//! What rules ask for among what a look found.
//!
//! Exists apart from probes and from the engine because only here both an item's words and a rule's
//! question are at hand. An edit of an item that is known is no update to a rule. Knows questions and words;
//! must not know counts, nor when anyone is told.

use std::sync::Arc;

use crate::config::profile::{Rules, Where};
use crate::config::source::Source;
use tidewatch_core::engine::book::Told;
use tidewatch_core::observe::query::Field;
use tidewatch_core::observe::{Observation, Occurred, Update, UpdateKind};
use tidewatch_core::time::Timestamp;

/// What a look means to each rule that has to do with the source. Words that nobody is told are let go of.
pub fn told(rules: &Rules, source: &Source, seen: &mut Observation) -> Vec<Told> {
    let mut told = Vec::new();
    let mut kept = vec![false; seen.updates.len()];
    for part in rules.of(source) {
        let Some(rule) = rules.get(part.rule) else { continue };
        let name = Arc::clone(&rule.terms.name);
        let mut of = Told { rule: name, caught: Vec::new(), counts: Vec::new() };
        for (index, update) in seen.updates.iter().enumerate() {
            let at = occurred(update);
            if update.kind == UpdateKind::Edited || !rule.terms.active.holds(at) {
                continue;
            }
            if part.asked && holds(rule.wanted.as_ref(), update) {
                of.caught.push(u32::try_from(index).unwrap_or(u32::MAX));
                kept[index] |= rule.fields.contains(&Field::Text);
            }
            if part.triggers && holds(rule.counts.as_ref(), update) {
                of.counts.push(at);
            }
        }
        of.counts.sort_unstable();
        if !of.caught.is_empty() || !of.counts.is_empty() {
            told.push(of);
        }
    }
    for (update, kept) in seen.updates.iter_mut().zip(kept) {
        update.text = update.text.take().filter(|_| kept);
    }
    told
}

/// When it occurred, as far as is known: a rule is not set off by what may have been long before.
fn occurred(update: &Update) -> Timestamp {
    match update.occurred {
        Occurred::At(at) | Occurred::Between(_, at) => at,
    }
}

fn holds(wanted: Option<&Where>, update: &Update) -> bool {
    wanted.is_none_or(|wanted| wanted.condition.holds(&update.said()))
}
