//! Takes known keys out of a TOML table and reports the others.
//!
//! Derived deserialisers stop at the first fault, and users need all faults at once. This module knows
//! TOML types and the place of each value. It must not know any key by name.

use std::ops::Range;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Faults, Spot};
use super::spelling;
use super::syntax_gaps::SyntaxGaps;

/// A value and its place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct At<T> {
    /// The value.
    pub value: T,
    /// Its place.
    pub at: Spot,
}

/// A number of bytes, written as a number or as a text with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    /// Bytes.
    Bytes(i64),
    /// Such as `10MB`.
    Text(String),
}

/// A value with a short and a long form.
pub enum Either<'i> {
    /// The short form.
    Text(At<String>),
    /// The long form.
    Table(TomlTable<'i>),
}

struct TomlEntry<'i> {
    key: String,
    key_at: Spot,
    value: Spanned<DeValue<'i>>,
}

/// A table being read. Each key that is read is removed; keys that are left at the end are unknown.
pub struct TomlTable<'i> {
    /// Place of its header, or of the whole inline table.
    pub at: Spot,
    /// Syntax errors of the file.
    pub gaps: Rc<SyntaxGaps>,
    title: String,
    entries: Vec<TomlEntry<'i>>,
    known: Vec<&'static str>,
}

impl<'i> TomlTable<'i> {
    /// A table that messages call `title`.
    pub fn new(
        file: usize,
        span: Range<usize>,
        gaps: Rc<SyntaxGaps>,
        title: impl Into<String>,
        table: DeTable<'i>,
    ) -> Self {
        let spot = |span: Range<usize>| Spot { file, start: span.start, end: span.end };
        let entries = table
            .into_iter()
            .map(|(key, value)| TomlEntry {
                key_at: spot(key.span()),
                key: key.into_inner().into_owned(),
                value,
            })
            .collect();
        Self { at: spot(span), gaps, title: title.into(), entries, known: Vec::new() }
    }

    fn spot(&self, value: &Spanned<DeValue<'i>>) -> Spot {
        let span = value.span();
        Spot { file: self.at.file, start: span.start, end: span.end }
    }

    fn take(&mut self, key: &'static str) -> Option<TomlEntry<'i>> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(index))
    }

    /// Takes a text.
    pub fn text(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<String>> {
        let entry = self.take(key)?;
        self.as_text(key, entry.value, faults)
    }

    /// Takes a required text.
    pub fn needed_text(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<String>> {
        if !self.has(key) {
            self.missing(key, faults);
        }
        self.text(key, faults)
    }

    /// Takes a required number.
    pub fn needed_number(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<f64>> {
        if !self.has(key) {
            self.missing(key, faults);
        }
        self.number(key, faults)
    }

    /// Whether the key is present and not yet taken.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// Whether there is a key other than these.
    pub fn holds_other_than(&self, keys: &[&str]) -> bool {
        self.entries.iter().any(|entry| !keys.contains(&entry.key.as_str()))
    }

    fn missing(&self, key: &str, faults: &mut Faults) {
        // A misspelt key is reported as unknown; that hint names the right key.
        let misspelt = self.entries.iter().any(|entry| spelling::closest(&entry.key, [key]).is_some());
        if !self.gaps.touches(self.at) && !misspelt {
            faults.add_with_hint(
                self.at,
                format!("{} has no `{key}`", self.title),
                format!("add `{key} = …`"),
            );
        }
    }

    fn as_text(&self, key: &str, value: Spanned<DeValue<'i>>, faults: &mut Faults) -> Option<At<String>> {
        let at = self.spot(&value);
        match value.into_inner() {
            DeValue::String(text) => Some(At { value: text.into_owned(), at }),
            other => {
                wrong_type(key, at, &other, "a text in quotes", faults);
                None
            }
        }
    }

    /// Takes one text or a list of texts. The outer place is that of the key.
    pub fn texts(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<Vec<At<String>>>> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        let value = match entry.value.into_inner() {
            DeValue::String(text) => vec![At { value: text.into_owned(), at }],
            DeValue::Array(list) => {
                list.into_iter().filter_map(|item| self.as_text(key, item, faults)).collect()
            }
            other => {
                wrong_type(key, at, &other, "a text in quotes, or a list of texts", faults);
                return None;
            }
        };
        Some(At { value, at: entry.key_at })
    }

    /// Takes a whole number.
    pub fn whole(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<i64>> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        match entry.value.get_ref() {
            DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
                Ok(value) => Some(At { value, at }),
                Err(_) => {
                    faults.add(at, format!("`{key}` is too large a number"));
                    None
                }
            },
            other => {
                wrong_type(key, at, other, "a whole number", faults);
                None
            }
        }
    }

    /// Takes a number, with or without a fraction.
    pub fn number(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<f64>> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        let value = match entry.value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            DeValue::Integer(number) => {
                i64::from_str_radix(number.as_str(), number.radix()).ok().map(|whole| whole as f64)
            }
            other => {
                wrong_type(key, at, other, "a number", faults);
                return None;
            }
        };
        if value.is_none() {
            faults.add(at, format!("`{key}` is too large a number"));
        }
        value.map(|value| At { value, at })
    }

    /// Takes a number of bytes.
    pub fn size(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<Size>> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        match entry.value.into_inner() {
            DeValue::String(text) => Some(At { value: Size::Text(text.into_owned()), at }),
            DeValue::Integer(number) => {
                let bytes = i64::from_str_radix(number.as_str(), number.radix()).unwrap_or(i64::MAX);
                Some(At { value: Size::Bytes(bytes), at })
            }
            other => {
                wrong_type(key, at, &other, "a size such as \"10MB\" or a whole number of bytes", faults);
                None
            }
        }
    }

    /// Takes `true` or `false`.
    pub fn flag(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<bool>> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        match entry.value.get_ref() {
            DeValue::Boolean(value) => Some(At { value: *value, at }),
            other => {
                wrong_type(key, at, other, "true or false", faults);
                None
            }
        }
    }

    /// Takes a table; messages call it `title`.
    pub fn table(&mut self, key: &'static str, title: &str, faults: &mut Faults) -> Option<TomlTable<'i>> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        self.as_table(key, at, title, entry.value, faults)
    }

    /// Takes a value of any type, with its place.
    pub fn value(&mut self, key: &'static str) -> Option<(Spot, DeValue<'i>)> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        Some((at, entry.value.into_inner()))
    }

    /// Takes a text or a table; messages call the table `title`.
    pub fn text_or_table(
        &mut self,
        key: &'static str,
        title: &str,
        faults: &mut Faults,
    ) -> Option<Either<'i>> {
        let (at, value) = self.value(key)?;
        match value {
            DeValue::String(text) => Some(Either::Text(At { value: text.into_owned(), at })),
            DeValue::Table(table) => Some(Either::Table(self.inner(at, title, table))),
            other => {
                wrong_type(key, at, &other, "a text in quotes, or a table", faults);
                None
            }
        }
    }

    /// A table inside this one.
    pub fn inner(&self, at: Spot, title: impl Into<String>, table: DeTable<'i>) -> TomlTable<'i> {
        TomlTable::new(at.file, at.start..at.end, Rc::clone(&self.gaps), title, table)
    }

    fn as_table(
        &self,
        key: &str,
        at: Spot,
        title: &str,
        value: Spanned<DeValue<'i>>,
        faults: &mut Faults,
    ) -> Option<TomlTable<'i>> {
        match value.into_inner() {
            DeValue::Table(table) => Some(self.inner(at, title, table)),
            other => {
                wrong_type(key, at, &other, "a table", faults);
                None
            }
        }
    }

    /// Takes a list of tables, written as `[[key]]` or as a list; messages call each `title`.
    pub fn tables(&mut self, key: &'static str, title: &str, faults: &mut Faults) -> Vec<TomlTable<'i>> {
        let Some(entry) = self.take(key) else { return Vec::new() };
        let at = self.spot(&entry.value);
        match entry.value.into_inner() {
            DeValue::Array(list) => list
                .into_iter()
                .filter_map(|item| {
                    let at = self.spot(&item);
                    self.as_table(key, at, title, item, faults)
                })
                .collect(),
            DeValue::Table(table) => {
                faults.add_with_hint(
                    at,
                    format!("`{key}` is a list, and this is a single table"),
                    format!("write `[[{key}]]`, with two brackets on each side"),
                );
                vec![self.inner(at, title, table)]
            }
            other => {
                wrong_type(key, at, &other, &format!("tables that each start with `[[{key}]]`"), faults);
                Vec::new()
            }
        }
    }

    /// Takes all remaining tables; their keys are names that users choose.
    pub fn take_tables(
        &mut self,
        title: impl Fn(&str) -> String,
        faults: &mut Faults,
    ) -> Vec<(At<String>, TomlTable<'i>)> {
        std::mem::take(&mut self.entries)
            .into_iter()
            .filter_map(|entry| {
                let at = self.spot(&entry.value);
                let table = self.as_table(&entry.key, at, &title(&entry.key), entry.value, faults)?;
                Some((At { value: entry.key, at: entry.key_at }, table))
            })
            .collect()
    }

    /// Takes all remaining values with their keys, in file order.
    pub fn take_values(&mut self) -> Vec<(At<String>, Spot, DeValue<'i>)> {
        let mut values: Vec<_> = std::mem::take(&mut self.entries)
            .into_iter()
            .map(|entry| {
                let at = self.spot(&entry.value);
                (At { value: entry.key, at: entry.key_at }, at, entry.value.into_inner())
            })
            .collect();
        values.sort_by_key(|(key, ..)| key.at);
        values
    }

    /// Reports every remaining key: with the message that `why` returns, or as unknown.
    pub fn refuse_rest(self, faults: &mut Faults, why: impl Fn(&str) -> Option<(String, String)>) {
        for entry in self.entries {
            if let Some((message, hint)) = why(&entry.key) {
                faults.add_with_hint(entry.key_at, message, hint);
                continue;
            }
            let hint = match spelling::closest(&entry.key, self.known.iter().copied()) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => {
                    let mut known = self.known.clone();
                    known.sort_unstable();
                    format!("expected one of {}", known.join(", "))
                }
            };
            faults.add_with_hint(
                entry.key_at,
                format!("unknown key `{}` in {}", entry.key, self.title),
                hint,
            );
        }
    }

    /// Reports every remaining key as unknown.
    pub fn finish(self, faults: &mut Faults) {
        self.refuse_rest(faults, |_| None);
    }
}

/// Reports a value of the wrong type.
pub fn wrong_type(key: &str, at: Spot, found: &DeValue<'_>, expected: &str, faults: &mut Faults) {
    let found = match found {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) => "a whole number",
        DeValue::Float(_) => "a number with a fraction",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date or time",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    };
    faults.add_with_hint(at, format!("`{key}` can't be {found}"), format!("expected {expected}"));
}
