//! Tables before layout: the text and the emphasis of each cell.
//!
//! A terminal and a page each have their own layout.

/// A table.
#[derive(Debug, Clone, Default)]
pub struct ResultTable {
    /// The names of the columns.
    pub heads: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<TableEntry>>,
}

impl ResultTable {
    /// A table of these columns and rows.
    pub fn new<'h>(heads: impl IntoIterator<Item = &'h str>, rows: Vec<Vec<TableEntry>>) -> Self {
        Self { heads: heads.into_iter().map(str::to_owned).collect(), rows }
    }
}

/// A cell of a table.
#[derive(Debug, Clone)]
pub struct TableEntry {
    /// Its text.
    pub text: String,
    /// Its emphasis.
    pub emphasis: Emphasis,
}

/// The emphasis of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Emphasis {
    /// No emphasis.
    Plain,
    /// Less important.
    Faint,
    /// A good value.
    Good,
    /// A value that needs attention.
    Warn,
    /// A bad value.
    Bad,
    /// More important.
    Strong,
}

/// A plain cell.
pub fn entry(text: impl Into<String>) -> TableEntry {
    TableEntry { text: text.into(), emphasis: Emphasis::Plain }
}

impl TableEntry {
    /// The same with that emphasis.
    pub fn marked(self, emphasis: Emphasis) -> Self {
        Self { emphasis, ..self }
    }
}
