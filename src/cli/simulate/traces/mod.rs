//! `tidewatch simulate traces`: policies on what sources really published, or in a made-up world.
//!
//! Exists so that anybody can see on their own sources which policy is sooner for the same expense, and
//! check the scores from the probe times. Knows what may be asked and where results go. Must not know
//! how a policy chooses, how a schedule is judged, nor how results look.

use std::ffi::OsString;
use std::io::Write;

use crate::cli::error::CliError;
use crate::cli::files::write_file;
use crate::cli::process::colours;
use tidewatch_core::planning::budget::Budget;
use tidewatch_lab::contest::emit::{self, EmitError};
use tidewatch_lab::contest::question::Question;
use tidewatch_lab::contest::results::Results;
use tidewatch_lab::contest::rules::Rules;
use tidewatch_lab::contest::{curve, document, hold, page};

use crate::cli::simulate::progress::Bar;

pub mod args;
mod ask;
mod read;
pub(in crate::cli) mod rules;
mod show;

use args::Args;

/// Holds the contests and shows them. `line` is what was typed after the program's name.
pub fn run(arguments: &Args, line: &[OsString], out: &mut dyn Write) -> Result<(), CliError> {
    let question = ask::question(arguments)?;
    if let Some(folder) = &arguments.emit {
        emit::prepare(folder, &question.traces)?;
    }
    let mut err = std::io::stderr();
    for note in &question.notes {
        writeln!(err, "note: {note}")?;
    }
    let runs = question.traces.len() * question.policies.len();
    let bar = Bar::new((runs * (question.budgets.len() + question.around.len())) as u64);
    let try_out = |budgets: &[Budget]| -> Vec<Results> {
        budgets.iter().map(|&budget| contest(&question, budget, &bar)).collect()
    };
    let (held, around) = (try_out(&question.budgets), try_out(&question.around));
    drop(bar);
    // A file that cannot be written costs nobody the results, nor does a reader who has read enough of
    // them cost anybody the files.
    let written = write_files(arguments, &question, (&held, &around), line);
    match arguments.json {
        true => writeln!(out, "{}", document::to_json(&question, &held)?)?,
        false => show::show(&question, &held, colours(), out)?,
    }
    written
}

fn write_files(
    arguments: &Args,
    question: &Question,
    (held, around): (&[Results], &[Results]),
    line: &[OsString],
) -> Result<(), CliError> {
    if let Some(folder) = &arguments.emit {
        emit::write(folder, &question.traces, held)?;
    }
    let mut err = std::io::stderr();
    let mut all: Vec<&Results> = held.iter().chain(around).collect();
    all.sort_by_key(|results| results.budget.probes);
    if let Some(file) = &arguments.svg {
        write_file(file, &curve::to_svg(question, &all))?;
        writeln!(err, "drawn into {}", file.display())?;
    }
    if let Some(file) = &arguments.html {
        write_file(file, &page::to_html(question, held, &all, line))?;
        writeln!(err, "written to {}", file.display())?;
    }
    Ok(())
}

fn contest(question: &Question, budget: Budget, bar: &Bar) -> Results {
    bar.name(format!("{} probes in {}", budget.probes, budget.per));
    let rules = Rules { budget, ..question.rules.clone() };
    let contest = hold(&question.traces, &question.policies, &rules, &|| bar.forward(1));
    Results::of(&question.traces, contest, &rules)
}

impl From<EmitError> for CliError {
    fn from(error: EmitError) -> Self {
        Self::Refused(error.to_string())
    }
}
