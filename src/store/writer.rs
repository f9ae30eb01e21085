//! The task that owns the daemon's only writing connection.
//!
//! Writes all queued items in one `BEGIN IMMEDIATE` transaction, and sends receipts after its commit. If
//! the disk is full or the file is busy, it retries the same batch until that succeeds. So only committed
//! writes are acknowledged. A write that SQLite refuses for its content is left out, see `leave_out`.
//! Another error that a retry cannot fix ends the task and the daemon.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, SqliteConnection};
use tokio::sync::{mpsc, oneshot, watch};

use crate::clock::{Stopwatch, real_pause};
use tidewatch_core::engine::action::{AdoptedPlan, Attempt, BackoffChange, DueChange};
use tidewatch_core::engine::fleet_price::FleetPrice;
use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::attempts::RequestInputs;
use super::batch::WriteBatch;
use super::clock::{ClockSeen, Correction};
use super::clock_set::Behind;
use super::error::{is_refused, may_pass};
use super::record::{
    DeliveryRecord, EventRecord, PardonRecord, ProbeOutcome, ProbeRecord, RateRecord, RelearnedRecord,
    RobotsRecord, ValidatorsChange,
};
use super::retention::{self, DeleteBefore, DeletionClock};
use super::rhythm;
use super::sync::{Listed, Synced};
use super::{StoreError, attempts, clock_set, crashes, fleet_prices, outbox, rules, sync, write};

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
    /// The backoff of a source that was alone in progress when the daemon died.
    Backoff(Box<BackoffChange>),
    /// A probe of a source ended: it is not suspected any more.
    SuspicionOver(SourceId),
    /// The daemon is asked to stop.
    Stopping,
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
    /// What it is, for messages.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Started(_) => "the start of a probe",
            Self::Cancelled(_) => "a cancelled probe",
            Self::Ended(_) => "the end of a probe",
            Self::Event(_) => "an event",
            Self::Rates(_) => "a rate",
            Self::Relearned(_) => "evidence",
            Self::Plans(_) => "a plan",
            Self::Robots(_) => "a robots.txt",
            Self::Pardoned(_) => "a pardon",
            Self::Answer { .. } => "the answer to a request",
            Self::FirstDue(_) | Self::Due(_) => "a due time",
            Self::Sync { .. } => "the list of sources",
            Self::Rename { .. } => "another name",
            Self::ClockSet(..) | Self::ClockSeen(_) => "a change of the clock",
            Self::CorrectSources { .. } => "times by another clock",
            Self::Delivery(_) => "a delivery",
            Self::Backoff(_) => "a backoff",
            Self::SuspicionOver(_) => "the end of a suspicion",
            Self::Stopping => "the stop",
            Self::Rules(_) => "the list of rules",
            Self::Load(_) => "slot statistics",
            Self::Price(_) => "a price",
            Self::Prune(_) | Self::DeletionClock(_) => "a deletion",
            Self::Flush(_) => "nothing",
        }
    }

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

    /// Commits a batch. If SQLite refuses one of its writes, the others are committed in smaller transactions.
    async fn commit(&mut self, batch: &mut Vec<Write>) -> Result<(), StoreError> {
        let mut groups = VecDeque::from([std::mem::take(batch)]);
        while let Some(group) = groups.pop_front() {
            match self.commit_group(&group).await? {
                Ok(written) => self.acknowledge(group, written),
                Err(error) => {
                    let instead = match split(group) {
                        Ok(parts) => parts,
                        Err(write) => {
                            vec![leave_out(&mut self.connection, *write, error).await?]
                        }
                    };
                    instead.into_iter().rev().for_each(|group| groups.push_front(group));
                }
            }
        }
        Ok(())
    }

    /// Commits these writes together, as soon as the store can be written. Returns the error if it refuses them.
    async fn commit_group(
        &mut self,
        batch: &[Write],
    ) -> Result<Result<TransactionEffects, sqlx::Error>, StoreError> {
        let mut pause = FIRST_RETRY;
        let written = loop {
            match try_commit(&mut self.connection, batch, self.behind).await {
                Ok(done) => break done,
                Err(error) if is_refused(&error) => return Ok(Err(error)),
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
        Ok(Ok(written))
    }

    fn acknowledge(&mut self, batch: Vec<Write>, mut written: TransactionEffects) {
        if let Some(before) = written.more_to_prune {
            // Queued after newer writes. Fails when stopping, because the inbox is closed then.
            let _ = self.outbox.send(Write::Prune(before));
        }
        self.behind = written.behind;
        if let Some(after) = written.more_to_correct {
            let _ = self.outbox.send(Write::CorrectSources { after });
        }
        for write in batch {
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
        Write::Backoff(change) => {
            if written.behind {
                clock_set::correct(connection, &[change.due.source.0]).await?;
            }
            crashes::back_off(connection, change).await?;
        }
        Write::SuspicionOver(id) => crashes::suspicion_over(connection, *id).await?,
        Write::Stopping => crashes::asked_to_stop(connection).await?,
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

/// The error of a probe whose result was refused.
const NOT_STORED: &str = "its result cannot be stored";

/// Splits writes, in order, so that a part of them can be committed. Returns the only one if it cannot be split.
fn split(mut group: Vec<Write>) -> Result<Vec<Vec<Write>>, Box<Write>> {
    if group.len() > 1 {
        let rest = group.split_off(group.len() / 2);
        return Ok(vec![group, rest]);
    }
    fn singly<T>(many: Vec<T>, write: fn(Vec<T>) -> Write) -> Vec<Vec<Write>> {
        many.into_iter().map(|one| vec![write(vec![one])]).collect()
    }
    match group.pop() {
        Some(Write::Started(many)) if many.len() > 1 => Ok(singly(many, Write::Started)),
        Some(Write::Rates(many)) if many.len() > 1 => Ok(singly(many, Write::Rates)),
        Some(Write::Relearned(many)) if many.len() > 1 => Ok(singly(many, Write::Relearned)),
        Some(Write::Plans(many)) if many.len() > 1 => Ok(singly(many, Write::Plans)),
        Some(Write::Due(many)) if many.len() > 1 => Ok(singly(many, Write::Due)),
        Some(Write::FirstDue(many)) if many.len() > 1 => Ok(singly(many, Write::FirstDue)),
        Some(write) => Err(Box::new(write)),
        None => Ok(Vec::new()),
    }
}

/// Reports a refused write. Returns what is to be written in its place.
async fn leave_out(
    connection: &mut SqliteConnection,
    write: Write,
    error: sqlx::Error,
) -> Result<Vec<Write>, StoreError> {
    let (source, at) = concerns(&write);
    let name: Option<String> = match source {
        Some(id) => {
            let query = sqlx::query_scalar("SELECT name FROM sources WHERE id = ?").bind(id.0);
            query.fetch_optional(connection).await.unwrap_or_default()
        }
        None => None,
    };
    let kind = write.kind();
    tracing::error!(
        source = name.as_deref().unwrap_or_default(),
        %error,
        "the store refuses a write ({kind}); it is left out, and everything else is stored; please report it"
    );
    let detail = Some(format!("{kind}: {error}"));
    let event = at.map(|at| Write::Event(EventRecord { at, kind: "write_refused", source, detail }));
    let instead = match write {
        Write::Ended(record) if record.error.as_deref() != Some(NOT_STORED) => {
            Some(Write::Ended(Box::new(reduced(*record))))
        }
        Write::Started(attempts) if attempts.iter().any(|attempt| attempt.forecast.is_some()) => {
            let without = |attempt| Attempt { forecast: None, ..attempt };
            Some(Write::Started(attempts.into_iter().map(without).collect()))
        }
        // The scheduler waits for these.
        Write::Started(_) | Write::Ended(_) => return Err(error.into()),
        // It would be refused again.
        Write::Event(_) => return Ok(Vec::new()),
        _ => None,
    };
    Ok(instead.into_iter().chain(event).collect())
}

/// What the schedule and the budget need of a probe. The validators are kept, so the next probe finds its updates again.
fn reduced(record: ProbeRecord) -> ProbeRecord {
    ProbeRecord {
        outcome: ProbeOutcome::Failed,
        error: Some(NOT_STORED.to_owned()),
        validators: ValidatorsChange::Keep,
        document: None,
        observation: None,
        beliefs: None,
        burst: None,
        burst_so_far: None,
        events: Vec::new(),
        matches: Vec::new(),
        rules: Vec::new(),
        compared: None,
        ..record
    }
}

/// The source that a write concerns, if it is one, and its time, if it has one.
fn concerns(write: &Write) -> (Option<SourceId>, Option<Timestamp>) {
    match write {
        Write::Started(attempts) => {
            let first = attempts.first();
            (first.map(|attempt| attempt.source), first.map(|attempt| attempt.started))
        }
        Write::Ended(record) => (Some(record.attempt.source), Some(record.finished)),
        Write::Cancelled(id) | Write::SuspicionOver(id) => (Some(*id), None),
        Write::Backoff(change) => (Some(change.due.source), None),
        Write::Event(event) => (event.source, None),
        Write::Rates(rates) => {
            let first = rates.first();
            (first.map(|rate| rate.source), first.map(|rate| rate.fitted_at))
        }
        Write::Plans(plans) => {
            let first = plans.first();
            (first.map(|plan| plan.due.source), first.map(|plan| plan.made_at))
        }
        Write::Relearned(records) => (records.first().map(|record| record.source), None),
        Write::Due(changes) => (changes.first().map(|change| change.source), None),
        Write::FirstDue(due) => (due.first().map(|&(source, _)| source), None),
        Write::Robots(robots) => (None, Some(robots.fetched_at)),
        Write::Delivery(record) => (None, Some(record.at)),
        Write::ClockSet(correction, _) => (None, Some(correction.at)),
        Write::Pardoned(pardon) => (None, Some(pardon.at)),
        Write::Load(load) => (None, Some(load.until)),
        Write::Price(price) => (None, Some(price.at)),
        Write::Sync { at, .. } | Write::Rename { at, .. } => (None, Some(*at)),
        Write::Answer { .. }
        | Write::ClockSeen(_)
        | Write::CorrectSources { .. }
        | Write::Rules(_)
        | Write::Prune(_)
        | Write::DeletionClock(_)
        | Write::Stopping
        | Write::Flush(_) => (None, None),
    }
}
