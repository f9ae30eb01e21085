//! Writes probes into the store of a stopped daemon, as if it had run for a month.

use std::time::Duration;

use anyhow::{Result, ensure};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection};
use tidewatch::clock::{Clock, Stopwatch};
use tidewatch_core::time::Span;

use crate::folder::DaemonFolder;
use crate::report::say;

/// The period of these probes.
const PERIOD: Span = Span::from_days(30);

/// Probes that one transaction stores.
const STORED_AT_A_TIME: u64 = 1_000_000;

/// Writing that takes longer fails the run: ten times as long as a slow disk takes.
fn deadline(probes: u64) -> Duration {
    Duration::from_secs(120) + Duration::from_micros(100) * u32::try_from(probes).unwrap_or(u32::MAX)
}

/// Logs this number of probes, evenly over the sources and the last 30 days.
pub async fn write(folder: &DaemonFolder, probes: u64) -> Result<()> {
    let stopwatch = Stopwatch::start();
    let mut connection = SqliteConnectOptions::new()
        .filename(folder.store())
        // A crash of this program ends the run.
        .synchronous(sqlx::sqlite::SqliteSynchronous::Off)
        // The rows name sources that were just read.
        .foreign_keys(false)
        .pragma("cache_size", "-1000000")
        .connect()
        .await?;
    sqlx::query(
        "CREATE TEMP TABLE listed AS
         SELECT row_number() OVER (ORDER BY id) - 1 AS place, id FROM sources WHERE state <> 'removed'",
    )
    .execute(&mut connection)
    .await?;
    sqlx::query("CREATE UNIQUE INDEX temp.listed_by_place ON listed (place)")
        .execute(&mut connection)
        .await?;
    let sources: i64 = sqlx::query_scalar("SELECT count(*) FROM listed").fetch_one(&mut connection).await?;
    ensure!(sources > 0, "the store has no sources");
    let begin = (Clock::wall().now() - PERIOD).as_millis();
    let mut written = 0;
    while written < probes {
        let count = STORED_AT_A_TIME.min(probes - written);
        sqlx::query(
            "WITH RECURSIVE numbers (number) AS
                 (SELECT ?1 UNION ALL SELECT number + 1 FROM numbers WHERE number + 1 < ?1 + ?2)
             INSERT INTO probes (source_id, due_at, started_at, duration_ms, outcome, http_status, bytes, updates_found,
                                 policy, reason)
             SELECT id, at, at, 40, 'not_modified', 304, 0, 0, 'uniform', 'policy'
             FROM (SELECT ?3 + CAST(number * ?4 AS INTEGER) AS at, number % ?5 AS wanted FROM numbers)
             JOIN listed ON place = wanted",
        )
        .bind(i64::try_from(written)?)
        .bind(i64::try_from(count)?)
        .bind(begin)
        .bind(PERIOD.as_millis() as f64 / probes as f64)
        .bind(sources)
        .execute(&mut connection)
        .await?;
        written += count;
        say(&format!("{written} of {probes} probes logged, {:.0} s", stopwatch.elapsed().as_secs_f64()));
        ensure!(stopwatch.elapsed() < deadline(probes), "logging takes too long");
    }
    // Closing copies the write-ahead log into the file, as a daemon that stops does.
    Ok(connection.close().await?)
}
