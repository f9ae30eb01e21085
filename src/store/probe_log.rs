//! Reads the log of one source, from which its evidence can be learned again.
//!
//! Updates, gaps and bursts are kept for `retain_updates`, items for half a year after they left their feed, and
//! probes for `retain_probes`. Must not know how evidence is learned.

use sqlx::Row;
use sqlx::sqlite::SqliteRow;

use tidewatch_core::model::probe_log::ProbeLog;
use tidewatch_core::observe::{Occurred, SourceKind};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::reader::Reader;

impl Reader {
    /// The log of a source, by the present clock.
    pub async fn probe_log(&self, id: SourceId) -> Result<ProbeLog, StoreError> {
        let times = self.log_times().await?;
        let raw = |row: &SqliteRow, column: usize| Timestamp::from_millis(row.get(column));
        let source = sqlx::query(
            "SELECT kind = 'page', added_at, (SELECT value FROM meta WHERE key = 'updates_since'), clock_ms,
                    coalesce(learned_until, last_look_at)
             FROM sources WHERE id = ?",
        )
        .bind(id.0)
        .fetch_one(self.pool())
        .await?;
        let kind = if source.get(0) { SourceKind::Page } else { SourceKind::Feed };
        let updates_since = source.get::<Option<i64>, _>(2).map(Timestamp::from_millis);
        let added = times.of(None, raw(&source, 1));
        let mut log = ProbeLog::new(kind, updates_since.map_or(added, |since| added.max(since)));
        // The answered probes: their numbers, starts and ends.
        let mut probes = Vec::new();
        let query =
            "SELECT id, started_at, duration_ms FROM probes WHERE source_id = ? AND outcome <> 'failed'";
        for row in sqlx::query(query).bind(id.0).fetch_all(self.pool()).await? {
            let (number, started) = (row.get::<i64, _>(0), times.of(Some(row.get(0)), raw(&row, 1)));
            probes.push((number, started, started + Span::from_millis(row.get(2))));
        }
        probes.sort_unstable_by_key(|&(number, ..)| number);
        if kind == SourceKind::Page {
            // What came after is pending: it is learned with the next update, or for its length.
            let behind = self.corrected().await? - Span::from_millis(source.get(3));
            let learned = source.get::<Option<i64>, _>(4).map(|at| Timestamp::from_millis(at) + behind);
            let mut ends: Vec<Timestamp> = probes
                .iter()
                .filter(|&&(_, started, _)| learned.is_some_and(|learned| started <= learned))
                .map(|&(.., ended)| ended)
                .collect();
            ends.sort_unstable();
            ends.into_iter().for_each(|ended| log.probe(ended));
        }
        let updates = "SELECT detected_at, occurred_at, occurred_exact,
                    coalesce(occurred_after, 2 * occurred_at - detected_at), probe_id
             FROM updates WHERE source_id = ? AND kind <> 'edited' ORDER BY id";
        for row in sqlx::query(updates).bind(id.0).fetch_all(self.pool()).await? {
            let logged = raw(&row, 0);
            let by = times.shift_of(row.get(4), logged);
            let occurred = match row.get(2) {
                // A publisher's date.
                true => Occurred::At(raw(&row, 1)),
                false => Occurred::Between(raw(&row, 3) + by, logged + by),
            };
            log.update(logged + by, occurred);
        }
        let items =
            "SELECT first_seen_at, dated_at FROM items WHERE source_id = ? AND dated_at <= first_seen_at";
        for row in sqlx::query(items).bind(id.0).fetch_all(self.pool()).await? {
            log.item(times.of(None, raw(&row, 0)), raw(&row, 1));
        }
        let gaps = "SELECT at, probe_id FROM gaps WHERE source_id = ?";
        for row in sqlx::query(gaps).bind(id.0).fetch_all(self.pool()).await? {
            let probe: Option<i64> = row.get(1);
            let before = probe.map_or(0, |probe| probes.partition_point(|&(number, ..)| number < probe));
            let last = before.checked_sub(1).and_then(|before| probes.get(before));
            log.gap(times.of(probe, raw(&row, 0)), last.map(|&(_, started, _)| started));
        }
        for burst in self.burst_spans(id).await? {
            // A burst that became the rhythm is evidence like any other.
            if !burst.for_good {
                log.burst(burst.began, burst.ended);
            }
        }
        if let Some(since) = self.rhythm_since(id).await? {
            log.rhythm_since(since);
        }
        Ok(log)
    }
}
