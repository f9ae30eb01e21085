//! What follows when the clock was set: one row for the correction, and times that move.
//!
//! Small tables move with the correction. The row of a source says which corrections its times include, and is brought
//! up to date in small parts, or before it is written. Must not know who notices that the clock was set.

use std::sync::LazyLock;

use sqlx::{AssertSqlSafe, Connection, SqliteConnection};

use tidewatch_core::model::source_model::WRONG_CLOCK;

use super::clock::{ClockSeen, Correction, StoredClock, TOTAL, last_probe};
use super::json_rows::text_of;
use super::load::RESTORED;
use super::record::EventRecord;
use super::{StoreError, events, fleet_prices, outbox, source_row};

type Result<T = ()> = std::result::Result<T, sqlx::Error>;

/// Corrections that are kept. Probes before them are taken for probes of the earliest clock that is known.
const KEPT: i64 = 100;

/// Stores the correction between what was seen last and now, if any. Must run before anything else is written.
pub async fn correct_at_start(
    connection: &mut SqliteConnection,
    seen: &ClockSeen,
) -> std::result::Result<Option<Correction>, StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let stored = StoredClock::read(&mut transaction).await?;
    let correction = stored.find(&mut transaction, seen).await?;
    if let Some(correction) = correction {
        record(&mut transaction, correction).await?;
    }
    seen.write(&mut transaction).await?;
    transaction.commit().await?;
    Ok(correction)
}

/// Stores a correction, and moves the times of small tables. Those of sources follow in parts.
pub(super) async fn record(connection: &mut SqliteConnection, correction: Correction) -> Result {
    let Correction { at, by, found } = correction;
    let last_probe = last_probe(connection).await?;
    sqlx::query(
        "INSERT INTO clock_corrections (at, by_ms, total_ms, last_probe, found)
         SELECT ?1, ?2, ?2 + coalesce((SELECT total_ms FROM clock_corrections ORDER BY id DESC LIMIT 1), 0), ?3, ?4",
    )
    .bind(at.as_millis())
    .bind(by.as_millis())
    .bind(last_probe)
    .bind(found.name())
    .execute(&mut *connection)
    .await?;
    sqlx::query("DELETE FROM clock_corrections WHERE id <= (SELECT max(id) FROM clock_corrections) - ?")
        .bind(KEPT)
        .execute(&mut *connection)
        .await?;
    for statement in [
        "UPDATE rule_states SET executable_since = executable_since + ?1, executable_until = executable_until + ?1
         WHERE executable_since IS NOT NULL",
        "UPDATE hosts SET paused_until = paused_until + ?1 WHERE paused_until IS NOT NULL",
        "UPDATE flights SET due_at = due_at + ?1, started_at = started_at + ?1",
    ] {
        sqlx::query(statement).bind(by.as_millis()).execute(&mut *connection).await?;
    }
    sqlx::query("UPDATE meta SET value = value + ? WHERE key = ? AND value <> 0")
        .bind(by.as_millis())
        .bind(RESTORED)
        .execute(&mut *connection)
        .await?;
    outbox::shift(connection, by).await?;
    fleet_prices::shift(connection, by, at).await?;
    let event = EventRecord { at, kind: "clock_set", source: None, detail: Some(correction.to_string()) };
    events::insert(connection, &[&event]).await
}

/// Sources that one transaction brings up to date.
const SOURCES_AT_A_TIME: i64 = 1000;

static BEHIND: LazyLock<String> = LazyLock::new(|| {
    format!("SELECT id FROM sources WHERE id > ?1 AND clock_ms <> {TOTAL} ORDER BY id LIMIT ?2")
});

/// Which sources are brought up to date next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Behind {
    /// Those after this one.
    After(i64),
    /// Those that another correction has left behind meanwhile.
    Others,
    /// None.
    NoSource,
}

/// Brings some sources after this one up to date. Returns which are next.
pub(super) async fn correct_some(connection: &mut SqliteConnection, after: i64) -> Result<Behind> {
    let ids: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(BEHIND.as_str()))
        .bind(after)
        .bind(SOURCES_AT_A_TIME)
        .fetch_all(&mut *connection)
        .await?;
    correct(connection, &ids).await?;
    if let Some(&last) = ids.last().filter(|_| ids.len() as i64 >= SOURCES_AT_A_TIME) {
        return Ok(Behind::After(last));
    }
    let included = sqlx::query(AssertSqlSafe(INCLUDED.as_str())).execute(connection).await?;
    Ok(if included.rows_affected() > 0 { Behind::NoSource } else { Behind::Others })
}

/// Notes that all sources are up to date, if they are.
static INCLUDED: LazyLock<String> = LazyLock::new(|| {
    format!(
        "INSERT OR REPLACE INTO meta (key, value) SELECT 'sources_clock_ms', {TOTAL}
         WHERE NOT EXISTS (SELECT 1 FROM sources WHERE clock_ms <> {TOTAL})"
    )
});

static HISTORIES: LazyLock<String> = LazyLock::new(|| {
    format!(
        "UPDATE histories SET changed_at = changed_at + behind, weighed_at = NULL,
             rhythm_since = rhythm_since + behind
         FROM (SELECT id, {TOTAL} - clock_ms AS behind FROM sources WHERE id IN (SELECT value FROM json_each(?1)))
         WHERE source_id = id AND behind <> 0 AND coalesce(changed_at, weighed_at, rhythm_since) IS NOT NULL"
    )
});

/// Brings these sources up to date.
pub(super) async fn correct(connection: &mut SqliteConnection, ids: &[i64]) -> Result {
    if ids.is_empty() {
        return Ok(());
    }
    let ids = text_of(ids)?;
    sqlx::query(AssertSqlSafe(HISTORIES.as_str())).bind(&ids).execute(&mut *connection).await?;
    source_row::correct(connection, &ids, WRONG_CLOCK).await
}
