//! One polite probe without a daemon: same gate, same request, same record.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::clock::Clock;
use crate::config::Config;
use crate::fetch::client::Fetcher;
use crate::store::lock::Lock;
use crate::store::reader::Reader;
use crate::store::record::Flight;
use crate::store::writer::{Write, Writer};
use crate::store::{StoreError, load, open};
use tidewatch_core::engine::Refusal;
use tidewatch_core::engine::source::Reason;
use tidewatch_core::planning::policy::Policy;

use super::landing::landing;
use super::muster::{Mustered, muster};
use super::orders::Launch;
use super::probe::{Bench, Finished, probe};
use super::run::DaemonError;

/// Why a single probe was not made.
#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    /// The gate.
    #[error("not now: {0}")]
    Refused(#[from] Refusal),
    /// Everything else.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

impl From<StoreError> for OnceError {
    fn from(error: StoreError) -> Self {
        Self::Daemon(error.into())
    }
}

/// Probes the source of that name, if the gate allows, and stores what came of it. The store must
/// not be in use by a daemon.
pub async fn once(config: &Config, name: &str, clock: &Clock) -> Result<Finished, OnceError> {
    let store = &config.daemon.store;
    let _lock = Lock::take(store)?;
    let mut connection = open::for_writing(store).await?;
    let now = clock.now();
    load::begin(&mut connection, &config.sources, now).await?;
    let Mustered { mut fleet, roster, .. } = muster(config, &mut connection, now).await?;
    let (&id, spec) = roster
        .iter()
        .find(|(_, spec)| spec.source.name == name)
        .ok_or(OnceError::Refused(Refusal::Unknown))?;
    fleet.request(id, now)?;
    let policy = fleet.memory(id).map_or_else(Policy::default, |memory| memory.life.asked_by);
    let flight = Flight { source: id, due: now, started: now, policy, reason: Reason::Manual };

    let reader = Reader::open(store).await?;
    let fetcher =
        Fetcher::new(&config.fetch, config.daemon.contact.as_deref()).map_err(DaemonError::from)?;
    let (writer, desk) = Writer::new(connection);
    let (stop, stopped) = oneshot::channel();
    let writer = tokio::spawn(writer.run(stopped));
    let gone = |_| StoreError::Stopped;
    let flush = async || {
        let (done, committed) = oneshot::channel();
        desk.writes.send(Write::Flush(done)).map_err(|_| StoreError::Stopped)?;
        committed.await.map_err(gone)
    };
    let _ = desk.writes.send(Write::TakeOff(vec![flight]));
    flush().await?;
    let bench = Bench { reader, writes: desk.writes.clone(), clock: clock.clone() };
    let launch = Launch {
        flight,
        spec: Arc::clone(spec),
        fetcher: Some(fetcher),
        host_spacing: config.fleet.host_spacing,
        rules: Arc::clone(&config.rules),
    };
    let finished = probe(&bench, launch).await;
    if let Some(absorbed) = fleet.absorb(&finished.report()) {
        let _ = desk.writes.send(Write::Land(Box::new(landing(finished.clone(), absorbed))));
    }
    flush().await?;
    let _ = stop.send(());
    let _ = writer.await;
    Ok(finished)
}
