//! The keys of matches and of deliveries, by which receivers drop repeats.
//!
//! A key follows from what was found, not from when: a match that is found again after a lost commit or a
//! restored backup has the same key. Must not use numbers of rows, nor times of probes in progress.

use serde_json::Value;
use sha2::{Digest, Sha256};

use tidewatch_core::time::Timestamp;

use super::record::MatchedItem;

/// The key of a match. `before` is when the page had the same text the last time: a page that returns to an
/// earlier text has changed again.
pub(super) fn item_key(source: &str, item: &MatchedItem, before: Option<Timestamp>) -> String {
    let content = item.content.map(u64::to_le_bytes);
    let before = before.map(|at| at.as_millis().to_le_bytes());
    digest([
        source.as_bytes(),
        item.kind.name().as_bytes(),
        item.id.as_bytes(),
        content.as_ref().map_or(&[], |bytes| bytes),
        before.as_ref().map_or(&[], |bytes| bytes),
    ])
}

/// The key of a document with these items for a target.
pub(super) fn delivery_key(target: &str, (profile, rule): (&str, &str), items: &[Value]) -> String {
    let keys = items.iter().map(|item| match item["key"].as_str() {
        Some(key) => key.to_owned(),
        // Held by a version that stored no keys.
        None => item.to_string(),
    });
    let keys: Vec<String> = keys.collect();
    let parts = [target, profile, rule].into_iter().chain(keys.iter().map(String::as_str));
    digest(parts.map(str::as_bytes))
}

fn digest<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> String {
    let mut digest = Sha256::new();
    for part in parts {
        // The length prefix makes the encoding of the parts unambiguous.
        digest.update((part.len() as u64).to_le_bytes());
        digest.update(part);
    }
    digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use serde_json::{Map, json};
    use tidewatch_core::observe::UpdateKind;

    use super::*;

    fn item(kind: UpdateKind, id: &str, content: Option<u64>) -> MatchedItem {
        let Value::Object(fields) = json!({ "detected_at": "now" }) else { panic!("an object") };
        MatchedItem { kind, id: id.to_owned(), content, fields }
    }

    #[test]
    fn matches_have_the_same_key_if_and_only_if_they_are_the_same() {
        let new = item(UpdateKind::New, "x", None);
        let key = item_key("a", &new, None);
        assert_eq!(key.len(), 32);
        let later = MatchedItem { fields: Map::new(), ..new.clone() };
        assert_eq!(item_key("a", &later, None), key, "not of the fields, which have times");
        let at = Some(Timestamp::from_secs(7));
        let keys = [
            key,
            item_key("b", &new, None),
            item_key("a", &item(UpdateKind::New, "y", None), None),
            item_key("a", &item(UpdateKind::Edited, "x", Some(1)), None),
            item_key("a", &item(UpdateKind::Edited, "x", Some(2)), None),
            item_key("a", &item(UpdateKind::Changed, "x", None), None),
            item_key("a", &item(UpdateKind::Changed, "x", None), at),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }

    #[test]
    fn documents_differ_by_target_rule_and_items() {
        let items = |keys: &[&str]| keys.iter().map(|key| json!({ "key": key })).collect::<Vec<_>>();
        let keys = [
            delivery_key("exec:a", ("p", "r"), &items(&["1"])),
            delivery_key("exec:ap", ("", "r"), &items(&["1"])),
            delivery_key("exec:b", ("p", "r"), &items(&["1"])),
            delivery_key("exec:a", ("p", "q"), &items(&["1"])),
            delivery_key("exec:a", ("p", "r"), &items(&["2"])),
            delivery_key("exec:a", ("p", "r"), &items(&["1", "2"])),
            delivery_key("exec:a", ("p", "r"), &[json!({ "title": "of an earlier version" })]),
        ];
        assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    }
}
