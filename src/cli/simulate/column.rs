//! Files with a header and one value per line.
//!
//! Knows lines, and reports each bad one with its number. Must not know the meaning of the values.

use std::path::Path;

use crate::cli::error::CliError;
use crate::cli::files::read_input;
use tidewatch_lab::words::cut;

/// Largest number of faults to show; the rest is only counted.
const MOST_SHOWN: usize = 20;

/// Line number and message.
pub type ColumnFault = (usize, String);

/// Reads a file with the given parser.
pub fn read<T>(file: &Path, parse: impl Fn(&str) -> Result<T, Vec<ColumnFault>>) -> Result<T, CliError> {
    let bytes = read_input(file)?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|faults| {
        let more = faults.len().saturating_sub(MOST_SHOWN);
        let line = |(line, what): &ColumnFault| format!("{}:{line}: {what}", file.display());
        let mut lines: Vec<String> = faults.iter().take(MOST_SHOWN).map(line).collect();
        if more > 0 {
            lines.push(format!("and {more} more"));
        }
        CliError::Refused(lines.join("\n"))
    })
}

/// The lines of a text, numbered and trimmed.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.trim_start_matches('\u{feff}').lines()).map(|(at, line)| (at, line.trim()))
}

/// Parses the values below the header; empty lines are skipped. Returns all faults with their lines.
pub fn parse<T>(
    text: &str,
    header: &str,
    value: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Vec<ColumnFault>> {
    let mut lines = lines(text);
    let first = lines.next().map_or("nothing", |(_, line)| line);
    if first != header {
        return Err(vec![(1, format!("the header `{header}` is expected, not `{}`", cut(first, 40)))]);
    }
    let (mut values, mut faults) = (Vec::new(), Vec::new());
    for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
        match value(line) {
            Ok(value) => values.push(value),
            Err(why) => faults.push((at, format!("`{}` {why}", cut(line, 40)))),
        }
    }
    if faults.is_empty() { Ok(values) } else { Err(faults) }
}
