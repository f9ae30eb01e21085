//! The configured source list meets the stored one.
//!
//! A source is its name. New names get a number, names no longer listed are marked removed and
//! kept, a changed URL drops what only the old one could have given.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection};

use crate::config::source::Source;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::json_rows::read_text;
use super::source_row;

/// A source as configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// `feed` or `page`.
    pub kind: &'static str,
    /// The policy's name.
    pub policy: &'static str,
    /// Its group.
    pub group: Option<String>,
}

/// Whatever can be listed: a configured source as it stands, or a copy of what the list needs.
pub trait Listing {
    /// Its name.
    fn name(&self) -> &str;
    /// Where it is.
    fn url(&self) -> &str;
    /// `feed` or `page`.
    fn kind(&self) -> &'static str;
    /// The policy's name.
    fn policy(&self) -> &'static str;
    /// Its group.
    fn group(&self) -> Option<&str>;
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
}

impl Listing for Arc<Source> {
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
}

impl Listed {
    /// A copy of what the list needs of a source.
    pub fn new(source: &impl Listing) -> Self {
        Self {
            name: source.name().to_owned(),
            url: source.url().to_owned(),
            kind: source.kind(),
            policy: source.policy(),
            group: source.group().map(str::to_owned),
        }
    }
}

/// What became of a changed list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synced {
    /// The number of every source that was named, but for those that are gone.
    pub ids: HashMap<String, SourceId>,
    /// Names whose URL is another than before.
    pub moved: HashSet<String>,
    /// Names that the store knew already, on the list or off it.
    pub stored: HashSet<String>,
    /// Numbers of sources that are no longer listed.
    pub removed: Vec<SourceId>,
}

impl Synced {
    /// Together with what became of more of the list.
    pub fn extend(&mut self, more: Self) {
        self.ids.extend(more.ids);
        self.moved.extend(more.moved);
        self.stored.extend(more.stored);
        self.removed.extend(more.removed);
    }
}

/// Rows that one statement takes.
const CHUNK: usize = 5_000;

/// A source as stored: rows of many come as one text, which takes far less time than a row each.
#[derive(Debug, serde::Deserialize)]
struct Stored<'t> {
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
}

/// Sources as stored, of those that the rest of the query finds.
macro_rules! stored {
    ($rest:literal) => {
        concat!(
            "SELECT json_group_array(json_array(id, name, url, kind, policy, group_name, removed)) FROM (
                 SELECT id, name, url, kind, policy, group_name, state = 'removed' AS removed FROM sources ",
            $rest,
            ")"
        )
    };
}

/// What a stored source is otherwise than it is listed.
struct Otherwise {
    moved: bool,
    /// As [`change`] takes it, if anything is.
    row: Option<Value>,
}

fn compare(stored: &Stored<'_>, listed: &impl Listing) -> Otherwise {
    let moved = stored.url != listed.url() || stored.kind != listed.kind();
    let revived = stored.removed != 0;
    let policy = stored.policy != listed.policy();
    let group = stored.group.as_deref() != listed.group();
    let row = (moved || revived || policy || group).then(|| {
        let id = stored.id;
        json!([id, listed.url(), listed.kind(), listed.policy(), listed.group(), moved, revived, policy])
    });
    Otherwise { moved, row }
}

/// Brings the stored list up to date with all of the configured one.
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
        let rows: Vec<Stored<'_>> = read_text(&text)?;
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
    for chunk in new.chunks(CHUNK) {
        let rows: Vec<_> = chunk.iter().map(|&place| new_row(&listed[place])).collect();
        insert(connection, &rows, at).await?;
    }
    remove(connection, &gone, at).await
}

/// Brings the stored list up to date with what changed in the configured one: sources that are new
/// or otherwise, and the names of those that are gone. Says what became of them.
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
        for row in read_text::<Vec<Stored<'_>>>(&text)? {
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
        // In the order of the list.
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

type NewRow<'a> = (&'a str, &'a str, &'static str, &'static str, Option<&'a str>);

fn new_row(source: &impl Listing) -> NewRow<'_> {
    (source.name(), source.url(), source.kind(), source.policy(), source.group())
}

async fn insert(
    connection: &mut SqliteConnection,
    rows: &[NewRow<'_>],
    at: Timestamp,
) -> Result<(), sqlx::Error> {
    sqlx::query(
        "INSERT INTO sources (name, url, kind, policy, group_name, added_at)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, ?1 FROM json_each(?2)",
    )
    .bind(at.as_millis())
    .bind(json!(rows).to_string())
    .execute(connection)
    .await?;
    Ok(())
}

async fn remove(connection: &mut SqliteConnection, gone: &[i64], at: Timestamp) -> Result<(), sqlx::Error> {
    for chunk in gone.chunks(CHUNK) {
        sqlx::query(
            "UPDATE sources SET state = 'removed', next_probe_at = NULL, next_probe_reason = NULL
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
                group_name = new.value ->> 4
         FROM json_each(?) AS new WHERE sources.id = new.value ->> 0",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
    // Back on the list: due when the fleet says so.
    sqlx::query(
        "UPDATE sources SET state = 'learning', next_probe_at = NULL, next_probe_reason = NULL
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
        "UPDATE histories SET watch = NULL, aside = NULL WHERE source_id IN (
             SELECT new.value ->> 0 FROM json_each(?) AS new WHERE new.value ->> 5)",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
    // A page tells no times of its updates. What is asked as a feed elsewhere may well be the same feed.
    sqlx::query(
        "UPDATE histories SET diary = NULL, habits = NULL, weighed_at = NULL WHERE source_id IN (
             SELECT new.value ->> 0 FROM json_each(?) AS new WHERE new.value ->> 5 AND new.value ->> 2 = 'page')",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
    // Another policy begins where nothing is known.
    sqlx::query(
        "UPDATE sources SET follows = NULL FROM json_each(?) AS new
         WHERE sources.id = new.value ->> 0 AND (new.value ->> 5 OR new.value ->> 7)",
    )
    .bind(&rows)
    .execute(connection)
    .await?;
    Ok(())
}

/// When sources without a due time are due. One that has one has been probed meanwhile.
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
