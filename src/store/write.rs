//! Statements that write what belongs to no probe. Each takes plain values and a connection inside a
//! transaction.

use sqlx::{AssertSqlSafe, SqliteConnection};

use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::time::Span;

use super::clock::TOTAL;
use super::finite::finite;
use super::record::{PardonRecord, RobotsRecord};

type Result = std::result::Result<(), sqlx::Error>;

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

/// Most robots.txt of origins that no source has, per site and in all. A hostile page can redirect to a new origin at
/// each probe. One that is deleted is only asked for again. In all, as many more as there are sources: each may redirect.
const MOST_OF_REDIRECTS: [i64; 2] = [64, 1_000];

/// Most of these that one write deletes.
const DELETED_AT_ONCE: i64 = 16;

/// Stores a robots.txt. That of a source's origin stays one when a redirect leads there.
pub(super) async fn robots(connection: &mut SqliteConnection, robots: &RobotsRecord) -> Result {
    let statement = format!(
        "INSERT OR REPLACE INTO robots
             (origin, fetched_at, http_status, body, failed_at, failures, crawl_delay_ms, redirect_site, clock_ms)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7,
                 iif((SELECT redirect_site IS NULL FROM robots WHERE origin = ?1), NULL, ?8), {TOTAL})"
    );
    sqlx::query(AssertSqlSafe(statement))
        .bind(&robots.origin)
        .bind(robots.fetched_at.as_millis())
        .bind(robots.http_status)
        .bind(&robots.body)
        .bind(robots.failed.map(|failed| failed.at.as_millis()))
        .bind(robots.failed.map_or(0, |failed| failed.times))
        .bind(robots.crawl_delay.map(Span::as_millis))
        .bind(&robots.redirect_site)
        .execute(&mut *connection)
        .await?;
    let Some(site) = &robots.redirect_site else { return Ok(()) };
    let [per_site, in_all] = MOST_OF_REDIRECTS;
    // The number of sources takes long to count; their numbers begin at one.
    let sources: Option<i64> =
        sqlx::query_scalar("SELECT max(id) FROM sources").fetch_one(&mut *connection).await?;
    let in_all = in_all.saturating_add(sources.unwrap_or(0));
    for (condition, most) in [("redirect_site = ?1", per_site), ("redirect_site IS NOT NULL", in_all)] {
        let statement = format!(
            "DELETE FROM robots WHERE origin IN (
                 SELECT origin FROM robots WHERE {condition} ORDER BY fetched_at DESC LIMIT ?2 OFFSET ?3)"
        );
        sqlx::query(AssertSqlSafe(statement))
            .bind(site)
            .bind(DELETED_AT_ONCE)
            .bind(most)
            .execute(&mut *connection)
            .await?;
    }
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

/// Lifts limits, and answers the request for that.
pub(super) async fn pardon(connection: &mut SqliteConnection, pardon: &PardonRecord) -> Result {
    let PardonRecord { request, at, source, host, state, answer } = pardon;
    if let Some(source) = source {
        sqlx::query(
            "UPDATE sources SET retry_until = NULL, backoff_until = NULL, error_streak = 0, state_hash = NULL,
                 state = iif(state = 'removed', state, coalesce(?2, state)) WHERE id = ?1",
        )
        .bind(source.0)
        .bind(state)
        .execute(&mut *connection)
        .await?;
    }
    if let Some(host) = host {
        sqlx::query("UPDATE hosts SET paused_until = NULL WHERE host = ?")
            .bind(host)
            .execute(&mut *connection)
            .await?;
        sqlx::query("UPDATE host_limits SET ended_at = ? WHERE host = ? AND ended_at IS NULL")
            .bind(at.as_millis())
            .bind(host)
            .execute(&mut *connection)
            .await?;
        sqlx::query(
            "INSERT INTO host_limits (host, at, crawl_delay_ms) SELECT host, ?, crawl_delay_ms FROM hosts WHERE host = ?",
        )
        .bind(at.as_millis())
        .bind(host)
        .execute(&mut *connection)
        .await?;
    }
    sqlx::query("UPDATE pardons SET answer = ? WHERE id = ?")
        .bind(answer)
        .bind(request)
        .execute(connection)
        .await?;
    Ok(())
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
