//! Prints tables of the lab at a terminal.

use std::io::{self, Write};

use tidewatch_lab::tables::{Emphasis, ResultTable, TableEntry};

use super::table::{self, TableCell, Tone, cell};

/// Prints a table.
pub fn print(table: &ResultTable, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let heads: Vec<&str> = table.heads.iter().map(String::as_str).collect();
    let rows: Vec<Vec<TableCell>> = table.rows.iter().map(|row| row.iter().map(shown).collect()).collect();
    table::print(out, &heads, &rows, colours)
}

fn shown(entry: &TableEntry) -> TableCell {
    cell(entry.text.as_str()).tone(match entry.emphasis {
        Emphasis::Plain => Tone::Plain,
        Emphasis::Faint => Tone::Faint,
        Emphasis::Good => Tone::Good,
        Emphasis::Warn => Tone::Warn,
        Emphasis::Bad => Tone::Bad,
        Emphasis::Strong => Tone::Head,
    })
}
