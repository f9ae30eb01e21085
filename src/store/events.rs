//! The log of events of the daemon and its sources.

use sqlx::SqliteConnection;

use super::record::EventRecord;

/// Adds an event.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    event: &EventRecord,
) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO events (at, kind, source_id, detail) VALUES (?, ?, ?, ?)")
        .bind(event.at.as_millis())
        .bind(event.kind)
        .bind(event.source.map(|id| id.0))
        .bind(event.detail.as_deref())
        .execute(connection)
        .await?;
    Ok(())
}
