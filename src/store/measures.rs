//! Measures of the probes of a period, after Bright, Gal, Raschid, §7.2.3.
//!
//! Separate from [`super::report`], which shows the current state. The views `daily_measures` and
//! `measures` give the same figures by day and in total. They are not used here because they read the whole
//! log. `migrations/0005_measures.sql` defines the figures and gives reasons.

use std::collections::HashMap;

use sqlx::Row;

use tidewatch_core::engine::slot_stats::SlotStats;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::clock::StoredClock;
use super::json_rows::text_of;
use super::reader::Reader;

/// The measures of some probes. The paper's stale hits are left out: they count client requests to a cache,
/// which do not exist here.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    /// Probes that did not fail.
    pub validations: u64,
    /// Validations that found an update.
    pub useful_validations: u64,
    /// Validations that found no update.
    pub freshness_misses: u64,
    /// Failed probes, which are not validations.
    pub failed: u64,
    /// Updates found; one validation may find several.
    pub updates: u64,
    /// Mean seconds from an update to its detection; `None` without updates. An update without a date
    /// counts from the middle between two probes.
    pub average_delay_s: Option<f64>,
    /// Median seconds from an update to its detection; robust against a few long delays.
    pub median_delay_s: Option<f64>,
}

/// The measures of a period.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeriodMeasures {
    /// By source. Includes sources without a probe in the period, and leaves out removed ones.
    pub sources: HashMap<SourceId, Measures>,
    /// All these sources together. Its delays are computed over all their updates.
    pub total: Measures,
}

impl Reader {
    /// The measures from `since` (inclusive) to `until` (exclusive), by the present clock. A probe counts at its start, an update
    /// at its detection; around `since` and `until` the two may fall on different sides.
    pub async fn measures(&self, since: Timestamp, until: Timestamp) -> Result<PeriodMeasures, StoreError> {
        // One transaction, so that all statements read the same snapshot.
        let mut snapshot = self.pool().begin().await?;
        // The period by each clock of the log.
        let clocks = StoredClock::read(&mut snapshot).await?.windows(since, until);
        let clocks = text_of(&clocks)?;
        let probes = sqlx::query(
            "SELECT s.id,
                    count(*) FILTER (WHERE p.outcome <> 'failed'),
                    count(*) FILTER (WHERE p.outcome = 'updated'),
                    count(*) FILTER (WHERE p.outcome IN ('unchanged', 'not_modified')),
                    count(*) FILTER (WHERE p.outcome = 'failed')
             FROM sources s CROSS JOIN json_each(?1) AS clock
             LEFT JOIN probes p ON p.source_id = s.id
                 AND p.started_at >= clock.value ->> 0 AND p.started_at < clock.value ->> 1
                 AND +p.id > clock.value ->> 2 AND +p.id <= clock.value ->> 3
             WHERE s.state <> 'removed' GROUP BY s.id",
        )
        .bind(&clocks)
        .fetch_all(&mut *snapshot)
        .await?;
        // Each delay appears twice: for its source and, with NULL, for the total. The total median cannot
        // be computed from the medians of the sources.
        let updates = sqlx::query(
            "WITH found AS (
                 SELECT u.source_id, u.detected_at - u.occurred_at AS delay
                 FROM json_each(?1) AS clock
                 CROSS JOIN updates u ON u.detected_at >= clock.value ->> 0 AND u.detected_at < clock.value ->> 1
                     -- If the probe is pruned, the time is taken for one by the present clock.
                     AND coalesce(u.probe_id, clock.value ->> 3) > clock.value ->> 2
                     AND coalesce(u.probe_id, ?2) <= clock.value ->> 3
                 JOIN sources s ON s.id = u.source_id
                 WHERE s.state <> 'removed'
             ), ranked AS (
                 SELECT source_id, delay, row_number() OVER (PARTITION BY source_id ORDER BY delay) AS place,
                        count(*) OVER (PARTITION BY source_id) AS count
                 FROM (SELECT source_id, delay FROM found UNION ALL SELECT NULL, delay FROM found)
             )
             SELECT source_id, count(*), avg(delay) / 1000.0,
                    avg(delay) FILTER (WHERE place IN ((count + 1) / 2, count / 2 + 1)) / 1000.0
             FROM ranked GROUP BY source_id",
        )
        .bind(&clocks)
        .bind(i64::MAX)
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
    /// The summed slot statistics from `since` to `until`; `None` if there are none. Those of a clock that was ahead are
    /// later.
    pub async fn loads(&self, since: Timestamp, until: Timestamp) -> Result<Option<SlotStats>, StoreError> {
        let row = sqlx::query(
            "SELECT min(since), max(until), sum(due), sum(sampled), sum(late), sum(late_ms), max(latest_ms),
                    total(undiscovered_hours), (SELECT waiting FROM loads WHERE until <= ?2 ORDER BY since DESC LIMIT 1),
                    total(work), sum(tardy), sum(tardy_ms), max(tardiest_ms),
                    (SELECT overdue FROM loads WHERE until <= ?2 ORDER BY since DESC LIMIT 1)
             FROM loads WHERE since >= ?1 AND until <= ?2",
        )
        .bind(since.as_millis())
        .bind(until.as_millis())
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
