//! Reads the log of one source, from which its evidence can be learned again.
//!
//! Updates, gaps and bursts are kept for `retain_updates`, items for half a year after they left their feed, and
//! probes for `retain_probes`. Must not know how evidence is learned.

use sqlx::Row;

use tidewatch_core::model::probe_log::ProbeLog;
use tidewatch_core::observe::{Occurred, SourceKind};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::reader::Reader;

impl Reader {
    /// The log of a source.
    pub async fn probe_log(&self, id: SourceId) -> Result<ProbeLog, StoreError> {
        let time = |row: &sqlx::sqlite::SqliteRow, column: usize| Timestamp::from_millis(row.get(column));
        let source = sqlx::query(
            "SELECT kind = 'page', max(added_at, coalesce(
                 (SELECT value FROM meta WHERE key = 'updates_since'), added_at))
             FROM sources WHERE id = ?",
        )
        .bind(id.0)
        .fetch_one(self.pool())
        .await?;
        let kind = if source.get(0) { SourceKind::Page } else { SourceKind::Feed };
        let mut log = ProbeLog::new(kind, time(&source, 1));
        if kind == SourceKind::Page {
            // What came after is pending: it is learned with the next update, or for its length.
            let probes = "SELECT started_at + duration_ms FROM probes
                 WHERE source_id = ? AND outcome <> 'failed'
                   AND started_at <= (SELECT coalesce(learned_until, last_look_at) FROM sources
                                      WHERE sources.id = source_id)
                 ORDER BY started_at";
            for row in sqlx::query(probes).bind(id.0).fetch_all(self.pool()).await? {
                log.probe(time(&row, 0));
            }
        }
        let updates = "SELECT detected_at, occurred_at, occurred_exact,
                    coalesce(occurred_after, 2 * occurred_at - detected_at)
             FROM updates WHERE source_id = ? AND kind <> 'edited' ORDER BY detected_at, id";
        for row in sqlx::query(updates).bind(id.0).fetch_all(self.pool()).await? {
            let detected = time(&row, 0);
            let occurred = match row.get(2) {
                true => Occurred::At(time(&row, 1)),
                false => Occurred::Between(time(&row, 3), detected),
            };
            log.update(detected, occurred);
        }
        let items =
            "SELECT first_seen_at, dated_at FROM items WHERE source_id = ? AND dated_at <= first_seen_at";
        for row in sqlx::query(items).bind(id.0).fetch_all(self.pool()).await? {
            log.item(time(&row, 0), time(&row, 1));
        }
        let gaps = "SELECT at, (SELECT p.started_at FROM probes AS p
                         WHERE p.source_id = gaps.source_id AND p.outcome <> 'failed' AND p.started_at < probes.started_at
                         ORDER BY p.started_at DESC LIMIT 1)
             FROM gaps LEFT JOIN probes ON probes.id = gaps.probe_id WHERE gaps.source_id = ?";
        for row in sqlx::query(gaps).bind(id.0).fetch_all(self.pool()).await? {
            log.gap(time(&row, 0), row.get::<Option<i64>, _>(1).map(Timestamp::from_millis));
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
