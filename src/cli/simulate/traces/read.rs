//! Reads traces from a folder, and the kinds of sources from a list.
//!
//! Knows files, lines and names, and reports each bad line. Must not know the use of traces.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::cli::error::CliError;
use crate::cli::simulate::column::{self, ColumnFault};
use tidewatch_core::time::Timestamp;
use tidewatch_lab::trace::{HEADER, Trace};
use tidewatch_lab::words::cut;

/// Name of a file in the folder that describes the traces.
const INDEX: &str = "index";

/// Kind of all sources without a list.
const ONE_KIND: &str = "all";

/// Kind of sources that are missing in the list.
const NO_KIND: &str = "other";

/// Last second of the year 9999, the end of the calendar.
const LAST_SECOND: i64 = 253_402_300_799;

/// Kind of each named source.
pub type Kinds = BTreeMap<String, String>;

/// Reads the traces of a folder, by name.
pub fn traces(folder: &Path, kinds: Option<&Kinds>) -> Result<Vec<Trace>, CliError> {
    let refused = |what: String| CliError::Refused(format!("{}: {what}", folder.display()));
    let entries = std::fs::read_dir(folder).map_err(|error| refused(error.to_string()))?;
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| refused(error.to_string()))?.path();
        if path.extension().is_some_and(|extension| extension == "csv") && path.is_file() {
            files.push(path);
        }
    }
    files.sort_unstable();
    let mut traces = Vec::with_capacity(files.len());
    for file in &files {
        let stem = file.file_stem().and_then(|stem| stem.to_str());
        let name = stem.ok_or_else(|| refused(format!("the name {:?} is not UTF-8", file.file_name())))?;
        if name == INDEX {
            continue;
        }
        if name.chars().any(char::is_control) {
            return Err(refused(format!("the name {name:?} holds a control character")));
        }
        let kind = kinds.map_or(ONE_KIND, |kinds| kinds.get(name).map_or(NO_KIND, String::as_str));
        let mut events = column::read(file, events)?;
        events.sort_unstable();
        traces.push(Trace::new(name, kind, events));
    }
    if traces.is_empty() {
        return Err(refused(format!("no traces; one is a file NAME.csv with the header `{HEADER}`")));
    }
    Ok(traces)
}

fn events(text: &str) -> Result<Vec<Timestamp>, Vec<ColumnFault>> {
    column::parse(text, HEADER, |line| match line.parse() {
        Ok(secs @ 0..=LAST_SECOND) => Ok(Timestamp::from_secs(secs)),
        Ok(secs) if secs < 0 => Err("is before 1970".to_owned()),
        Ok(_) => Err("is after the year 9999; times are in seconds, not in milliseconds".to_owned()),
        Err(_) => Err("is not a whole number of seconds".to_owned()),
    })
}

/// Reads the kinds from a file; the columns `name` and `kind` may be anywhere.
pub fn kinds(file: &Path) -> Result<Kinds, CliError> {
    column::read(file, parse_kinds)
}

fn parse_kinds(text: &str) -> Result<Kinds, Vec<ColumnFault>> {
    let mut lines = column::lines(text);
    let header = fields(lines.next().map_or("", |(_, line)| line));
    let place = |name: &str| {
        let missing = || vec![(1, format!("a column `{name}` is expected, beside `name` and `kind` any"))];
        header.iter().position(|field| field == name).ok_or_else(missing)
    };
    let (name_at, kind_at) = (place("name")?, place("kind")?);
    let (mut kinds, mut faults) = (Kinds::new(), Vec::new());
    for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
        let row = fields(line);
        match (row.get(name_at), row.get(kind_at)) {
            (Some(name), Some(kind)) if !kind.is_empty() => {
                match kinds.insert(name.clone(), kind.clone()) {
                    Some(before) if before != *kind => {
                        faults.push((
                            at,
                            format!("`{}` is of the kind `{}` already", cut(name, 40), cut(&before, 40)),
                        ));
                    }
                    _ => {}
                }
            }
            _ => faults.push((at, format!("`{}` has no kind", cut(line, 40)))),
        }
    }
    if faults.is_empty() { Ok(kinds) } else { Err(faults) }
}

/// Splits a CSV line at commas outside double quotes; a doubled quote inside them is a quote.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '"' if quoted && signs.next_if_eq(&'"').is_some() => append(&mut fields, '"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            sign => append(&mut fields, sign),
        }
    }
    fields.iter().map(|field| field.trim().to_owned()).collect()
}

fn append(fields: &mut [String], sign: char) {
    if let Some(last) = fields.last_mut() {
        last.push(sign);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_whole_seconds() {
        let found = events("unix_time\r\n1794787200\n\n 1794787260 \n1794787200\n").unwrap();
        let secs: Vec<i64> = found.iter().map(|at| at.as_millis() / 1000).collect();
        assert_eq!(secs, [1_794_787_200, 1_794_787_260, 1_794_787_200]);
        assert_eq!(events("unix_time\n").unwrap(), []);
        let faults = events("unix_time\nnoon\n5\n1.5\n-1\n1794787200000\n1,2\n").unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.0).collect::<Vec<_>>(), [2, 4, 5, 6, 7]);
        assert_eq!(faults[1].1, "`1.5` is not a whole number of seconds");
        assert!(events("time\n1\n").unwrap_err()[0].1.starts_with("the header `unix_time`"));
    }

    #[test]
    fn kinds_are_found_by_the_names_of_columns() {
        let kinds = parse_kinds("origin,name,kind\n\"a, b\",\"x \"\"1\"\"\",news\n,y, cron \n\n").unwrap();
        let list: Vec<(&str, &str)> = kinds.iter().map(|(a, b)| (a.as_str(), b.as_str())).collect();
        assert_eq!(list, [("x \"1\"", "news"), ("y", "cron")]);
        assert!(parse_kinds("name,sort\n").unwrap_err()[0].1.contains("`kind`"));
        assert!(parse_kinds("").unwrap_err()[0].1.contains("`name`"));
        let faults = parse_kinds("name,kind\na,b\na,c\nd\ne,\na,b\n").unwrap_err();
        assert_eq!(faults.iter().map(|fault| fault.0).collect::<Vec<_>>(), [3, 4, 5, 6]);
    }
}
