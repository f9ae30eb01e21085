//! What a whole run came to: everything that was found, and how late every probe was sent.
//!
//! Apart from [`super::report`], which answers about sources as they stand: this reads all rows,
//! and suits stores of a size that fits into memory.

use sqlx::Row;

use crate::fleet::params::SourceId;
use crate::time::{Span, Timestamp};

use super::StoreError;
use super::reader::Reader;

/// Something that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detection {
    /// Where.
    pub source: SourceId,
    /// When.
    pub at: Timestamp,
    /// `new`, `edited` or `changed`.
    pub kind: String,
    /// The item's identity.
    pub key: String,
    /// Its title.
    pub title: Option<String>,
}

impl Reader {
    /// Everything that was found, in the order in which it was.
    pub async fn detections(&self) -> Result<Vec<Detection>, StoreError> {
        let rows = sqlx::query(
            "SELECT source_id, detected_at, kind, key, title FROM updates ORDER BY detected_at, id",
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .iter()
            .map(|row| Detection {
                source: SourceId(row.get(0)),
                at: Timestamp::from_millis(row.get(1)),
                kind: row.get(2),
                key: row.get(3),
                title: row.get(4),
            })
            .collect())
    }

    /// How long after it was due each probe was sent, the least late first.
    pub async fn lateness(&self) -> Result<Vec<Span>, StoreError> {
        let late: Vec<i64> = sqlx::query_scalar("SELECT started_at - due_at FROM probes ORDER BY 1")
            .fetch_all(self.pool())
            .await?;
        Ok(late.into_iter().map(Span::from_millis).collect())
    }
}
