//! A garden from a file: a header, then one plant per line.
//!
//! Checks costs and windows, and reports each bad line. Must not know the use of the garden.

use std::path::Path;

use crate::cli::error::CliError;
use crate::cli::simulate::column::{self, ColumnFault};
use tidewatch_core::engine::garden::{Task, UNIT};
use tidewatch_lab::garden::instance::{Instance, LONGEST_WINDOW};

/// Header without groups.
const HEADER: &str = "cost,window";

/// Header with groups.
const WITH_GROUP: &str = "cost,window,group";

/// Largest cost of a plant.
const DEAREST: f64 = 1e6;

/// Reads the garden from a file.
pub fn read(file: &Path) -> Result<Instance, CliError> {
    Ok(Instance::new(column::read(file, parse)?))
}

fn parse(text: &str) -> Result<Vec<(Task, String)>, Vec<ColumnFault>> {
    let with_group = column::lines(text).next().is_some_and(|(_, first)| first == WITH_GROUP);
    let (header, fields) = if with_group { (WITH_GROUP, 3) } else { (HEADER, 2) };
    let planted = column::parse(text, header, |line| plant(line, fields))?;
    if planted.is_empty() {
        return Err(vec![(1, "no plants follow the header; give one a line".to_owned())]);
    }
    Ok(planted)
}

fn plant(line: &str, fields: usize) -> Result<(Task, String), String> {
    let parts: Vec<&str> = line.splitn(3, ',').map(str::trim).collect();
    let (cost, window, group) = match &parts[..] {
        [cost, window] if fields == 2 => (*cost, *window, ""),
        [cost, window, group] if fields == 3 => (*cost, *window, *group),
        _ => return Err(format!("does not have {fields} fields")),
    };
    let least = 1.0 / UNIT as f64;
    let cost = match cost.parse::<f64>() {
        Ok(cost) if cost >= least && cost <= DEAREST => cost,
        Ok(_) => return Err(format!("has a cost that is not from {least} to {DEAREST}")),
        Err(_) => return Err("has a cost that is not a number".to_owned()),
    };
    let window = match window.parse::<u32>() {
        Ok(window) if (1..=LONGEST_WINDOW).contains(&window) => window,
        _ => {
            return Err(format!(
                "has a window that is not a whole number of days from 1 to {LONGEST_WINDOW}"
            ));
        }
    };
    Ok((Task::new(cost, window), group.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plants_are_read_with_and_without_groups() {
        assert_eq!(parse("cost,window\n1,7\n0.5, 30\n").unwrap()[1], (Task::new(0.5, 30), String::new()));
        let planted = parse("\u{feff}cost,window,group\r\n1,7,news, local\r\n\r\n2,3,\r\n").unwrap();
        assert_eq!(planted[0], (Task::new(1.0, 7), "news, local".to_owned()));
        assert_eq!(planted[1], (Task::new(2.0, 3), String::new()));
    }

    #[test]
    fn every_fault_has_its_line() {
        let text = "cost,window\n1,7\n0,7\nx,7\nNaN,7\n1,0\n1,1.5\n1,-1\n1\n1,7,news\n2e6,1\n";
        let lines: Vec<usize> = parse(text).unwrap_err().iter().map(|fault| fault.0).collect();
        assert_eq!(lines, [3, 4, 5, 6, 7, 8, 9, 10, 11]);
        assert!(parse("").unwrap_err()[0].1.starts_with("the header `cost,window` is expected"));
        assert!(parse("cost,window\n").unwrap_err()[0].1.starts_with("no plants follow"));
    }
}
