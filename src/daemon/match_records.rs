//! Rule matches, in the form in which they are stored and delivered.
//!
//! Texts come from sources, so their length and number are bounded here. What is cut off is marked or counted.

use serde_json::{Map, Value, json};

use crate::config::profile::RuleConfig;
use crate::config::source::SourceConfig;
use crate::store::record::{MatchRecord, MatchedItem};
use crate::store::rules::MOST_ITEMS;
use tidewatch_core::engine::rule_counts::RuleMatch;
use tidewatch_core::observe::query::QueryField;
use tidewatch_core::observe::{Occurred, Update, UpdateKind, compare};
use tidewatch_core::time::Timestamp;

use super::probe::Finished;

/// Longest text of an item or page that is delivered, in bytes.
const LONGEST_TEXT: usize = 64 * 1024;

/// Longest title, link and id that are delivered, in bytes.
const LONGEST_FIELD: usize = 4096;

/// Longest name of an author or a category that is delivered, in bytes.
const LONGEST_LABEL: usize = 512;

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
            items: matched.take(MOST_ITEMS).map(|update| item(rule, update, finished.finished)).collect(),
            more: notice.items.len().saturating_sub(MOST_ITEMS) as u64,
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

fn item(rule: &RuleConfig, update: &Update, found: Timestamp) -> MatchedItem {
    let mut fields = Map::new();
    let mut cut = Vec::new();
    let mut put = |name: &str, value: Value| drop(fields.insert(name.to_owned(), value));
    let mut short = |name: &'static str, text: &str, longest: usize| {
        let shortened = shortened(text, longest);
        if shortened.is_some() && !cut.contains(&name) {
            cut.push(name);
        }
        shortened.unwrap_or_else(|| text.to_owned())
    };
    put("kind", json!(update.kind.name()));
    for field in &rule.fields {
        let mut text = |name, text: &Option<String>, longest| {
            json!(text.as_deref().map(|text| short(name, text, longest)))
        };
        match field {
            QueryField::Title => put("title", text("title", &update.title, LONGEST_FIELD)),
            QueryField::Link => put("link", text("link", &update.link, LONGEST_FIELD)),
            QueryField::Id => put("id", json!(short("id", &update.key, LONGEST_FIELD))),
            QueryField::Text => put("text", text("text", &update.text, LONGEST_TEXT)),
            QueryField::Authors => {
                let authors = update.labels.authors.iter();
                put("authors", authors.map(|name| short("authors", name, LONGEST_LABEL)).collect());
            }
            QueryField::Categories => {
                let categories = update.labels.categories.iter();
                put(
                    "categories",
                    categories.map(|name| short("categories", name, LONGEST_LABEL)).collect(),
                );
            }
        }
    }
    match update.occurred {
        Occurred::At(at) => put("occurred_at", json!(at.iso())),
        Occurred::Between(from, _) => put("occurred_after", json!(from.iso())),
    }
    put("detected_at", json!(found.iso()));
    if !cut.is_empty() {
        put("cut", json!(cut));
    }
    let content = (update.kind == UpdateKind::Edited).then(|| {
        let content = json!([update.title, update.link, update.labels.authors, update.labels.categories]);
        compare::key_hash(&content.to_string())
    });
    MatchedItem { kind: update.kind, id: update.key.clone(), content, fields }
}

/// The text cut to this length in bytes, with a mark at its end; `None` if it is not longer.
fn shortened(text: &str, longest: usize) -> Option<String> {
    (text.len() > longest).then(|| format!("{}…", &text[..text.floor_char_boundary(longest)]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_cut_between_characters_and_marked() {
        assert_eq!(shortened("abc", 3), None);
        assert_eq!(shortened("abcd", 3).as_deref(), Some("abc…"));
        assert_eq!(shortened("aüü", 2).as_deref(), Some("a…"));
    }
}
