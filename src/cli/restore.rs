//! `tidewatch restore`: replaces the store by a backup.

use std::io::Write;
use std::path::PathBuf;

use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::store::restore::{self, RestoreError};

use super::error::CliError;
use super::files::refuse_new_store_elsewhere;
use super::process::runtime;

/// Options of `restore`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The file that `backup` has written.
    file: PathBuf,
}

/// Restores the store of this configuration.
pub fn run(config: &Config, arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    refuse_new_store_elsewhere(config)?;
    let store = &config.daemon.store;
    let done = runtime()?.block_on(restore::restore(store, &arguments.file, Clock::wall().now()));
    let done = done.map_err(|error| match error {
        RestoreError::Store(error) => CliError::Store(error),
        error => CliError::Refused(error.to_string()),
    })?;
    writeln!(
        out,
        "{}: restored, with {} probes and {} updates",
        store.display(),
        done.probes,
        done.updates
    )?;
    if let Some(last) = done.last_probe {
        writeln!(
            out,
            "later probes than {last} are not known: each source is probed after its min_spacing at the earliest"
        )?;
    }
    if let Some(kept) = done.kept {
        writeln!(out, "the store before it is {}", kept.display())?;
    }
    Ok(())
}
