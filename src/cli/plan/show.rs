//! The plan as text and tables.

use std::io::{self, Write};

use crate::cli::lab_table::print;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::plans::problem::Problem;
use tidewatch_lab::plans::search::SearchOutcome;
use tidewatch_lab::plans::text;
use tidewatch_lab::words::{count, exact, local, plural, zone};

use super::strip::strip;

/// Largest number of probe times to list in full.
const MOST_LISTED: usize = 60;
/// Otherwise this many are listed at each end.
const LISTED: usize = 8;

/// Prints the summary, the picture, the costs and the times.
pub fn show(
    problem: &Problem,
    outcome: &SearchOutcome,
    colours: bool,
    out: &mut dyn Write,
) -> io::Result<()> {
    head(problem, outcome, out)?;
    writeln!(out)?;
    strip(problem, &outcome.times, colours, out)?;
    writeln!(out)?;
    for (label, text) in text::costs(problem, outcome) {
        writeln!(out, "{label:<16}{text}")?;
    }
    if outcome.trade_off.len() > 1 {
        writeln!(out, "\nWhat more or fewer probes would buy:")?;
        print(&text::trade_off(problem, outcome), colours, out)?;
    }
    writeln!(out)?;
    list(problem, &outcome.times, out)?;
    for note in &outcome.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

fn head(problem: &Problem, outcome: &SearchOutcome, out: &mut dyn Write) -> io::Result<()> {
    let n = outcome.times.len();
    let plural = plural(n);
    let spacing = match problem.horizon.min_spacing {
        Span::ZERO => String::new(),
        spacing => format!(", at least {} apart", exact(spacing)),
    };
    writeln!(
        out,
        "{}  {n} probe{plural} in {}{spacing}; {} updates expected",
        problem.title,
        exact(problem.horizon.length()),
        count(problem.updates())
    )?;
    let when = |at: Timestamp| local(at, &problem.zone, "%a %Y-%m-%d %H:%M");
    writeln!(
        out,
        "from {} to {}, hours in {}",
        when(problem.start),
        when(problem.end()),
        zone(&problem.zone)
    )
}

/// Prints the times, one line per day.
fn list(problem: &Problem, times: &[Span], out: &mut dyn Write) -> io::Result<()> {
    if times.len() <= MOST_LISTED {
        writeln!(out, "Probes:")?;
        return lines(problem, times, out);
    }
    writeln!(out, "The first and the last probes:")?;
    lines(problem, &times[..LISTED], out)?;
    writeln!(out, "  …")?;
    lines(problem, &times[times.len() - LISTED..], out)?;
    writeln!(out, "All {} are in what --json prints.", times.len())
}

fn lines(problem: &Problem, times: &[Span], out: &mut dyn Write) -> io::Result<()> {
    let whole = times.iter().all(|at| (problem.start + *at).as_millis() % 60_000 == 0);
    let clock = if whole { "%H:%M" } else { "%H:%M:%S" };
    let mut last = String::new();
    for &at in times {
        let at = problem.start + at;
        let day = local(at, &problem.zone, "%a %d %b");
        if day != last {
            let end = if last.is_empty() { "" } else { "\n" };
            write!(out, "{end}  {day} ")?;
            last = day;
        }
        write!(out, " {}", local(at, &problem.zone, clock))?;
    }
    writeln!(out)
}
