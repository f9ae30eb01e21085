//! How well the probes of a period were spent, by the measures of Bright, Gal, Raschid, §7.2.3.
//!
//! Apart from [`super::report`], which tells how sources stand now. The views `daily_measures` and
//! `measures` give the same figures by day and over all; they are not asked here because they read
//! the whole log, and a period may be a small part of it. What is counted and why is said where
//! they are made, in `migrations/0005_measures.sql`.

use std::collections::HashMap;

use sqlx::Row;

use tidewatch_core::engine::load::SlotStats;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::reader::Reader;

/// What the probes of a period came to. The paper's stale hits are not among it: they are counted
/// over the requests of a cache's clients, and there are none here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    /// Probes that learned something about the document: all that did not fail.
    pub validations: u64,
    /// Those that found it modified.
    pub useful_validations: u64,
    /// Those that found it as it was, and could have been spared.
    pub freshness_misses: u64,
    /// Probes that learned nothing, which are no validations.
    pub failed: u64,
    /// Updates found: one useful validation may find many.
    pub updates: u64,
    /// Seconds from an update until it was found, on average; `None` without updates. All kinds of
    /// update take part, since each has a date of its own between two looks or else their middle.
    pub average_delay_s: Option<f64>,
    /// Half of the updates were found within so many seconds; unlike the average it does not follow
    /// a few that waited long.
    pub median_delay_s: Option<f64>,
}

/// The measures of a period.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeriodMeasures {
    /// Of each source, those without a probe in the period included and the removed ones left out.
    pub sources: HashMap<SourceId, Measures>,
    /// Of these sources together. The delays are those over all their updates, so that a source
    /// weighs as much as it was updated.
    pub total: Measures,
}

impl Reader {
    /// The measures from `since` until just before `until`. A probe counts at its start and an
    /// update when it was found: of a probe under way at an edge they may be on either side.
    pub async fn measures(&self, since: Timestamp, until: Timestamp) -> Result<PeriodMeasures, StoreError> {
        // One transaction, so that both statements see the same moment.
        let mut snapshot = self.pool().begin().await?;
        let probes = sqlx::query(
            "SELECT s.id,
                    count(*) FILTER (WHERE p.outcome <> 'failed'),
                    count(*) FILTER (WHERE p.outcome = 'updated'),
                    count(*) FILTER (WHERE p.outcome IN ('unchanged', 'not_modified')),
                    count(*) FILTER (WHERE p.outcome = 'failed')
             FROM sources s
             LEFT JOIN probes p ON p.source_id = s.id AND p.started_at >= ?1 AND p.started_at < ?2
             WHERE s.state <> 'removed' GROUP BY s.id",
        )
        .bind(since.as_millis())
        .bind(until.as_millis())
        .fetch_all(&mut *snapshot)
        .await?;
        // Every delay is there twice, for its source and, under NULL, for the total, whose median
        // cannot be had from those of the sources.
        let updates = sqlx::query(
            "WITH found AS (
                 SELECT u.source_id, u.detected_at - u.occurred_at AS delay
                 FROM updates u JOIN sources s ON s.id = u.source_id
                 WHERE s.state <> 'removed' AND u.detected_at >= ?1 AND u.detected_at < ?2
             ), ranked AS (
                 SELECT source_id, delay, row_number() OVER (PARTITION BY source_id ORDER BY delay) AS place,
                        count(*) OVER (PARTITION BY source_id) AS count
                 FROM (SELECT source_id, delay FROM found UNION ALL SELECT NULL, delay FROM found)
             )
             SELECT source_id, count(*), avg(delay) / 1000.0,
                    avg(delay) FILTER (WHERE place IN ((count + 1) / 2, count / 2 + 1)) / 1000.0
             FROM ranked GROUP BY source_id",
        )
        .bind(since.as_millis())
        .bind(until.as_millis())
        .fetch_all(&mut *snapshot)
        .await?;

        let count = |row: &sqlx::sqlite::SqliteRow, column: usize| row.get::<i64, _>(column).unsigned_abs();
        let mut measured = PeriodMeasures::default();
        for row in &probes {
            let measures = Measures {
                validations: count(row, 1),
                useful_validations: count(row, 2),
                freshness_misses: count(row, 3),
                failed: count(row, 4),
                ..Measures::default()
            };
            measured.total.validations += measures.validations;
            measured.total.useful_validations += measures.useful_validations;
            measured.total.freshness_misses += measures.freshness_misses;
            measured.total.failed += measures.failed;
            measured.sources.insert(SourceId(row.get(0)), measures);
        }
        for row in &updates {
            let measures = match row.get::<Option<i64>, _>(0) {
                None => &mut measured.total,
                Some(id) => measured.sources.entry(SourceId(id)).or_default(),
            };
            measures.updates = count(row, 1);
            measures.average_delay_s = row.get(2);
            measures.median_delay_s = row.get(3);
        }
        Ok(measured)
    }
}

impl Reader {
    /// What the fleet did since then, all together; `None` if it did nothing.
    pub async fn loads(&self, since: Timestamp) -> Result<Option<SlotStats>, StoreError> {
        let row = sqlx::query(
            "SELECT min(since), max(until), sum(due), sum(sampled), sum(late), sum(late_ms), max(latest_ms),
                    total(undiscovered_hours), (SELECT waiting FROM loads ORDER BY since DESC LIMIT 1),
                    total(work), sum(tardy), sum(tardy_ms), max(tardiest_ms),
                    (SELECT overdue FROM loads ORDER BY since DESC LIMIT 1)
             FROM loads WHERE since >= ?",
        )
        .bind(since.as_millis())
        .fetch_one(self.pool())
        .await?;
        let number = |at: usize| row.get::<Option<i64>, _>(at);
        let count = |at: usize| number(at).unwrap_or(0).unsigned_abs();
        let span = |at: usize| Span::from_millis(number(at).unwrap_or(0));
        let (Some(since), Some(until)) = (number(0), number(1)) else { return Ok(None) };
        Ok(Some(SlotStats {
            since: Timestamp::from_millis(since),
            until: Timestamp::from_millis(until),
            due: count(2),
            sampled: count(3),
            late: count(4),
            late_for: span(5),
            latest: span(6),
            waiting: count(8),
            undiscovered_hours: row.get(7),
            work: row.get(9),
            tardy: count(10),
            tardy_for: span(11),
            tardiest: span(12),
            overdue: count(13),
        }))
    }
}
