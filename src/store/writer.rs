//! The task that owns the daemon's only writing connection.
//!
//! Writes all queued items in one `BEGIN IMMEDIATE` transaction, and sends receipts after its commit. If
//! the disk is full or the file is busy, it retries the same batch until that succeeds. So only committed
//! writes are acknowledged, and none is dropped. An error that a retry cannot fix ends the task and the
//! daemon.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{Stopwatch, real_pause};
use tidewatch_core::engine::action::{AdoptedPlan, Attempt, DueChange};
use tidewatch_core::engine::fleet_price::FleetPrice;
use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::attempts::RequestInputs;
use super::batch::WriteBatch;
use super::clock::{ClockSeen, Correction};
use super::clock_set::Behind;
use super::error::may_pass;
use super::record::{
    DeliveryRecord, EventRecord, PardonRecord, ProbeRecord, RateRecord, RelearnedRecord, RobotsRecord,
};
use super::retention::{self, DeleteBefore, DeletionClock};
use super::rhythm;
use super::sync::{Listed, Synced};
use super::{StoreError, attempts, clock_set, fleet_prices, outbox, rules, sync, write};

/// A write to the store.
#[derive(Debug)]
pub enum Write {
    /// Probes about to be sent. Receipt: [`Receipt::Started`].
    Started(Vec<Attempt>),
    /// A started probe that was not sent.
    Cancelled(SourceId),
    /// A finished probe. Receipt: [`Receipt::Ended`].
    Ended(Box<ProbeRecord>),
    /// An event.
    Event(EventRecord),
    /// Fitted rates.
    Rates(Vec<RateRecord>),
    /// Evidence learned again with other settings.
    Relearned(Vec<RelearnedRecord>),
    /// Adopted plans, at most one for each source.
    Plans(Vec<AdoptedPlan>),
    /// A robots.txt.
    Robots(RobotsRecord),
    /// Limits that the user lifted.
    Pardoned(PardonRecord),
    /// The answer to a requested probe.
    Answer {
        /// The request's number.
        request: i64,
        /// The text of the answer.
        answer: String,
    },
    /// First due times of sources that were never probed.
    FirstDue(Vec<(SourceId, Timestamp)>),
    /// Sources have other names.
    Rename {
        /// The old and the new names.
        names: Vec<(String, String)>,
        /// Time of the change.
        at: Timestamp,
    },
    /// A change of the configured source list. The reply contains the numbers of its sources.
    Sync {
        /// New or changed sources.
        listed: Vec<Listed>,
        /// Names of removed sources.
        gone: Vec<String>,
        /// Time of the change.
        at: Timestamp,
        /// Receives the result.
        reply: oneshot::Sender<Synced>,
    },
    /// The clock was set while the daemon ran, and shows this now.
    ClockSet(Correction, ClockSeen),
    /// What the clock shows.
    ClockSeen(ClockSeen),
    /// Brings the rows of sources after this one up to date with the clock, a part at a time.
    CorrectSources {
        /// The last source before them.
        after: i64,
    },
    /// The result of an attempt to deliver.
    Delivery(DeliveryRecord),
    /// Due times changed by rules.
    Due(Vec<DueChange>),
    /// The existing rules; the stored state of all others is deleted.
    Rules(Vec<Arc<str>>),
    /// Slot statistics.
    Load(SlotStats),
    /// The price that sources share.
    Price(FleetPrice),
    /// Deletes old rows, a part at a time.
    Prune(DeleteBefore),
    /// Whether the clock can be trusted with deletions.
    DeletionClock(DeletionClock),
    /// Signalled when everything before it is committed.
    Flush(oneshot::Sender<()>),
}

impl Write {
    /// The number of probes that start or end.
    fn probes(&self) -> usize {
        match self {
            Self::Started(attempts) => attempts.len(),
            Self::Cancelled(_) | Self::Ended(_) => 1,
            _ => 0,
        }
    }
}

/// Writes, and returns when that is committed.
pub async fn commit(writes: &mpsc::UnboundedSender<Write>, write: Write) -> Result<(), StoreError> {
    let (done, committed) = oneshot::channel();
    for write in [write, Write::Flush(done)] {
        writes.send(write).map_err(|_| StoreError::Stopped)?;
    }
    committed.await.map_err(|_| StoreError::Stopped)
}

/// A committed write that the scheduler waits for.
#[derive(Debug, Clone, PartialEq)]
pub enum Receipt {
    /// Probes may be sent; what their requests need.
    Started(Vec<(SourceId, RequestInputs)>),
    /// The end of a probe.
    Ended(SourceId),
}

/// The results of a transaction.
#[derive(Debug, Default)]
struct TransactionEffects {
    /// Of each [`Write::Sync`], in order.
    synced: VecDeque<Synced>,
    /// Rows that remain to be deleted.
    more_to_prune: Option<DeleteBefore>,
    /// Of the sources whose probes were started.
    request_inputs: HashMap<SourceId, RequestInputs>,
    /// The rows of some sources do not include all corrections of the clock.
    behind: bool,
    /// The sources after this one remain to be corrected.
    more_to_correct: Option<i64>,
}

/// Whether writing works.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Health {
    /// Writing works.
    #[default]
    Well,
    /// Writing fails and is retried; the error message.
    Stalled(String),
}

/// The writer task.
#[derive(Debug)]
pub struct Writer {
    connection: SqliteConnection,
    inbox: mpsc::UnboundedReceiver<Write>,
    outbox: mpsc::UnboundedSender<Write>,
    receipts: mpsc::UnboundedSender<Receipt>,
    health: watch::Sender<Health>,
    /// The rows of some sources do not include all corrections of the clock.
    behind: bool,
}

/// The channels to and from the writer.
#[derive(Debug)]
pub struct WriterHandle {
    /// The queue of writes. The number of sources bounds its length: each has at most one probe in
    /// progress.
    pub writes: mpsc::UnboundedSender<Write>,
    /// Receipts of committed writes.
    pub receipts: mpsc::UnboundedReceiver<Receipt>,
    /// Whether writing works.
    pub health: watch::Receiver<Health>,
}

/// Largest number of writes in a transaction, so that readers see progress.
const BATCH: usize = 512;

/// While many writes arrive, each transaction waits for more, up to this often and this long each time: its statements
/// take all of them.
const GATHERED_AT_MOST: usize = 10;
const GATHER: Duration = Duration::from_millis(5);

/// A transaction with this many probes waits for no more.
const ENOUGH: usize = 200;

/// Many: this many writes in [`MEASURE`].
const MANY: usize = 80;

/// The time over which arriving writes are counted.
const MEASURE: Duration = Duration::from_millis(200);

const FIRST_RETRY: Duration = Duration::from_millis(250);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// How many writes arrive.
#[derive(Debug)]
struct Arrivals {
    since: Stopwatch,
    counted: usize,
    many: bool,
}

impl Arrivals {
    fn new() -> Self {
        Self { since: Stopwatch::start(), counted: 0, many: false }
    }

    fn count(&mut self, writes: usize) {
        self.counted += writes;
        let passed = self.since.elapsed();
        if passed >= MEASURE {
            let in_time = self.counted as f64 * MEASURE.div_duration_f64(passed);
            *self = Self { many: in_time >= MANY as f64, ..Self::new() };
        }
    }

    fn are_many(&self) -> bool {
        self.many
    }
}

impl Writer {
    /// Creates a writer on this connection, and the channels to it.
    pub fn new(connection: SqliteConnection) -> (Self, WriterHandle) {
        let (writes, inbox) = mpsc::unbounded_channel();
        let (receipts_in, receipts) = mpsc::unbounded_channel();
        let (health_in, health) = watch::channel(Health::Well);
        let writer = Self {
            connection,
            inbox,
            outbox: writes.clone(),
            receipts: receipts_in,
            health: health_in,
            behind: false,
        };
        (writer, WriterHandle { writes, receipts, health })
    }

    /// Writes until `stop` is signalled, or until an error that a retry cannot fix.
    pub async fn run(mut self, mut stop: oneshot::Receiver<()>) -> Result<(), StoreError> {
        let mut batch = Vec::with_capacity(BATCH);
        let mut stopping = false;
        let mut arrivals = Arrivals::new();
        loop {
            tokio::select! {
                biased;
                count = self.inbox.recv_many(&mut batch, BATCH) => {
                    if count == 0 { break }
                }
                _ = &mut stop, if !stopping => {
                    // Writes that are already queued are still stored.
                    stopping = true;
                    self.inbox.close();
                    continue;
                }
            }
            if arrivals.are_many() && !stopping {
                self.gather(&mut batch).await;
            }
            arrivals.count(batch.len());
            self.commit(&mut batch).await?;
        }
        let _ = sqlx::query("PRAGMA optimize").execute(&mut self.connection).await;
        // Merges the write-ahead log into the file, so that a copy of the file alone is whole. A reader may prevent it;
        // nothing is lost then, and nothing waits for it.
        let _ = sqlx::query("PRAGMA busy_timeout = 0").execute(&mut self.connection).await;
        let _ = sqlx::query("PRAGMA wal_checkpoint(TRUNCATE)").execute(&mut self.connection).await;
        self.connection.close().await?;
        Ok(())
    }

    /// Waits for more writes, until there are enough for their statements to cost little for each.
    async fn gather(&mut self, batch: &mut Vec<Write>) {
        let probes = |batch: &[Write]| batch.iter().map(Write::probes).sum::<usize>();
        for _ in 0..GATHERED_AT_MOST {
            while batch.len() < BATCH
                && let Ok(write) = self.inbox.try_recv()
            {
                batch.push(write);
            }
            if batch.len() >= BATCH || probes(batch) >= ENOUGH {
                return;
            }
            real_pause(GATHER).await;
        }
    }

    async fn commit(&mut self, batch: &mut Vec<Write>) -> Result<(), StoreError> {
        let mut pause = FIRST_RETRY;
        let mut written = loop {
            match try_commit(&mut self.connection, batch, self.behind).await {
                Ok(done) => break done,
                Err(error) if may_pass(&error) => {
                    let message = error.to_string();
                    if *self.health.borrow() == Health::Well {
                        tracing::error!(
                            error = %message,
                            waiting = batch.len(),
                            "the store cannot be written; nothing is lost, trying again until it can"
                        );
                    }
                    self.health.send_replace(Health::Stalled(message));
                    real_pause(pause).await;
                    pause = (pause * 2).min(LAST_RETRY);
                }
                Err(error) => return Err(error.into()),
            }
        };
        if self.health.send_replace(Health::Well) != Health::Well {
            tracing::info!("the store can be written again");
        }
        if let Some(before) = written.more_to_prune {
            // Queued after newer writes. Fails when stopping, because the inbox is closed then.
            let _ = self.outbox.send(Write::Prune(before));
        }
        self.behind = written.behind;
        if let Some(after) = written.more_to_correct {
            let _ = self.outbox.send(Write::CorrectSources { after });
        }
        for write in batch.drain(..) {
            // A closed receiver needs no receipt.
            match write {
                Write::Started(attempts) => {
                    let inputs = &mut written.request_inputs;
                    let with_inputs = attempts.iter().map(|attempt| {
                        (attempt.source, inputs.remove(&attempt.source).unwrap_or_default())
                    });
                    drop(self.receipts.send(Receipt::Started(with_inputs.collect())));
                }
                Write::Ended(record) => drop(self.receipts.send(Receipt::Ended(record.attempt.source))),
                Write::Sync { reply, .. } => {
                    if let Some(synced) = written.synced.pop_front() {
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

/// Runs one transaction with plain statements. If the disk is full, SQLite may roll back by itself; a
/// transaction of sqlx would then stay open.
async fn try_commit(
    connection: &mut SqliteConnection,
    batch: &[Write],
    behind: bool,
) -> Result<TransactionEffects, sqlx::Error> {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let written = async {
        let done = write_all(connection, batch, behind).await?;
        sqlx::query("COMMIT").execute(&mut *connection).await?;
        Ok(done)
    };
    let outcome = written.await;
    if outcome.is_err() {
        // Fails if SQLite has already rolled back, which has the same effect.
        let _ = sqlx::query("ROLLBACK").execute(connection).await;
    }
    outcome
}

async fn write_all(
    connection: &mut SqliteConnection,
    writes: &[Write],
    behind: bool,
) -> Result<TransactionEffects, sqlx::Error> {
    let mut written = TransactionEffects { behind, ..TransactionEffects::default() };
    let mut batch = WriteBatch::default();
    batch.behind(behind);
    let mut started = Vec::new();
    for item in writes {
        match item {
            Write::Started(attempts) => {
                started.extend(attempts.iter().map(|attempt| attempt.source.0));
                batch.start(connection, attempts).await?;
            }
            Write::Cancelled(id) => batch.cancel(connection, *id).await?,
            Write::Ended(record) => batch.end(connection, record).await?,
            Write::Due(due) => batch.due(connection, due).await?,
            Write::Plans(plans) => batch.plan(connection, plans).await?,
            Write::Event(event) => batch.event(event),
            Write::Flush(_) => {}
            item => {
                batch.write(connection).await?;
                write_one(connection, item, &mut written).await?;
                batch.behind(written.behind);
            }
        }
    }
    batch.write(connection).await?;
    let inputs = attempts::request_inputs(connection, &started).await?;
    written.request_inputs = inputs.into_iter().collect();
    Ok(written)
}

/// Writes an item that is not collected with others of its kind.
async fn write_one(
    connection: &mut SqliteConnection,
    item: &Write,
    written: &mut TransactionEffects,
) -> Result<(), sqlx::Error> {
    match item {
        Write::Rates(rates) => rhythm::rates(connection, rates).await?,
        Write::Relearned(records) => rhythm::relearned(connection, records).await?,
        Write::Robots(robots) => write::robots(connection, robots).await?,
        Write::Pardoned(pardon) => write::pardon(connection, pardon).await?,
        Write::Answer { request, answer } => write::answer(connection, *request, answer).await?,
        Write::FirstDue(due) => {
            if written.behind {
                clock_set::correct(connection, &due.iter().map(|(id, _)| id.0).collect::<Vec<_>>()).await?;
            }
            sync::first_due(connection, due).await?;
        }
        Write::Sync { listed, gone, at, .. } => {
            written.synced.push_back(sync::sync(connection, listed, gone, *at).await?);
        }
        Write::Rename { names, at } => sync::rename(connection, names, *at).await?,
        Write::ClockSet(correction, seen) => {
            clock_set::record(connection, *correction).await?;
            seen.write(connection).await?;
            (written.behind, written.more_to_correct) = (true, Some(0));
        }
        Write::ClockSeen(seen) => seen.write(connection).await?,
        Write::CorrectSources { after } => {
            written.behind = true;
            written.more_to_correct = match clock_set::correct_some(connection, *after).await? {
                // Not instead of a correction that begins in this transaction.
                Behind::After(last) => Some(written.more_to_correct.map_or(last, |other| other.min(last))),
                Behind::Others => written.more_to_correct,
                Behind::NoSource => {
                    written.behind = false;
                    None
                }
            };
        }
        Write::Delivery(record) => outbox::settle(connection, record).await?,
        Write::Rules(known) => rules::forget_others(connection, known).await?,
        Write::Load(load) => write::load(connection, load).await?,
        Write::Price(price) => fleet_prices::write(connection, price).await?,
        Write::DeletionClock(clock) => clock.write(connection).await?,
        Write::Prune(before) => {
            let more = retention::delete_batch(connection, *before).await?;
            written.more_to_prune = more.then_some(*before);
        }
        Write::Started(_)
        | Write::Cancelled(_)
        | Write::Ended(_)
        | Write::Due(_)
        | Write::Plans(_)
        | Write::Event(_)
        | Write::Flush(_) => {}
    }
    Ok(())
}
