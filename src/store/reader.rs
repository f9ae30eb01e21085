//! Read-only connections: the stored inputs of probes, refits and commands.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde_json::json;
use sqlx::sqlite::{SqlitePool, SqlitePoolOptions, SqliteRow};
use sqlx::{AssertSqlSafe, Row};

use tidewatch_core::engine::event::Pardon;
use tidewatch_core::model::silence::LearnedUntil;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::attempts::RequestInputs;
use super::clock::{ClockSeen, LogTimes, StoredClock, TOTAL};
use super::record::{RobotsFailures, RobotsRecord};
use super::{StoreError, attempts, open};

/// A pool of read-only connections.
#[derive(Debug, Clone)]
pub struct Reader {
    pool: SqlitePool,
    path: PathBuf,
}

/// The evidence for the rate of one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HistoryRow {
    /// The source's number.
    pub id: SourceId,
    /// The source's name.
    pub name: String,
    /// The configured policy.
    pub policy: String,
    /// The source's group.
    pub group: Option<String>,
    /// A page without any dated change: the evidence is only whether each probe found a change.
    pub blind: bool,
    /// The encoded evidence; see `model::history`.
    pub bytes: Vec<u8>,
    /// Evidence since the last burst began.
    pub post_burst: Option<Vec<u8>>,
    /// How far the evidence goes.
    pub learned: Option<LearnedUntil>,
    /// The last answered probe.
    pub last_answer: Option<Timestamp>,
    /// The corrections of the clock that these two times include, …
    pub corrected: Span,
    /// … those that the evidence includes, …
    pub model_corrected: Span,
    /// … and those of the clock by which it was begun.
    pub begun_corrected: Span,
}

/// Which sources are to be fitted.
#[derive(Debug, Clone, Copy)]
pub enum FitScope<'n> {
    /// All with evidence.
    All,
    /// Those without a rate, or without one since their rhythm changed.
    WithoutRate,
    /// Those with these names.
    Named(&'n [String]),
}

/// The query of [`Reader::histories`] with a further condition.
macro_rules! histories {
    ($condition:literal) => {
        concat!(
            "SELECT id, name, policy, group_name, bytes,
                    kind = 'page' AND NOT EXISTS (SELECT 1 FROM updates
                                                  WHERE updates.source_id = sources.id AND occurred_exact = 1),
                    histories.aside, learned_until, review_at, last_look_at, sources.clock_ms,
                    histories.clock_ms, begun_clock_ms
             FROM sources JOIN histories ON histories.source_id = sources.id
             WHERE id > ?1 AND state <> 'removed' ",
            $condition,
            " ORDER BY id LIMIT ?2"
        )
    };
}

/// A probe requested by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredRequest {
    /// The request's number.
    pub id: i64,
    /// The source to probe.
    pub source: SourceId,
}

/// Sources per query.
const CHUNK: usize = 5_000;

impl Reader {
    /// Opens an existing store for reading.
    pub async fn open(path: &Path) -> Result<Self, StoreError> {
        open::check_readable(path).await?;
        let pool =
            SqlitePoolOptions::new().max_connections(4).connect_with(open::for_reading(path)).await?;
        Ok(Self { pool, path: path.to_owned() })
    }

    /// The path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn pool(&self) -> &SqlitePool {
        &self.pool
    }

    /// A connection, for [`super::load`].
    pub async fn connection(&self) -> Result<sqlx::pool::PoolConnection<sqlx::Sqlite>, StoreError> {
        Ok(self.pool.acquire().await?)
    }

    /// What the request of a source needs.
    pub async fn request_inputs(&self, id: SourceId) -> Result<RequestInputs, StoreError> {
        let mut connection = self.pool.acquire().await?;
        let mut inputs = attempts::request_inputs(&mut connection, &[id.0]).await?;
        Ok(inputs.pop().map(|(_, inputs)| inputs).unwrap_or_default())
    }

    /// The URLs adopted after permanent redirects; sources without one are left out.
    pub async fn adopted_urls(&self, ids: &[SourceId]) -> Result<HashMap<SourceId, String>, StoreError> {
        let ids: Vec<i64> = ids.iter().map(|id| id.0).collect();
        let mut urls = HashMap::new();
        for chunk in ids.chunks(CHUNK) {
            let rows = sqlx::query(
                "SELECT id, adopted_url FROM sources
                 WHERE adopted_url IS NOT NULL AND id IN (SELECT value FROM json_each(?))",
            )
            .bind(json!(chunk).to_string())
            .fetch_all(&self.pool)
            .await?;
            urls.extend(rows.iter().map(|row| (SourceId(row.get(0)), row.get(1))));
        }
        Ok(urls)
    }

    /// The text of a page at its last probe.
    pub async fn page_text(&self, id: SourceId) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT text FROM pages WHERE source_id = ?")
            .bind(id.0)
            .fetch_optional(&self.pool)
            .await?)
    }

    /// The stored robots.txt of an origin.
    pub async fn robots(&self, origin: &str) -> Result<Option<RobotsRecord>, StoreError> {
        let query = format!(
            "SELECT fetched_at + {TOTAL} - clock_ms, http_status, body, failed_at + {TOTAL} - clock_ms, failures,
                    crawl_delay_ms, redirect_site
             FROM robots WHERE origin = ?"
        );
        let row = sqlx::query(AssertSqlSafe(query)).bind(origin).fetch_optional(&self.pool).await?;
        Ok(row.map(|row| RobotsRecord {
            origin: origin.to_owned(),
            fetched_at: Timestamp::from_millis(row.get(0)),
            http_status: row.get(1),
            body: row.get(2),
            failed: row
                .get::<Option<i64>, _>(3)
                .map(|at| RobotsFailures { at: Timestamp::from_millis(at), times: row.get(4) }),
            crawl_delay: row.get::<Option<i64>, _>(5).map(Span::from_millis),
            redirect_site: row.get(6),
        }))
    }

    /// The sum of all corrections of the clock.
    pub async fn corrected(&self) -> Result<Span, StoreError> {
        Ok(StoredClock::read(&mut *self.connection().await?).await?.corrected())
    }

    /// The same, with a correction that the daemon has not stored yet.
    pub async fn corrected_at(&self, seen: &ClockSeen) -> Result<Span, StoreError> {
        Ok(StoredClock::corrected_at(&mut *self.connection().await?, seen).await?)
    }

    /// The times of logged rows by the present clock.
    pub(super) async fn log_times(&self) -> Result<LogTimes, StoreError> {
        Ok(StoredClock::read(&mut *self.connection().await?).await?.log_times())
    }

    /// End times of the probes of these sources, each since its own start time.
    pub async fn probes_since(
        &self,
        sources: &[(SourceId, Timestamp)],
    ) -> Result<HashMap<SourceId, Vec<Timestamp>>, StoreError> {
        let mut probes: HashMap<SourceId, Vec<Timestamp>> = HashMap::new();
        let Some(earliest) = sources.iter().map(|&(_, since)| since).min() else { return Ok(probes) };
        let mut connection = self.connection().await?;
        let clock = StoredClock::read(&mut connection).await?;
        for period in clock.periods(earliest) {
            let query = format!(
                "SELECT source_id, started_at + duration_ms FROM json_each(?) AS wanted
                 CROSS JOIN probes ON source_id = wanted.value ->> 0 AND {}
                     AND uncharged IS NULL",
                period.condition("(wanted.value ->> 1)"),
            );
            for chunk in sources.chunks(CHUNK) {
                let wanted: Vec<_> = chunk.iter().map(|(id, since)| (id.0, since.as_millis())).collect();
                let rows = sqlx::query(AssertSqlSafe(query.clone()))
                    .bind(json!(wanted).to_string())
                    .fetch_all(&mut *connection)
                    .await?;
                for row in rows {
                    let at = Timestamp::from_millis(row.get(1)) + period.shift;
                    probes.entry(SourceId(row.get(0))).or_default().push(at);
                }
            }
        }
        Ok(probes)
    }

    /// Requested pardons that are not carried out yet.
    pub async fn open_pardons(&self) -> Result<Vec<(i64, Pardon)>, StoreError> {
        let rows = sqlx::query("SELECT id, source_id, host FROM pardons WHERE answer IS NULL ORDER BY id")
            .fetch_all(&self.pool)
            .await?;
        let whom = |row: &SqliteRow| match row.get::<Option<String>, _>(2) {
            Some(host) => Pardon::Host(host.into()),
            None => Pardon::Source(SourceId(row.get(1))),
        };
        Ok(rows.iter().map(|row| (row.get(0), whom(row))).collect())
    }

    /// The answer to a requested pardon.
    pub async fn pardon_answer(&self, request: i64) -> Result<Option<String>, StoreError> {
        let answer = sqlx::query_scalar("SELECT answer FROM pardons WHERE id = ?");
        Ok(answer.bind(request).fetch_one(&self.pool).await?)
    }

    /// The names of the host groups that have set limits.
    pub async fn host_groups(&self) -> Result<Vec<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT host FROM hosts").fetch_all(&self.pool).await?)
    }

    /// Requested probes without an answer.
    pub async fn open_requests(&self) -> Result<Vec<StoredRequest>, StoreError> {
        let rows = sqlx::query("SELECT id, source_id FROM requests WHERE answer IS NULL ORDER BY id")
            .fetch_all(&self.pool)
            .await?;
        Ok(rows.iter().map(|row| StoredRequest { id: row.get(0), source: SourceId(row.get(1)) }).collect())
    }

    /// The evidence of at most `limit` sources with numbers above `after`, by ascending number.
    pub async fn histories(
        &self,
        after: SourceId,
        limit: u32,
        scope: FitScope<'_>,
    ) -> Result<Vec<HistoryRow>, StoreError> {
        let query = match scope {
            FitScope::All => sqlx::query(histories!("")).bind(after.0).bind(limit),
            FitScope::WithoutRate => sqlx::query(histories!(
                "AND NOT EXISTS (SELECT 1 FROM fits WHERE fits.source_id = id
                                   AND fitted_at >= coalesce(changed_at, fitted_at))"
            ))
            .bind(after.0)
            .bind(limit),
            FitScope::Named(names) => {
                sqlx::query(histories!("AND name IN (SELECT value FROM json_each(?3))"))
                    .bind(after.0)
                    .bind(limit)
                    .bind(json!(names).to_string())
            }
        };
        let rows = query.fetch_all(&self.pool).await?;
        Ok(rows
            .iter()
            .map(|row| HistoryRow {
                id: SourceId(row.get(0)),
                name: row.get(1),
                policy: row.get(2),
                group: row.get(3),
                bytes: row.get(4),
                blind: row.get(5),
                post_burst: row.get(6),
                learned: attempts::learned(row, 7),
                last_answer: row.get::<Option<i64>, _>(9).map(Timestamp::from_millis),
                corrected: Span::from_millis(row.get(10)),
                model_corrected: Span::from_millis(row.get(11)),
                begun_corrected: Span::from_millis(row.get(12)),
            })
            .collect())
    }

    /// The logged probes of a source that did not fail, in order: start time by the present clock, and whether an update
    /// was found.
    pub async fn probe_times(&self, id: SourceId) -> Result<Vec<(Timestamp, bool)>, StoreError> {
        let times = self.log_times().await?;
        let rows = sqlx::query(
            "SELECT id, started_at, outcome = 'updated' FROM probes
             WHERE source_id = ? AND outcome <> 'failed' ORDER BY started_at",
        )
        .bind(id.0)
        .fetch_all(&self.pool)
        .await?;
        let probe =
            |row: &SqliteRow| (times.of(Some(row.get(0)), Timestamp::from_millis(row.get(1))), row.get(2));
        let mut probes: Vec<(Timestamp, bool)> = rows.iter().map(probe).collect();
        probes.sort_by_key(|probe| probe.0);
        Ok(probes)
    }

    /// Those of these names that removed sources have.
    pub async fn removed_among(&self, names: &[&str]) -> Result<HashSet<String>, StoreError> {
        let taken = sqlx::query_scalar(
            "SELECT name FROM sources WHERE state = 'removed' AND name IN (SELECT value FROM json_each(?))",
        )
        .bind(serde_json::json!(names).to_string())
        .fetch_all(&self.pool)
        .await?;
        Ok(taken.into_iter().collect())
    }

    /// The daemon's answer to a request; `None` before it has answered.
    pub async fn answer(&self, request: i64) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT answer FROM requests WHERE id = ?")
            .bind(request)
            .fetch_optional(&self.pool)
            .await?
            .flatten())
    }
}

/// Requests a probe from a running daemon of another process, with one row. Returns the request's number.
pub async fn ask(path: &Path, source: SourceId, now: Timestamp) -> Result<i64, StoreError> {
    let mut connection = open::existing_for_writing(path).await?;
    let done = sqlx::query("INSERT INTO requests (source_id, asked_at) VALUES (?, ?)")
        .bind(source.0)
        .bind(now.as_millis())
        .execute(&mut connection)
        .await?;
    Ok(done.last_insert_rowid())
}

/// Requests a pardon. Returns the number of the request.
pub async fn ask_pardon(path: &Path, whom: &Pardon, now: Timestamp) -> Result<i64, StoreError> {
    let mut connection = open::for_writing(path).await?;
    let (source, host) = match whom {
        Pardon::Source(id) => (Some(id.0), None),
        Pardon::Host(host) => (None, Some(&**host)),
    };
    let done = sqlx::query("INSERT INTO pardons (source_id, host, asked_at) VALUES (?, ?, ?)")
        .bind(source)
        .bind(host)
        .bind(now.as_millis())
        .execute(&mut connection)
        .await?;
    Ok(done.last_insert_rowid())
}
