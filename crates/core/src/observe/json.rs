//! JSON Feed as found in the wild, made readable.
//!
//! Exists because one numeric id or missing title fails a whole feed in the library. Knows JSON
//! Feed's fields and how generators get them wrong. Must not know dates, identity, or what was
//! seen before. Depth is bounded by the JSON parser itself (128).

use serde_json::{Map, Value, json};

use super::clean::Clean;
use super::labels::Labels;
use super::repairs::Repairs;
use super::{FeedHints, Unreadable};

/// The members of an item that are passed on; attachments are not needed.
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

/// Reads a JSON document, from its opening brace.
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
    // Identity: the id, else the link, both as written.
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

/// `tags`, and `authors` or, as it was in version 1, `author`.
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

/// Strings as they are, numbers in digits; anything else says nothing.
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

/// The first JSON value; what follows it is ignored.
fn parse(text: &str) -> Result<Value, serde_json::Error> {
    match serde_json::Deserializer::from_str(text).into_iter::<Value>().next() {
        Some(value) => value,
        None => Ok(Value::Null),
    }
}

/// Another try without raw control characters, then one with the items before a cut.
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

/// Where the last complete object of the outermost object's `items` ends, or the list begins.
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
                    // The list is whole; what is broken comes after it.
                    return end;
                }
            }
            _ => {}
        }
    }
    end
}
