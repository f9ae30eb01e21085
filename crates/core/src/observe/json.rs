//! Reads malformed JSON Feed documents.
//!
//! In the library, one numeric id or missing title fails a whole feed. This module reads JSON Feed's fields
//! and repairs the usual mistakes of generators. Must not know dates, identity, or what was seen before.

use super::Unreadable;
use super::json_value::JsonValue;
use super::repairs::Repairs;
use super::written::{Written, WrittenFeed, WrittenItem, WrittenTitle};

/// Reads a JSON document that starts at its opening brace.
pub(super) fn read(text: &str, mut repairs: Repairs) -> Result<WrittenFeed<'_>, Unreadable> {
    let error = match JsonValue::parse(text) {
        Ok(value) => return feed(value, repairs),
        Err(error) => error,
    };
    // Again without raw control characters, then with the items before the cut only.
    let controls = text.chars().filter(|c| c.is_control()).count();
    let text = text.replace(|c: char| c.is_control(), " ");
    if let Ok(value) = JsonValue::parse(&text) {
        repairs.controls += controls;
        return feed(value, repairs).map(WrittenFeed::into_owned);
    }
    let text = after_last_item(&text).map(|cut| format!("{}]}}", &text[..cut])).unwrap_or_default();
    match JsonValue::parse(&text) {
        Ok(value @ JsonValue::Object(_)) => {
            repairs.truncated = true;
            feed(value, repairs).map(WrittenFeed::into_owned)
        }
        _ => Err(Unreadable::NotAFeed(format!("JSON that cannot be read: {error}"))),
    }
}

fn feed(mut value: JsonValue<'_>, mut repairs: Repairs) -> Result<WrittenFeed<'_>, Unreadable> {
    let version = value.take("version").and_then(JsonValue::into_text).unwrap_or_default();
    if !version.contains("jsonfeed.org/version/1") {
        repairs.no_version = true;
    }
    let Some(JsonValue::List(items)) = value.take("items") else {
        return Err(Unreadable::NotAFeed("JSON without `items`, so not a JSON Feed".to_owned()));
    };
    if repairs.no_version && items.iter().any(|item| !matches!(item, JsonValue::Object(_))) {
        return Err(Unreadable::NotAFeed("JSON, but not a JSON Feed".to_owned()));
    }
    let items = items.into_iter().filter_map(|value| item(value, &mut repairs)).collect();
    let title = value.take("title").and_then(JsonValue::into_text);
    let title = title.map(|text| WrittenTitle { text, markup: false });
    Ok(WrittenFeed { title, items, repairs, ..WrittenFeed::default() })
}

fn item<'t>(mut value: JsonValue<'t>, repairs: &mut Repairs) -> Option<WrittenItem<'t>> {
    if !matches!(value, JsonValue::Object(_)) {
        repairs.skipped += 1;
        return None;
    }
    let authors = value.take("authors").map(JsonValue::into_list).unwrap_or_default();
    let authors = authors.into_iter().chain(value.take("author")).filter_map(author).collect();
    let categories = value.take("tags").map(JsonValue::into_list).unwrap_or_default();
    let categories = categories.into_iter().filter_map(JsonValue::into_text).collect();
    let mut text = |name| value.take(name).and_then(|value| text_of(value, repairs));
    // In this order.
    let (url, external_url) = (text("url"), text("external_url"));
    let (html, plain, summary) = (text("content_html"), text("content_text"), text("summary"));
    let link = url.or(external_url);
    // Plain text is the content, or the summary if there is HTML.
    let (content, summary) = match html {
        Some(html) => (Some(html), summary.or(plain)),
        None => (plain, summary),
    };
    Some(WrittenItem {
        // The key: the id, else the link, both as written.
        id: text("id").filter(|id| !id.trim().is_empty()).or_else(|| link.clone()),
        link,
        title: text("title").map(|text| WrittenTitle { text, markup: false }),
        summary,
        content,
        published: text("date_published"),
        updated: text("date_modified"),
        authors,
        categories,
    })
}

/// The name of an author, who is an object, or in wrong documents a name.
fn author(mut author: JsonValue<'_>) -> Option<Written<'_>> {
    match author {
        JsonValue::Object(_) => author.take("name").and_then(JsonValue::into_text),
        name => name.into_text(),
    }
}

/// Texts are taken as they are, numbers as digits; other types give `None`.
fn text_of<'t>(value: JsonValue<'t>, repairs: &mut Repairs) -> Option<Written<'t>> {
    match value {
        JsonValue::Text(text) => Some(text),
        JsonValue::Null => None,
        JsonValue::Number(number) => {
            repairs.odd_values += 1;
            Some(number.to_string().into())
        }
        JsonValue::Bool | JsonValue::List(_) | JsonValue::Object(_) => {
            repairs.odd_values += 1;
            None
        }
    }
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
