//! `calibrate` at a terminal: tables, and a plot by day.

use std::io::{self, Write};

use crate::cli::table::{TableCell, Tone, cell, print};
use crate::store::predictions::{PredictionSums, day_of};
use tidewatch_core::time::Timestamp;
use tidewatch_lab::words::{count, cut, number, plural};

use super::verdicts::{RareEvent, StatedPeriod, described, grouped, rare_events, updates};

/// The width of the plot.
const BAR: usize = 40;

/// The most days in the plot, the latest ones.
const MOST_DAYS: usize = 60;

/// The most sources in the table, those that fit worst.
const MOST_SOURCES: usize = 20;

/// The sentence for a period without statements.
pub const NOTHING: &str = "nothing to compare yet: forecasts begin when a source has a plan or is sampled, and ten updates are known";

/// Prints the period.
pub fn show(period: &StatedPeriod, colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let of = &period.predictions;
    if of.total.probes == 0 {
        return writeln!(out, "{NOTHING}");
    }
    writeln!(out, "{}\n", heading(period))?;
    writeln!(out, "updates: {}", described(&updates(&of.total)))?;
    let events = rare_events(&of.total);
    if !events.is_empty() {
        writeln!(out)?;
        let head = ["rare event", "cases", "stated at most", "found", "verdict"];
        print(out, &head, &events.iter().map(event).collect::<Vec<_>>(), colours)?;
    }
    writeln!(out, "\nby day (UTC): █ found, │ expected")?;
    plot(&of.days, out)?;
    if period.source.is_none() {
        by_source(&of.sources, colours, out)?;
    }
    Ok(())
}

/// What is shown, in one line.
pub fn heading(period: &StatedPeriod) -> String {
    let name = period.source.as_ref().map_or_else(|| "all sources".to_owned(), |name| cut(name, 60));
    let probes = period.predictions.total.probes;
    let since = day_of(period.until - period.span).iso();
    let plural = plural(usize::try_from(probes).unwrap_or(usize::MAX));
    format!("{name}: {} forecast{plural} since {}", grouped(probes as f64), &since[..10])
}

/// The word for a verdict, coloured.
fn word(fits: bool) -> TableCell {
    if fits { cell("fits").tone(Tone::Good) } else { cell("does not fit").tone(Tone::Bad) }
}

fn event(event: &RareEvent) -> Vec<TableCell> {
    vec![
        cell(event.name),
        cell(format!("{} {}", grouped(event.cases as f64), event.case)),
        cell(number(event.stated)),
        cell(grouped(event.found as f64)),
        word(event.fits()),
    ]
}

fn plot(days: &[(Timestamp, PredictionSums)], out: &mut dyn Write) -> io::Result<()> {
    let shown = &days[days.len().saturating_sub(MOST_DAYS)..];
    let most = shown.iter().map(|(_, of)| of.expected.max(of.found as f64)).fold(1.0, f64::max);
    let place = |value: f64| ((value / most * BAR as f64).round() as usize).min(BAR);
    for (day, of) in shown {
        let mut bar = vec![' '; BAR + 1];
        bar[..place(of.found as f64)].fill('█');
        bar[place(of.expected)] = '│';
        let bar: String = bar.into_iter().collect();
        let line = format!("{}  {:>7} {:>7}  {bar}", &day.iso()[..10], count(of.expected), of.found);
        writeln!(out, "{}", line.trim_end())?;
    }
    match days.len() - shown.len() {
        0 => Ok(()),
        more => writeln!(out, "{more} earlier day{} are in --json", plural(more)),
    }
}

fn by_source(sources: &[(String, PredictionSums)], colours: bool, out: &mut dyn Write) -> io::Result<()> {
    let mut worst: Vec<(f64, &(String, PredictionSums))> =
        sources.iter().map(|source| (updates(&source.1).probability(), source)).collect();
    worst.sort_by(|a, b| a.0.total_cmp(&b.0));
    let fitting = sources.iter().filter(|(_, of)| updates(of).fits()).count();
    writeln!(
        out,
        "\nby source: {fitting} of {} fit; a right forecast fails one time in a hundred",
        sources.len()
    )?;
    let rows = worst.iter().take(MOST_SOURCES).map(|(_, (name, of))| {
        let check = updates(of);
        let ratio =
            if of.expected > 0.0 { number(of.found as f64 / of.expected) } else { "–".to_owned() };
        vec![
            cell(cut(name, 40)),
            cell(grouped(of.probes as f64)),
            cell(count(of.expected)),
            cell(grouped(of.found as f64)),
            cell(ratio),
            word(check.fits()),
        ]
    });
    let head = ["source", "probes", "expected", "found", "ratio", "verdict"];
    print(out, &head, &rows.collect::<Vec<_>>(), colours)?;
    match sources.len().saturating_sub(MOST_SOURCES) {
        0 => Ok(()),
        more => writeln!(out, "{more} more source{} are in --json", plural(more)),
    }
}
