//! The plan in words and tables.

use std::io::{self, Write};

use crate::cli::table::{Cell, Tone, cell, print};
use crate::cli::words::{count, local, number, zone};
use tidewatch_core::time::{Span, Timestamp};

use super::refusal::exact;
use super::strip::strip;
use super::{Improver, Method, Outcome, Problem};

/// More probe times than this are not listed one by one.
const MOST_LISTED: usize = 60;
/// How many of them are, then, at either end.
const LISTED: usize = 8;

/// Shows all of it: what was planned, the picture, the costs, the times.
pub fn show(problem: &Problem, outcome: &Outcome, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    head(problem, outcome, out)?;
    writeln!(out)?;
    strip(problem, &outcome.times, colours, out)?;
    writeln!(out)?;
    costs(problem, outcome, out)?;
    if outcome.trade_off.len() > 1 {
        writeln!(out)?;
        trade_off(problem, outcome, colours, out)?;
    }
    writeln!(out)?;
    list(problem, &outcome.times, out)?;
    for note in &outcome.notes {
        writeln!(out, "\nnote: {note}")?;
    }
    Ok(())
}

fn head(problem: &Problem, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let n = outcome.times.len();
    let plural = if n == 1 { "" } else { "s" };
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

/// A method and what was done after it, in words.
pub fn manner(problem: &Problem, outcome: &Outcome) -> String {
    let found = match outcome.method {
        Method::Optimal => format!("the best on a grid of {}", exact(problem.step)),
        Method::Paper => {
            format!("the best on a grid of {}, by the paper's algorithms", exact(problem.step))
        }
        Method::Uniform => "evenly in time".to_owned(),
        Method::Threshold => "by equal obsolescence".to_owned(),
        Method::FirstArrival => "by equal chance of an update".to_owned(),
    };
    let (moves, plural) = (outcome.moves, if outcome.moves == 1 { "" } else { "s" });
    match outcome.improver {
        None => found,
        Some(Improver::Exact) => format!("{found}, then exact descent ({moves} move{plural})"),
        Some(Improver::Moves) => format!("{found}, then Algorithm 10 ({moves} move{plural})"),
    }
}

fn costs(problem: &Problem, outcome: &Outcome, out: &mut dyn Write) -> io::Result<()> {
    let mut line = |label: &str, text: String| writeln!(out, "{label:<16}{text}");
    let cost = outcome.expected_cost;
    line("found", format!("{} in {}", manner(problem, outcome), took(outcome)))?;
    let unit = if problem.is_unweighted() { "update·hours" } else { "update·hours × importance" };
    line("expected cost", format!("{} {unit}", digits(cost)))?;
    if problem.is_unweighted() && problem.updates() > 0.0 {
        let mean = Span::from_hours(1).scaled(cost / problem.updates());
        line("mean delay", format!("an update is found after {mean} on average"))?;
    }
    if let (Some(bound), Some(gap)) = (outcome.lower_bound, outcome.gap()) {
        let whose = if outcome.is_off_grid() { "at any times" } else { "on this grid" };
        let said = format!("{} for every schedule {whose}; this one is {}", digits(bound), above(gap));
        line("lower bound", said)?;
    }
    if let Some(uniform) = outcome.uniform.filter(|_| outcome.method != Method::Uniform && cost > 0.0) {
        let share = (uniform / cost - 1.0) * 100.0;
        let way = if share < 0.0 { "less" } else { "more" };
        let said = format!("would cost {}, {:.1} % {way}", digits(uniform), share.abs());
        line("evenly spread", said)?;
    }
    Ok(())
}

fn took(outcome: &Outcome) -> String {
    match outcome.elapsed.as_micros() {
        micros @ 0..1000 => format!("{micros} µs"),
        micros @ 1000..10_000_000 => format!("{} ms", micros / 1000),
        micros => format!("{} s", micros / 1_000_000),
    }
}

fn above(gap: f64) -> String {
    match gap * 100.0 {
        share if share < 1e-6 => "as good as that".to_owned(),
        share if share < 0.01 => "less than 0.01 % above".to_owned(),
        share => format!("{share:.2} % above"),
    }
}

/// A cost with the digits that tell one plan from another.
pub fn digits(cost: f64) -> String {
    match cost {
        c if c <= 0.0 => "0".to_owned(),
        c if c < 0.01 => number(c),
        c if c < 1.0 => format!("{c:.4}"),
        c if c < 1000.0 => format!("{c:.2}"),
        c if c < 100_000.0 => format!("{c:.1}"),
        c => format!("{c:.0}"),
    }
}

fn trade_off(problem: &Problem, outcome: &Outcome, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "What more or fewer probes would buy:")?;
    let here = outcome.trade_off.iter().find(|trade| trade.probes == problem.horizon.probes);
    let priced = outcome.trade_off.iter().any(|trade| trade.price.is_some());
    let rows: Vec<Vec<Cell>> = outcome
        .trade_off
        .iter()
        .map(|trade| {
            let is_here = trade.probes == problem.horizon.probes;
            let tone = if is_here { Tone::Head } else { Tone::Plain };
            let change = match here {
                _ if is_here => "this plan".to_owned(),
                Some(here) if here.expected_cost > 0.0 => {
                    format!("{:+.1} %", (trade.expected_cost / here.expected_cost - 1.0) * 100.0)
                }
                _ => String::new(),
            };
            let mut row = vec![
                cell(trade.probes.to_string()).tone(tone),
                cell(digits(trade.expected_cost)).tone(tone),
                cell(change).tone(tone),
            ];
            if priced {
                row.push(cell(trade.price.map_or_else(String::new, digits)).tone(tone));
            }
            row
        })
        .collect();
    let head = ["probes", "cost", "", "one more saves"];
    print(out, &head[..if priced { 4 } else { 3 }], &rows, colours)
}

/// The times, those of a day in one line.
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
