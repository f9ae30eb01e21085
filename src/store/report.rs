//! What people ask of the store: sources as they stand, and the last probes of one.

use std::collections::HashMap;

use sqlx::Row;

use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::reader::Reader;

/// A source as it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRow {
    /// Its number.
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// Where it is since it moved.
    pub adopted_url: Option<String>,
    /// `feed` or `page`.
    pub kind: String,
    /// As configured.
    pub policy: String,
    /// Its group.
    pub group: Option<String>,
    /// Its phase.
    pub state: String,
    /// Last probe.
    pub last_probe_at: Option<Timestamp>,
    /// Last probe that found something.
    pub last_update_at: Option<Timestamp>,
    /// Next probe.
    pub next_probe_at: Option<Timestamp>,
    /// Why then.
    pub next_probe_reason: Option<String>,
    /// Which policy asked for it.
    pub next_probe_policy: Option<String>,
    /// The policy that `auto` follows.
    pub follows: Option<String>,
    /// A burst is on.
    pub burst_since: Option<Timestamp>,
    /// It should have updated and has not; noticed then.
    pub quiet_since: Option<Timestamp>,
    /// Failures in a row.
    pub error_streak: u32,
    /// The last probe's error.
    pub last_error: Option<String>,
    /// Updates found in all.
    pub updates: u64,
    /// Probes in the log.
    pub probes: u64,
}

/// A source's rhythm as it was last fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct FitRow {
    /// When.
    pub fitted_at: Timestamp,
    /// `individual`, `aggregate` or `blend`.
    pub origin: String,
    /// What repeats.
    pub cycle: String,
    /// Whose week the segments are of.
    pub time_zone: String,
    /// Updates per week.
    pub per_week: f64,
    /// How much more than foretold it scatters.
    pub dispersion: Option<f64>,
    /// Updates in evidence.
    pub updates: u64,
    /// Evidence since.
    pub since: Option<Timestamp>,
}

/// A probe from the log.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRow {
    /// When it was sent.
    pub started_at: Timestamp,
    /// How long it took.
    pub duration_ms: i64,
    /// How it ended.
    pub outcome: String,
    /// Status.
    pub http_status: Option<u16>,
    /// Updates found.
    pub updates_found: i64,
    /// Who asked.
    pub policy: String,
    /// Why then.
    pub reason: String,
    /// What went wrong.
    pub error: Option<String>,
}

impl Reader {
    /// Every source, by name, the removed ones left out.
    pub async fn sources(&self) -> Result<Vec<SourceRow>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, name, url, adopted_url, kind, policy, group_name, state, last_probe_at, last_update_at,
                    next_probe_at, next_probe_reason, next_probe_policy, follows, burst_since, quiet_since,
                    error_streak, last_error,
                    coalesce(u.count, 0) AS updates, coalesce(p.count, 0) AS probes
             FROM sources
             LEFT JOIN (SELECT source_id, count(*) AS count FROM updates GROUP BY source_id) u ON u.source_id = id
             LEFT JOIN (SELECT source_id, count(*) AS count FROM probes GROUP BY source_id) p ON p.source_id = id
             WHERE state <> 'removed' ORDER BY name",
        )
        .fetch_all(self.pool())
        .await?;
        let at = |value: Option<i64>| value.map(Timestamp::from_millis);
        Ok(rows
            .iter()
            .map(|row| SourceRow {
                id: SourceId(row.get("id")),
                name: row.get("name"),
                url: row.get("url"),
                adopted_url: row.get("adopted_url"),
                kind: row.get("kind"),
                policy: row.get("policy"),
                group: row.get("group_name"),
                state: row.get("state"),
                last_probe_at: at(row.get("last_probe_at")),
                last_update_at: at(row.get("last_update_at")),
                next_probe_at: at(row.get("next_probe_at")),
                next_probe_reason: row.get("next_probe_reason"),
                next_probe_policy: row.get("next_probe_policy"),
                follows: row.get("follows"),
                burst_since: at(row.get("burst_since")),
                quiet_since: at(row.get("quiet_since")),
                error_streak: row.get("error_streak"),
                last_error: row.get("last_error"),
                updates: row.get::<i64, _>("updates").unsigned_abs(),
                probes: row.get::<i64, _>("probes").unsigned_abs(),
            })
            .collect())
    }

    /// Every source's rhythm, by number.
    pub async fn fits(&self) -> Result<HashMap<SourceId, FitRow>, StoreError> {
        let rows = sqlx::query("SELECT * FROM fits").fetch_all(self.pool()).await?;
        Ok(rows
            .iter()
            .map(|row| {
                let fit = FitRow {
                    fitted_at: Timestamp::from_millis(row.get("fitted_at")),
                    origin: row.get("origin"),
                    cycle: row.get("cycle"),
                    time_zone: row.get("time_zone"),
                    per_week: row.get("per_week"),
                    dispersion: row.get("dispersion"),
                    updates: row.get::<i64, _>("updates").unsigned_abs(),
                    since: row.get::<Option<i64>, _>("since").map(Timestamp::from_millis),
                };
                (SourceId(row.get("source_id")), fit)
            })
            .collect())
    }

    /// The segments of a source's rate: start and end in seconds into the week, updates per hour.
    pub async fn rate_segments(&self, id: SourceId) -> Result<Vec<(u32, u32, f64)>, StoreError> {
        let rows = sqlx::query(
            "SELECT starts_s, ends_s, per_hour FROM rates WHERE source_id = ? ORDER BY starts_s",
        )
        .bind(id.0)
        .fetch_all(self.pool())
        .await?;
        Ok(rows.iter().map(|row| (row.get(0), row.get(1), row.get(2))).collect())
    }

    /// The last probes of a source, the latest first.
    pub async fn last_probes(&self, id: SourceId, count: u32) -> Result<Vec<ProbeRow>, StoreError> {
        let rows = sqlx::query(
            "SELECT started_at, duration_ms, outcome, http_status, updates_found, policy, reason, error
             FROM probes WHERE source_id = ? ORDER BY started_at DESC, id DESC LIMIT ?",
        )
        .bind(id.0)
        .bind(count)
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .iter()
            .map(|row| ProbeRow {
                started_at: Timestamp::from_millis(row.get(0)),
                duration_ms: row.get(1),
                outcome: row.get(2),
                http_status: row.get(3),
                updates_found: row.get(4),
                policy: row.get(5),
                reason: row.get(6),
                error: row.get(7),
            })
            .collect())
    }
}
