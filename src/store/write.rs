//! The statements that write. Each takes plain values and a connection inside a transaction.
//!
//! Many rows of one kind go into one statement as JSON, which SQLite decodes. One statement per row would
//! cost more than the row itself.

use serde_json::{Value, json};
use sqlx::SqliteConnection;
use sqlx::query::Query;
use sqlx::sqlite::{Sqlite, SqliteArguments};

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::observe::{Observation, Occurred, Present, Update};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::record::{HostRecord, ProbeRecord, RobotsRecord, ValidatorsChange};
use super::{events, outbox, rhythm, rules, source_row};

/// Items are kept this long after they left their feed, and recognized if they return. Bounds the number of
/// items.
const ITEMS_REMEMBERED: Span = Span::from_days(180);

type Result = std::result::Result<(), sqlx::Error>;

/// Stores probes that are about to be sent.
pub(super) async fn started(connection: &mut SqliteConnection, attempts: &[Attempt]) -> Result {
    let rows: Vec<Value> = attempts
        .iter()
        .map(|f| {
            let forecast = f.forecast.as_ref();
            json!([
                f.source.0,
                f.due.as_millis(),
                f.started.as_millis(),
                f.policy.name(),
                f.reason.name(),
                forecast.map(|forecast| f64::from(forecast.updates)),
                forecast.map(|forecast| f64::from(forecast.dispersion)),
                forecast.and_then(|forecast| forecast.overflow).map(f64::from)
            ])
        })
        .collect();
    sqlx::query(
        "INSERT OR REPLACE INTO flights (source_id, due_at, started_at, policy, reason, expected, dispersion,
                                         overflow)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7
         FROM json_each(?)",
    )
    .bind(Value::from(rows).to_string())
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes a probe that was not sent.
pub(super) async fn cancelled(connection: &mut SqliteConnection, id: SourceId) -> Result {
    sqlx::query("DELETE FROM flights WHERE source_id = ?").bind(id.0).execute(connection).await?;
    Ok(())
}

/// Stores a finished probe: log, updates, items, validators and the state of the source.
pub(super) async fn ended(connection: &mut SqliteConnection, record: &ProbeRecord) -> Result {
    let id = record.attempt.source.0;
    let finished = record.finished.as_millis();
    let started = record.attempt.started.as_millis();
    let updates = record.observation.as_ref().map_or(0, |seen| seen.updates.len());
    let probe_id = sqlx::query(
        "INSERT INTO probes (source_id, due_at, started_at, duration_ms, outcome, http_status, bytes,
                             updates_found, policy, reason, error, tardy_ms)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(record.attempt.due.as_millis())
    .bind(started)
    .bind(finished - started)
    .bind(record.outcome.name())
    .bind(record.http_status)
    .bind(signed(record.bytes))
    .bind(i64::try_from(updates).unwrap_or(i64::MAX))
    .bind(record.attempt.policy.name())
    .bind(record.attempt.reason.name())
    .bind(record.error.as_deref())
    .bind(record.tardy.map(Span::as_millis))
    .execute(&mut *connection)
    .await?
    .last_insert_rowid();
    cancelled(connection, record.attempt.source).await?;
    if let Some(observation) = &record.observation {
        observe(connection, id, probe_id, record.finished, observation).await?;
    }
    source_row::write(connection, record).await?;
    validators(connection, id, &record.validators).await?;
    if let Some(beliefs) = &record.beliefs {
        rhythm::write_model(connection, id, beliefs, record.finished).await?;
    }
    rhythm::bursts(connection, id, record).await?;
    if let Some(host) = &record.host {
        self::host(connection, host).await?;
    }
    for event in &record.events {
        events::insert(connection, event).await?;
    }
    for matches in &record.matches {
        rules::record_matches(connection, record.attempt.source, record.finished, matches).await?;
    }
    for state in &record.rules {
        rules::state(connection, state).await?;
    }
    Ok(())
}

/// Stores an observation: updates, items present and gone, a gap, the page.
async fn observe(
    connection: &mut SqliteConnection,
    source: i64,
    probe: i64,
    now: Timestamp,
    seen: &Observation,
) -> Result {
    let at = now.as_millis();
    updates(connection, source, probe, at, &seen.updates).await?;
    items(connection, source, now, &seen.present).await?;
    if !seen.gone.is_empty() {
        let keys: Vec<i64> = seen.gone.iter().map(|&key| key as i64).collect();
        sqlx::query(
            "UPDATE items SET gone_at = ?1
             WHERE source_id = ?2 AND key_hash IN (SELECT value FROM json_each(?3))",
        )
        .bind(at)
        .bind(source)
        .bind(json!(keys).to_string())
        .execute(&mut *connection)
        .await?;
    }
    if seen.gap {
        sqlx::query("INSERT INTO gaps (source_id, probe_id, at) VALUES (?, ?, ?)")
            .bind(source)
            .bind(probe)
            .bind(at)
            .execute(&mut *connection)
            .await?;
    }
    if let Some(page) = &seen.page {
        sqlx::query("UPDATE sources SET page_fingerprint = ?, page_text = ? WHERE id = ?")
            .bind(page.fingerprint as i64)
            .bind(&page.text)
            .bind(source)
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

async fn updates(
    connection: &mut SqliteConnection,
    source: i64,
    probe: i64,
    detected_at: i64,
    updates: &[Update],
) -> Result {
    if updates.is_empty() {
        return Ok(());
    }
    let row = |update: &Update| {
        let (occurred, after, exact) = match update.occurred {
            Occurred::At(at) => (at, None, 1),
            Occurred::Between(from, to) => (middle(from, to), Some(from.as_millis()), 0),
        };
        json!([
            occurred.as_millis(),
            after,
            exact,
            update.kind.name(),
            update.key,
            update.title,
            update.link,
            labels(&update.labels.authors),
            labels(&update.labels.categories)
        ])
    };
    let rows: Vec<Value> = updates.iter().map(row).collect();
    sqlx::query(
        "INSERT INTO updates (source_id, probe_id, detected_at, occurred_at, occurred_after, occurred_exact,
                              kind, key, title, link, authors, categories)
         SELECT ?1, ?2, ?3, value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5,
                value ->> 6, value ->> 7, value ->> 8
         FROM json_each(?4) WHERE true
         ON CONFLICT DO NOTHING",
    )
    .bind(source)
    .bind(probe)
    .bind(detected_at)
    .bind(Value::from(rows).to_string())
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores the items of a document. Deletes items that left it long ago.
async fn items(
    connection: &mut SqliteConnection,
    source: i64,
    now: Timestamp,
    present: &[Present],
) -> Result {
    if present.is_empty() {
        return Ok(());
    }
    let row = |item: &Present| {
        json!([item.key_hash as i64, item.fingerprint as i64, item.dated.map(Timestamp::as_millis)])
    };
    let rows: Vec<Value> = present.iter().map(row).collect();
    sqlx::query(
        "INSERT INTO items (source_id, key_hash, fingerprint, dated_at, first_seen_at, last_seen_at)
         SELECT ?1, value ->> 0, value ->> 1, value ->> 2, ?2, ?2 FROM json_each(?3) WHERE true
         ON CONFLICT (source_id, key_hash) DO UPDATE
         SET fingerprint = excluded.fingerprint, last_seen_at = excluded.last_seen_at, gone_at = NULL",
    )
    .bind(source)
    .bind(now.as_millis())
    .bind(Value::from(rows).to_string())
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM items WHERE source_id = ? AND last_seen_at < ?")
        .bind(source)
        .bind((now - ITEMS_REMEMBERED).as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// A list as JSON; `None` if empty.
fn labels(list: &[String]) -> Option<String> {
    (!list.is_empty()).then(|| json!(list).to_string())
}

async fn validators(connection: &mut SqliteConnection, id: i64, change: &ValidatorsChange) -> Result {
    let query = match change {
        ValidatorsChange::Keep => return Ok(()),
        ValidatorsChange::Replace { url, etag, last_modified } => {
            let query = sqlx::query(
                "UPDATE sources SET etag = ?, last_modified = ?, validators_url = ? WHERE id = ?",
            );
            bind_bytes(bind_bytes(query, etag.as_deref()), last_modified.as_deref()).bind(url)
        }
        ValidatorsChange::Refresh { etag, last_modified } => {
            let query = sqlx::query(
                "UPDATE sources SET etag = coalesce(?, etag), last_modified = coalesce(?, last_modified)
                 WHERE id = ?",
            );
            bind_bytes(bind_bytes(query, etag.as_deref()), last_modified.as_deref())
        }
    };
    query.bind(id).execute(connection).await?;
    Ok(())
}

type Statement<'q> = Query<'q, Sqlite, SqliteArguments>;

/// Binds valid UTF-8 as TEXT, which is readable in the store, and other bytes as BLOB.
fn bind_bytes<'q>(query: Statement<'q>, bytes: Option<&'q [u8]>) -> Statement<'q> {
    match bytes.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
        None => query.bind(None::<&str>),
        Some((Ok(text), _)) => query.bind(text),
        Some((Err(_), bytes)) => query.bind(bytes),
    }
}

/// Shifts all times that limits depend on when the clock is set by `by`, as the engine does in memory. So
/// limits hold in real time after a restart. Probes before `since` (old clock) no longer count and stay.
pub(super) async fn shift(connection: &mut SqliteConnection, by: Span, since: Timestamp) -> Result {
    source_row::shift(connection, by).await?;
    sqlx::query(
        "UPDATE rule_states SET executable_since = executable_since + ?1,
             executable_until = executable_until + ?1",
    )
    .bind(by.as_millis())
    .execute(&mut *connection)
    .await?;
    sqlx::query("UPDATE hosts SET paused_until = paused_until + ?")
        .bind(by.as_millis())
        .execute(&mut *connection)
        .await?;
    sqlx::query(
        "UPDATE histories SET changed_at = changed_at + ?1, weighed_at = weighed_at + ?1,
             rhythm_since = rhythm_since + ?1",
    )
    .bind(by.as_millis())
    .execute(&mut *connection)
    .await?;
    sqlx::query("UPDATE flights SET due_at = due_at + ?1, started_at = started_at + ?1")
        .bind(by.as_millis())
        .execute(&mut *connection)
        .await?;
    sqlx::query(
        "UPDATE probes SET due_at = due_at + ?1, started_at = started_at + ?1 WHERE started_at >= ?2",
    )
    .bind(by.as_millis())
    .bind(since.as_millis())
    .execute(&mut *connection)
    .await?;
    outbox::shift(connection, by).await
}

/// Stores the state of a host group.
pub(super) async fn host(connection: &mut SqliteConnection, host: &HostRecord) -> Result {
    sqlx::query(
        "INSERT INTO hosts (host, public, paused_until, crawl_delay_ms) VALUES (?, ?, ?, ?)
         ON CONFLICT (host) DO UPDATE
         SET paused_until = excluded.paused_until, crawl_delay_ms = excluded.crawl_delay_ms",
    )
    .bind(&host.key)
    .bind(host.public)
    .bind(host.paused_until.map(Timestamp::as_millis))
    .bind(host.crawl_delay.as_millis())
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores slot statistics. Replaces a row with the same start, which may occur after the clock was set
/// back.
pub(super) async fn load(connection: &mut SqliteConnection, load: &SlotStats) -> Result {
    sqlx::query(
        "INSERT OR REPLACE INTO loads (since, until, due, sampled, late, late_ms, latest_ms, waiting,
                                       undiscovered_hours, work, tardy, tardy_ms, tardiest_ms, overdue)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    )
    .bind(load.since.as_millis())
    .bind(load.until.as_millis())
    .bind(signed(load.due))
    .bind(signed(load.sampled))
    .bind(signed(load.late))
    .bind(load.late_for.as_millis())
    .bind(load.latest.as_millis())
    .bind(signed(load.waiting))
    .bind(load.undiscovered_hours)
    .bind(load.work)
    .bind(signed(load.tardy))
    .bind(load.tardy_for.as_millis())
    .bind(load.tardiest.as_millis())
    .bind(signed(load.overdue))
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores a robots.txt.
pub(super) async fn robots(connection: &mut SqliteConnection, robots: &RobotsRecord) -> Result {
    sqlx::query(
        "INSERT OR REPLACE INTO robots (origin, fetched_at, http_status, body) VALUES (?, ?, ?, ?)",
    )
    .bind(&robots.origin)
    .bind(robots.fetched_at.as_millis())
    .bind(robots.http_status)
    .bind(&robots.body)
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores the answer to a requested probe.
pub(super) async fn answer(connection: &mut SqliteConnection, request: i64, answer: &str) -> Result {
    sqlx::query("UPDATE requests SET answer = ? WHERE id = ?")
        .bind(answer)
        .bind(request)
        .execute(connection)
        .await?;
    Ok(())
}

fn middle(from: Timestamp, to: Timestamp) -> Timestamp {
    from + Span::from_millis((to - from).as_millis() / 2)
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
