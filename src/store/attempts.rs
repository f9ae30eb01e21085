//! Probes in progress, and what the store knows that a request needs.
//!
//! A row of `flights` is committed before its probe is sent, so that budgets count the probe even if the
//! daemon is killed meanwhile.

use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::model::silence::LearnedUntil;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::json_rows::text_of;

type Result<T = ()> = std::result::Result<T, sqlx::Error>;

/// What a request needs, and what decides whether its answer has anything new.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RequestInputs {
    /// The URL that gave the validators.
    pub validators_url: Option<String>,
    /// `ETag`, byte for byte.
    pub etag: Option<Vec<u8>>,
    /// `Last-Modified`, byte for byte.
    pub last_modified: Option<Vec<u8>>,
    /// The hash of the last body that was read.
    pub body_hash: Option<u64>,
    /// The last answer at this address.
    pub last_answer: Option<Timestamp>,
    /// The latest known update.
    pub newest: Option<Timestamp>,
    /// How far the model has learned, and until when it need not learn from an answer without updates.
    pub learned: Option<LearnedUntil>,
    /// The hash of the settings of the model with which that is true.
    pub review_settings: Option<u64>,
    /// The hash of the columns that a probe seldom changes.
    pub state_hash: Option<i64>,
}

/// Stores probes that are about to be sent.
pub(super) async fn insert(connection: &mut SqliteConnection, attempts: &[&Attempt]) -> Result {
    if attempts.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let forecast = attempt.forecast.as_ref();
            (
                attempt.source.0,
                attempt.due.as_millis(),
                attempt.started.as_millis(),
                attempt.policy.name(),
                attempt.reason.name(),
                forecast.map(|forecast| forecast.updates),
                forecast.map(|forecast| forecast.dispersion),
                forecast.and_then(|forecast| forecast.overflow),
            )
        })
        .collect();
    sqlx::query(
        "INSERT OR REPLACE INTO flights (source_id, due_at, started_at, policy, reason, expected, dispersion,
                                         overflow)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7
         FROM jsonb_each(?)",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes probes that have ended or were not sent.
pub(super) async fn delete(
    connection: &mut SqliteConnection,
    sources: impl Iterator<Item = SourceId>,
) -> Result {
    let ids: Vec<i64> = sources.map(|source| source.0).collect();
    if !ids.is_empty() {
        sqlx::query("DELETE FROM flights WHERE source_id IN (SELECT value FROM jsonb_each(?))")
            .bind(text_of(&ids)?)
            .execute(connection)
            .await?;
    }
    Ok(())
}

/// What the requests of these sources need.
pub(super) async fn request_inputs(
    connection: &mut SqliteConnection,
    ids: &[i64],
) -> Result<Vec<(SourceId, RequestInputs)>> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query(
        "SELECT id, validators_url, CAST(etag AS BLOB), CAST(last_modified AS BLOB), body_hash,
                iif(moved, NULL, last_look_at), newest_at, learned_until, review_at, review_settings,
                state_hash
         FROM sources WHERE id IN (SELECT value FROM jsonb_each(?))",
    )
    .bind(json!(ids).to_string())
    .fetch_all(connection)
    .await?;
    let inputs = |row: &SqliteRow| RequestInputs {
        validators_url: row.get(1),
        etag: row.get(2),
        last_modified: row.get(3),
        body_hash: row.get::<Option<i64>, _>(4).map(|hash| hash as u64),
        last_answer: time(row, 5),
        newest: time(row, 6),
        learned: learned(row, 7),
        review_settings: row.get::<Option<i64>, _>(9).map(|hash| hash as u64),
        state_hash: row.get(10),
    };
    Ok(rows.iter().map(|row| (SourceId(row.get(0)), inputs(row))).collect())
}

fn time(row: &SqliteRow, column: usize) -> Option<Timestamp> {
    row.get::<Option<i64>, _>(column).map(Timestamp::from_millis)
}

/// Reads `learned_until` and, in the next column, `review_at`.
pub(super) fn learned(row: &SqliteRow, column: usize) -> Option<LearnedUntil> {
    let review_at = time(row, column + 1).unwrap_or(Timestamp::MIN);
    time(row, column).map(|at| LearnedUntil { at, review_at })
}
