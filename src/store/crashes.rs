//! What a daemon that died leaves behind: the sources that were in progress.
//!
//! The row in `running` names the boot of the machine, while a daemon runs that has not been asked to stop. So if it is
//! there at a start, the daemon before died. If the boot is another one, the whole machine stopped, which is no source's
//! fault. No clock has a part in it. Must not know the consequences.

use sqlx::SqliteConnection;

use tidewatch_core::engine::action::BackoffChange;
use tidewatch_core::engine::event::{CrashEvidence, CrashSuspect};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::reader::Reader;
use super::{StoreError, rules};

type Result<T = ()> = std::result::Result<T, sqlx::Error>;

const EVIDENCE: [(CrashEvidence, &str); 3] = [
    (CrashEvidence::Beside, "beside"),
    (CrashEvidence::Alone, "alone"),
    (CrashEvidence::BackedOff, "backed_off"),
];

/// Notes which sources were in progress if the daemon before died. In the transaction that ends their probes, and before
/// that: so a death counts once.
pub(super) async fn count_death(connection: &mut SqliteConnection, boot: Option<&str>) -> Result {
    sqlx::query(
        "DELETE FROM crash_suspects WHERE (SELECT state FROM sources WHERE id = source_id) = 'removed'",
    )
    .execute(&mut *connection)
    .await?;
    let before: Option<Option<String>> =
        sqlx::query_scalar("DELETE FROM running RETURNING boot").fetch_optional(&mut *connection).await?;
    let died = before.is_some_and(|before| boot.is_none() || before.is_none() || before.as_deref() == boot);
    if died {
        // Only what was in progress can be the cause. So repeated kills of a healthy daemon do not make more and more
        // sources suspect. A source that is backed off was the cause before, and is not in progress.
        sqlx::query(
            "DELETE FROM crash_suspects
             WHERE evidence <> 'backed_off' AND source_id NOT IN (SELECT source_id FROM flights)",
        )
        .execute(&mut *connection)
        .await?;
        sqlx::query(
            "INSERT INTO crash_suspects (source_id, deaths, evidence)
             SELECT source_id, 1, iif((SELECT count(*) FROM flights) = 1, 'alone', 'beside') FROM flights WHERE true
             ON CONFLICT (source_id) DO UPDATE SET deaths = deaths + 1, evidence = excluded.evidence",
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Notes that a daemon runs, before its first probe.
pub async fn running(connection: &mut SqliteConnection, boot: Option<&str>) -> Result {
    sqlx::query("INSERT OR REPLACE INTO running (id, boot) VALUES (1, ?)")
        .bind(boot)
        .execute(connection)
        .await?;
    Ok(())
}

/// The sources that may have ended an earlier daemon.
pub async fn suspects(connection: &mut SqliteConnection) -> Result<Vec<CrashSuspect>> {
    let rows: Vec<(i64, u32, String)> =
        sqlx::query_as("SELECT source_id, deaths, evidence FROM crash_suspects ORDER BY source_id")
            .fetch_all(connection)
            .await?;
    let suspect = |(id, deaths, stored): (i64, u32, String)| {
        let (evidence, _) = *EVIDENCE.iter().find(|(_, name)| *name == stored)?;
        Some(CrashSuspect { source: SourceId(id), deaths, evidence })
    };
    Ok(rows.into_iter().filter_map(suspect).collect())
}

impl Reader {
    /// The sources that may have ended an earlier daemon.
    pub async fn crash_suspects(&self) -> std::result::Result<Vec<CrashSuspect>, StoreError> {
        Ok(suspects(&mut *self.connection().await?).await?)
    }
}

/// The daemon is asked to stop: what is in progress when it ends is no source's fault.
pub(super) async fn asked_to_stop(connection: &mut SqliteConnection) -> Result {
    sqlx::query("DELETE FROM running").execute(connection).await?;
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
    sqlx::query("UPDATE crash_suspects SET evidence = 'backed_off' WHERE source_id = ?")
        .bind(change.due.source.0)
        .execute(connection)
        .await?;
    Ok(())
}
