//! A slice of the cube as a table.
//!
//! Must not know how it was cut.

use std::io::{self, Write};

use crate::cli::table::{Cell, cell, cut, print};
use crate::cli::words::number;
use tidewatch_lab::garden::slice::{Mark, Slice, SliceRow};

/// A slice for people.
pub fn table(slice: &Slice, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let by: Vec<&str> = slice.by.iter().map(|dim| dim.name()).collect();
    let held: Vec<String> =
        slice.held.iter().map(|(dim, mark)| format!("{} is {}", dim.name(), said(mark))).collect();
    let held = if held.is_empty() { String::new() } else { format!(", where {}", held.join(" and ")) };
    writeln!(out, "by {}{held}", by.join(" and "))?;
    writeln!(out)?;
    let heads =
        [&by[..], &["days late", "workload", "probes", "missed", "late a plant and day", "work a day"]]
            .concat();
    let row = |row: &SliceRow| -> Vec<Cell> {
        let marks = row.marks.iter().map(|mark| cell(said(mark)));
        let measures = [
            row.tardiness.to_string(),
            format!("{:.2}", row.workload),
            row.probes.to_string(),
            row.missed.to_string(),
            number(row.mean_tardiness()),
            number(row.mean_workload()),
        ];
        marks.chain(measures.map(cell)).collect()
    };
    print(out, &heads, &slice.rows.iter().map(row).collect::<Vec<_>>(), colours)
}

fn said(mark: &Mark) -> String {
    match mark {
        Mark::Capacity(capacity) => capacity.to_string(),
        Mark::Day(day) => day.to_string(),
        Mark::Name(name) if name.is_empty() => "–".to_owned(),
        Mark::Name(name) => cut(name, 40),
    }
}
