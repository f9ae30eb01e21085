//! One probe without a daemon: with the same gate, the same request and the same record.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::config::configuration::Config;
use crate::fetch::client::Fetcher;
use crate::store::lock::Lock;
use crate::store::reader::Reader;
use crate::store::writer::{Writer, WriterHandle};
use crate::store::{StoreError, open};
use tidewatch_core::engine::action::Refusal;
use tidewatch_core::source_id::SourceId;

use super::messages::{Control, ProbeRequest};
use super::probe::Finished;
use super::probe_context::ProbeContext;
use super::prober;
use super::run::{DaemonError, died_writer};
use super::scheduler::{Channels, Progress, Scheduler};
use super::startup;
use super::watchdog::ProgressMark;

/// The error of a single probe.
#[derive(Debug, thiserror::Error)]
pub enum OnceError {
    /// The gate refused the request.
    #[error("not now: {0}")]
    Refused(#[from] Refusal),
    /// The gate cancelled the probe after it accepted the request.
    #[error(
        "not sent: a limit that was free when the probe was requested has closed since; `tidewatch explain` shows it"
    )]
    Cancelled,
    /// Any other error.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

impl From<StoreError> for OnceError {
    fn from(error: StoreError) -> Self {
        Self::Daemon(error.into())
    }
}

/// Probes the source with that name, if the gate allows it, and stores the result. The store must not be in
/// use by a daemon.
///
/// Runs the daemon's scheduler with one slot per step, which goes to the requested probe first. Stops the
/// scheduler as soon as that probe has started.
pub async fn once(config: &Config, name: &str, clock: &Clock) -> Result<Finished, OnceError> {
    let store = &config.daemon.store;
    let _lock = Lock::take(store)?;
    let mut connection = open::for_writing(store).await?;
    let mut config = config.clone();
    config.fleet.probes_per_step = 1;
    let loaded = startup::begin(&config, &mut connection, clock).await?;
    let named = loaded.roster.iter().find(|(_, spec)| *spec.source.name == *name);
    let source = named.ok_or(OnceError::Refused(Refusal::Unknown))?.0;

    let fetcher =
        Fetcher::new(&config.fetch, config.daemon.contact.as_deref()).map_err(DaemonError::from)?;
    let (writer, WriterHandle { writes, receipts, health }) = Writer::new(connection);
    let (stop_writer, writer_stopped) = oneshot::channel();
    let mut writer = tokio::spawn(writer.run(writer_stopped));
    loaded.correct_sources(&writes);
    let (control, controls) = mpsc::unbounded_channel();
    let (launches, to_launch) = mpsc::unbounded_channel();
    let (ended, has_ended) = mpsc::unbounded_channel();
    let (finished, has_finished) = mpsc::unbounded_channel();
    let (plans, _) = mpsc::unbounded_channel();
    let (progress, mut shown) = watch::channel(Progress::default());
    let reader = Reader::open(store).await?;
    let context = ProbeContext::new(reader, writes.clone(), control.clone(), clock.clone());
    let prober = tokio::spawn(prober::run(context, to_launch, ended, CancellationToken::new()));
    let seen = tokio::spawn(keep_one(source, has_ended, finished));
    let channels = Channels {
        control: controls,
        finished: has_finished,
        receipts,
        writes,
        launches,
        plans,
        health,
        progress,
        deliver: Arc::default(),
        mark: ProgressMark::default(),
    };
    let rules = Arc::clone(&config.rules);
    let (answer, answered) = oneshot::channel();
    let request = ProbeRequest { number: 0, source, answer: Some(answer) };
    // Sent before the scheduler runs, so that the request comes before any due source.
    let _ = control.send(Control::Request(request));
    let scheduler = Scheduler::new(loaded, clock.clone(), Some(fetcher), rules, channels);
    let scheduler = tokio::spawn(scheduler.run());
    let probing = async {
        let accepted = answered.await.unwrap_or(Err(Refusal::Unknown));
        if accepted.is_ok() {
            let begun = |shown: &Progress| shown.in_progress > 0 || shown.probes > 0 || shown.cancelled > 0;
            let _ = shown.wait_for(begun).await;
        }
        let _ = control.send(Control::Stop);
        let _ = scheduler.await;
        accepted
    };
    let accepted = tokio::select! {
        biased;
        // It ends by itself only after an error. Nothing that waits for a commit would end then.
        died = &mut writer => return Err(died_writer(died).into()),
        accepted = probing => accepted,
    };
    let _ = stop_writer.send(());
    let _ = writer.await;
    prober.abort();
    accepted?;
    seen.await.ok().flatten().map(|finished| *finished).ok_or(OnceError::Cancelled)
}

/// Forwards finished probes, and returns the last one of this source.
async fn keep_one(
    source: SourceId,
    mut ended: mpsc::UnboundedReceiver<Box<Finished>>,
    finished: mpsc::UnboundedSender<Box<Finished>>,
) -> Option<Box<Finished>> {
    let mut kept = None;
    while let Some(probe) = ended.recv().await {
        if probe.attempt.source == source {
            kept = Some(probe.clone());
        }
        let _ = finished.send(probe);
    }
    kept
}
