//! `tidewatch run`: the daemon in the foreground.

use std::path::Path;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock::Clock;
use crate::config;
use crate::daemon::run::{Ended, Setup, run as run_daemon};
use crate::daemon::scheduler::Progress;
use crate::daemon::signals;

use super::error::CliError;
use super::log;
use super::process::runtime;

/// Runs until a signal says otherwise.
pub fn run(path: Option<&Path>) -> Result<(), CliError> {
    log::start("info");
    let path = config::load::find(path)?;
    let config = config::load::load(&path)?;
    if config.daemon.contact.is_none() {
        tracing::warn!("no [daemon] contact: publishers who mind our probes cannot tell us, only ban us");
    }
    let runtime = runtime()?;
    let (commands, orders) = mpsc::unbounded_channel();
    let (progress, _) = watch::channel(Progress::default());
    let setup = Setup { config, path: Some(path), clock: Clock::wall(), progress };
    let ended = runtime.block_on(async {
        signals::listen(commands)?;
        Ok::<_, CliError>(run_daemon(setup, orders).await?)
    });
    // A parser that is still busy with a hostile document is not waited for.
    runtime.shutdown_timeout(Duration::from_millis(100));
    match ended? {
        Ended::Drained => {
            tracing::info!("stopped");
            Ok(())
        }
        Ended::Aborted => Err(CliError::Refused("aborted by a second signal".to_owned())),
    }
}
