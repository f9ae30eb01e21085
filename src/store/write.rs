//! Statements that write what belongs to no probe. Each takes plain values and a connection inside a
//! transaction.

use sqlx::SqliteConnection;

use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::time::{Span, Timestamp};

use super::finite::finite;
use super::record::RobotsRecord;
use super::{crashes, outbox, source_row};

type Result = std::result::Result<(), sqlx::Error>;

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
    crashes::shift(connection, by).await?;
    outbox::shift(connection, by).await
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
    .bind(finite(load.undiscovered_hours))
    .bind(finite(load.work))
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

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
