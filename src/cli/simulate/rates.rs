//! Rates from a file: a header, and a number a line.
//!
//! Knows lines and numbers, and says of every one that is wrong where it is. Must not know what rates are
//! for.

use std::path::Path;

use crate::cli::table::cut;
use crate::cli::{CliError, read_input};
use crate::sim::fleet::shapes::LARGEST;

/// What the first line says.
const HEADER: &str = "per_step";

/// More faults than this are only counted.
const MOST_SHOWN: usize = 20;

/// The rates in a file.
pub fn read(file: &Path) -> Result<Vec<f64>, CliError> {
    let bytes = read_input(file)?;
    parse(&String::from_utf8_lossy(&bytes)).map_err(|faults| {
        let more = faults.len().saturating_sub(MOST_SHOWN);
        let line = |(line, what): &(usize, String)| format!("{}:{line}: {what}", file.display());
        let mut said: Vec<String> = faults.iter().take(MOST_SHOWN).map(line).collect();
        if more > 0 {
            said.push(format!("and {more} more"));
        }
        CliError::Refused(said.join("\n"))
    })
}

/// The rates, or what is wrong in which line.
fn parse(text: &str) -> Result<Vec<f64>, Vec<(usize, String)>> {
    let mut lines =
        (1..).zip(text.trim_start_matches('\u{feff}').lines()).map(|(at, line)| (at, line.trim()));
    match lines.next() {
        Some((_, HEADER)) => {}
        found => {
            let found = found.map_or("nothing", |(_, line)| line);
            return Err(vec![(1, format!("the header `{HEADER}` is expected, not `{}`", cut(found, 40)))]);
        }
    }
    let (mut rates, mut faults) = (Vec::new(), Vec::new());
    for (at, line) in lines.filter(|(_, line)| !line.is_empty()) {
        match rate(line) {
            Ok(rate) => rates.push(rate),
            Err(why) => faults.push((at, format!("`{}` {why}", cut(line, 40)))),
        }
    }
    if rates.is_empty() && faults.is_empty() {
        faults.push((1, "no rates follow the header; give one a line, in updates per step".to_owned()));
    }
    if faults.is_empty() { Ok(rates) } else { Err(faults) }
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Err(_) => Err("is not a number".to_owned()),
        Ok(rate) if !rate.is_finite() => Err("is not a finite number".to_owned()),
        Ok(rate) if rate < 0.0 => Err("is negative, and a rate is zero or more".to_owned()),
        Ok(rate) if rate > LARGEST => Err(format!("is more than {LARGEST} updates per step")),
        Ok(rate) => Ok(rate.abs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_however_lines_end() {
        assert_eq!(parse("per_step\n0.5\n1e-3\n0\n-0\n").unwrap(), [0.5, 0.001, 0.0, 0.0]);
        assert_eq!(parse("\u{feff}per_step\r\n 0.5 \r\n\r\n2").unwrap(), [0.5, 2.0]);
    }

    #[test]
    fn every_fault_has_its_line() {
        let faults = parse("per_step\n1\nx\n\n-2\nNaN\ninf\n1e400\n1,2\n2e9\n").unwrap_err();
        let lines: Vec<usize> = faults.iter().map(|fault| fault.0).collect();
        assert_eq!(lines, [3, 5, 6, 7, 8, 9, 10]);
        assert_eq!(faults[0].1, "`x` is not a number");
        assert_eq!(faults[1].1, "`-2` is negative, and a rate is zero or more");
        for text in ["", "0.5\n", "Per_step\n1\n", "per_step,weight\n1,1\n"] {
            let faults = parse(text).unwrap_err();
            assert!(faults[0].1.starts_with("the header `per_step` is expected"), "{text}: {faults:?}");
        }
        assert!(parse("per_step\n\n").unwrap_err()[0].1.starts_with("no rates follow"));
    }
}
