//! `tidewatch plan`: computes one schedule of probes and shows it as text, JSON or SVG.
//!
//! Users can inspect a plan and compare costs before any probe is sent. This module knows the inputs of
//! a plan. It must not search itself, and sends nothing.

use std::io::Write;
use std::path::Path;

use crate::clock::{Clock, Stopwatch};
use tidewatch_lab::plans::{document, picture, search};

use super::error::CliError;
use super::files::write_file;
use super::process::colours;

pub mod args;
mod ask;
mod closed;
mod refusal;
mod show;
mod strip;

use args::Args;

/// Plans and shows the result; with `--svg`, also draws it.
pub fn run(arguments: &Args, config: Option<&Path>, out: &mut dyn Write) -> Result<(), CliError> {
    let problem = ask::problem(arguments, config, Clock::wall().now())?;
    let watch = Stopwatch::start();
    let found = search::find(&problem, arguments.method.into(), arguments.improver().map(Into::into));
    let elapsed = watch.elapsed();
    let found = found.map_err(|why| refusal::refusal(&problem, &why))?;
    let outcome =
        found.compared(&problem, elapsed).map_err(|error| CliError::Refused(error.to_string()))?;
    if let Some(file) = &arguments.svg {
        write_file(file, &picture::to_svg(&problem, &outcome))?;
    }
    match (arguments.json, &arguments.svg) {
        (true, _) => writeln!(out, "{}", document::to_json(&problem, &outcome)?)?,
        (false, Some(file)) => writeln!(out, "drawn into {}", file.display())?,
        (false, None) => show::show(&problem, &outcome, colours(), out)?,
    }
    Ok(())
}
