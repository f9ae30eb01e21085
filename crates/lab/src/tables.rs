//! Tables before they are laid out: what stands in which cell, and what it should draw attention to.
//!
//! A terminal and a page each lay them out in their own way.

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// The names of the columns.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<Entry>>,
}

impl Table {
    /// A table of these columns and rows.
    pub fn new<'h>(heads: impl IntoIterator<Item = &'h str>, rows: Vec<Vec<Entry>>) -> Self {
        Self { heads: heads.into_iter().map(str::to_owned).collect(), rows }
    }
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What it says.
    pub text: String,
    /// How it differs from the others.
    pub emphasis: Emphasis,
}

/// How a cell differs from the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// Not at all.
    Plain,
    /// It matters less.
    Faint,
    /// It is good.
    Good,
    /// It should be looked at.
    Warn,
    /// It is bad.
    Bad,
    /// It matters more.
    Strong,
}

/// A plain cell.
pub fn entry(text: impl Into<String>) -> Entry {
    Entry { text: text.into(), emphasis: Emphasis::Plain }
}

impl Entry {
    /// The same with that emphasis.
    pub fn marked(self, emphasis: Emphasis) -> Self {
        Self { emphasis, ..self }
    }
}
