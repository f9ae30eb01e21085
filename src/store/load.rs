//! Loads the state that a daemon needs at its start, in one scan, page by page.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::json;
use sqlx::{AssertSqlSafe, Connection, Row, SqliteConnection};

use tidewatch_core::engine::fleet_price::FleetPrice;
use tidewatch_core::engine::params::HostGroup;
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::clock::{ClockSeen, LogPeriod, StoredClock};
use super::json_rows::read_text;
use super::source_row::{self, SourceRow};
use super::sync::{Listing, sync_all};
use super::{crashes, fleet_prices};

/// The stored state that belongs to no single source.
#[derive(Debug, Clone, Default)]
pub struct StoredState {
    /// Host groups: the end of their pause, and their crawl delay.
    pub hosts: Vec<(HostGroup, Option<Timestamp>, Span)>,
    /// Origins, and the crawl delay that their robots.txt asks for.
    pub crawl_delays: Vec<(String, Span)>,
    /// The corrections of the clock.
    pub clock: StoredClock,
    /// Seed of the jitter.
    pub seed: u64,
    /// The price that was stored last.
    pub price: Option<FleetPrice>,
    /// When the store was used first after it was restored from a backup, or the far past before that.
    pub restored: Option<Timestamp>,
}

/// The stored state of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    /// The source's number.
    pub id: SourceId,
    /// The source's name.
    pub name: String,
    /// The engine's state of the source.
    pub memory: SourceMemory,
    /// The URL of the last document, after redirects.
    pub answered_at: Option<String>,
    /// End times of its recent probes.
    pub probes: Vec<Timestamp>,
}

/// Longest duration that is logged for an interrupted probe.
const LONGEST_REQUEST: Span = Span::from_hours(1);

/// Synchronizes the store with the configured source list. Must run first when a process becomes the
/// store's only writer.
pub async fn begin(
    connection: &mut SqliteConnection,
    listed: &[impl Listing],
    now: Timestamp,
    boot: Option<&str>,
) -> Result<(), StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    if begin_after_restore(&mut transaction, now).await? {
        // Of the daemon that was running when the backup was made.
        crashes::asked_to_stop(&mut transaction).await?;
    }
    crashes::count_death(&mut transaction, boot).await?;
    let interrupted = recover(&mut transaction, now).await?;
    let dropped = drop_requests(&mut transaction).await?;
    sync_all(&mut transaction, listed, now).await?;
    transaction.commit().await?;
    if interrupted > 0 {
        tracing::warn!(
            interrupted,
            "probes were in progress when tidewatch last ended; they are logged as failed and count against their budgets"
        );
    }
    if dropped > 0 {
        tracing::warn!(
            dropped,
            "requests for probes were left from an earlier run; they are dropped, request them again"
        );
    }
    Ok(())
}

/// Refuses the requested probes that an earlier run has not answered. Returns their number.
async fn drop_requests(connection: &mut SqliteConnection) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "UPDATE requests SET answer = 'refused: tidewatch was restarted meanwhile; request it again'
         WHERE answer IS NULL",
    )
    .execute(&mut *connection)
    .await?;
    let pardons =
        sqlx::query("UPDATE pardons SET answer = 'refused: tidewatch was restarted' WHERE answer IS NULL");
    Ok(done.rows_affected() + pardons.execute(connection).await?.rows_affected())
}

/// In `meta`: when the daemon started first after a restore; 0 before that.
pub(super) const RESTORED: &str = "first_start_after_restore";

/// Notes the first start after a restore. Returns whether this is one.
async fn begin_after_restore(
    connection: &mut SqliteConnection,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let noted = sqlx::query("UPDATE meta SET value = ? WHERE key = ? AND value = 0")
        .bind(now.as_millis())
        .bind(RESTORED)
        .execute(connection)
        .await?;
    Ok(noted.rows_affected() > 0)
}

/// Logs the probes that were in progress at the last end (table `flights`) as failed, so that budgets count
/// them. Returns their number.
async fn recover(connection: &mut SqliteConnection, now: Timestamp) -> Result<u64, StoreError> {
    let done = sqlx::query(
        "INSERT INTO probes (source_id, due_at, started_at, duration_ms, outcome, policy, reason, error)
         SELECT source_id, due_at, started_at, max(0, min(?1 - started_at, ?2)), 'failed', policy, reason,
                'interrupted: tidewatch was stopped before the answer was stored'
         FROM flights",
    )
    .bind(now.as_millis())
    .bind(LONGEST_REQUEST.as_millis())
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM flights").execute(connection).await?;
    Ok(done.rows_affected())
}

/// The stored state that belongs to no single source, by the clock as it is now.
pub async fn stored_state(
    connection: &mut SqliteConnection,
    now: &ClockSeen,
) -> Result<StoredState, StoreError> {
    let clock = StoredClock::read_at(connection, now).await?;
    let by = clock.unrecorded();
    let mut stored = StoredState { clock, ..StoredState::default() };
    for row in sqlx::query("SELECT host, public, paused_until, crawl_delay_ms FROM hosts")
        .fetch_all(&mut *connection)
        .await?
    {
        let host = HostGroup { key: row.get::<String, _>(0).into(), public: row.get(1) };
        let paused_until: Option<i64> = row.get(2);
        stored.hosts.push((
            host,
            paused_until.map(|until| Timestamp::from_millis(until) + by),
            Span::from_millis(row.get(3)),
        ));
    }
    let delays = "SELECT origin, crawl_delay_ms FROM robots WHERE crawl_delay_ms > 0";
    for row in sqlx::query(delays).fetch_all(&mut *connection).await? {
        stored.crawl_delays.push((row.get(0), Span::from_millis(row.get(1))));
    }
    let price = fleet_prices::last(&mut *connection, now.reading.now - by).await?;
    stored.price = price.map(|price| FleetPrice { at: price.at + by, ..price });
    let restored: Option<i64> = sqlx::query_scalar("SELECT value FROM meta WHERE key = ?")
        .bind(RESTORED)
        .fetch_optional(&mut *connection)
        .await?;
    // Zero before the first start.
    stored.restored = restored.map(|at| Timestamp::from_millis(at) + if at == 0 { Span::ZERO } else { by });
    stored.seed = seed(connection).await?;
    Ok(stored)
}

/// The seed of the jitter of this installation.
pub async fn seed(connection: &mut SqliteConnection) -> Result<u64, StoreError> {
    let seed: i64 =
        sqlx::query_scalar("SELECT value FROM meta WHERE key = 'seed'").fetch_one(connection).await?;
    Ok(seed as u64)
}

/// Sources per page: all rows of a million sources would take more memory than the engine.
const PAGE: i64 = 2_000;

/// A query for the stored state of the sources selected by `rest`, with the end times of their probes in
/// the column `recent`. It returns one JSON text, which is several times faster than single rows.
fn query_for(recent: &str, rest: &str) -> String {
    format!(
        "SELECT json_group_array(json_array(id, name, validators_url, recent, clock_ms, json_array({})))
         FROM (SELECT id, name, validators_url, {recent} AS recent, clock_ms, {} FROM sources {rest})",
        *source_row::NAMES,
        *source_row::AS_READ,
    )
}

fn a_page(clock: &StoredClock, since: Timestamp) -> String {
    let ends = |period: LogPeriod| {
        format!(
            "coalesce((SELECT group_concat(started_at + duration_ms + {}) FROM probes
                       WHERE source_id = sources.id AND {} AND uncharged IS NULL), '')",
            period.shift.as_millis(),
            period.condition("?2"),
        )
    };
    let ends: Vec<String> = clock.periods(since).into_iter().map(ends).collect();
    query_for(&ends.join(" || ',' || "), "WHERE id > ?1 AND state <> 'removed' ORDER BY id LIMIT ?3")
}

static BY_NUMBER: LazyLock<String> =
    LazyLock::new(|| query_for("NULL", "WHERE id IN (SELECT value FROM json_each(?))"));

/// One source in the JSON text.
#[derive(Debug, serde::Deserialize)]
struct StoredMemory {
    id: i64,
    name: String,
    validators_url: Option<String>,
    recent: Option<String>,
    clock_ms: i64,
    row: SourceRow,
}

/// Passes every source that is not removed to `take`, by ascending number, with its probes since `since`.
pub async fn each(
    connection: &mut SqliteConnection,
    clock: &StoredClock,
    now: Timestamp,
    since: Timestamp,
    mut take: impl FnMut(Remembered),
) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    let statement = a_page(clock, since);
    // A longer window has more probes per source, so a page has fewer sources.
    let weeks = (now - since).as_millis() / Span::from_days(7).as_millis();
    let page = (PAGE / weeks.max(1)).max(20);
    loop {
        let text: String = sqlx::query_scalar(AssertSqlSafe(statement.as_str()))
            .bind(after)
            .bind(since.as_millis())
            .bind(page)
            .fetch_one(&mut *connection)
            .await?;
        let page: Vec<StoredMemory> = read_text(&text)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.id;
        page.into_iter().for_each(|stored| take(stored.remembered(clock, now)));
    }
}

/// The stored state of one source, listed or not.
pub async fn remembered(
    connection: &mut SqliteConnection,
    id: SourceId,
    now: Timestamp,
) -> Result<SourceMemory, StoreError> {
    let mut memories = remembered_of(connection, &[id], now).await?;
    memories.remove(&id).ok_or(StoreError::Sql(sqlx::Error::RowNotFound))
}

/// The stored state of several sources.
pub async fn remembered_of(
    connection: &mut SqliteConnection,
    ids: &[SourceId],
    now: Timestamp,
) -> Result<HashMap<SourceId, SourceMemory>, StoreError> {
    let clock = StoredClock::read(connection).await?;
    let mut memories = HashMap::with_capacity(ids.len());
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    for chunk in ids.chunks(usize::try_from(PAGE).unwrap_or(1)) {
        let text: String = sqlx::query_scalar(AssertSqlSafe(BY_NUMBER.as_str()))
            .bind(json!(chunk).to_string())
            .fetch_one(&mut *connection)
            .await?;
        let stored: Vec<StoredMemory> = read_text(&text)?;
        memories.extend(stored.into_iter().map(|stored| (SourceId(stored.id), stored.memory(&clock, now))));
    }
    Ok(memories)
}

impl StoredMemory {
    /// Its state by the clock as it is now.
    fn memory(self, clock: &StoredClock, now: Timestamp) -> SourceMemory {
        let behind = clock.corrected() - Span::from_millis(self.clock_ms);
        let mut memory = self.row.memory();
        if behind != Span::ZERO {
            memory.shift(behind, now);
        }
        memory
    }

    fn remembered(mut self, clock: &StoredClock, now: Timestamp) -> Remembered {
        let recent = self.recent.take();
        let ends = recent.as_deref().unwrap_or_default().split(',').filter_map(|end| end.parse().ok());
        Remembered {
            id: SourceId(self.id),
            name: std::mem::take(&mut self.name),
            answered_at: self.validators_url.take(),
            probes: ends.map(Timestamp::from_millis).collect(),
            memory: self.memory(clock, now),
        }
    }
}
