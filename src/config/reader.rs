//! Takes known keys out of a TOML table and complains about the rest.
//!
//! Exists because derived deserialisers stop at the first fault, and a user wants to see them all.
//! Knows TOML's types and where each value stands. Must not know any key by name.

use std::ops::Range;
use std::rc::Rc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::{Faults, Spot};
use super::spelling;
use super::torn::Torn;

/// A value and where it was written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct At<T> {
    /// What.
    pub value: T,
    /// Where.
    pub at: Spot,
}

/// A number of bytes may be written as a number or as a text with a unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Size {
    /// Bytes.
    Bytes(i64),
    /// Such as `10MB`.
    Text(String),
}

/// What may be written in two ways.
pub enum Either<'i> {
    /// In a word.
    Text(At<String>),
    /// In detail.
    Table(Table<'i>),
}

struct Entry<'i> {
    key: String,
    key_at: Spot,
    value: Spanned<DeValue<'i>>,
}

/// A table that is being read: what was asked for is gone from it, what is left at the end is
/// unknown.
pub struct Table<'i> {
    /// Where its header (or, for an inline table, all of it) stands.
    pub at: Spot,
    /// Where the file has syntax errors.
    pub torn: Rc<Torn>,
    title: String,
    entries: Vec<Entry<'i>>,
    known: Vec<&'static str>,
}

impl<'i> Table<'i> {
    /// A table called `title` in messages.
    pub fn new(
        file: usize,
        span: Range<usize>,
        torn: Rc<Torn>,
        title: impl Into<String>,
        table: DeTable<'i>,
    ) -> Self {
        let spot = |span: Range<usize>| Spot { file, start: span.start, end: span.end };
        let entries = table
            .into_iter()
            .map(|(key, value)| Entry {
                key_at: spot(key.span()),
                key: key.into_inner().into_owned(),
                value,
            })
            .collect();
        Self { at: spot(span), torn, title: title.into(), entries, known: Vec::new() }
    }

    fn spot(&self, value: &Spanned<DeValue<'i>>) -> Spot {
        let span = value.span();
        Spot { file: self.at.file, start: span.start, end: span.end }
    }

    fn take(&mut self, key: &'static str) -> Option<Entry<'i>> {
        self.known.push(key);
        let index = self.entries.iter().position(|entry| entry.key == key)?;
        Some(self.entries.swap_remove(index))
    }

    /// Takes a text.
    pub fn text(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<String>> {
        let entry = self.take(key)?;
        self.as_text(key, entry.value, faults)
    }

    /// Takes a text that must be there.
    pub fn needed_text(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<String>> {
        if !self.has(key) {
            self.missing(key, faults);
        }
        self.text(key, faults)
    }

    /// Takes a number that must be there.
    pub fn needed_number(&mut self, key: &'static str, faults: &mut Faults) -> Option<At<f64>> {
        if !self.has(key) {
            self.missing(key, faults);
        }
        self.number(key, faults)
    }

    /// The key is there and was not yet taken.
    pub fn has(&self, key: &str) -> bool {
        self.entries.iter().any(|entry| entry.key == key)
    }

    /// There is a key that is none of these.
    pub fn holds_other_than(&self, keys: &[&str]) -> bool {
        self.entries.iter().any(|entry| !keys.contains(&entry.key.as_str()))
    }

    fn missing(&self, key: &str, faults: &mut Faults) {
        // A misspelt key is reported as unknown, and the hint there names this one.
        let misspelt = self.entries.iter().any(|entry| spelling::closest(&entry.key, [key]).is_some());
        if !self.torn.touches(self.at) && !misspelt {
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

    /// Takes one text or a list of texts. Also says where the key stands.
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

    /// Takes a number, whole or not.
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

    /// Takes a table, to be called `title`.
    pub fn table(&mut self, key: &'static str, title: &str, faults: &mut Faults) -> Option<Table<'i>> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        self.as_table(key, at, title, entry.value, faults)
    }

    /// Takes any value, and where it stands.
    pub fn value(&mut self, key: &'static str) -> Option<(Spot, DeValue<'i>)> {
        let entry = self.take(key)?;
        let at = self.spot(&entry.value);
        Some((at, entry.value.into_inner()))
    }

    /// Takes a text or a table, to be called `title`.
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

    /// A table that stands in this one.
    pub fn inner(&self, at: Spot, title: impl Into<String>, table: DeTable<'i>) -> Table<'i> {
        Table::new(at.file, at.start..at.end, Rc::clone(&self.torn), title, table)
    }

    fn as_table(
        &self,
        key: &str,
        at: Spot,
        title: &str,
        value: Spanned<DeValue<'i>>,
        faults: &mut Faults,
    ) -> Option<Table<'i>> {
        match value.into_inner() {
            DeValue::Table(table) => Some(self.inner(at, title, table)),
            other => {
                wrong_type(key, at, &other, "a table", faults);
                None
            }
        }
    }

    /// Takes a list of tables, written `[[key]]` or as a list, each to be called `title`.
    pub fn tables(&mut self, key: &'static str, title: &str, faults: &mut Faults) -> Vec<Table<'i>> {
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

    /// Takes what is left, whatever its keys: for tables whose keys are names.
    pub fn take_tables(
        &mut self,
        title: impl Fn(&str) -> String,
        faults: &mut Faults,
    ) -> Vec<(At<String>, Table<'i>)> {
        std::mem::take(&mut self.entries)
            .into_iter()
            .filter_map(|entry| {
                let at = self.spot(&entry.value);
                let table = self.as_table(&entry.key, at, &title(&entry.key), entry.value, faults)?;
                Some((At { value: entry.key, at: entry.key_at }, table))
            })
            .collect()
    }

    /// Takes what is left as raw values by name, in the order of the file.
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

    /// Every key that is left is a fault with the message that `why` gives for it.
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

    /// Every key that is left is unknown.
    pub fn finish(self, faults: &mut Faults) {
        self.refuse_rest(faults, |_| None);
    }
}

/// Notes that a value is of another type than expected.
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
