//! Deletes old rows in small parts, so that no transaction is long.
//!
//! Each table has its age: see docs/store.md. Queued deliveries stay, and so do all sources. Must not know why a row
//! is that old.

use sqlx::{AssertSqlSafe, SqliteConnection};

use tidewatch_core::time::{Span, Timestamp};

use super::StoreError;
use super::clock::{LogPeriod, StoredClock};
use super::json_rows::text_of;
use super::reader::Reader;

type Result<T = ()> = std::result::Result<T, sqlx::Error>;

/// Times before which rows are deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeleteBefore {
    /// Probes, and what belongs to the time of a probe.
    pub probes: Timestamp,
    /// Updates, gaps and bursts; `None`: they are kept.
    pub updates: Option<Timestamp>,
    /// Events; `None`: they are kept.
    pub events: Option<Timestamp>,
    /// Now: some rows are kept for a fixed time.
    pub now: Timestamp,
}

impl DeleteBefore {
    /// Deletes probes before this time, and no updates or events.
    pub fn probes(before: Timestamp, now: Timestamp) -> Self {
        Self { probes: before, updates: None, events: None, now }
    }
}

/// Whether the clock can be trusted with deletions. One that was wrong at boot would delete the log.
///
/// While it is less than two days ahead of the last deletions it can. Otherwise the machine was off, or the clock is
/// wrong: nothing is deleted for a day of running. By then a wrong clock has been set, if anything sets it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletionClock {
    /// The time of the last deletions.
    pub last: Option<Timestamp>,
    /// Hours of running since the clock is ahead of that, or far behind it.
    pub hours_ahead: i64,
}

/// The clock is never so far ahead of deletions every hour.
const AHEAD: Span = Span::from_days(2);

/// Hours after which a clock that is ahead is trusted.
const TRUSTED_AFTER: i64 = 24;

impl DeletionClock {
    /// Whether rows may be deleted now, `hours` of running after this was last asked.
    pub fn trusts(&mut self, now: Timestamp, hours: i64) -> bool {
        let ahead = self.last.is_none_or(|last| now > last + AHEAD);
        let behind = self.last.is_some_and(|last| now + AHEAD < last);
        if (ahead || behind) && self.hours_ahead + hours < TRUSTED_AFTER {
            self.hours_ahead += hours;
            // To a clock that is behind, as one that starts in 1970, nothing is old. Its time is not noted, or the right
            // time would be ahead of it.
            return behind;
        }
        *self = Self { last: Some(now), hours_ahead: 0 };
        true
    }

    /// Stores it.
    pub(super) async fn write(self, connection: &mut SqliteConnection) -> Result {
        sqlx::query(
            "INSERT OR REPLACE INTO meta (key, value)
             SELECT * FROM (VALUES ('deletions_at', ?1), ('deletions_hours_ahead', ?2)) WHERE column2 IS NOT NULL",
        )
        .bind(self.last.map(Timestamp::as_millis))
        .bind(self.hours_ahead)
        .execute(connection)
        .await?;
        Ok(())
    }
}

impl Reader {
    /// The clock of deletions, as stored.
    pub async fn deletion_clock(&self) -> std::result::Result<DeletionClock, StoreError> {
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT key, value FROM meta WHERE key LIKE 'deletions%'")
                .fetch_all(self.pool())
                .await?;
        let value = |wanted| rows.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
        Ok(DeletionClock {
            last: value("deletions_at").map(Timestamp::from_millis),
            hours_ahead: value("deletions_hours_ahead").unwrap_or(0),
        })
    }
}

/// Rows of each kind that one transaction deletes.
const ROWS_AT_A_TIME: i64 = 500;

/// Items are kept this long after they left their feed, and recognized if they return.
const ITEMS_REMEMBERED: Span = Span::from_days(180);

/// A robots.txt is fetched again every day while a page of its site is watched.
const ROBOTS_REMEMBERED: Span = Span::from_days(30);

/// Statements that take a time and a number of rows. Each has an index by time.
const PROBES: [&str; 5] = [
    "DELETE FROM probes WHERE id IN (SELECT id FROM probes WHERE started_at < ? ORDER BY started_at LIMIT ?)",
    "DELETE FROM plans WHERE id IN (SELECT id FROM plans WHERE made_at < ? ORDER BY made_at LIMIT ?)",
    "DELETE FROM loads WHERE since IN (SELECT since FROM loads WHERE since < ? ORDER BY since LIMIT ?)",
    "DELETE FROM fleet_prices WHERE at IN (SELECT at FROM fleet_prices WHERE at < ? ORDER BY at LIMIT ?)",
    "DELETE FROM predictions WHERE (day, source_id) IN (
         SELECT day, source_id FROM predictions WHERE day < ? ORDER BY day LIMIT ?)",
];
const DELIVERIES: [&str; 2] = [
    "DELETE FROM deliveries WHERE id IN (
         SELECT id FROM deliveries WHERE state = 'delivered' AND delivered_at < ? ORDER BY delivered_at LIMIT ?)",
    "DELETE FROM deliveries WHERE id IN (
         SELECT id FROM deliveries WHERE state = 'dead' AND created_at < ? ORDER BY created_at LIMIT ?)",
];
const UPDATES: [&str; 3] = [
    "DELETE FROM updates WHERE id IN (
         SELECT id FROM updates WHERE detected_at < ? ORDER BY detected_at LIMIT ?)",
    "DELETE FROM gaps WHERE id IN (SELECT id FROM gaps WHERE at < ? ORDER BY at LIMIT ?)",
    "DELETE FROM bursts WHERE id IN (
         SELECT id FROM bursts WHERE ended_at < ? ORDER BY ended_at LIMIT ?)",
];
const EVENTS: [&str; 3] = [
    "DELETE FROM source_limits WHERE id IN (
         SELECT id FROM source_limits WHERE ended_at < ? ORDER BY ended_at LIMIT ?)",
    "DELETE FROM host_limits WHERE id IN (
         SELECT id FROM host_limits WHERE ended_at < ? ORDER BY ended_at LIMIT ?)",
    "DELETE FROM events WHERE id IN (SELECT id FROM events WHERE at < ? ORDER BY at LIMIT ?)",
];
const ROBOTS: [&str; 1] = ["DELETE FROM robots WHERE origin IN (
         SELECT origin FROM robots WHERE fetched_at < ? ORDER BY fetched_at LIMIT ?)"];

/// A host without a crawl delay whose pause is over long ago says nothing. Those with one are kept as long as they are not
/// many more than sources: redirects can lead to any number of them, and `robots` has the delays of all that are asked.
const HOSTS: [&str; 1] = ["DELETE FROM hosts WHERE host IN (
         SELECT host FROM hosts
         WHERE (crawl_delay_ms = 0 OR (SELECT count(*) FROM hosts) > (SELECT count(*) + 1000 FROM sources))
             AND (paused_until IS NULL OR paused_until < ?)
         LIMIT ?)"];

/// Deletes some old rows. Returns whether more may remain.
pub(super) async fn delete_batch(connection: &mut SqliteConnection, before: DeleteBefore) -> Result<bool> {
    let mut more = delete(connection, &PROBES, Some(before.probes)).await?;
    // Not after their updates: when a page had a text before is a part of a delivery's key.
    let deliveries = before.updates.map_or(before.probes, |updates| updates.max(before.probes));
    more |= delete(connection, &DELIVERIES, Some(deliveries)).await?;
    more |= delete(connection, &UPDATES, before.updates).await?;
    if let Some(before) = before.updates {
        // Evidence that is learned again begins there: what is not logged is no silence.
        sqlx::query(
            "INSERT INTO meta (key, value) VALUES ('updates_since', ?)
             ON CONFLICT (key) DO UPDATE SET value = max(value, excluded.value)",
        )
        .bind(before.as_millis())
        .execute(&mut *connection)
        .await?;
    }
    more |= delete(connection, &EVENTS, before.events).await?;
    more |= delete(connection, &ROBOTS, Some(before.now - ROBOTS_REMEMBERED)).await?;
    more |= delete(connection, &HOSTS, Some(before.probes)).await?;
    more |= items(connection, before.now).await?;
    more |= removed_source(connection, before.probes).await?;
    // Not the last one: its number would be used again, and the daemon passes over numbers that it has seen.
    sqlx::query(
        "DELETE FROM requests WHERE answer IS NOT NULL AND asked_at < ? AND id < (SELECT max(id) FROM requests)",
    )
        .bind(before.probes.as_millis())
        .execute(&mut *connection)
        .await?;
    if let Some(before) = before.events {
        sqlx::query("DELETE FROM pardons WHERE answer IS NOT NULL AND asked_at < ?")
            .bind(before.as_millis())
            .execute(&mut *connection)
            .await?;
    }
    if !more {
        // Of a store with room for deleted pages in the file; a no-op for others.
        sqlx::query("PRAGMA incremental_vacuum(1000)").execute(connection).await?;
    }
    Ok(more)
}

/// The statement without rows whose time was given by a clock that was behind, and that are not old by the present one.
fn of_any_clock(statement: &str) -> String {
    let (head, tail) = statement.split_once(" < ?").unwrap_or((statement, ""));
    let column = head.rsplit(' ').next().unwrap_or_default();
    format!(
        "{head} < ?1 AND NOT EXISTS (
             SELECT 1 FROM json_each(?3) AS period WHERE {column} BETWEEN period.value ->> 0 AND period.value ->> 1
                 AND {column} + (period.value ->> 2) >= ?1){}",
        tail.replace("LIMIT ?", "LIMIT ?2"),
    )
}

/// The times by clocks that were behind, of what is younger than this by the present one.
async fn young(connection: &mut SqliteConnection, before: Timestamp) -> Result<String> {
    let clock = StoredClock::read(connection).await?;
    let young: Vec<_> = clock.periods_behind(before).iter().map(LogPeriod::times).collect();
    text_of(&young)
}

/// Runs each statement. Returns whether one deleted as many rows as it may.
async fn delete(
    connection: &mut SqliteConnection,
    statements: &[&'static str],
    before: Option<Timestamp>,
) -> Result<bool> {
    let Some(before) = before else { return Ok(false) };
    let young = young(connection, before).await?;
    let mut more = false;
    for &statement in statements {
        let deleted = sqlx::query(AssertSqlSafe(of_any_clock(statement)))
            .bind(before.as_millis())
            .bind(ROWS_AT_A_TIME)
            .bind(&young)
            .execute(&mut *connection)
            .await?;
        more |= deleted.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs();
    }
    Ok(more)
}

/// Deletes some items that left long before `now`, and notes for their sources that items were forgotten.
async fn items(connection: &mut SqliteConnection, now: Timestamp) -> Result<bool> {
    let before = now - ITEMS_REMEMBERED;
    let statement = of_any_clock(
        "DELETE FROM items WHERE (source_id, key_hash) IN (
             SELECT source_id, key_hash FROM items WHERE left_at < ? ORDER BY left_at LIMIT ?)
         RETURNING source_id",
    );
    let young = young(connection, before).await?;
    let sources: Vec<i64> = sqlx::query_scalar(AssertSqlSafe(statement))
        .bind(before.as_millis())
        .bind(ROWS_AT_A_TIME)
        .bind(young)
        .fetch_all(&mut *connection)
        .await?;
    if !sources.is_empty() {
        sqlx::query(
            "UPDATE sources SET known_items = known_items - gone.items, items_forgotten = ?
             FROM (SELECT value AS id, count(*) AS items FROM json_each(?) GROUP BY value) AS gone
             WHERE sources.id = gone.id",
        )
        .bind(now.as_millis())
        .bind(text_of(&sources)?)
        .execute(connection)
        .await?;
    }
    Ok(sources.len() as i64 >= ROWS_AT_A_TIME)
}

/// Tables with what was learned of a source, besides its items.
const LEARNED: [&str; 5] = ["histories", "fits", "rates", "pages", "plans"];

/// Deletes some items of a source that was removed from the configuration and not probed since `before`, at last
/// everything that was learned of it. If it comes back, its next probe is a first contact.
async fn removed_source(connection: &mut SqliteConnection, before: Timestamp) -> Result<bool> {
    let source: Option<i64> = sqlx::query_scalar(
        "SELECT id FROM sources WHERE state = 'removed' AND known_items IS NOT 0 AND last_probe_at < ?
         ORDER BY last_probe_at LIMIT 1",
    )
    .bind(before.as_millis())
    .fetch_optional(&mut *connection)
    .await?;
    let Some(source) = source else { return Ok(false) };
    let items = sqlx::query(
        "DELETE FROM items WHERE source_id = ?1 AND key_hash IN (
             SELECT key_hash FROM items WHERE source_id = ?1 LIMIT ?2)",
    )
    .bind(source)
    .bind(ROWS_AT_A_TIME)
    .execute(&mut *connection)
    .await?;
    if items.rows_affected() >= ROWS_AT_A_TIME.unsigned_abs() {
        return Ok(true);
    }
    for table in LEARNED {
        sqlx::query(AssertSqlSafe(format!("DELETE FROM {table} WHERE source_id = ?")))
            .bind(source)
            .execute(&mut *connection)
            .await?;
    }
    sqlx::query(
        "UPDATE sources SET known_items = 0, items_forgotten = ?2, moved = 1, etag = NULL, last_modified = NULL,
             validators_url = NULL, body_hash = NULL, learned_until = NULL, review_at = NULL, state_hash = NULL,
             cut_at = NULL, unread = NULL, unread_within = NULL, estimate = NULL, found_per_hour = NULL, root_rate = NULL, newest_at = NULL, holds = NULL
         WHERE id = ?1",
    )
    .bind(source)
    .bind(before.as_millis())
    .execute(connection)
    .await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_ahead_deletes_nothing_for_a_day_of_running() {
        let start = Timestamp::from_secs(1_800_000_000);
        let hour = Span::from_hours(1);
        let mut clock = DeletionClock { last: Some(start), hours_ahead: 0 };
        assert!(clock.trusts(start + hour, 1));
        assert!(clock.trusts(start + Span::from_days(2), 0), "off for a day");
        let wrong = start + Span::from_days(10_000);
        assert!((0..23).all(|hours| !clock.trusts(wrong + hour.scaled(f64::from(hours)), 1)));
        // It is set right before the day is over.
        assert!(clock.trusts(start + Span::from_days(3), 1));
        assert_eq!(clock.hours_ahead, 0);
        // Starts alone are no hours.
        assert!((0..100).all(|_| !clock.trusts(wrong, 0)));
        // Set back: nothing is old. Set right again: not ahead.
        let last = clock.last;
        assert!(clock.trusts(start - Span::from_days(3_000), 1));
        assert_eq!(clock.last, last);
        assert!(clock.trusts(start + Span::from_days(3), 1) && clock.hours_ahead == 0);
        clock = DeletionClock { last: Some(start), hours_ahead: 0 };
        // Off for a month, and then on for some hours a day.
        let later = start + Span::from_days(30);
        let trusted = (0..25).position(|hours| clock.trusts(later + hour.scaled(f64::from(3 * hours)), 1));
        assert_eq!(trusted, Some(23));
        assert!(!DeletionClock::default().trusts(start, 1), "an unknown store");
    }
}
