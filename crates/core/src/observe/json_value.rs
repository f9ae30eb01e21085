//! JSON values that borrow their texts from the document.
//!
//! The JSON library's own value copies every text and sorts every object. The parser limits the depth (128), this
//! module the number of values. Must not know JSON Feed.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::Unreadable;
use super::limits::{MAX_ELEMENTS, ReadingLimits};

/// Counts the values of a document, and ends the reading at a limit.
#[derive(Debug)]
pub(super) struct ValueCounter<'c> {
    limits: ReadingLimits<'c>,
    values: Cell<usize>,
    refused: RefCell<Option<Unreadable>>,
}

impl<'c> ValueCounter<'c> {
    pub(super) fn new(limits: ReadingLimits<'c>) -> Self {
        Self { limits, values: Cell::new(0), refused: RefCell::new(None) }
    }

    /// Counts one value.
    fn count<E: de::Error>(&self) -> Result<(), E> {
        let values = self.values.get() + 1;
        self.values.set(values);
        let refused = if values > MAX_ELEMENTS {
            Unreadable::TooComplex(format!("more than {MAX_ELEMENTS} values"))
        } else if self.limits.end_at(values) {
            Unreadable::too_slow()
        } else {
            return Ok(());
        };
        let error = E::custom(&refused);
        *self.refused.borrow_mut() = Some(refused);
        Err(error)
    }

    /// Why the reading ended, if a limit did.
    pub(super) fn refused(self) -> Option<Unreadable> {
        self.refused.into_inner()
    }
}

/// One value.
#[derive(Debug, Default)]
pub(super) enum JsonValue<'t> {
    #[default]
    Null,
    Bool,
    Number(Number),
    Text(Cow<'t, str>),
    List(Vec<JsonValue<'t>>),
    Object(Vec<(JsonText<'t>, JsonValue<'t>)>),
}

/// A text that is borrowed unless it has escapes.
#[derive(Debug)]
pub(super) struct JsonText<'t>(pub(super) Cow<'t, str>);

impl<'t> JsonValue<'t> {
    /// Takes a member out of an object. Of several with one name, the last counts.
    pub(super) fn take(&mut self, name: &str) -> Option<Self> {
        let Self::Object(members) = self else { return None };
        let member = members.iter_mut().rfind(|(key, _)| key.0 == name);
        member.map(|(_, value)| std::mem::take(value))
    }

    /// The text, if it is one.
    pub(super) fn into_text(self) -> Option<Cow<'t, str>> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The values of a list; none if it is none.
    pub(super) fn into_list(self) -> Vec<Self> {
        match self {
            Self::List(values) => values,
            _ => Vec::new(),
        }
    }
}

/// Reads one value.
#[derive(Debug, Clone, Copy)]
pub(super) struct ValueSeed<'s, 'c>(pub(super) &'s ValueCounter<'c>);

impl<'de> DeserializeSeed<'de> for ValueSeed<'_, '_> {
    type Value = JsonValue<'de>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        self.0.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ValueSeed<'_, '_> {
    type Value = JsonValue<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(JsonValue::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(JsonValue::Bool)
    }

    fn visit_i64<E>(self, number: i64) -> Result<Self::Value, E> {
        Ok(JsonValue::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Self::Value, E> {
        Ok(JsonValue::Number(number.into()))
    }

    fn visit_f64<E>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Number::from_f64(number).map_or(JsonValue::Null, JsonValue::Number))
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(JsonValue::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(JsonValue::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(self)? {
            values.push(value);
        }
        Ok(JsonValue::List(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some(name) = object.next_key()? {
            members.push((name, object.next_value_seed(self)?));
        }
        Ok(JsonValue::Object(members))
    }
}

impl<'de> Deserialize<'de> for JsonText<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = JsonText<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a text")
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(JsonText(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(JsonText(Cow::Owned(text.to_owned())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_member_of_a_name_counts_and_texts_are_decoded() {
        let parse = |text| {
            let counter = ValueCounter::new(ReadingLimits::USUAL);
            ValueSeed(&counter).deserialize(&mut serde_json::Deserializer::from_str(text))
        };
        let mut value = parse(r#"{"a":1,"b":"x\ny","a":["z",null,true,-1.5]} rest"#).unwrap();
        assert!(matches!(value.take("b"), Some(JsonValue::Text(text)) if text == "x\ny"));
        let list = value.take("a").unwrap().into_list();
        assert!(matches!(&list[..], [
            JsonValue::Text(Cow::Borrowed("z")),
            JsonValue::Null,
            JsonValue::Bool,
            JsonValue::Number(number),
        ] if number.to_string() == "-1.5"));
        assert!(value.take("c").is_none() && parse("{").is_err());
        let deep = "[".repeat(129);
        let counter = ValueCounter::new(ReadingLimits::USUAL);
        let deep = ValueSeed(&counter).deserialize(&mut serde_json::Deserializer::from_str(&deep));
        assert!(deep.is_err() && counter.refused().is_none());
    }
}
