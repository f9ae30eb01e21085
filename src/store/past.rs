//! What every source published in the past, and when it was probed: the log, to be tried out again.
//!
//! Reads whole tables, source by source, and suits the commands that look back. Must not know what is
//! made of it.

use std::collections::HashMap;

use sqlx::Row;

use crate::fleet::params::SourceId;
use crate::time::Timestamp;

use super::StoreError;
use super::reader::Reader;

/// A source's past.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Whose.
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: Option<String>,
    /// It is a page.
    pub page: bool,
    /// When it published, ascending; from before it was watched, what its feed still dated.
    pub published: Vec<Timestamp>,
    /// When its probes were sent, ascending, as far as the log goes back.
    pub probed: Vec<Timestamp>,
}

impl Reader {
    /// The past of every source that is still watched, in the order of their names.
    pub async fn pasts(&self) -> Result<Vec<Past>, StoreError> {
        let mut connection = self.connection().await?;
        let sources = sqlx::query(
            "SELECT id, name, group_name, kind = 'page' FROM sources WHERE state <> 'removed' ORDER BY name",
        )
        .fetch_all(&mut *connection)
        .await?;
        // What was there at first contact is no update, but it is known when it came.
        let published = sqlx::query(
            "SELECT source_id, occurred_at AS at FROM updates WHERE kind <> 'edited'
             UNION ALL
             SELECT i.source_id, i.dated_at FROM items AS i
             WHERE i.dated_at < (SELECT min(p.started_at) FROM probes AS p WHERE p.source_id = i.source_id)
             ORDER BY at",
        )
        .fetch_all(&mut *connection)
        .await?;
        let probed = sqlx::query("SELECT source_id, started_at FROM probes ORDER BY started_at")
            .fetch_all(&mut *connection)
            .await?;
        let gathered = |rows: Vec<sqlx::sqlite::SqliteRow>| {
            let mut times: HashMap<i64, Vec<Timestamp>> = HashMap::new();
            for row in rows {
                times.entry(row.get(0)).or_default().push(Timestamp::from_millis(row.get(1)));
            }
            times
        };
        let (mut published, mut probed) = (gathered(published), gathered(probed));
        let past = |row: &sqlx::sqlite::SqliteRow| {
            let id: i64 = row.get(0);
            Past {
                id: SourceId(id),
                name: row.get(1),
                group: row.get(2),
                page: row.get(3),
                published: published.remove(&id).unwrap_or_default(),
                probed: probed.remove(&id).unwrap_or_default(),
            }
        };
        Ok(sources.iter().map(past).collect())
    }
}
