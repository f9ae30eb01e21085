//! What a daemon needs to know when it starts: everything that was remembered, in a few scans.

use std::collections::HashMap;

use sqlx::sqlite::SqliteRow;
use sqlx::{Connection, Row, SqliteConnection};

use crate::fleet::estimate::Forgetting;
use crate::fleet::life::Life;
use crate::fleet::params::{HostGroup, SourceId};
use crate::fleet::source::{Memory, MoveProof, Reason, State};
use crate::observe::FeedHints;
use crate::schedule::policy::Policy;
use crate::time::{Span, Timestamp};

use super::StoreError;
use super::sync::{Listed, sync};

/// All that was remembered.
#[derive(Debug, Default)]
pub struct Loaded {
    /// Sources that are not removed, by name.
    pub sources: HashMap<String, Remembered>,
    /// When each source's recent probes ended.
    pub probes: HashMap<SourceId, Vec<Timestamp>>,
    /// What host groups asked for: paused until, crawl delay.
    pub hosts: Vec<(HostGroup, Timestamp, Span)>,
    /// The latest instant that the store knows of: if it lies ahead, the clock was set back.
    pub latest: Option<Timestamp>,
    /// What jitter is drawn from.
    pub seed: u64,
}

/// What is remembered of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Remembered {
    /// Its number.
    pub id: SourceId,
    /// What must survive a restart.
    pub memory: Memory,
    /// The address that last gave a document, after redirects.
    pub answered_at: Option<String>,
}

/// A probe ends within its time-outs, however they are set; one that was interrupted counts until here.
const LONGEST_REQUEST: Span = Span::from_hours(1);

/// Brings the store up to date with the configured list and reads what is remembered; probes as
/// far back as `since`. What a process does first when it becomes the store's only writer.
pub async fn begin(
    connection: &mut SqliteConnection,
    listed: &[Listed],
    now: Timestamp,
    since: Timestamp,
) -> Result<Loaded, StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let interrupted = recover(&mut transaction, now).await?;
    sync(&mut transaction, listed, now).await?;
    transaction.commit().await?;
    if interrupted > 0 {
        tracing::warn!(interrupted, "probes were under way when tidewatch last ended; they count");
    }
    load(connection, since).await
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

/// Reads everything that was remembered; probes as far back as `since`.
pub async fn load(connection: &mut SqliteConnection, since: Timestamp) -> Result<Loaded, StoreError> {
    let mut loaded = Loaded::default();
    let rows = sqlx::query(
        "SELECT id, name, state, next_probe_at, next_probe_reason, last_probe_at, last_update_at, error_streak,
                known_updates, fresh_until, retry_until, backoff_until, ttl_ms, skip_hours, skip_days,
                update_period_ms, moving_to, moving_times, moving_since, adopted_url,
                holds, validators_url, next_probe_policy, follows, newest_at, burst_since, in_bursts, quiet_since,
                reserve_whole_at, last_look_at, estimate
         FROM sources WHERE state <> 'removed'",
    )
    .fetch_all(&mut *connection)
    .await?;
    for row in rows {
        let remembered = Remembered {
            id: SourceId(row.get("id")),
            memory: memory(&row),
            answered_at: row.get("validators_url"),
        };
        loaded.sources.insert(row.get("name"), remembered);
    }
    let rows = sqlx::query("SELECT source_id, started_at + duration_ms FROM probes WHERE started_at >= ?")
        .bind(since.as_millis())
        .fetch_all(&mut *connection)
        .await?;
    for row in rows {
        let id = SourceId(row.get(0));
        loaded.probes.entry(id).or_default().push(Timestamp::from_millis(row.get(1)));
    }
    for row in sqlx::query("SELECT host, public, paused_until, crawl_delay_ms FROM hosts")
        .fetch_all(&mut *connection)
        .await?
    {
        let host = HostGroup { key: row.get::<String, _>(0).into(), public: row.get(1) };
        let paused = instant(&row, "paused_until").unwrap_or(Timestamp::MIN);
        loaded.hosts.push((host, paused, Span::from_millis(row.get(3))));
    }
    // Not events: they stay where the clock was when they happened, also when it was set since.
    let latest: Option<i64> =
        sqlx::query_scalar("SELECT max(started_at) FROM probes").fetch_one(&mut *connection).await?;
    loaded.latest = latest.map(Timestamp::from_millis);
    let seed: i64 =
        sqlx::query_scalar("SELECT value FROM meta WHERE key = 'seed'").fetch_one(connection).await?;
    loaded.seed = seed as u64;
    Ok(loaded)
}

/// What is remembered of one source, also while it is not listed.
pub async fn remembered(connection: &mut SqliteConnection, id: SourceId) -> Result<Memory, StoreError> {
    let row = sqlx::query("SELECT * FROM sources WHERE id = ?").bind(id.0).fetch_one(connection).await?;
    Ok(memory(&row))
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
        looked: instant(row, "last_look_at"),
        estimate: row
            .get::<Option<&[u8]>, _>("estimate")
            .and_then(Forgetting::from_bytes)
            .unwrap_or_default(),
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
        follows: policy("follows").unwrap_or(Policy::Adaptive),
        newest: instant(row, "newest_at"),
        burst_since: instant(row, "burst_since"),
        in_bursts: row.get("in_bursts"),
        quiet_since: instant(row, "quiet_since"),
        reserve_whole_at: instant(row, "reserve_whole_at"),
    }
}
