//! What rules ask for among what a look found, and how it is put to whoever is told.
//!
//! Exists apart from probes and from the fleet because only here both an item's words and a rule's
//! question are at hand. An edit of an item that is known is no update to a rule. Knows questions and words;
//! must not know counts, nor when anyone is told.

use serde_json::{Map, Value, json};

use crate::config::Source;
use crate::config::profile::{Rule, Rules};
use crate::store::record::CaughtRecord;
use tidewatch_core::engine::book::{Notice, Told};
use tidewatch_core::observe::query::Field;
use tidewatch_core::observe::{Observation, Occurred, Update};
use tidewatch_core::rule_matching::match_rules;
use tidewatch_core::time::Timestamp;

use super::probe::Finished;

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
