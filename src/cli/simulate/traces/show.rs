//! Results of comparisons at a terminal.

use std::io::{self, Write};

use crate::cli::lab_table::print;
use tidewatch_lab::contest::question::ContestQuestion;
use tidewatch_lab::contest::results::Results;
use tidewatch_lab::contest::tables::{
    BY_RULE, CALIBRATION, by_kind, calibration, contest_rules, extremes, kinds, policies, spent, summary,
};

/// Prints all comparisons.
pub fn show(
    question: &ContestQuestion,
    all: &[Results],
    colours: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "{}  {}", question.title, summary(question))?;
    for results in all {
        writeln!(out, "\n{}:", spent(question, results))?;
        print(&policies(results), colours, out)?;
        if question.rules.profiles.is_some() {
            writeln!(out, "\n{BY_RULE}:")?;
            print(&contest_rules(results), colours, out)?;
        }
        if let Some(table) = calibration(results) {
            writeln!(out, "\n{CALIBRATION}:")?;
            print(&table, colours, out)?;
        }
        if results.kinds.len() > 1 {
            writeln!(out, "\n{}:", by_kind(results))?;
            print(&kinds(results), colours, out)?;
        }
        for (title, table) in results.extremes.iter().flat_map(extremes) {
            writeln!(out, "\n{title}:")?;
            print(&table, colours, out)?;
        }
    }
    Ok(())
}
