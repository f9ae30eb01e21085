//! What was stated on probes before their answers, and what came of it, by day and source.
//!
//! Must not know how forecasts are made, nor when they count as wrong.

use std::collections::BTreeMap;

use serde::Serialize;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::clock::StoredClock;
use super::json_rows::text_of;
use super::reader::Reader;
use super::record::ProbeRecord;

/// Statements on some probes, and what came of them.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PredictionSums {
    /// Answered probes with an expectation.
    pub probes: u64,
    /// Updates that they were expected to find.
    pub expected: f64,
    /// The variance of that number. That of a source, and of all, includes the excess of each burst, squared.
    pub variance: f64,
    /// Updates that they found.
    pub found: u64,
    /// The sum of the stated probabilities of an overflow.
    pub overflow: f64,
    /// How often no item of the answer before was left.
    pub overflowed: u64,
    /// Bursts, and silences, that may be called falsely.
    pub alarms_stated: f64,
    /// Bursts that were called.
    pub bursts: u64,
    /// Silences that were called.
    pub quiet: u64,
    /// Silences that an update ended.
    pub quiet_ended: u64,
    /// Updates that rules waited for.
    pub rule_updates: u64,
    /// The sum of the confidences of these rules.
    pub rule_confidence: f64,
    /// How many of these updates were found in time.
    pub rule_in_time: u64,
}

/// The statements of a period.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PeriodPredictions {
    /// By day, in order: its start and its sums.
    pub days: Vec<(Timestamp, PredictionSums)>,
    /// By source, in the order of their names.
    pub sources: Vec<(String, PredictionSums)>,
    /// All of them together.
    pub total: PredictionSums,
}

/// The start of the day (UTC) of a time.
pub fn day_of(at: Timestamp) -> Timestamp {
    let day = Span::from_days(1).as_millis();
    Timestamp::from_millis(at.as_millis().div_euclid(day) * day)
}

/// Adds probes to their days.
pub(super) async fn count(
    connection: &mut SqliteConnection,
    records: &[&ProbeRecord],
) -> Result<(), sqlx::Error> {
    let rows: Vec<_> = records.iter().filter_map(|record| row(record)).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO predictions (day, source_id, probes, expected, variance, found, overflow, overflowed,
                                  alarms_stated, bursts, quiet, quiet_ended, rule_updates, rule_confidence,
                                  rule_in_time)
         SELECT value ->> 0, value ->> 1, 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13
         FROM jsonb_each(?) WHERE true
         ON CONFLICT (day, source_id) DO UPDATE
         SET probes = probes + 1, expected = expected + excluded.expected,
             variance = variance + excluded.variance, found = found + excluded.found,
             overflow = overflow + excluded.overflow, overflowed = overflowed + excluded.overflowed,
             alarms_stated = alarms_stated + excluded.alarms_stated, bursts = bursts + excluded.bursts,
             quiet = quiet + excluded.quiet, quiet_ended = quiet_ended + excluded.quiet_ended,
             rule_updates = rule_updates + excluded.rule_updates,
             rule_confidence = rule_confidence + excluded.rule_confidence,
             rule_in_time = rule_in_time + excluded.rule_in_time",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

fn row(record: &ProbeRecord) -> Option<impl Serialize> {
    let compared = record.compared.as_ref()?;
    let (forecast, rules) = (&compared.forecast, &compared.rules);
    let (expected, found) = (f64::from(forecast.updates), compared.found);
    Some((
        day_of(record.attempt.started).as_millis(),
        record.attempt.source.0,
        expected,
        expected * f64::from(forecast.dispersion),
        found,
        f64::from(forecast.overflow.unwrap_or(0.0)),
        i32::from(compared.overflowed),
        compared.false_alarms * f64::from(found),
        i32::from(compared.burst),
        i32::from(compared.went_quiet),
        i32::from(compared.quiet_ended),
        rules.updates,
        rules.confidence,
        rules.in_time,
    ))
}

/// The query for sums of the days since ?1, of the source ?2 or of all that are configured. `$extra` is added to
/// the variance.
macro_rules! sums {
    ($by:literal, $extra:literal) => {
        concat!(
            "SELECT ",
            $by,
            ", sum(probes), total(p.expected), total(variance) + ",
            $extra,
            ", sum(found), total(overflow), sum(overflowed), total(alarms_stated), sum(bursts), sum(quiet),
               sum(quiet_ended), sum(rule_updates), total(rule_confidence), sum(rule_in_time)
             FROM predictions p JOIN sources s ON s.id = p.source_id
             WHERE day >= ?1 AND (?2 IS NULL OR p.source_id = ?2) AND s.state <> 'removed'
             GROUP BY 1 ORDER BY 1"
        )
    };
}

fn read(row: &SqliteRow) -> PredictionSums {
    let number = |at: usize| row.get::<i64, _>(at).unsigned_abs();
    PredictionSums {
        probes: number(1),
        expected: row.get(2),
        variance: row.get(3),
        found: number(4),
        overflow: row.get(5),
        overflowed: number(6),
        alarms_stated: row.get(7),
        bursts: number(8),
        quiet: number(9),
        quiet_ended: number(10),
        rule_updates: number(11),
        rule_confidence: row.get(12),
        rule_in_time: number(13),
    }
}

impl PredictionSums {
    fn plus(self, other: &Self) -> Self {
        Self {
            probes: self.probes + other.probes,
            expected: self.expected + other.expected,
            variance: self.variance + other.variance,
            found: self.found + other.found,
            overflow: self.overflow + other.overflow,
            overflowed: self.overflowed + other.overflowed,
            alarms_stated: self.alarms_stated + other.alarms_stated,
            bursts: self.bursts + other.bursts,
            quiet: self.quiet + other.quiet,
            quiet_ended: self.quiet_ended + other.quiet_ended,
            rule_updates: self.rule_updates + other.rule_updates,
            rule_confidence: self.rule_confidence + other.rule_confidence,
            rule_in_time: self.rule_in_time + other.rule_in_time,
        }
    }
}

/// The days with their sums, and the sums of all.
async fn by_day(
    snapshot: &mut SqliteConnection,
    since: Timestamp,
    source: Option<SourceId>,
) -> Result<(Vec<(Timestamp, PredictionSums)>, PredictionSums), StoreError> {
    let source = source.map(|source| source.0);
    let rows = sqlx::query(sums!("day", "0"))
        .bind(since.as_millis())
        .bind(source)
        .fetch_all(&mut *snapshot)
        .await?;
    let times = StoredClock::read(snapshot).await?.log_times();
    let mut days: BTreeMap<Timestamp, PredictionSums> = BTreeMap::new();
    for row in &rows {
        let start = Timestamp::from_millis(row.get(0));
        // A clock that was wrong may have been in force for a part of the day only.
        let shifts = (0..24).map(|hour| times.shift_of(None, start + Span::from_hours(hour)));
        let by = shifts.max_by_key(|by| by.as_millis().abs()).unwrap_or(Span::ZERO);
        let day = days.entry(day_of(start + Span::from_hours(12) + by)).or_default();
        *day = day.plus(&read(row));
    }
    let days: Vec<_> = days.into_iter().collect();
    // A burst is one event of unknown size, so its excess adds to the variance, unless it became the rate.
    let excess: f64 = sqlx::query_scalar(
        "SELECT total((observed - expected) * (observed - expected)) FROM bursts b
         WHERE began_at >= ?1 AND NOT for_good
           AND b.source_id IN (SELECT p.source_id FROM predictions p JOIN sources s ON s.id = p.source_id
                               WHERE day >= ?1 AND (?2 IS NULL OR p.source_id = ?2) AND s.state <> 'removed')",
    )
    .bind(since.as_millis())
    .bind(source)
    .fetch_one(snapshot)
    .await?;
    let mut total = days.iter().fold(PredictionSums::default(), |sum, (_, day)| sum.plus(day));
    total.variance += excess;
    Ok((days, total))
}

impl Reader {
    /// The sums of the statements since the start of the day of `since`.
    pub async fn prediction_total(&self, since: Timestamp) -> Result<PredictionSums, StoreError> {
        let mut snapshot = self.pool().begin().await?;
        Ok(by_day(&mut snapshot, day_of(since), None).await?.1)
    }

    /// The statements since the start of the day of `since`, on one source or on all that are configured.
    pub async fn predictions(
        &self,
        since: Timestamp,
        source: Option<SourceId>,
    ) -> Result<PeriodPredictions, StoreError> {
        // One transaction, so that all statements read the same snapshot.
        let mut snapshot = self.pool().begin().await?;
        let (days, total) = by_day(&mut snapshot, day_of(since), source).await?;
        let rows = sqlx::query(sums!(
            "s.name",
            "(SELECT total((b.observed - b.expected) * (b.observed - b.expected)) FROM bursts b
              WHERE b.source_id = p.source_id AND b.began_at >= ?1 AND NOT b.for_good)"
        ))
        .bind(day_of(since).as_millis())
        .bind(source.map(|source| source.0))
        .fetch_all(&mut *snapshot)
        .await?;
        let sources = rows.iter().map(|row| (row.get(0), read(row))).collect();
        Ok(PeriodPredictions { days, sources, total })
    }
}
