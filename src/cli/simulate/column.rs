//! Files of one column: a header, and a value a line.
//!
//! Knows lines, and says of every one that is wrong where it is. Must not know what the values mean.

use std::path::Path;

use crate::cli::error::CliError;
use crate::cli::files::read_input;
use tidewatch_lab::words::cut;

/// More faults than this are only counted.
const MOST_SHOWN: usize = 20;

/// What is wrong in which line.
pub type Fault = (usize, String);

/// The values in a file, by a parser of its text.
pub fn read<T>(file: &Path, parse: impl Fn(&str) -> Result<T, Vec<Fault>>) -> Result<T, CliError> {
    let bytes = read_input(file)?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|faults| {
        let more = faults.len().saturating_sub(MOST_SHOWN);
        let line = |(line, what): &Fault| format!("{}:{line}: {what}", file.display());
        let mut said: Vec<String> = faults.iter().take(MOST_SHOWN).map(line).collect();
        if more > 0 {
            said.push(format!("and {more} more"));
        }
        CliError::Refused(said.join("\n"))
    })
}

/// The lines of a text with their numbers, without the white space around them.
pub fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.trim_start_matches('\u{feff}').lines()).map(|(at, line)| (at, line.trim()))
}

/// The values under this header, or what is wrong in which line. Empty lines are none.
pub fn parse<T>(
    text: &str,
    header: &str,
    value: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Vec<Fault>> {
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
