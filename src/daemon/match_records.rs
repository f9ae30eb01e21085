//! Rule matches, in the form in which they are stored and delivered.

use serde_json::{Map, Value, json};

use crate::config::profile::RuleConfig;
use crate::config::source::SourceConfig;
use crate::store::record::MatchRecord;
use tidewatch_core::engine::rule_counts::RuleMatch;
use tidewatch_core::observe::query::QueryField;
use tidewatch_core::observe::{Occurred, Update};
use tidewatch_core::time::Timestamp;

use super::probe::Finished;

/// One record for each rule with a match.
pub fn records(finished: &Finished, notices: &[RuleMatch]) -> Vec<MatchRecord> {
    let record = |notice: &RuleMatch| {
        let rule = finished.rules.named(&notice.rule)?;
        let updates = &finished.observation.as_ref()?.updates;
        let source = finished.described.as_ref()?;
        let matched = notice.items.iter().filter_map(|&index| updates.get(index as usize));
        Some(MatchRecord {
            name: rule.terms.name.clone(),
            profile: rule.profile.clone(),
            rule: rule.name.clone(),
            targets: rule.deliver.clone(),
            document: document(rule, source, finished.finished),
            items: matched.map(|update| item(rule, update, finished.finished)).collect(),
            deliver_now: notice.deliver_now,
        })
    };
    notices.iter().filter_map(record).collect()
}

fn document(rule: &RuleConfig, source: &SourceConfig, at: Timestamp) -> Map<String, Value> {
    let mut document = Map::new();
    for (name, value) in [
        ("profile", json!(&*rule.profile)),
        ("rule", json!(&*rule.name)),
        ("source", json!(source.name)),
        // Without the query, which may contain tokens.
        ("url", json!(source.url.parsed()[..url::Position::AfterPath])),
        ("at", json!(at.iso())),
    ] {
        document.insert(name.to_owned(), value);
    }
    document
}

fn item(rule: &RuleConfig, update: &Update, found: Timestamp) -> Value {
    let mut item = Map::new();
    let mut put = |name: &str, value: Value| drop(item.insert(name.to_owned(), value));
    put("kind", json!(update.kind.name()));
    for field in &rule.fields {
        match field {
            QueryField::Title => put("title", json!(update.title)),
            QueryField::Link => put("link", json!(update.link)),
            QueryField::Id => put("id", json!(update.key)),
            QueryField::Text => put("text", json!(update.text)),
            QueryField::Authors => put("authors", json!(update.labels.authors)),
            QueryField::Categories => put("categories", json!(update.labels.categories)),
        }
    }
    match update.occurred {
        Occurred::At(at) => put("occurred_at", json!(at.iso())),
        Occurred::Between(from, _) => put("occurred_after", json!(from.iso())),
    }
    put("detected_at", json!(found.iso()));
    Value::Object(item)
}
