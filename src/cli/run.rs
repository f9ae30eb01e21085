//! `tidewatch run`: the daemon in the foreground.

use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::config;
use crate::daemon::record::RecordTo;
use crate::daemon::run::{DaemonSetup, Ended, run as run_daemon};
use crate::daemon::scheduler::Progress;
use crate::daemon::signals;

use super::error::CliError;
use super::log;
use super::process::runtime;

/// Options of `run`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Record the scheduler's events and actions into this file, without addresses and texts; `simulate
    /// recorded FILE` replays it. A full file is renamed to FILE.previous.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Largest size of the recording in megabytes, both files together.
    #[arg(long, value_name = "COUNT", default_value_t = 64, requires = "record")]
    record_megabytes: u32,
}

impl Args {
    fn record(&self) -> Option<RecordTo> {
        let limit = u64::from(self.record_megabytes.max(1)) * 1_000_000;
        self.record.clone().map(|path| RecordTo { path, limit })
    }
}

/// Runs until a signal ends it.
pub fn run(path: Option<&Path>, arguments: &Args) -> Result<(), CliError> {
    let _log = log::start("info");
    let path = config::load::find(path)?;
    let config = config::load::load(&path)?;
    if config.daemon.contact.is_none() {
        tracing::warn!("no [daemon] contact: publishers cannot write to you, and may block you instead");
    }
    if let Some(warning) = config.without_effect {
        tracing::warn!("{warning}");
    }
    let runtime = runtime()?;
    let (commands, orders) = mpsc::unbounded_channel();
    let (progress, _) = watch::channel(Progress::default());
    let setup = DaemonSetup {
        config,
        path: Some(path),
        clock: Clock::wall(),
        progress,
        record: arguments.record(),
    };
    let ended = runtime.block_on(async {
        signals::listen(commands)?;
        Ok::<_, CliError>(run_daemon(setup, orders).await?)
    });
    // Does not wait for a parser that is busy with a hostile document.
    runtime.shutdown_timeout(Duration::from_millis(100));
    match ended? {
        Ended::Drained => {
            tracing::info!("stopped");
            Ok(())
        }
        Ended::Aborted => Err(CliError::Refused("aborted by a second signal".to_owned())),
    }
}
