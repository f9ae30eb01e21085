//! The plan at a terminal: one row per day, one column per half hour, the rate as shades, probes as
//! signs.
//!
//! Knows characters and colours. Must not know how the plan was found.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::cli::shades::{shade, shades, swatch};
use tidewatch_core::model::obsolescence::hours;
use tidewatch_core::time::Span;
use tidewatch_lab::plans::days::{PlannedDay, days, minute_of_day};
use tidewatch_lab::plans::problem::Problem;

const COLUMNS: i64 = 48;
const MINUTES: i64 = 24 * 60 / COLUMNS;
/// Largest number of rows.
const MOST: usize = 35;

/// Draws the plan.
pub fn strip(problem: &Problem, times: &[Span], colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let all = days(&problem.zone, problem.start, problem.end(), MOST + 1);
    let shown = &all[..all.len().min(MOST)];
    let probes = probes(problem, times);
    let peak = problem.horizon.cost.cells().iter().map(|cell| cell.rate).fold(0.0, f64::max);
    let ruler: String = (0..24).step_by(3).map(|hour| format!("{hour:02}    ")).collect();
    writeln!(out, "            {}", ruler.trim_end())?;
    for day in shown {
        write!(out, "{} │", day.date.strftime("%a %d %b"))?;
        for column in 0..COLUMNS {
            write!(out, "{}", cell(problem, day, column, &probes, peak, colours))?;
        }
        writeln!(out, "│")?;
    }
    if all.len() > shown.len() {
        writeln!(out, "and so on until {}; --svg FILE draws it all", problem.end().iso_in(&problem.zone))?;
    }
    writeln!(out, "an hour:{}", shades(peak, " ", colours))?;
    let closed = if problem.horizon.closed.is_empty() { "" } else { ", - closed" };
    writeln!(out, "● probe, 2-9 and + several in half an hour{closed}")
}

/// Number of probes by date and column. A probe at the very end counts in the last column of the plan.
fn probes(problem: &Problem, times: &[Span]) -> HashMap<(jiff::civil::Date, i64), usize> {
    let mut found = HashMap::new();
    for &at in times {
        let at = problem.start + at.min(problem.horizon.length() - Span::from_millis(1));
        let Ok(instant) = jiff::Timestamp::from_millisecond(at.as_millis()) else { continue };
        let date = instant.to_zoned(problem.zone.clone()).date();
        *found.entry((date, minute_of_day(&problem.zone, at) / MINUTES)).or_default() += 1;
    }
    found
}

fn cell(
    problem: &Problem,
    day: &PlannedDay,
    column: i64,
    probes: &HashMap<(jiff::civil::Date, i64), usize>,
    peak: f64,
    colours: bool,
) -> String {
    let length = problem.horizon.length();
    let from = day.at(column * MINUTES, &problem.zone) - problem.start;
    let (begins, ends) = (from.max(Span::ZERO), (from + Span::from_mins(MINUTES)).min(length));
    if begins >= ends {
        return " ".to_owned();
    }
    let rate = problem.horizon.cost.expected_updates(begins, ends) / hours(ends - begins);
    let shade = shade(rate, peak);
    let sign = match probes.get(&(day.date, column)).copied().unwrap_or(0) {
        0 if problem.horizon.open_from(begins) >= ends => "-".to_owned(),
        0 => return swatch(shade, " ", false, colours),
        1 => "●".to_owned(),
        count @ 2..=9 => count.to_string(),
        _ => "+".to_owned(),
    };
    swatch(shade, &sign, true, colours)
}
