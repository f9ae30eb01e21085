//! Takes the store at a start: locks it, opens it and loads the engine.
//!
//! While the disk is full or fails, waits and tries again, so that the service manager need not restart the daemon
//! every few seconds. Must not know what runs on the store.

use std::convert::Infallible;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::clock::{Clock, real_pause};
use crate::config::configuration::Config;
use crate::store::lock::Lock;
use crate::store::{Connection, StoreError, crashes, open};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::messages::DaemonCommand;
use super::notify;
use super::startup::{self, Loaded};

/// The store and the engine of a daemon that starts. The lock beside it is held as long as the daemon runs.
pub(super) struct Begun {
    pub connection: Connection,
    pub loaded: Loaded,
    pub first_due: Vec<(SourceId, Timestamp)>,
    /// A reload was requested meanwhile.
    pub reload: bool,
}

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// The service manager waits this much longer after each attempt. More than an attempt and a pause take.
const MORE_TIME: Duration = Duration::from_mins(5);

/// Opens the store, as soon as its disk allows. `None` after a command to stop.
pub(super) async fn open_store(
    config: &Config,
    clock: &Clock,
    commands: &mut mpsc::UnboundedReceiver<DaemonCommand>,
) -> Result<Option<(Lock, Begun)>, StoreError> {
    let (mut pause, mut reload, mut reported) = (FIRST_RETRY, false, String::new());
    loop {
        let error = match with_more_time(attempt(config, clock)).await {
            Ok((lock, begun)) => {
                if !reported.is_empty() {
                    tracing::info!("the store can be written; starting");
                }
                return Ok(Some((lock, Begun { reload, ..begun })));
            }
            Err(error) if error.is_of_disk() => error.to_string(),
            Err(error) => return Err(error),
        };
        if error != reported {
            tracing::error!("{error}; the start waits until it can be written");
            reported.clone_from(&error);
        }
        notify::start_waits(format!("THE START WAITS: {error}"), MORE_TIME).await;
        let stopped = async {
            loop {
                match commands.recv().await {
                    Some(DaemonCommand::Reload) => reload = true,
                    Some(DaemonCommand::Stop | DaemonCommand::Abort) | None => return,
                }
            }
        };
        tokio::select! {
            () = real_pause(pause) => {}
            () = stopped => return Ok(None),
        }
        pause = (pause * 2).min(LAST_RETRY);
    }
}

/// Asks for more time while the store is migrated or loaded, which may take long.
async fn with_more_time<T>(work: impl Future<Output = T>) -> T {
    let ask = async || -> Infallible {
        loop {
            notify::start_waits("opening the store".to_owned(), MORE_TIME).await;
            real_pause(MORE_TIME / 10).await;
        }
    };
    tokio::select! {
        biased;
        never = ask() => match never {},
        done = work => done,
    }
}

async fn attempt(config: &Config, clock: &Clock) -> Result<(Lock, Begun), StoreError> {
    let store = &config.daemon.store;
    let lock = Lock::take(store)?;
    let mut connection = open::for_writing(store).await?;
    let loaded = startup::begin(config, &mut connection, clock).await?;
    open::prepare_for_probes(&mut connection, loaded.engine.len()).await?;
    crashes::running(&mut connection, clock.boot().as_deref()).await?;
    let due = |&id: &SourceId| Some((id, loaded.engine.memory(id)?.due.at()?));
    let first_due = loaded.unscheduled.iter().filter_map(due).collect();
    Ok((lock, Begun { connection, loaded, first_due, reload: false }))
}
