//! The command: reads the statements of a period and shows them.

use std::io::Write;
use std::path::PathBuf;

use crate::cli::configured::find_source;
use crate::cli::error::CliError;
use crate::cli::files::write_file;
use crate::cli::json_document;
use crate::cli::measures;
use crate::cli::process::{colours, runtime};
use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::store::reader::Reader;
use tidewatch_core::time::{Span, Timestamp};

use super::document::document;
use super::show::show;
use super::svg::to_svg;
use super::verdicts::{StatedPeriod, USUAL_PERIOD};

/// Options of `calibrate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Name of a source; all sources by default.
    source: Option<String>,
    /// Compare the forecasts of the last DURATION, 28d by default.
    #[arg(long, value_name = "DURATION", value_parser = measures::length)]
    period: Option<Span>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
    /// Draw expected and found updates into this SVG file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// Shows how well stated probabilities held.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    if let Some(name) = &arguments.source {
        find_source(config, name)?;
    }
    let period = runtime()?.block_on(read(config, arguments, Clock::wall().now()))?;
    if let Some(file) = &arguments.svg {
        write_file(file, &to_svg(&period))?;
    }
    match (arguments.json, &arguments.svg) {
        (true, _) => json_document::write(out, &document(&period))?,
        (false, Some(file)) => writeln!(out, "drawn into {}", file.display())?,
        (false, None) => show(&period, colours(), out)?,
    }
    Ok(())
}

async fn read(config: &Config, arguments: &Args, until: Timestamp) -> Result<StatedPeriod, CliError> {
    let reader = Reader::open(&config.daemon.store).await?;
    let id = match &arguments.source {
        None => None,
        Some(name) => {
            let row = reader.sources().await?.into_iter().find(|row| row.name == *name);
            let unknown = || format!("nothing is known of `{name}` yet; is the daemon running?");
            Some(row.ok_or_else(|| CliError::Refused(unknown()))?.id)
        }
    };
    let span = arguments.period.unwrap_or(USUAL_PERIOD);
    let predictions = reader.predictions(until - span, id).await?;
    Ok(StatedPeriod { source: arguments.source.clone(), span, until, predictions })
}
