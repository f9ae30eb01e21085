//! The log of events of the daemon and its sources.

use sqlx::SqliteConnection;

use super::json_rows::text_of;
use super::record::EventRecord;

/// Adds events, in this order.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    events: &[&EventRecord],
) -> Result<(), sqlx::Error> {
    if events.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = events
        .iter()
        .map(|event| {
            (event.at.as_millis(), event.kind, event.source.map(|id| id.0), event.detail.as_deref())
        })
        .collect();
    sqlx::query(
        "INSERT INTO events (at, kind, source_id, detail)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(?)",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}
