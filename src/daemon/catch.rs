//! What rules ask for among what a look found, and how it is put to whoever is told.
//!
//! Exists apart from probes and from the fleet because only here both an item's words and a rule's
//! question are at hand. An edit of an item that is known is no update to a rule. Knows questions and words;
//! must not know counts, nor when anyone is told.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use crate::config::Source;
use crate::config::profile::{Rule, Rules, Where};
use crate::store::record::CaughtRecord;
use tidewatch_core::engine::book::{Notice, Told};
use tidewatch_core::observe::query::Field;
use tidewatch_core::observe::{Observation, Occurred, Update, UpdateKind};
use tidewatch_core::time::Timestamp;

use super::probe::Finished;

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

/// What was caught, as it is stored and told.
pub fn records(finished: &Finished, notices: &[Notice]) -> Vec<CaughtRecord> {
    let record = |notice: &Notice| {
        let rule = finished.rules.named(&notice.rule)?;
        let updates = &finished.observation.as_ref()?.updates;
        let caught = notice.caught.iter().filter_map(|&index| updates.get(index as usize));
        Some(CaughtRecord {
            name: rule.terms.name.clone(),
            profile: rule.profile.clone(),
            rule: rule.name.clone(),
            targets: rule.deliver.clone(),
            document: document(rule, finished),
            items: caught.map(|update| item(rule, update, finished.finished)).collect(),
            tells: notice.tells,
        })
    };
    notices.iter().filter_map(record).collect()
}

fn document(rule: &Rule, finished: &Finished) -> Map<String, Value> {
    let mut document = Map::new();
    for (name, value) in [
        ("profile", json!(&*rule.profile)),
        ("rule", json!(&*rule.name)),
        ("source", json!(finished.name)),
        ("url", json!(finished.url)),
        ("at", json!(finished.finished.iso())),
    ] {
        document.insert(name.to_owned(), value);
    }
    document
}

fn item(rule: &Rule, update: &Update, found: Timestamp) -> Value {
    let mut item = Map::new();
    let mut put = |name: &str, value: Value| drop(item.insert(name.to_owned(), value));
    put("kind", json!(update.kind.name()));
    for field in &rule.fields {
        match field {
            Field::Title => put("title", json!(update.title)),
            Field::Link => put("link", json!(update.link)),
            Field::Id => put("id", json!(update.key)),
            Field::Text => put("text", json!(update.text)),
            Field::Authors => put("authors", json!(update.labels.authors)),
            Field::Categories => put("categories", json!(update.labels.categories)),
        }
    }
    match update.occurred {
        Occurred::At(at) => put("occurred_at", json!(at.iso())),
        Occurred::Between(from, _) => put("occurred_after", json!(from.iso())),
    }
    put("detected_at", json!(found.iso()));
    Value::Object(item)
}
