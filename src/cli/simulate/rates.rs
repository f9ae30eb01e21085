//! Rates from a file: a header, then one number per line.
//!
//! Checks each number and reports each bad line. Must not know the use of the rates.

use std::path::Path;

use crate::cli::error::CliError;
use tidewatch_lab::fleet::shapes::LARGEST;

use super::column::{self, ColumnFault};

/// Header line.
const HEADER: &str = "per_step";

/// Reads the rates from a file.
pub fn read(file: &Path) -> Result<Vec<f64>, CliError> {
    column::read(file, parse)
}

/// Parses the rates; returns all faults with their lines.
fn parse(text: &str) -> Result<Vec<f64>, Vec<ColumnFault>> {
    let rates = column::parse(text, HEADER, rate)?;
    if rates.is_empty() {
        return Err(vec![(
            1,
            "no rates follow the header; give one a line, in updates per step".to_owned(),
        )]);
    }
    Ok(rates)
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
