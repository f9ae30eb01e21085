//! A review of a whole run: all updates, the lateness of all probes, and all bursts.
//!
//! Separate from [`super::report`], which shows the current state. Reads all rows, so the store must fit
//! into memory.

use sqlx::Row;

use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::reader::Reader;

/// A detected update.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Detection {
    /// The source.
    pub source: SourceId,
    /// Time of detection.
    pub at: Timestamp,
    /// `new`, `edited` or `changed`.
    pub kind: String,
    /// The item's key.
    pub key: String,
    /// The item's title.
    pub title: Option<String>,
}

/// A burst, and the probes in it.
#[derive(Debug, Clone, PartialEq)]
pub struct BurstReview {
    /// The source.
    pub source: SourceId,
    /// Start of the burst.
    pub began: Timestamp,
    /// End of the burst, if it has ended.
    pub ended: Option<Timestamp>,
    /// Updates found in the burst.
    pub observed: u32,
    /// Updates that the rate predicted.
    pub expected: f64,
    /// Probes in the burst, including the one that found its end.
    pub probes: u64,
    /// Those that the policy `ttl` scheduled.
    pub by_ttl: u64,
    /// Whether the burst has ended and the policy `plan` has scheduled a probe since, or is used now.
    pub planned_again: bool,
}

impl Reader {
    /// All bursts, ordered by start.
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

    /// All updates, ordered by time of detection.
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

    /// The lateness of each probe, ascending.
    pub async fn lateness(&self) -> Result<Vec<Span>, StoreError> {
        let late: Vec<i64> = sqlx::query_scalar("SELECT started_at - due_at FROM probes ORDER BY 1")
            .fetch_all(self.pool())
            .await?;
        Ok(late.into_iter().map(Span::from_millis).collect())
    }
}
