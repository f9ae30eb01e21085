//! What a daemon needs to know when it starts: everything that was remembered, in one scan,
//! a page at a time.

use std::collections::HashMap;

use serde_json::json;
use sqlx::{Connection, Row, SqliteConnection};

use tidewatch_core::engine::memory::{Due, Life, Memory, MoveProof, Toll};
use tidewatch_core::engine::params::HostGroup;
use tidewatch_core::engine::reason::{Reason, State};
use tidewatch_core::model::estimate::Forgetting;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::json_rows::read_text;
use super::sync::{Listing, sync_all};

/// What is remembered beside the sources.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// What host groups asked for: paused until, crawl delay.
    pub hosts: Vec<(HostGroup, Option<Timestamp>, Span)>,
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
        standing.hosts.push((host, instant(row.get(2)), Span::from_millis(row.get(3))));
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
const PAGE: i64 = 2_000;

/// What is told of the sources that the rest of the query finds, with a column `recent` of the ends
/// of their probes: all in one text. A row for each, and a value for each column of it, would take
/// several times as long.
macro_rules! told {
    ($recent:literal, $rest:literal) => {
        concat!(
            "SELECT json_group_array(json_array(
                 id, name, state, next_probe_at, next_probe_reason, last_probe_at, last_update_at, error_streak,
                 known_updates, fresh_until, retry_until, backoff_until, ttl_ms, skip_hours, skip_days,
                 update_period_ms, moving_to, moving_times, moving_since, adopted_url, holds, validators_url,
                 next_probe_policy, follows, newest_at, burst_since, in_bursts, quiet_since, reserve_whole_at,
                 last_look_at, estimate, next_probe_rule, mean_bytes, mean_ms, recent))
             FROM (
                 SELECT id, name, state, next_probe_at, next_probe_reason, last_probe_at, last_update_at,
                        error_streak, known_updates, fresh_until, retry_until, backoff_until, ttl_ms, skip_hours,
                        skip_days, update_period_ms, moving_to, moving_times, moving_since, adopted_url, holds,
                        validators_url, next_probe_policy, follows, newest_at, burst_since, in_bursts,
                        quiet_since, reserve_whole_at, iif(moved, NULL, last_look_at) AS last_look_at, estimate,
                        next_probe_rule, mean_bytes, mean_ms, ",
            $recent,
            " AS recent FROM sources ",
            $rest,
            ")"
        )
    };
}

/// One source of such a text, in the order of its columns.
#[derive(Debug, serde::Deserialize)]
struct Told {
    id: i64,
    name: String,
    state: String,
    next_probe_at: Option<i64>,
    next_probe_reason: Option<String>,
    last_probe_at: Option<i64>,
    last_update_at: Option<i64>,
    error_streak: u32,
    known_updates: i64,
    fresh_until: Option<i64>,
    retry_until: Option<i64>,
    backoff_until: Option<i64>,
    ttl_ms: Option<i64>,
    skip_hours: u32,
    skip_days: u8,
    update_period_ms: Option<i64>,
    moving_to: Option<String>,
    moving_times: Option<u32>,
    moving_since: Option<i64>,
    adopted_url: Option<String>,
    holds: Option<u32>,
    validators_url: Option<String>,
    next_probe_policy: Option<String>,
    follows: Option<String>,
    newest_at: Option<i64>,
    burst_since: Option<i64>,
    in_bursts: u32,
    quiet_since: Option<i64>,
    reserve_whole_at: Option<i64>,
    last_look_at: Option<i64>,
    estimate: Option<String>,
    next_probe_rule: Option<String>,
    mean_bytes: Option<f32>,
    mean_ms: Option<f32>,
    recent: Option<String>,
}

/// Hands over every source that is not removed, in the order of their numbers, with its probes as
/// far back as `since`.
pub async fn each(
    connection: &mut SqliteConnection,
    now: Timestamp,
    since: Timestamp,
    mut take: impl FnMut(Remembered),
) -> Result<(), StoreError> {
    let mut after = i64::MIN;
    // The longer a budget's window, the more probes a page holds.
    let weeks = (now - since).as_millis() / Span::from_days(7).as_millis();
    let page = (PAGE / weeks.max(1)).max(20);
    loop {
        let text: String = sqlx::query_scalar(told!(
            "(SELECT group_concat(started_at + duration_ms) FROM probes
              WHERE source_id = sources.id AND started_at >= ?2)",
            "WHERE id > ?1 AND state <> 'removed' ORDER BY id LIMIT ?3"
        ))
        .bind(after)
        .bind(since.as_millis())
        .bind(page)
        .fetch_one(&mut *connection)
        .await?;
        let page: Vec<Told> = read_text(&text)?;
        let Some(last) = page.last() else { return Ok(()) };
        after = last.id;
        page.into_iter().for_each(|told| take(told.remembered()));
    }
}

/// What is remembered of one source, also while it is not listed.
pub async fn remembered(connection: &mut SqliteConnection, id: SourceId) -> Result<Memory, StoreError> {
    let mut memories = remembered_of(connection, &[id]).await?;
    memories.remove(&id).ok_or(StoreError::Sql(sqlx::Error::RowNotFound))
}

/// The same of several.
pub async fn remembered_of(
    connection: &mut SqliteConnection,
    ids: &[SourceId],
) -> Result<HashMap<SourceId, Memory>, StoreError> {
    let mut memories = HashMap::with_capacity(ids.len());
    let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
    for chunk in ids.chunks(usize::try_from(PAGE).unwrap_or(1)) {
        let text: String =
            sqlx::query_scalar(told!("NULL", "WHERE id IN (SELECT value FROM json_each(?))"))
                .bind(json!(chunk).to_string())
                .fetch_one(&mut *connection)
                .await?;
        let told: Vec<Told> = read_text(&text)?;
        memories.extend(told.into_iter().map(Told::remembered).map(|told| (told.id, told.memory)));
    }
    Ok(memories)
}

fn instant(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(Timestamp::from_millis)
}

impl Told {
    fn remembered(self) -> Remembered {
        let state = State::from_name(&self.state).unwrap_or_default();
        let due = match (instant(self.next_probe_at), state) {
            (Some(at), _) => Due::At(at),
            (None, State::Resting) => Due::Stopped,
            (None, _) => Due::Unscheduled,
        };
        let moving = self.moving_to.map(|target| {
            Box::new(MoveProof {
                target,
                times: self.moving_times.unwrap_or(0),
                since: instant(self.moving_since).unwrap_or(Timestamp::MAX),
            })
        });
        let policy = |name: Option<String>| name.as_deref().and_then(Policy::from_name);
        let life = Life {
            asked_by: policy(self.next_probe_policy).unwrap_or(Policy::Uniform),
            follows: policy(self.follows).unwrap_or(Policy::Adaptive),
            newest: instant(self.newest_at),
            burst_since: instant(self.burst_since),
            in_bursts: self.in_bursts,
            quiet_since: instant(self.quiet_since),
            reserve_whole_at: instant(self.reserve_whole_at),
        };
        let memory = Memory {
            rule: self.next_probe_rule.map(Into::into),
            state,
            due,
            reason: self.next_probe_reason.as_deref().and_then(Reason::from_name).unwrap_or_default(),
            last_probe: instant(self.last_probe_at),
            looked: instant(self.last_look_at),
            estimate: self.estimate.as_deref().and_then(Forgetting::from_text).unwrap_or_default(),
            last_update: instant(self.last_update_at),
            error_streak: self.error_streak,
            known_updates: self.known_updates.max(0).unsigned_abs(),
            fresh_until: instant(self.fresh_until),
            retry_until: instant(self.retry_until),
            backoff_until: instant(self.backoff_until),
            hints: FeedHints {
                ttl: self.ttl_ms.map(Span::from_millis),
                skip_hours: self.skip_hours,
                skip_days: self.skip_days,
                update_period: self.update_period_ms.map(Span::from_millis),
            },
            holds: self.holds,
            moving,
            adopted_url: self.adopted_url.map(String::into_boxed_str),
            toll: Toll { bytes: self.mean_bytes.unwrap_or(0.0), millis: self.mean_ms.unwrap_or(0.0) },
            life,
        };
        let recent = self.recent.as_deref().unwrap_or_default();
        let ends = recent.split(',').filter_map(|end| end.parse().ok());
        Remembered {
            id: SourceId(self.id),
            name: self.name,
            memory,
            answered_at: self.validators_url,
            probes: ends.map(Timestamp::from_millis).collect(),
        }
    }
}
