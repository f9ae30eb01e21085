//! Stores and reads the learned models of sources, their fitted rates, and their bursts.
//!
//! Separate from the other statements because it has its own tables. Must not know how rates are fitted,
//! how bursts are detected, nor how predictor weights are used.

use std::collections::HashMap;

use jiff::tz::TimeZone;
use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection};

use tidewatch_core::model::aggregate::RateOrigin;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::finite::finite;
use super::json_rows::{Hex, read_text, text_of};
use super::known_items::packed;
use super::known_rate::KnownRate;
use super::reader::Reader;
use super::record::{ProbeRecord, RateRecord, RelearnedRecord};

type Result = std::result::Result<(), sqlx::Error>;

/// The last update times of a source, and the weights of its predictors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateTimesRow {
    /// Update times; see `model::habits::update_times`.
    pub update_times: Vec<u8>,
    /// Predictor weights, see `model::habits`; `None` before the first fit.
    pub habits: Option<Vec<u8>>,
    /// Time of the weights; `None` if the update times changed since.
    pub weighed_at: Option<Timestamp>,
}

/// The period of a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BurstSpan {
    /// Start of the burst.
    pub began: Timestamp,
    /// End of the burst; `None` while it is in progress.
    pub ended: Option<Timestamp>,
    /// Whether the burst became the rhythm.
    pub for_good: bool,
}

/// Stores the models after probes that changed them, and the items of documents that were read.
pub(super) async fn write_models(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    let mut rows = Vec::new();
    let mut items = Vec::new();
    for record in records {
        let id = record.attempt.source.0;
        // A page has no items: those of a feed at this address stay as they are.
        let feed = record.observation.as_ref().filter(|seen| seen.page.is_none());
        let last_items = feed.map(|seen| Hex(packed(&seen.present)));
        let Some(beliefs) = record.beliefs.as_ref() else {
            items.extend(last_items.map(|column| (id, column)));
            continue;
        };
        let changed = beliefs.burst_became_rhythm.or(beliefs.relearned_since);
        rows.push((
            id,
            Hex(&beliefs.history),
            beliefs.watch.as_deref().map(Hex),
            beliefs.post_burst.as_deref().map(Hex),
            changed.map(|_| record.finished.as_millis()),
            beliefs.update_times.as_deref().map(Hex),
            beliefs.rhythm_test.as_deref().map(Hex),
            beliefs.relearned_since.map(Timestamp::as_millis),
            last_items,
            beliefs.corrected.as_millis(),
        ));
    }
    if !items.is_empty() {
        sqlx::query(
            "UPDATE histories SET last_items = unhex(new.value ->> 1)
             FROM jsonb_each(?) AS new WHERE histories.source_id = new.value ->> 0",
        )
        .bind(text_of(&items)?)
        .execute(&mut *connection)
        .await?;
    }
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO histories (source_id, bytes, watch, aside, changed_at, diary, rhythm_test, rhythm_since,
                                last_items, clock_ms, begun_clock_ms)
         SELECT value ->> 0, unhex(value ->> 1), unhex(value ->> 2), unhex(value ->> 3), value ->> 4,
                unhex(value ->> 5), unhex(value ->> 6), value ->> 7, unhex(value ->> 8), value ->> 9, value ->> 9
         FROM jsonb_each(?) WHERE true
         ON CONFLICT (source_id) DO UPDATE
         SET bytes = excluded.bytes, watch = excluded.watch, aside = excluded.aside, clock_ms = excluded.clock_ms,
             changed_at = coalesce(excluded.changed_at, changed_at), diary = excluded.diary,
             rhythm_test = excluded.rhythm_test, rhythm_since = coalesce(excluded.rhythm_since, rhythm_since),
             habits = CASE WHEN excluded.diary IS NOT NULL THEN habits END,
             weighed_at = CASE WHEN excluded.diary IS diary THEN weighed_at END,
             last_items = coalesce(excluded.last_items, last_items)",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Replaces evidence that was learned again, unless a probe changed it meanwhile. Predictors are weighed
/// again with the next rate.
pub(super) async fn relearned(connection: &mut SqliteConnection, records: &[RelearnedRecord]) -> Result {
    for record in records {
        sqlx::query(
            "UPDATE histories SET bytes = ?1, aside = ?2, weighed_at = NULL, clock_ms = ?6, begun_clock_ms = ?6
             WHERE source_id = ?3 AND bytes = ?4 AND histories.aside IS ?5",
        )
        .bind(&record.history)
        .bind(&record.post_burst)
        .bind(record.source.0)
        .bind(&record.read.0)
        .bind(&record.read.1)
        .bind(record.corrected.as_millis())
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Stores the burst changes of finished probes. A burst in progress is updated by every probe.
pub(super) async fn bursts(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    let mut over = Vec::new();
    for record in records {
        let id = record.attempt.source.0;
        match record.burst {
            Some(BurstChange::Began(evidence)) => begin(connection, id, &evidence, None).await?,
            Some(BurstChange::Passed(evidence)) => {
                begin(connection, id, &evidence, Some(evidence.at)).await?;
            }
            Some(BurstChange::Ended(evidence)) => {
                extend_burst(connection, id, &evidence, Some(evidence.at)).await?;
            }
            None => match record.burst_so_far {
                Some(evidence) => extend_burst(connection, id, &evidence, None).await?,
                None if record.memory.burst.burst_since.is_none() && record.stored.in_burst => {
                    over.push((id, record.finished.as_millis()));
                }
                None => {}
            },
        }
    }
    if !over.is_empty() {
        // Rarely closes a burst: only if the document was replaced or the rhythm is unknown again.
        sqlx::query(
            "UPDATE bursts SET ended_at = over.value ->> 1 FROM jsonb_each(?) AS over
             WHERE source_id = over.value ->> 0 AND ended_at IS NULL",
        )
        .bind(text_of(&over)?)
        .execute(&mut *connection)
        .await?;
    }
    let permanent: Vec<_> = records
        .iter()
        .filter_map(|record| {
            let since = record.beliefs.as_ref()?.burst_became_rhythm?;
            Some((record.attempt.source.0, since.as_millis()))
        })
        .collect();
    if !permanent.is_empty() {
        sqlx::query(
            "UPDATE bursts SET for_good = 1 FROM jsonb_each(?) AS new
             WHERE source_id = new.value ->> 0 AND bursts.ended_at >= new.value ->> 1",
        )
        .bind(text_of(&permanent)?)
        .execute(connection)
        .await?;
    }
    Ok(())
}

async fn begin(
    connection: &mut SqliteConnection,
    id: i64,
    evidence: &BurstEvidence,
    ended: Option<Timestamp>,
) -> Result {
    sqlx::query(
        "INSERT INTO bursts (source_id, began_at, ended_at, observed, expected) VALUES (?, ?, ?, ?, ?)",
    )
    .bind(id)
    .bind(evidence.since.as_millis())
    .bind(ended.map(Timestamp::as_millis))
    .bind(evidence.observed)
    .bind(finite(evidence.expected))
    .execute(connection)
    .await?;
    Ok(())
}

async fn extend_burst(
    connection: &mut SqliteConnection,
    id: i64,
    evidence: &BurstEvidence,
    ended: Option<Timestamp>,
) -> Result {
    sqlx::query(
        "UPDATE bursts SET ended_at = ?, observed = ?, expected = ? WHERE source_id = ? AND ended_at IS NULL",
    )
    .bind(ended.map(Timestamp::as_millis))
    .bind(evidence.observed)
    .bind(finite(evidence.expected))
    .bind(id)
    .execute(connection)
    .await?;
    Ok(())
}

/// Replaces fitted rates and predictor weights.
pub(super) async fn rates(connection: &mut SqliteConnection, rates: &[RateRecord]) -> Result {
    let ids: Vec<i64> = rates.iter().map(|rate| rate.source.0).collect();
    sqlx::query("DELETE FROM rates WHERE source_id IN (SELECT value FROM jsonb_each(?))")
        .bind(text_of(&ids)?)
        .execute(&mut *connection)
        .await?;
    let mut segments = Vec::new();
    let mut fits = Vec::new();
    for rate in rates {
        let (id, at) = (rate.source.0, rate.fitted_at.as_millis());
        let rows = rate
            .segments
            .iter()
            .map(|(from, to, per_hour)| json!([id, at, rate.origin, from, to, per_hour]));
        segments.extend(rows);
        fits.push(json!([
            id,
            at,
            rate.origin,
            rate.cycle,
            rate.time_zone,
            rate.per_week,
            rate.dispersion,
            rate.updates,
            rate.since.map(Timestamp::as_millis)
        ]));
    }
    sqlx::query(
        "INSERT INTO rates (source_id, fitted_at, origin, starts_s, ends_s, per_hour)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5 FROM jsonb_each(?)",
    )
    .bind(Value::from(segments).to_string())
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "INSERT OR REPLACE INTO fits (source_id, fitted_at, origin, cycle, time_zone, per_week, dispersion, updates, since)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7, value ->> 8
         FROM jsonb_each(?)",
    )
    .bind(Value::from(fits).to_string())
    .execute(&mut *connection)
    .await?;
    // The next probes are reviewed with the new rates.
    sqlx::query("UPDATE sources SET review_at = NULL WHERE id IN (SELECT value FROM jsonb_each(?))")
        .bind(text_of(&ids)?)
        .execute(&mut *connection)
        .await?;
    let habits: Vec<_> = rates
        .iter()
        .filter_map(|rate| Some((rate.source.0, rate.fitted_at.as_millis(), Hex(rate.habits.as_ref()?))))
        .collect();
    sqlx::query(
        "UPDATE histories SET weighed_at = new.value ->> 1, habits = unhex(new.value ->> 2)
         FROM jsonb_each(?) AS new WHERE histories.source_id = new.value ->> 0",
    )
    .bind(text_of(&habits)?)
    .execute(&mut *connection)
    .await?;
    Ok(())
}

impl Reader {
    /// The rates of these sources. Sources without a rate, or with one older than their rhythm, are left
    /// out.
    pub async fn rates(
        &self,
        ids: &[SourceId],
    ) -> std::result::Result<HashMap<SourceId, KnownRate>, StoreError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query(
            "SELECT fits.source_id, time_zone, origin, updates, dispersion,
                    (SELECT json_group_array(json_array(ends_s, per_hour)) FROM
                         (SELECT ends_s, per_hour FROM rates WHERE rates.source_id = fits.source_id
                          ORDER BY starts_s))
             FROM fits LEFT JOIN histories ON histories.source_id = fits.source_id
             WHERE fits.source_id IN (SELECT value FROM jsonb_each(?))
               AND fits.fitted_at >= coalesce(changed_at, fits.fitted_at)",
        )
        .bind(json!(ids).to_string())
        .fetch_all(self.pool())
        .await?;
        let mut rates = HashMap::new();
        for row in &rows {
            let segments: Vec<(u32, f64)> = read_text(row.get(5))?;
            if segments.is_empty() {
                continue;
            }
            let (id, zone) = (row.get(0), TimeZone::get(row.get(1)).unwrap_or(TimeZone::UTC));
            match Rate::new(zone, segments) {
                Ok(rate) => {
                    let origin = RateOrigin::from_name(row.get(2)).unwrap_or(RateOrigin::Individual);
                    let dispersion = row.get::<Option<f64>, _>(4).unwrap_or(1.0).max(1.0);
                    rates.insert(SourceId(id), KnownRate { rate, origin, updates: row.get(3), dispersion });
                }
                Err(error) => tracing::warn!(source = id, %error, "the stored rate is broken"),
            }
        }
        Ok(rates)
    }

    /// The update times of these sources; sources without any are left out.
    pub async fn update_times(
        &self,
        ids: &[SourceId],
    ) -> std::result::Result<HashMap<SourceId, UpdateTimesRow>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let rows = sqlx::query(
            "SELECT source_id, diary, habits, weighed_at FROM histories
             WHERE diary IS NOT NULL AND source_id IN (SELECT value FROM jsonb_each(?))",
        )
        .bind(json!(ids).to_string())
        .fetch_all(self.pool())
        .await?;
        let update_times = |row: &sqlx::sqlite::SqliteRow| UpdateTimesRow {
            update_times: row.get(1),
            habits: row.get(2),
            weighed_at: row.get::<Option<i64>, _>(3).map(Timestamp::from_millis),
        };
        Ok(rows.iter().map(|row| (SourceId(row.get(0)), update_times(row))).collect())
    }

    /// The burst in progress of a source: start, updates found, updates expected.
    pub async fn open_burst(
        &self,
        id: SourceId,
    ) -> std::result::Result<Option<(Timestamp, u32, f64)>, StoreError> {
        let query =
            "SELECT began_at, observed, expected FROM bursts WHERE source_id = ? AND ended_at IS NULL
                     ORDER BY id DESC LIMIT 1";
        let row = sqlx::query(query).bind(id.0).fetch_optional(self.pool()).await?;
        let times = self.log_times().await?;
        Ok(row.map(|row| (times.of(None, Timestamp::from_millis(row.get(0))), row.get(1), row.get(2))))
    }

    /// The start of the present rhythm, if a lower level or other hours were found.
    pub async fn rhythm_since(&self, id: SourceId) -> std::result::Result<Option<Timestamp>, StoreError> {
        let query = "SELECT rhythm_since FROM histories WHERE source_id = ?";
        let row = sqlx::query(query).bind(id.0).fetch_optional(self.pool()).await?;
        Ok(row.and_then(|row| row.get::<Option<i64>, _>(0)).map(Timestamp::from_millis))
    }

    /// The bursts of a source by the present clock, ordered by start.
    pub async fn burst_spans(&self, id: SourceId) -> std::result::Result<Vec<BurstSpan>, StoreError> {
        let query = "SELECT began_at, ended_at, for_good FROM bursts WHERE source_id = ? ORDER BY began_at";
        let rows = sqlx::query(query).bind(id.0).fetch_all(self.pool()).await?;
        let times = self.log_times().await?;
        let time = |millis: i64| times.of(None, Timestamp::from_millis(millis));
        let span = |row: &sqlx::sqlite::SqliteRow| {
            let (logged, ended) = (Timestamp::from_millis(row.get(0)), row.get::<Option<i64>, _>(1));
            let ended_at = ended.map(time);
            // It may begin before its clock did, with the probe before that.
            let as_ended = ended.map(|end| logged + times.shift_of(None, Timestamp::from_millis(end)));
            let before_end = |began: &Timestamp| ended_at.is_none_or(|ended| *began <= ended);
            let began = [Some(time(row.get(0))), as_ended].into_iter().flatten().filter(before_end).max();
            BurstSpan { began: began.unwrap_or(logged), ended: ended_at, for_good: row.get(2) }
        };
        let mut spans: Vec<BurstSpan> = rows.iter().map(span).collect();
        spans.sort_by_key(|burst| burst.began);
        Ok(spans)
    }
}
