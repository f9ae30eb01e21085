//! The current state of sources and their last probes, for display.

use std::collections::HashMap;

use sqlx::Row;

use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::reader::Reader;

/// The current state of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceReportRow {
    /// The source's number.
    pub id: SourceId,
    /// The source's name.
    pub name: String,
    /// The configured URL.
    pub url: String,
    /// The URL adopted after a permanent redirect.
    pub adopted_url: Option<String>,
    /// `feed` or `page`.
    pub kind: String,
    /// The configured policy.
    pub policy: String,
    /// The source's group.
    pub group: Option<String>,
    /// The state's name.
    pub state: String,
    /// Time of the last probe.
    pub last_probe_at: Option<Timestamp>,
    /// End of the last probe that found an update.
    pub last_update_at: Option<Timestamp>,
    /// Time of the next probe.
    pub next_probe_at: Option<Timestamp>,
    /// Reason for the scheduled time.
    pub next_probe_reason: Option<String>,
    /// The policy that scheduled the next probe.
    pub next_probe_policy: Option<String>,
    /// The policy that `auto` currently uses.
    pub follows: Option<String>,
    /// Start of the burst in progress.
    pub burst_since: Option<Timestamp>,
    /// Time since which an expected update is missing.
    pub quiet_since: Option<Timestamp>,
    /// Number of consecutive failures.
    pub error_streak: u32,
    /// Error of the last probe.
    pub last_error: Option<String>,
    /// Number of stored updates.
    pub updates: u64,
    /// Number of logged probes.
    pub probes: u64,
}

/// The last fit of a source's rate.
#[derive(Debug, Clone, PartialEq)]
pub struct FitRow {
    /// Time of the fit.
    pub fitted_at: Timestamp,
    /// `individual`, `aggregate` or `blend`.
    pub origin: String,
    /// Name of the fitted cycle.
    pub cycle: String,
    /// Time zone of the segments.
    pub time_zone: String,
    /// Updates per week.
    pub per_week: f64,
    /// Dispersion of the counts relative to the fitted rate.
    pub dispersion: Option<f64>,
    /// Updates in the evidence.
    pub updates: u64,
    /// Start of the evidence.
    pub since: Option<Timestamp>,
}

/// A logged probe.
#[derive(Debug, Clone, PartialEq)]
pub struct ProbeRow {
    /// Start of the probe.
    pub started_at: Timestamp,
    /// Duration in milliseconds.
    pub duration_ms: i64,
    /// The outcome's name.
    pub outcome: String,
    /// HTTP status.
    pub http_status: Option<u16>,
    /// Number of updates found.
    pub updates_found: i64,
    /// The policy that scheduled it.
    pub policy: String,
    /// Reason for the scheduled time.
    pub reason: String,
    /// The error message.
    pub error: Option<String>,
}

impl Reader {
    /// All sources that are not removed, ordered by name.
    pub async fn sources(&self) -> Result<Vec<SourceReportRow>, StoreError> {
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
            .map(|row| SourceReportRow {
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

    /// The fits of all sources, by number.
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

    /// The last probes of a source by the present clock, the latest first.
    pub async fn last_probes(&self, id: SourceId, count: u32) -> Result<Vec<ProbeRow>, StoreError> {
        let rows = sqlx::query(
            // Not by time: the clock may have been set back. The unary plus: those of one source are sorted.
            "SELECT started_at, duration_ms, outcome, http_status, updates_found, policy, reason, error, id
             FROM probes WHERE source_id = ? ORDER BY +id DESC LIMIT ?",
        )
        .bind(id.0)
        .bind(count)
        .fetch_all(self.pool())
        .await?;
        let times = self.log_times().await?;
        Ok(rows
            .iter()
            .map(|row| ProbeRow {
                started_at: times.of(Some(row.get(8)), Timestamp::from_millis(row.get(0))),
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
