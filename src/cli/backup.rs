//! `tidewatch backup`: a consistent copy of the store, with or without a running daemon.

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;

use crate::config::configuration::Config;
use crate::store::backup::{self, BackupError};

use super::error::CliError;
use super::process::runtime;

/// Options of `backup`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file to write; it must not exist.
    file: PathBuf,
}

/// Copies the store of this configuration.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    let store = &config.daemon.store;
    let progress = progress(store);
    let copied = runtime()?.block_on(backup::copy(store, &arguments.file));
    progress.finish_and_clear();
    let copied = copied.map_err(|error| match error {
        BackupError::Store(error) => CliError::Store(error),
        error => CliError::Refused(error.to_string()),
    })?;
    writeln!(
        out,
        "{}: {:.1} MB with {} sources, {} probes and {} updates",
        arguments.file.display(),
        copied.bytes as f64 / 1e6,
        copied.sources,
        copied.probes,
        copied.updates
    )?;
    Ok(())
}

/// Shows at a terminal that the copy is being made.
fn progress(store: &Path) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let megabytes = std::fs::metadata(store).map_or(0, |file| file.len() / 1_000_000);
    let bar = ProgressBar::new_spinner().with_message(format!("copying {megabytes} MB"));
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
