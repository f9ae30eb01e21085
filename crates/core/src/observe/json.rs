//! Reads malformed JSON Feed documents.
//!
//! In the library, one numeric id or missing title fails a whole feed. This module reads JSON Feed's fields
//! and repairs the usual mistakes of generators. Must not know dates, identity, or what was seen before.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Unreadable;
use super::json_value::{JsonText, JsonValue, ValueCounter, ValueSeed};
use super::limits::{MAX_ADDRESS, MAX_LABELS, ReadingLimits};
use super::repairs::Repairs;
use super::written::{Written, WrittenFeed, WrittenItem, WrittenTitle};

/// Reads a JSON document that starts at its opening brace.
pub(super) fn read<'t>(
    text: &'t str,
    limits: ReadingLimits<'_>,
    mut repairs: Repairs,
) -> Result<WrittenFeed<'t>, Unreadable> {
    let error = match document(text, limits)? {
        Ok(document) => return feed(document, repairs),
        Err(error) => error,
    };
    // Again without raw control characters, then with the items before the cut only.
    let controls = text.chars().filter(|c| c.is_control()).count();
    let text = text.replace(|c: char| c.is_control(), " ");
    if let Ok(document) = document(&text, limits)? {
        repairs.controls += controls;
        return feed(document, repairs).map(WrittenFeed::into_owned);
    }
    let text = after_last_item(&text).map(|cut| format!("{}]}}", &text[..cut])).unwrap_or_default();
    match document(&text, limits)? {
        Ok(document) => {
            repairs.truncated = true;
            feed(document, repairs).map(WrittenFeed::into_owned)
        }
        Err(_) => Err(Unreadable::NotAFeed(format!("JSON that cannot be read: {error}"))),
    }
}

/// The members of the outermost object that count. Of several with one name, the last does.
#[derive(Debug, Default)]
struct JsonDocument<'t> {
    version: JsonValue<'t>,
    title: JsonValue<'t>,
    items: Option<JsonItems<'t>>,
}

/// The items, which are taken one by one: a value takes much more memory than its text.
#[derive(Debug, Default)]
struct JsonItems<'t> {
    items: Vec<WrittenItem<'t>>,
    repairs: Repairs,
}

/// Parses the first value of a text. Anything after it is ignored.
fn document<'t>(
    text: &'t str,
    limits: ReadingLimits<'_>,
) -> Result<Result<JsonDocument<'t>, serde_json::Error>, Unreadable> {
    let counter = ValueCounter::new(limits);
    let seed = DocumentSeed { limits, counter: &counter };
    let parsed = seed.deserialize(&mut serde_json::Deserializer::from_str(text));
    match counter.refused() {
        Some(refused) => Err(refused),
        None => Ok(parsed),
    }
}

#[derive(Clone, Copy)]
struct DocumentSeed<'s, 'c> {
    limits: ReadingLimits<'c>,
    counter: &'s ValueCounter<'c>,
}

impl<'de> DeserializeSeed<'de> for DocumentSeed<'_, '_> {
    type Value = JsonDocument<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for DocumentSeed<'_, '_> {
    type Value = JsonDocument<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut document = JsonDocument::default();
        while let Some(JsonText(name)) = object.next_key()? {
            match &*name {
                "version" => document.version = object.next_value_seed(ValueSeed(self.counter))?,
                "title" => document.title = object.next_value_seed(ValueSeed(self.counter))?,
                "items" => document.items = object.next_value_seed(ItemsSeed(self))?,
                _ => drop(object.next_value::<IgnoredAny>()?),
            }
        }
        Ok(document)
    }
}

/// Reads the items; `None` if the value is no list.
struct ItemsSeed<'s, 'c>(DocumentSeed<'s, 'c>);

impl<'de> DeserializeSeed<'de> for ItemsSeed<'_, '_> {
    type Value = Option<JsonItems<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ItemsSeed<'_, '_> {
    type Value = Option<JsonItems<'de>>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of items")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut read = JsonItems::default();
        while read.items.len() < self.0.limits.items {
            let Some(value) = list.next_element_seed(ValueSeed(self.0.counter))? else {
                return Ok(Some(read));
            };
            read.items.extend(item(value, &mut read.repairs));
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            read.repairs.left_out += 1;
        }
        Ok(Some(read))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        while object.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(None)
    }
}

fn feed(document: JsonDocument<'_>, mut repairs: Repairs) -> Result<WrittenFeed<'_>, Unreadable> {
    let version = document.version.into_text().unwrap_or_default();
    if !version.contains("jsonfeed.org/version/1") {
        repairs.no_version = true;
    }
    let Some(JsonItems { items, repairs: of_items }) = document.items else {
        return Err(Unreadable::NotAFeed("JSON without `items`, so not a JSON Feed".to_owned()));
    };
    if repairs.no_version && of_items.skipped > 0 {
        return Err(Unreadable::NotAFeed("JSON, but not a JSON Feed".to_owned()));
    }
    repairs.skipped += of_items.skipped;
    repairs.odd_values += of_items.odd_values;
    repairs.left_out += of_items.left_out;
    let title = document.title.into_text().map(|text| WrittenTitle { text, markup: false });
    Ok(WrittenFeed { title, items, repairs, ..WrittenFeed::default() })
}

fn item<'t>(mut value: JsonValue<'t>, repairs: &mut Repairs) -> Option<WrittenItem<'t>> {
    if !matches!(value, JsonValue::Object(_)) {
        repairs.skipped += 1;
        return None;
    }
    let authors = value.take("authors").map(JsonValue::into_list).unwrap_or_default();
    let authors =
        authors.into_iter().chain(value.take("author")).filter_map(author).take(MAX_LABELS).collect();
    let categories = value.take("tags").map(JsonValue::into_list).unwrap_or_default();
    let categories = categories.into_iter().filter_map(JsonValue::into_text).take(MAX_LABELS).collect();
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
        link: link.filter(|link| link.len() <= MAX_ADDRESS),
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
