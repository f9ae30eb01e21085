//! Reads malformed JSON Feed documents.
//!
//! In the library, one numeric id or missing title fails a whole feed. This module reads JSON Feed's fields
//! and repairs the usual mistakes of generators. Must not know dates, identity, or what was seen before. The
//! JSON parser itself limits the depth (128).

use serde_json::{Map, Value, json};

use super::clean::Clean;
use super::labels::Labels;
use super::repairs::Repairs;
use super::{FeedHints, Unreadable};

/// The members of an item that are passed on. Attachments are not needed.
const MEMBERS: [&str; 8] = [
    "url",
    "external_url",
    "title",
    "content_html",
    "content_text",
    "summary",
    "date_published",
    "date_modified",
];

/// Reads a JSON document that starts at its opening brace.
pub(super) fn clean(text: &str, mut repairs: Repairs) -> Result<Clean, Unreadable> {
    let mut feed = match parse(text) {
        Ok(value) => value,
        Err(error) => repaired(text, &mut repairs)
            .ok_or_else(|| Unreadable::NotAFeed(format!("JSON that cannot be read: {error}")))?,
    };
    let version = feed.get("version").and_then(Value::as_str).unwrap_or_default();
    if !version.contains("jsonfeed.org/version/1") {
        repairs.no_version = true;
    }
    let Some(Value::Array(items)) = feed.get_mut("items").map(Value::take) else {
        return Err(Unreadable::NotAFeed("JSON without `items`, so not a JSON Feed".to_owned()));
    };
    if repairs.no_version && items.iter().any(|item| !item.is_object()) {
        return Err(Unreadable::NotAFeed("JSON, but not a JSON Feed".to_owned()));
    }
    let (items, labels): (Vec<Value>, Vec<Labels>) =
        items.into_iter().filter_map(|item| clean_item(item, &mut repairs)).unzip();
    let title = feed.get("title").and_then(Value::as_str).unwrap_or_default();
    let document = json!({ "version": "https://jsonfeed.org/version/1.1", "title": title, "items": items })
        .to_string();
    Ok(Clean { document, labels, hints: FeedHints::default(), repairs })
}

fn clean_item(item: Value, repairs: &mut Repairs) -> Option<(Value, Labels)> {
    let Value::Object(mut item) = item else {
        repairs.skipped += 1;
        return None;
    };
    let mut kept = Map::new();
    for name in MEMBERS {
        if let Some(text) = item.remove(name).and_then(|value| text_of(value, repairs)) {
            kept.insert(name.to_owned(), Value::String(text));
        }
    }
    // The key: the id, else the link, both as written.
    let id = item.remove("id").and_then(|value| text_of(value, repairs));
    let id = id.filter(|id| !id.trim().is_empty()).or_else(|| {
        let link = kept.get("url").or_else(|| kept.get("external_url"))?;
        link.as_str().map(str::to_owned)
    });
    if let Some(id) = id {
        kept.insert("id".to_owned(), Value::String(id));
    }
    Some((Value::Object(kept), labels(&item)))
}

/// Reads `tags`, and `authors` or version 1's `author`.
fn labels(item: &Map<String, Value>) -> Labels {
    let mut labels = Labels::default();
    let authors = item.get("authors").and_then(Value::as_array).into_iter().flatten();
    for author in authors.chain(item.get("author")) {
        if let Some(name) = author.get("name").unwrap_or(author).as_str() {
            labels.author(name);
        }
    }
    for tag in item.get("tags").and_then(Value::as_array).into_iter().flatten() {
        if let Some(tag) = tag.as_str() {
            labels.category(tag);
        }
    }
    labels
}

/// Strings are taken as they are, numbers as digits; other types give `None`.
fn text_of(value: Value, repairs: &mut Repairs) -> Option<String> {
    match value {
        Value::String(text) => Some(text),
        Value::Null => None,
        Value::Number(number) => {
            repairs.odd_values += 1;
            Some(number.to_string())
        }
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => {
            repairs.odd_values += 1;
            None
        }
    }
}

/// The first JSON value. Anything after it is ignored.
fn parse(text: &str) -> Result<Value, serde_json::Error> {
    match serde_json::Deserializer::from_str(text).into_iter::<Value>().next() {
        Some(value) => value,
        None => Ok(Value::Null),
    }
}

/// Tries again without raw control characters, then with the items before the cut only.
fn repaired(text: &str, repairs: &mut Repairs) -> Option<Value> {
    let controls = text.chars().filter(|c| c.is_control()).count();
    let text = text.replace(|c: char| c.is_control(), " ");
    if let Ok(value) = parse(&text) {
        repairs.controls += controls;
        return Some(value);
    }
    let cut = after_last_item(&text)?;
    let value = parse(&format!("{}]}}", &text[..cut])).ok()?;
    repairs.truncated = true;
    Some(value)
}

/// The end of the last complete object in the outermost object's `items`, or the start of that list.
fn after_last_item(text: &str) -> Option<usize> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    let mut items_open = false;
    let mut string_start = 0;
    let mut last_string = "";
    let mut end = None;
    for (at, byte) in text.bytes().enumerate() {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => {
                    in_string = false;
                    if depth == 1 {
                        last_string = &text[string_start..at];
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => {
                in_string = true;
                string_start = at + 1;
            }
            b'{' | b'[' => {
                if byte == b'[' && depth == 1 && last_string == "items" {
                    items_open = true;
                    end = Some(at + 1);
                }
                depth += 1;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                if items_open && byte == b'}' && depth == 2 {
                    end = Some(at + 1);
                }
                if items_open && depth == 1 {
                    // The list is complete; the fault is after it.
                    return end;
                }
            }
            _ => {}
        }
    }
    end
}
