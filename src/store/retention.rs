//! Forgetting old probes and plans in small bites, so that no commit is long.
//!
//! Updates, gaps and events stay; only the logs of probes and plans, answered requests, and
//! deliveries that were taken are pruned. What somebody has yet to be told, or was not, stays.

use sqlx::SqliteConnection;

use tidewatch_core::time::Timestamp;

/// Rows of a kind that one transaction forgets.
const BITE: i64 = 500;

/// Forgets some of what is older than `before`; says whether there is more.
pub(super) async fn bite(
    connection: &mut SqliteConnection,
    before: Timestamp,
) -> Result<bool, sqlx::Error> {
    let mut more = false;
    let probes = sqlx::query(
        "DELETE FROM probes WHERE id IN (SELECT id FROM probes WHERE started_at < ? ORDER BY started_at LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(BITE)
    .execute(&mut *connection)
    .await?;
    more |= probes.rows_affected() >= BITE.unsigned_abs();
    let plans = sqlx::query(
        "DELETE FROM plans WHERE id IN (SELECT id FROM plans WHERE made_at < ? ORDER BY made_at LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(BITE)
    .execute(&mut *connection)
    .await?;
    more |= plans.rows_affected() >= BITE.unsigned_abs();
    let loads = sqlx::query(
        "DELETE FROM loads WHERE since IN (SELECT since FROM loads WHERE since < ? ORDER BY since LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(BITE)
    .execute(&mut *connection)
    .await?;
    more |= loads.rows_affected() >= BITE.unsigned_abs();
    let deliveries = sqlx::query(
        "DELETE FROM deliveries WHERE id IN (
             SELECT id FROM deliveries WHERE state = 'delivered' AND delivered_at < ?
             ORDER BY delivered_at LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(BITE)
    .execute(&mut *connection)
    .await?;
    more |= deliveries.rows_affected() >= BITE.unsigned_abs();
    sqlx::query("DELETE FROM requests WHERE answer IS NOT NULL AND asked_at < ?")
        .bind(before.as_millis())
        .execute(&mut *connection)
        .await?;
    Ok(more)
}
