//! What a whole run came to: everything that was found, how late every probe was sent, and what was
//! done about bursts.
//!
//! Apart from [`super::report`], which answers about sources as they stand: this reads all rows,
//! and suits stores of a size that fits into memory.

use sqlx::Row;

use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

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

/// A burst, and what was done about it.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstReview {
    /// Whose.
    pub source: SourceId,
    /// Since when.
    pub began: Timestamp,
    /// Until when, if it is over.
    pub ended: Option<Timestamp>,
    /// Updates seen in it.
    pub observed: u32,
    /// Updates that its rhythm foretold.
    pub expected: f64,
    /// Probes in it, the one that found it over included.
    pub probes: u64,
    /// Those of them that time to live asked for.
    pub by_ttl: u64,
    /// It is over, and a plan has asked for a probe since, or is to ask for the next.
    pub planned_again: bool,
}

impl Reader {
    /// Every burst, in the order in which they began.
    pub async fn bursts(&self) -> Result<Vec<BurstReview>, StoreError> {
        let rows = sqlx::query(
            "SELECT b.source_id, b.began_at, b.ended_at, b.observed, b.expected,
                    count(p.id) FILTER (WHERE p.started_at <= coalesce(b.ended_at, p.started_at)),
                    count(p.id) FILTER (WHERE p.started_at <= coalesce(b.ended_at, p.started_at)
                                          AND p.policy = 'ttl'),
                    b.ended_at IS NOT NULL
                        AND (s.burst_since IS NULL AND s.follows = 'plan'
                             OR count(p.id) FILTER (WHERE p.started_at > b.ended_at AND p.policy = 'plan') > 0)
             FROM bursts b JOIN sources s ON s.id = b.source_id
             LEFT JOIN probes p ON p.source_id = b.source_id AND p.started_at >= b.began_at
             GROUP BY b.id ORDER BY b.began_at, b.id",
        )
        .fetch_all(self.pool())
        .await?;
        let count = |row: &sqlx::sqlite::SqliteRow, column: usize| row.get::<i64, _>(column).unsigned_abs();
        Ok(rows
            .iter()
            .map(|row| BurstReview {
                source: SourceId(row.get(0)),
                began: Timestamp::from_millis(row.get(1)),
                ended: row.get::<Option<i64>, _>(2).map(Timestamp::from_millis),
                observed: row.get(3),
                expected: row.get(4),
                probes: count(row, 5),
                by_ttl: count(row, 6),
                planned_again: row.get(7),
            })
            .collect())
    }

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
