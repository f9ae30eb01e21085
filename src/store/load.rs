//! What a daemon needs to know when it starts: everything that was remembered, in one scan,
//! a page at a time.

use std::collections::HashMap;

use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use crate::fleet::life::Life;
use crate::fleet::params::{HostGroup, SourceId};
use crate::fleet::source::{Memory, MoveProof, Reason, State};
use crate::observe::FeedHints;
use crate::schedule::policy::Policy;
use crate::time::{Span, Timestamp};

use super::StoreError;
use super::sync::{Listing, sync_all};

/// What is remembered beside the sources.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// What host groups asked for: paused until, crawl delay.
    pub hosts: Vec<(HostGroup, Timestamp, Span)>,
    /// The latest instant that the store knows of: if it lies ahead, the clock was set back.
    pub latest: Option<Timestamp>,
    /// What jitter is drawn from.
    pub seed: u64,
}

/// What is remembered of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    /// Its number.
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// What must survive a restart.
    pub memory: Memory,
    /// The address that last gave a document, after redirects.
    pub answered_at: Option<String>,
    /// When its recent probes ended.
    pub probes: Vec<Timestamp>,
}

/// A probe ends within its time-outs, however they are set; one that was interrupted counts until here.
const LONGEST_REQUEST: Span = Span::from_hours(1);

/// Brings the store up to date with the configured list. What a process does first when it becomes
/// the store's only writer.
pub async fn begin(
    connection: &mut SqliteConnection,
    listed: &[impl Listing],
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let interrupted = recover(&mut transaction, now).await?;
    sync_all(&mut transaction, listed, now).await?;
    transaction.commit().await?;
    if interrupted > 0 {
        tracing::warn!(interrupted, "probes were under way when tidewatch last ended; they count");
    }
    Ok(())
}

/// Turns flights that nobody heard of again into failed probes, so that the budget counts them.
/// Returns how many there were.
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

/// What is remembered beside the sources.
pub async fn standing(connection: &mut SqliteConnection) -> Result<Standing, StoreError> {
    let mut standing = Standing::default();
    for row in sqlx::query("SELECT host, public, paused_until, crawl_delay_ms FROM hosts")
        .fetch_all(&mut *connection)
        .await?
    {
        let host = HostGroup { key: row.get::<String, _>(0).into(), public: row.get(1) };
        let paused = instant(&row, "paused_until").unwrap_or(Timestamp::MIN);
        standing.hosts.push((host, paused, Span::from_millis(row.get(3))));
    }
    // Not events: they stay where the clock was when they happened, also when it was set since.
    let latest: Option<i64> =
        sqlx::query_scalar("SELECT max(started_at) FROM probes").fetch_one(&mut *connection).await?;
    standing.latest = latest.map(Timestamp::from_millis);
    let seed: i64 =
        sqlx::query_scalar("SELECT value FROM meta WHERE key = 'seed'").fetch_one(connection).await?;
    standing.seed = seed as u64;
    Ok(standing)
}

/// Sources that are read at a time: the rows of a million would take more memory than all that is
/// made of them.
const PAGE: i64 = 5_000;

/// Hands over every source that is not removed, in the order of their numbers, with its probes as
/// far back as `since`.
pub async fn each(
    connection: &mut SqliteConnection,
    since: Timestamp,
    mut take: impl FnMut(Remembered),
) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    loop {
        // Probes as one text: a row for each would cost more than all else.
        let rows = sqlx::query(
            "SELECT id, name, state, next_probe_at, next_probe_reason, last_probe_at, last_update_at,
                    error_streak, known_updates, fresh_until, retry_until, backoff_until, ttl_ms, skip_hours,
                    skip_days, update_period_ms, moving_to, moving_times, moving_since, adopted_url,
                    holds, validators_url, next_probe_policy, follows, newest_at, burst_since, in_bursts,
                    quiet_since, reserve_whole_at,
                    (SELECT group_concat(started_at + duration_ms) FROM probes
                     WHERE source_id = sources.id AND started_at >= ?2) AS probes
             FROM sources WHERE id > ?1 AND state <> 'removed' ORDER BY id LIMIT ?3",
        )
        .bind(after)
        .bind(since.as_millis())
        .bind(PAGE)
        .fetch_all(&mut *connection)
        .await?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = last.get("id");
        for row in rows {
            let probes = row.get::<Option<&str>, _>("probes").unwrap_or_default();
            let ends = probes.split(',').filter_map(|end| end.parse().ok());
            take(Remembered {
                id: SourceId(row.get("id")),
                name: row.get("name"),
                memory: memory(&row),
                answered_at: row.get("validators_url"),
                probes: ends.map(Timestamp::from_millis).collect(),
            });
        }
    }
}

/// What is remembered of one source, also while it is not listed.
pub async fn remembered(connection: &mut SqliteConnection, id: SourceId) -> Result<Memory, StoreError> {
    let row = sqlx::query("SELECT * FROM sources WHERE id = ?").bind(id.0).fetch_one(connection).await?;
    Ok(memory(&row))
}

/// The same of several.
pub async fn remembered_of(
    connection: &mut SqliteConnection,
    ids: &[SourceId],
) -> Result<HashMap<SourceId, Memory>, StoreError> {
    let mut memories = HashMap::with_capacity(ids.len());
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    for chunk in ids.chunks(usize::try_from(PAGE).unwrap_or(1)) {
        let rows = sqlx::query("SELECT * FROM sources WHERE id IN (SELECT value FROM json_each(?))")
            .bind(json!(chunk).to_string())
            .fetch_all(&mut *connection)
            .await?;
        memories.extend(rows.iter().map(|row| (SourceId(row.get("id")), memory(row))));
    }
    Ok(memories)
}

fn instant(row: &SqliteRow, column: &str) -> Option<Timestamp> {
    row.get::<Option<i64>, _>(column).map(Timestamp::from_millis)
}

fn span(row: &SqliteRow, column: &str) -> Option<Span> {
    row.get::<Option<i64>, _>(column).map(Span::from_millis)
}

fn memory(row: &SqliteRow) -> Memory {
    let state = State::from_name(row.get("state")).unwrap_or_default();
    let due = instant(row, "next_probe_at").unwrap_or(match state {
        State::Resting => Timestamp::MAX,
        _ => Timestamp::default(),
    });
    let reason =
        row.get::<Option<&str>, _>("next_probe_reason").and_then(Reason::from_name).unwrap_or_default();
    let moving = row.get::<Option<String>, _>("moving_to").map(|target| {
        Box::new(MoveProof {
            target,
            times: row.get::<Option<u32>, _>("moving_times").unwrap_or(0),
            since: instant(row, "moving_since").unwrap_or(Timestamp::MAX),
        })
    });
    Memory {
        state,
        due,
        reason,
        last_probe: instant(row, "last_probe_at"),
        last_update: instant(row, "last_update_at"),
        error_streak: row.get("error_streak"),
        known_updates: row.get::<i64, _>("known_updates").max(0).unsigned_abs(),
        fresh_until: instant(row, "fresh_until"),
        retry_until: instant(row, "retry_until"),
        backoff_until: instant(row, "backoff_until"),
        hints: FeedHints {
            ttl: span(row, "ttl_ms"),
            skip_hours: row.get("skip_hours"),
            skip_days: row.get("skip_days"),
            update_period: span(row, "update_period_ms"),
        },
        holds: row.get("holds"),
        moving,
        adopted_url: row.get::<Option<String>, _>("adopted_url").map(String::into_boxed_str),
        life: life(row),
    }
}

fn life(row: &SqliteRow) -> Life {
    let policy = |column| row.get::<Option<&str>, _>(column).and_then(Policy::from_name);
    Life {
        asked_by: policy("next_probe_policy").unwrap_or(Policy::Uniform),
        follows: policy("follows").unwrap_or(Policy::Uniform),
        newest: instant(row, "newest_at"),
        burst_since: instant(row, "burst_since"),
        in_bursts: row.get("in_bursts"),
        quiet_since: instant(row, "quiet_since"),
        reserve_whole_at: instant(row, "reserve_whole_at"),
    }
}
