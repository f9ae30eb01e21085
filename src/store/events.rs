//! The log of events: what happened to the daemon or to a source.

use sqlx::SqliteConnection;

use super::record::Event;

/// Adds one.
pub(super) async fn insert(connection: &mut SqliteConnection, event: &Event) -> Result<(), sqlx::Error> {
    sqlx::query("INSERT INTO events (at, kind, source_id, detail) VALUES (?, ?, ?, ?)")
        .bind(event.at.as_millis())
        .bind(event.kind)
        .bind(event.source.map(|id| id.0))
        .bind(event.detail.as_deref())
        .execute(connection)
        .await?;
    Ok(())
}
