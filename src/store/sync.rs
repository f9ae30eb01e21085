//! The configured source list meets the stored one.
//!
//! A source is its name. New names get a number, names no longer listed are marked removed and
//! kept, a changed URL drops what only the old one could have given.

use std::collections::{HashMap, HashSet};

use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection};

use crate::fleet::params::SourceId;
use crate::time::Timestamp;

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

/// What became of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Synced {
    /// Every listed source's number.
    pub ids: HashMap<String, SourceId>,
    /// Names whose URL is another than before.
    pub moved: HashSet<String>,
    /// Names that were removed once and are back.
    pub revived: HashSet<String>,
    /// Numbers of sources that are no longer listed.
    pub removed: Vec<SourceId>,
}

/// Rows that one statement takes.
const CHUNK: usize = 5_000;

/// Brings the stored list up to date and says what became of it.
pub(super) async fn sync(
    connection: &mut SqliteConnection,
    listed: &[Listed],
    at: Timestamp,
) -> Result<Synced, sqlx::Error> {
    let mut synced = Synced::default();
    let mut stored = HashMap::new();
    for row in sqlx::query("SELECT id, name, url, kind, policy, group_name, state = 'removed' FROM sources")
        .fetch_all(&mut *connection)
        .await?
    {
        let as_listed = (
            row.get::<String, _>(2),
            row.get::<String, _>(3),
            row.get::<String, _>(4),
            row.get::<Option<String>, _>(5),
        );
        stored.insert(row.get::<String, _>(1), (row.get::<i64, _>(0), as_listed, row.get::<bool, _>(6)));
    }
    let mut changed = Vec::new();
    let mut new = Vec::new();
    for source in listed {
        let Some((id, (url, kind, policy, group), removed)) = stored.remove(&source.name) else {
            new.push(json!([source.name, source.url, source.kind, source.policy, source.group]));
            continue;
        };
        synced.ids.insert(source.name.clone(), SourceId(id));
        let moved = url != source.url || kind != source.kind;
        if moved {
            synced.moved.insert(source.name.clone());
        }
        if removed {
            synced.revived.insert(source.name.clone());
        }
        if moved || removed || policy != source.policy || group != source.group {
            let otherwise = policy != source.policy;
            changed.push(json!([
                id,
                source.url,
                source.kind,
                source.policy,
                source.group,
                moved,
                removed,
                otherwise
            ]));
        }
    }
    for chunk in new.chunks(CHUNK) {
        let rows = sqlx::query(
            "INSERT INTO sources (name, url, kind, policy, group_name, added_at)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, ?1 FROM json_each(?2)
             WHERE true RETURNING id, name",
        )
        .bind(at.as_millis())
        .bind(Value::from(chunk.to_vec()).to_string())
        .fetch_all(&mut *connection)
        .await?;
        synced.ids.extend(rows.into_iter().map(|row| (row.get(1), SourceId(row.get(0)))));
    }
    for chunk in changed.chunks(CHUNK) {
        change(connection, Value::from(chunk.to_vec()).to_string(), at).await?;
    }
    let gone: Vec<i64> =
        stored.into_values().filter(|(_, _, removed)| !removed).map(|(id, _, _)| id).collect();
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
    synced.removed = gone.into_iter().map(SourceId).collect();
    Ok(synced)
}

async fn change(connection: &mut SqliteConnection, rows: String, at: Timestamp) -> Result<(), sqlx::Error> {
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
    // Elsewhere now: validators, hints and errors of the old address say nothing of the new one.
    sqlx::query(
        "UPDATE sources SET etag = NULL, last_modified = NULL, validators_url = NULL, error_streak = 0,
                last_error = NULL, fresh_until = NULL, retry_until = NULL, backoff_until = NULL, ttl_ms = NULL,
                skip_hours = 0, skip_days = 0, update_period_ms = NULL, moving_to = NULL, moving_times = NULL,
                moving_since = NULL, adopted_url = NULL, holds = NULL, moved = 1, newest_at = NULL,
                burst_since = NULL, in_bursts = 0, quiet_since = NULL, reserve_whole_at = NULL, estimate = NULL,
                found_per_hour = NULL
         FROM json_each(?) AS new WHERE sources.id = new.value ->> 0 AND new.value ->> 5",
    )
    .bind(&rows)
    .execute(&mut *connection)
    .await?;
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

/// When sources without a due time are due.
pub(super) async fn first_due(
    connection: &mut SqliteConnection,
    due: &[(SourceId, Timestamp)],
) -> Result<(), sqlx::Error> {
    for chunk in due.chunks(CHUNK) {
        let rows: Vec<Value> = chunk.iter().map(|(id, at)| json!([id.0, at.as_millis()])).collect();
        sqlx::query(
            "UPDATE sources SET next_probe_at = new.value ->> 1, next_probe_reason = 'first contact'
             FROM json_each(?) AS new WHERE sources.id = new.value ->> 0",
        )
        .bind(Value::from(rows).to_string())
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}
