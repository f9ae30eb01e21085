//! `tidewatch simulate traces`: policies on recorded publications, or in a generated world.
//!
//! Users can compare policies at equal cost on their own sources, and verify the scores from the probe
//! times. Knows options and outputs. Must not know how a policy selects, how a schedule is scored, or
//! how results are shown.

use std::ffi::OsString;
use std::io::Write;

use crate::cli::error::CliError;
use crate::cli::files::write_file;
use crate::cli::process::colours;
use tidewatch_core::planning::budget::Budget;
use tidewatch_lab::contest::contest_terms::ContestTerms;
use tidewatch_lab::contest::emit::{self, EmitError};
use tidewatch_lab::contest::question::ContestQuestion;
use tidewatch_lab::contest::results::Results;
use tidewatch_lab::contest::{curve, document, hold, page};

use crate::cli::simulate::progress::Bar;

pub mod args;
mod ask;
mod read;
pub(in crate::cli) mod rules;
mod show;

use args::Args;

/// Runs the comparisons and shows them. `line` has the arguments after the program name.
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
    // A failed write must not suppress the results, and a closed stdout must not suppress the files.
    let written = write_files(arguments, &question, (&held, &around), line);
    match arguments.json {
        true => writeln!(out, "{}", document::to_json(&question, &held)?)?,
        false => show::show(&question, &held, colours(), out)?,
    }
    written
}

fn write_files(
    arguments: &Args,
    question: &ContestQuestion,
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

fn contest(question: &ContestQuestion, budget: Budget, bar: &Bar) -> Results {
    bar.name(format!("{} probes in {}", budget.probes, budget.per));
    let rules = ContestTerms { budget, ..question.rules.clone() };
    let contest = hold(&question.traces, &question.policies, &rules, &|| bar.forward(1));
    Results::of(&question.traces, contest, &rules)
}

impl From<EmitError> for CliError {
    fn from(error: EmitError) -> Self {
        Self::Refused(error.to_string())
    }
}
