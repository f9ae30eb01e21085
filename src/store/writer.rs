//! The one writer: a task that owns the only writing connection of the daemon.
//!
//! Whatever is waiting is written in one `BEGIN IMMEDIATE` transaction; only after its commit are
//! receipts sent. When the disk is full or the file is busy, the same batch is tried again until
//! it passes: nothing is acknowledged that was not committed, and nothing is dropped. An error
//! that no waiting can mend ends the task, and with it the daemon.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::real_pause;
use tidewatch_core::engine::action::{AdoptedPlan, Attempt, DueChange};
use tidewatch_core::engine::event::Committed;
use tidewatch_core::engine::load::SlotStats;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::error::may_pass;
use super::record::{DeliveryRecord, Event, Landing, RateRecord, RobotsRecord};
use super::retention;
use super::rhythm;
use super::sync::{Listed, Synced};
use super::{StoreError, events, outbox, plans, rules, sync, write};

/// Something to be written.
#[derive(Debug)]
pub enum Write {
    /// Probes about to be sent. Receipt: [`Committed::Started`].
    Started(Vec<Attempt>),
    /// A probe that was about to be sent and was not.
    Cancelled(SourceId),
    /// A probe that ended. Receipt: [`Committed::Ended`].
    Ended(Box<Landing>),
    /// An event.
    Event(Event),
    /// Fitted rates.
    Rates(Vec<RateRecord>),
    /// Adopted plans, at most one for each source.
    Plans(Vec<AdoptedPlan>),
    /// A robots.txt.
    Robots(RobotsRecord),
    /// The answer to a probe asked for by hand.
    Answer {
        /// Which request.
        request: i64,
        /// What to say.
        answer: String,
    },
    /// When sources that were never probed are due.
    FirstDue(Vec<(SourceId, Timestamp)>),
    /// What changed in the configured source list; the answer names the numbers of those sources.
    Sync {
        /// Sources that are new or otherwise.
        listed: Vec<Listed>,
        /// Names of those that are gone.
        gone: Vec<String>,
        /// When.
        at: Timestamp,
        /// Where the numbers go.
        reply: oneshot::Sender<Synced>,
    },
    /// The clock was set while the daemon ran.
    Shift {
        /// By so much.
        by: Span,
        /// What is older, by the clock as it was, binds nobody.
        since: Timestamp,
    },
    /// An attempt to deliver that ended.
    Delivery(DeliveryRecord),
    /// Sources that are due at another time because of rules.
    Due(Vec<DueChange>),
    /// These rules there are; what belongs to others is forgotten.
    Rules(Vec<Arc<str>>),
    /// What the fleet did.
    Load(SlotStats),
    /// Old probes are to be forgotten, a bite at a time.
    Prune {
        /// Forget what is older.
        before: Timestamp,
    },
    /// Tells when everything before it is committed.
    Flush(oneshot::Sender<()>),
}

/// Whether writing works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    /// It does.
    #[default]
    Well,
    /// It does not, and is being retried: why.
    Stalled(String),
}

/// The writer's end of the line.
#[derive(Debug)]
pub struct Writer {
    connection: SqliteConnection,
    inbox: mpsc::UnboundedReceiver<Write>,
    outbox: mpsc::UnboundedSender<Write>,
    receipts: mpsc::UnboundedSender<Committed>,
    health: watch::Sender<Health>,
}

/// What the rest of the daemon holds of the writer.
#[derive(Debug)]
pub struct Desk {
    /// Where to hand things in. What waits is bounded by the number of sources: each has one
    /// probe under way at most.
    pub writes: mpsc::UnboundedSender<Write>,
    /// Where receipts come out.
    pub receipts: mpsc::UnboundedReceiver<Committed>,
    /// Whether writing works.
    pub health: watch::Receiver<Health>,
}

/// At most this many writes share a transaction, so that readers see progress.
const BATCH: usize = 512;

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);

impl Writer {
    /// A writer on this connection, and the desk in front of it.
    pub fn new(connection: SqliteConnection) -> (Self, Desk) {
        let (writes, inbox) = mpsc::unbounded_channel();
        let (receipts_in, receipts) = mpsc::unbounded_channel();
        let (health_in, health) = watch::channel(Health::Well);
        let writer =
            Self { connection, inbox, outbox: writes.clone(), receipts: receipts_in, health: health_in };
        (writer, Desk { writes, receipts, health })
    }

    /// Writes until `stop` says that nothing more will come, or until something is beyond repair.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<(), StoreError> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut stopping = false;
        loop {
            tokio::select! {
                biased;
                count = self.inbox.recv_many(&mut batch, BATCH) => {
                    if count == 0 { break }
                }
                _ = &mut stop, if !stopping => {
                    // Whatever was handed in before is still written.
                    stopping = true;
                    self.inbox.close();
                    continue;
                }
            }
            self.commit(&mut batch).await?;
        }
        // Leaves one tidy file behind where nobody else is reading.
        let _ = sqlx::query("PRAGMA optimize").execute(&mut self.connection).await;
        self.connection.close().await?;
        Ok(())
    }

    async fn commit(&mut self, batch: &mut Vec<Write>) -> Result<(), StoreError> {
        let mut pause = FIRST_RETRY;
        let (synced, more_to_prune) = loop {
            match try_commit(&mut self.connection, batch).await {
                Ok(done) => break done,
                Err(error) if may_pass(&error) => {
                    let said = error.to_string();
                    if *self.health.borrow() == Health::Well {
                        tracing::error!(
                            error = %said,
                            waiting = batch.len(),
                            "the store cannot be written; nothing is lost, trying again until it can"
                        );
                    }
                    self.health.send_replace(Health::Stalled(said));
                    real_pause(pause).await;
                    pause = (pause * 2).min(LAST_RETRY);
                }
                Err(error) => return Err(error.into()),
            }
        };
        if self.health.send_replace(Health::Well) != Health::Well {
            tracing::info!("the store can be written again");
        }
        if let Some(before) = more_to_prune {
            // Behind whatever came in meanwhile. Not when stopping: the inbox is closed then.
            let _ = self.outbox.send(Write::Prune { before });
        }
        let mut synced = synced.into_iter();
        for write in batch.drain(..) {
            // A receiver that is gone has stopped listening: that is its business.
            match write {
                Write::Started(attempts) => {
                    let sources = attempts.iter().map(|attempt| attempt.source).collect();
                    drop(self.receipts.send(Committed::Started(sources)));
                }
                Write::Ended(landing) => drop(self.receipts.send(Committed::Ended(landing.attempt.source))),
                Write::Sync { reply, .. } => {
                    if let Some(synced) = synced.next() {
                        drop(reply.send(synced));
                    }
                }
                Write::Flush(done) => drop(done.send(())),
                _ => {}
            }
        }
        Ok(())
    }
}

/// One transaction, begun and ended by plain statements: when the disk is full SQLite may roll back
/// by itself, after which sqlx's own transaction would believe itself open for ever.
async fn try_commit(
    connection: &mut SqliteConnection,
    batch: &[Write],
) -> Result<(Vec<Synced>, Option<Timestamp>), sqlx::Error> {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let written = async {
        let done = write_all(connection, batch).await?;
        sqlx::query("COMMIT").execute(&mut *connection).await?;
        Ok(done)
    };
    let outcome = written.await;
    if outcome.is_err() {
        // Fails where SQLite has rolled back already, which is as good.
        let _ = sqlx::query("ROLLBACK").execute(connection).await;
    }
    outcome
}

async fn write_all(
    connection: &mut SqliteConnection,
    batch: &[Write],
) -> Result<(Vec<Synced>, Option<Timestamp>), sqlx::Error> {
    let mut synced = Vec::new();
    let mut more_to_prune = None;
    for item in batch {
        match item {
            Write::Started(attempts) => write::started(connection, attempts).await?,
            Write::Cancelled(id) => write::cancelled(connection, *id).await?,
            Write::Ended(landing) => write::ended(connection, landing).await?,
            Write::Event(event) => events::insert(connection, event).await?,
            Write::Rates(rates) => rhythm::rates(connection, rates).await?,
            Write::Plans(plans) => plans::plans(connection, plans).await?,
            Write::Robots(robots) => write::robots(connection, robots).await?,
            Write::Answer { request, answer } => write::answer(connection, *request, answer).await?,
            Write::FirstDue(due) => sync::first_due(connection, due).await?,
            Write::Sync { listed, gone, at, .. } => {
                synced.push(sync::sync(connection, listed, gone, *at).await?);
            }
            Write::Shift { by, since } => write::shift(connection, *by, *since).await?,
            Write::Delivery(record) => outbox::settle(connection, record).await?,
            Write::Due(due) => rules::due(connection, due).await?,
            Write::Rules(known) => rules::forget_others(connection, known).await?,
            Write::Load(load) => write::load(connection, load).await?,
            Write::Prune { before } => {
                more_to_prune = retention::bite(connection, *before).await?.then_some(*before);
            }
            Write::Flush(_) => {}
        }
    }
    Ok((synced, more_to_prune))
}
