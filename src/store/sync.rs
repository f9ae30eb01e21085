//! Synchronizes the stored source list with the configured one.
//!
//! A source is identified by its name. A new name gets a number; a name no longer listed is marked as
//! removed and kept. A changed URL clears the state that belongs to the old one.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Row, SqliteConnection};

use crate::config::renames::renames;
use crate::config::source::SourceConfig;
use crate::fetch::host_group::host_group;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::clock::TOTAL;
use super::json_rows::read_text;
use super::source_row;

/// A source as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// The source's name.
    pub name: String,
    /// The configured URL.
    pub url: String,
    /// `feed` or `page`.
    pub kind: &'static str,
    /// The policy's name.
    pub policy: &'static str,
    /// The source's group.
    pub group: Option<String>,
    /// Its budget and its site: see [`Listing::limits`].
    pub limits: String,
}

/// A source for the list: a configured source, or a copy of the fields needed.
pub trait Listing {
    /// The source's name.
    fn name(&self) -> &str;
    /// The configured URL.
    fn url(&self) -> &str;
    /// `feed` or `page`.
    fn kind(&self) -> &'static str;
    /// The policy's name.
    fn policy(&self) -> &'static str;
    /// The source's group.
    fn group(&self) -> Option<&str>;
    /// Distinguishes the text that is read of a page. Only a start needs it; `None` for feeds.
    fn page_read_as(&self) -> Option<u64> {
        None
    }
    /// n, T and δ in milliseconds, and the host group of its URL, as a JSON array.
    fn limits(&self) -> Cow<'_, str>;
}

impl Listing for Listed {
    fn name(&self) -> &str {
        &self.name
    }

    fn url(&self) -> &str {
        &self.url
    }

    fn kind(&self) -> &'static str {
        self.kind
    }

    fn policy(&self) -> &'static str {
        self.policy
    }

    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    fn limits(&self) -> Cow<'_, str> {
        Cow::Borrowed(&self.limits)
    }
}

impl Listing for Arc<SourceConfig> {
    fn name(&self) -> &str {
        &self.name
    }

    fn url(&self) -> &str {
        self.url.as_str()
    }

    fn kind(&self) -> &'static str {
        self.kind.name()
    }

    fn policy(&self) -> &'static str {
        self.policy.name()
    }

    fn group(&self) -> Option<&str> {
        self.group.as_deref()
    }

    fn page_read_as(&self) -> Option<u64> {
        SourceConfig::page_read_as(self)
    }

    fn limits(&self) -> Cow<'_, str> {
        let Budget { probes, per, min_spacing } = self.budget;
        let site = host_group(&self.url.parsed()).key;
        Cow::Owned(json!([probes, per.as_millis(), min_spacing.as_millis(), &*site]).to_string())
    }
}

impl Listed {
    /// Copies the fields that the list needs.
    pub fn new(source: &impl Listing) -> Self {
        Self {
            name: source.name().to_owned(),
            url: source.url().to_owned(),
            kind: source.kind(),
            policy: source.policy(),
            group: source.group().map(str::to_owned),
            limits: source.limits().into_owned(),
        }
    }
}

/// The result of a synchronization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synced {
    /// The numbers of all sources in the change, without removed ones.
    pub ids: HashMap<String, SourceId>,
    /// Names of sources whose URL or kind changed.
    pub moved: HashSet<String>,
    /// Names that were stored before, removed or not.
    pub stored: HashSet<String>,
    /// Numbers of the sources that are now removed.
    pub removed: Vec<SourceId>,
}

impl Synced {
    /// Adds the result of another part of the list.
    pub fn extend(&mut self, more: Self) {
        self.ids.extend(more.ids);
        self.moved.extend(more.moved);
        self.stored.extend(more.stored);
        self.removed.extend(more.removed);
    }
}

/// Rows per statement.
const CHUNK: usize = 5_000;

/// A stored source. Many of them are read as one JSON text, which is much faster than single rows.
#[derive(Debug, serde::Deserialize)]
struct ListedRow<'t> {
    id: i64,
    #[serde(borrow)]
    name: Cow<'t, str>,
    #[serde(borrow)]
    url: Cow<'t, str>,
    #[serde(borrow)]
    kind: Cow<'t, str>,
    #[serde(borrow)]
    policy: Cow<'t, str>,
    group: Option<String>,
    removed: u8,
    limits: Option<String>,
}

/// The query for the stored sources that `$rest` selects.
macro_rules! stored {
    ($rest:literal) => {
        concat!(
            "SELECT json_group_array(json_array(id, name, url, kind, policy, group_name, removed, limits)) FROM (
                 SELECT id, name, url, kind, policy, group_name, state = 'removed' AS removed, limits FROM sources ",
            $rest,
            ")"
        )
    };
}

/// The differences between a stored source and the list.
struct Otherwise {
    moved: bool,
    /// The row for [`change`], if anything differs.
    row: Option<Value>,
}

fn compare(stored: &ListedRow<'_>, listed: &impl Listing) -> Otherwise {
    let moved = stored.url != listed.url() || stored.kind != listed.kind();
    let revived = stored.removed != 0;
    let policy = stored.policy != listed.policy();
    let group = stored.group.as_deref() != listed.group();
    let limits = listed.limits();
    let limited = stored.limits.as_deref() != Some(&*limits);
    let row = (moved || revived || policy || group || limited).then(|| {
        let (id, url, kind) = (stored.id, listed.url(), listed.kind());
        json!([id, url, kind, listed.policy(), listed.group(), moved, revived, policy, limited, limits])
    });
    Otherwise { moved, row }
}

/// Synchronizes the stored list with the whole configured one.
pub(super) async fn sync_all(
    connection: &mut SqliteConnection,
    listed: &[impl Listing],
    at: Timestamp,
) -> Result<(), sqlx::Error> {
    let mut places: HashMap<&str, usize> =
        listed.iter().enumerate().map(|(place, source)| (source.name(), place)).collect();
    let mut gone = Vec::new();
    let mut after = i64::MIN;
    loop {
        let text: String = sqlx::query_scalar(stored!("WHERE id > ? ORDER BY id LIMIT ?"))
            .bind(after)
            .bind(i64::try_from(CHUNK).unwrap_or(i64::MAX))
            .fetch_one(&mut *connection)
            .await?;
        let rows: Vec<ListedRow<'_>> = read_text(&text)?;
        let Some(last) = rows.last() else { break };
        after = last.id;
        let mut changed = Vec::new();
        for row in &rows {
            match places.remove(&*row.name) {
                Some(place) => changed.extend(compare(row, &listed[place]).row),
                None if row.removed != 0 => {}
                None => gone.push(row.id),
            }
        }
        change(connection, changed, at).await?;
    }
    let mut new: Vec<usize> = places.into_values().collect();
    new.sort_unstable();
    if !new.is_empty() && !gone.is_empty() {
        rename_listed(connection, listed, &mut new, &mut gone, at).await?;
    }
    for chunk in new.chunks(CHUNK) {
        let rows: Vec<_> = chunk.iter().map(|&place| new_row(&listed[place])).collect();
        insert(connection, &rows, at).await?;
    }
    remove(connection, &gone, at).await
}

/// Finds the sources that have another name than at the last start, and takes them from the `new` and the `gone` ones.
async fn rename_listed(
    connection: &mut SqliteConnection,
    listed: &[impl Listing],
    new: &mut Vec<usize>,
    gone: &mut Vec<i64>,
    at: Timestamp,
) -> Result<(), sqlx::Error> {
    let mut vanished = Vec::new();
    for chunk in gone.chunks(CHUNK) {
        let rows = sqlx::query(
            "SELECT id, name, url, kind, iif(kind = 'page', page_read_as, 0) FROM sources
             WHERE id IN (SELECT value FROM json_each(?))",
        )
        .bind(json!(chunk).to_string())
        .fetch_all(&mut *connection)
        .await?;
        // A page whose rules are not known equals none.
        vanished.extend(rows.into_iter().filter_map(|row| {
            let key: (String, String, i64) = (row.get(2), row.get(3), row.get::<Option<i64>, _>(4)?);
            Some((key, (row.get::<i64, _>(0), row.get::<String, _>(1))))
        }));
    }
    let appeared = new.iter().map(|&place| {
        let source = &listed[place];
        let read_as = source.page_read_as().map_or(0, |hash| hash as i64);
        ((source.url().to_owned(), source.kind().to_owned(), read_as), place)
    });
    let pairs = renames(vanished, appeared);
    let names: Vec<(String, String)> =
        pairs.iter().map(|((_, old), place)| (old.clone(), listed[*place].name().to_owned())).collect();
    rename(connection, &names, at).await?;
    let ids: HashSet<i64> = pairs.iter().map(|((id, _), _)| *id).collect();
    let places: HashMap<&str, usize> =
        pairs.iter().map(|&(_, place)| (listed[place].name(), place)).collect();
    let text: String = sqlx::query_scalar(stored!("WHERE id IN (SELECT value FROM json_each(?))"))
        .bind(json!(ids.iter().collect::<Vec<_>>()).to_string())
        .fetch_one(&mut *connection)
        .await?;
    let rows: Vec<ListedRow<'_>> = read_text(&text)?;
    let rows = rows.iter().filter_map(|row| compare(row, &listed[*places.get(&*row.name)?]).row).collect();
    change(connection, rows, at).await?;
    gone.retain(|id| !ids.contains(id));
    let places: HashSet<usize> = places.into_values().collect();
    new.retain(|place| !places.contains(place));
    Ok(())
}

/// Gives sources their new names, which no other source has.
pub(super) async fn rename(
    connection: &mut SqliteConnection,
    names: &[(String, String)],
    at: Timestamp,
) -> Result<(), sqlx::Error> {
    for chunk in names.chunks(CHUNK) {
        let names = json!(chunk).to_string();
        sqlx::query(
            "INSERT INTO events (at, kind, source_id, detail)
             SELECT ?1, ?2, sources.id, 'from ' || sources.name || ' to ' || (new.value ->> 1)
             FROM json_each(?3) AS new JOIN sources ON sources.name = new.value ->> 0
             WHERE sources.state <> 'removed'
               AND NOT EXISTS (SELECT 1 FROM sources AS other WHERE other.name = new.value ->> 1)",
        )
        .bind(at.as_millis())
        .bind("renamed")
        .bind(&names)
        .execute(&mut *connection)
        .await?;
        sqlx::query(
            "UPDATE OR IGNORE sources SET name = new.value ->> 1 FROM json_each(?) AS new
             WHERE sources.name = new.value ->> 0 AND sources.state <> 'removed'",
        )
        .bind(&names)
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// Applies a change of the configured list: new or changed sources, and the names of removed ones.
pub(super) async fn sync(
    connection: &mut SqliteConnection,
    listed: &[Listed],
    gone: &[String],
    at: Timestamp,
) -> Result<Synced, sqlx::Error> {
    let mut synced = Synced::default();
    for chunk in listed.chunks(CHUNK) {
        let mut new: HashMap<&str, &Listed> =
            chunk.iter().map(|source| (source.name.as_str(), source)).collect();
        let names: Vec<&str> = chunk.iter().map(|source| source.name.as_str()).collect();
        let mut changed = Vec::new();
        let text: String = sqlx::query_scalar(stored!("WHERE name IN (SELECT value FROM json_each(?))"))
            .bind(json!(names).to_string())
            .fetch_one(&mut *connection)
            .await?;
        for row in read_text::<Vec<ListedRow<'_>>>(&text)? {
            let Some(source) = new.remove(&*row.name) else { continue };
            let otherwise = compare(&row, source);
            synced.ids.insert(source.name.clone(), SourceId(row.id));
            if otherwise.moved {
                synced.moved.insert(source.name.clone());
            }
            synced.stored.insert(source.name.clone());
            changed.extend(otherwise.row);
        }
        change(connection, changed, at).await?;
        // Inserted in the order of the list.
        let rows: Vec<_> =
            chunk.iter().filter(|source| new.contains_key(source.name.as_str())).map(new_row).collect();
        insert(connection, &rows, at).await?;
        let names: Vec<&str> = new.into_keys().collect();
        let rows =
            sqlx::query("SELECT name, id FROM sources WHERE name IN (SELECT value FROM json_each(?))")
                .bind(json!(names).to_string())
                .fetch_all(&mut *connection)
                .await?;
        synced.ids.extend(rows.into_iter().map(|row| (row.get(0), SourceId(row.get(1)))));
    }
    for chunk in gone.chunks(CHUNK) {
        let ids: Vec<i64> =
            sqlx::query_scalar("SELECT id FROM sources WHERE name IN (SELECT value FROM json_each(?))")
                .bind(json!(chunk).to_string())
                .fetch_all(&mut *connection)
                .await?;
        remove(connection, &ids, at).await?;
        synced.removed.extend(ids.into_iter().map(SourceId));
    }
    Ok(synced)
}

type NewRow<'a> = (&'a str, &'a str, &'static str, &'static str, Option<&'a str>, Cow<'a, str>);

fn new_row(source: &impl Listing) -> NewRow<'_> {
    (source.name(), source.url(), source.kind(), source.policy(), source.group(), source.limits())
}

async fn insert(
    connection: &mut SqliteConnection,
    rows: &[NewRow<'_>],
    at: Timestamp,
) -> Result<(), sqlx::Error> {
    let statement = format!(
        "INSERT INTO sources (name, url, kind, policy, group_name, limits, added_at, clock_ms)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, ?1, {TOTAL}
         FROM json_each(?2)"
    );
    sqlx::query(AssertSqlSafe(statement))
        .bind(at.as_millis())
        .bind(json!(rows).to_string())
        .execute(&mut *connection)
        .await?;
    let names: Vec<&str> = rows.iter().map(|row| row.0).collect();
    log_limits(connection, at, "name IN (SELECT value FROM json_each(?2))", &json!(names).to_string()).await
}

/// Logs the limits of the sources that a condition selects.
async fn log_limits(
    connection: &mut SqliteConnection,
    at: Timestamp,
    of: &'static str,
    rows: &str,
) -> Result<(), sqlx::Error> {
    let ended = format!(
        "UPDATE source_limits SET ended_at = ?1
         WHERE ended_at IS NULL AND source_id IN (SELECT id FROM sources WHERE {of})"
    );
    let logged = format!(
        "INSERT INTO source_limits (source_id, at, probes, per_ms, min_spacing_ms, site)
         SELECT id, ?1, limits ->> 0, limits ->> 1, limits ->> 2, limits ->> 3 FROM sources WHERE {of} ORDER BY id"
    );
    for statement in [ended, logged] {
        let statement = sqlx::query(AssertSqlSafe(statement)).bind(at.as_millis()).bind(rows.to_owned());
        statement.execute(&mut *connection).await?;
    }
    Ok(())
}

async fn remove(connection: &mut SqliteConnection, gone: &[i64], at: Timestamp) -> Result<(), sqlx::Error> {
    for chunk in gone.chunks(CHUNK) {
        sqlx::query(
            "UPDATE sources SET state = 'removed', next_probe_at = NULL, next_probe_reason = NULL, state_hash = NULL
             WHERE id IN (SELECT value FROM json_each(?))",
        )
        .bind(json!(chunk).to_string())
        .execute(&mut *connection)
        .await?;
        sqlx::query(
            "UPDATE bursts SET ended_at = ?2
             WHERE ended_at IS NULL AND source_id IN (SELECT value FROM json_each(?1))",
        )
        .bind(json!(chunk).to_string())
        .bind(at.as_millis())
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

async fn change(
    connection: &mut SqliteConnection,
    changed: Vec<Value>,
    at: Timestamp,
) -> Result<(), sqlx::Error> {
    if changed.is_empty() {
        return Ok(());
    }
    let rows = Value::from(changed).to_string();
    sqlx::query(
        "UPDATE sources SET url = new.value ->> 1, kind = new.value ->> 2, policy = new.value ->> 3,
                group_name = new.value ->> 4, limits = new.value ->> 9
         FROM json_each(?) AS new WHERE sources.id = new.value ->> 0",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
    let limited = "id IN (SELECT value ->> 0 FROM json_each(?2) WHERE value ->> 8)";
    log_limits(connection, at, limited, &rows).await?;
    // Sources with a new URL or listed again: the engine sets a new due time.
    sqlx::query(
        "UPDATE sources SET state = 'learning', next_probe_at = NULL, next_probe_reason = NULL, state_hash = NULL,
             known_items = NULL
         FROM json_each(?) AS new WHERE sources.id = new.value ->> 0 AND (new.value ->> 5 OR new.value ->> 6)",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
    source_row::forget_address(connection, &rows).await?;
    sqlx::query(
        "UPDATE bursts SET ended_at = ?2 WHERE ended_at IS NULL AND source_id IN (
             SELECT new.value ->> 0 FROM json_each(?1) AS new WHERE new.value ->> 5)",
    )
    .bind(&rows)
    .bind(at.as_millis())
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "UPDATE histories SET watch = NULL, aside = NULL, rhythm_test = NULL WHERE source_id IN (
             SELECT new.value ->> 0 FROM json_each(?) AS new WHERE new.value ->> 5)",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
    // Pages have no update times. A feed at another URL may be the same feed and keeps them.
    sqlx::query(
        "UPDATE histories SET diary = NULL, habits = NULL, weighed_at = NULL WHERE source_id IN (
             SELECT new.value ->> 0 FROM json_each(?) AS new WHERE new.value ->> 5 AND new.value ->> 2 = 'page')",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
    // After a new policy or URL, `auto` starts without a choice.
    sqlx::query(
        "UPDATE sources SET follows = NULL FROM json_each(?) AS new
         WHERE sources.id = new.value ->> 0 AND (new.value ->> 5 OR new.value ->> 7)",
    )
    .bind(&rows)
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores the first due times. A source that has a due time already was probed meanwhile and keeps it.
pub(super) async fn first_due(
    connection: &mut SqliteConnection,
    due: &[(SourceId, Timestamp)],
) -> Result<(), sqlx::Error> {
    for chunk in due.chunks(CHUNK) {
        let rows: Vec<_> = chunk.iter().map(|(id, at)| (id.0, at.as_millis())).collect();
        sqlx::query(
            "UPDATE sources SET next_probe_at = new.value ->> 1, next_probe_reason = 'first contact'
             FROM json_each(?) AS new
             WHERE sources.id = new.value ->> 0 AND next_probe_at IS NULL AND state NOT IN ('resting', 'removed')",
        )
        .bind(json!(rows).to_string())
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
