//! Deletes old rows in small parts, so that no transaction is long.
//!
//! Deletes probes, predictions, plans, slot statistics, answered requests and completed deliveries, and items that
//! left their feed long ago. Updates, gaps and events stay, and so do queued and failed deliveries.

use sqlx::SqliteConnection;

use tidewatch_core::time::{Span, Timestamp};

use super::json_rows::text_of;

/// Rows of each kind that one transaction deletes.
const ROWS_AT_A_TIME: i64 = 500;

/// Items are kept this long after they left their feed, and recognized if they return. Bounds the number of
/// items.
const ITEMS_REMEMBERED: Span = Span::from_days(180);

/// Deletes some items that left long before `now`, and notes for their sources that items were forgotten.
async fn items(connection: &mut SqliteConnection, now: Timestamp) -> Result<bool, sqlx::Error> {
    let sources: Vec<i64> = sqlx::query_scalar(
        "DELETE FROM items WHERE (source_id, key_hash) IN (
             SELECT source_id, key_hash FROM items WHERE left_at < ? ORDER BY left_at LIMIT ?)
         RETURNING source_id",
    )
    .bind((now - ITEMS_REMEMBERED).as_millis())
    .bind(ROWS_AT_A_TIME)
    .fetch_all(&mut *connection)
    .await?;
    if !sources.is_empty() {
        sqlx::query(
            "UPDATE sources SET known_items = NULL, items_forgotten = ?
             WHERE id IN (SELECT value FROM json_each(?))",
        )
        .bind(now.as_millis())
        .bind(text_of(&sources)?)
        .execute(connection)
        .await?;
    }
    Ok(sources.len() as i64 >= ROWS_AT_A_TIME)
}

/// Deletes some rows older than `before`, and items that left long before `now`. Returns whether more may remain.
pub(super) async fn delete_batch(
    connection: &mut SqliteConnection,
    before: Timestamp,
    now: Timestamp,
) -> Result<bool, sqlx::Error> {
    let mut more = false;
    let probes = sqlx::query(
        "DELETE FROM probes WHERE id IN (SELECT id FROM probes WHERE started_at < ? ORDER BY started_at LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(ROWS_AT_A_TIME)
    .execute(&mut *connection)
    .await?;
    more |= probes.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs();
    let plans = sqlx::query(
        "DELETE FROM plans WHERE id IN (SELECT id FROM plans WHERE made_at < ? ORDER BY made_at LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(ROWS_AT_A_TIME)
    .execute(&mut *connection)
    .await?;
    more |= plans.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs();
    let loads = sqlx::query(
        "DELETE FROM loads WHERE since IN (SELECT since FROM loads WHERE since < ? ORDER BY since LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(ROWS_AT_A_TIME)
    .execute(&mut *connection)
    .await?;
    more |= loads.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs();
    let prices = sqlx::query(
        "DELETE FROM fleet_prices WHERE at IN (SELECT at FROM fleet_prices WHERE at < ? ORDER BY at LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(ROWS_AT_A_TIME)
    .execute(&mut *connection)
    .await?;
    more |= prices.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs();
    let deliveries = sqlx::query(
        "DELETE FROM deliveries WHERE id IN (
             SELECT id FROM deliveries WHERE state = 'delivered' AND delivered_at < ?
             ORDER BY delivered_at LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(ROWS_AT_A_TIME)
    .execute(&mut *connection)
    .await?;
    more |= deliveries.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs();
    let predictions = sqlx::query(
        "DELETE FROM predictions WHERE (day, source_id) IN (
             SELECT day, source_id FROM predictions WHERE day < ? ORDER BY day LIMIT ?)",
    )
    .bind(before.as_millis())
    .bind(ROWS_AT_A_TIME)
    .execute(&mut *connection)
    .await?;
    more |= predictions.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs();
    more |= items(connection, now).await?;
    sqlx::query("DELETE FROM requests WHERE answer IS NOT NULL AND asked_at < ?")
        .bind(before.as_millis())
        .execute(&mut *connection)
        .await?;
    Ok(more)
}
