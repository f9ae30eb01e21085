//! What a daemon that died leaves behind: the sources that were in progress.
//!
//! `meta.booted_at` is the time at which the machine was booted, by the clock of the daemon that runs. A daemon that is
//! asked to stop deletes it. So if it is there at a start, the daemon before died; if it is another time than now, the
//! whole machine stopped, or its clock was set meanwhile, which is no source's fault. Must not know the consequences.

use sqlx::{Connection, SqliteConnection};

use tidewatch_core::engine::action::BackoffChange;
use tidewatch_core::engine::event::CrashSuspect;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::{StoreError, rules};

type Result = std::result::Result<(), sqlx::Error>;

/// Two times of the same boot differ by less: clocks are read one after the other.
const SAME_BOOT: Span = Span::from_secs(2);

/// Notes that a daemon runs. Returns the sources that may have ended an earlier one. Must run before
/// [`super::load::begin`], which ends the probes that were in progress.
pub async fn begin(
    connection: &mut SqliteConnection,
    booted_at: Timestamp,
) -> std::result::Result<Vec<CrashSuspect>, StoreError> {
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let before: Option<i64> = sqlx::query_scalar("SELECT value FROM meta WHERE key = 'booted_at'")
        .fetch_optional(&mut *transaction)
        .await?;
    let apart = before.map(|before| booted_at - Timestamp::from_millis(before));
    if apart.is_some_and(|apart| apart < SAME_BOOT && apart > -SAME_BOOT) {
        // Only what was in progress can be the cause. So repeated kills of a healthy daemon do not make more and more
        // sources suspect.
        sqlx::query("DELETE FROM crash_suspects WHERE source_id NOT IN (SELECT source_id FROM flights)")
            .execute(&mut *transaction)
            .await?;
        // The same probes count once, also if this start is interrupted.
        sqlx::query(
            "INSERT INTO crash_suspects (source_id, deaths, started_at, alone)
             SELECT source_id, 1, started_at, (SELECT count(*) = 1 FROM flights) FROM flights WHERE true
             ON CONFLICT (source_id) DO UPDATE
             SET deaths = deaths + 1, started_at = excluded.started_at, alone = excluded.alone
             WHERE started_at <> excluded.started_at",
        )
        .execute(&mut *transaction)
        .await?;
    }
    sqlx::query("INSERT OR REPLACE INTO meta (key, value) VALUES ('booted_at', ?)")
        .bind(booted_at.as_millis())
        .execute(&mut *transaction)
        .await?;
    sqlx::query(
        "DELETE FROM crash_suspects WHERE source_id IN (SELECT id FROM sources WHERE state = 'removed')",
    )
    .execute(&mut *transaction)
    .await?;
    let rows: Vec<(i64, u32, bool)> =
        sqlx::query_as("SELECT source_id, deaths, alone FROM crash_suspects ORDER BY source_id")
            .fetch_all(&mut *transaction)
            .await?;
    transaction.commit().await?;
    let suspect = |(id, deaths, alone)| CrashSuspect { source: SourceId(id), deaths, alone };
    Ok(rows.into_iter().map(suspect).collect())
}

/// The daemon is asked to stop: what is in progress when it ends is no source's fault.
pub(super) async fn asked_to_stop(connection: &mut SqliteConnection) -> Result {
    sqlx::query("DELETE FROM meta WHERE key = 'booted_at'").execute(connection).await?;
    Ok(())
}

/// The clock was set: the machine was booted at another time by it.
pub(super) async fn shift(connection: &mut SqliteConnection, by: Span) -> Result {
    sqlx::query("UPDATE meta SET value = value + ? WHERE key = 'booted_at'")
        .bind(by.as_millis())
        .execute(connection)
        .await?;
    Ok(())
}

/// A probe of this source ended.
pub(super) async fn suspicion_over(connection: &mut SqliteConnection, id: SourceId) -> Result {
    sqlx::query("DELETE FROM crash_suspects WHERE source_id = ?").bind(id.0).execute(connection).await?;
    Ok(())
}

/// Stores the backoff of a source that was alone in progress.
pub(super) async fn back_off(connection: &mut SqliteConnection, change: &BackoffChange) -> Result {
    sqlx::query(
        "UPDATE sources SET state = ?, error_streak = ?, backoff_until = ?, state_hash = NULL,
             last_error = 'tidewatch died while only this source was probed'
         WHERE id = ?",
    )
    .bind(change.state.name())
    .bind(change.error_streak)
    .bind(change.until.map(Timestamp::as_millis))
    .bind(change.due.source.0)
    .execute(&mut *connection)
    .await?;
    rules::due(connection, &[&change.due]).await?;
    sqlx::query("UPDATE crash_suspects SET alone = 0 WHERE source_id = ?")
        .bind(change.due.source.0)
        .execute(connection)
        .await?;
    Ok(())
}
