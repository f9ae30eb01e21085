//! Stores and reads rule matches and the states of rules.
//!
//! Matches are written in the transaction of their update. Must not decide which updates match, nor when
//! they are delivered.

use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection};

use tidewatch_core::engine::action::DueChange;
use tidewatch_core::engine::rule_counts::{Executable, RuleState};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::json_rows::text_of;
use super::outbox::{self, NewDelivery};
use super::reader::Reader;
use super::record::MatchRecord;
use super::{Connection, StoreError};

type Result = std::result::Result<(), sqlx::Error>;

/// Largest number of matches that a rule holds per source; the oldest are dropped first.
const MOST_HELD: i64 = 1000;

/// Stores the matches of one rule: queues them with all held ones for delivery, or holds them.
pub(super) async fn record_matches(
    connection: &mut SqliteConnection,
    source: SourceId,
    at: Timestamp,
    matches: &MatchRecord,
) -> Result {
    if !matches.deliver_now {
        let rows = Value::from(matches.items.iter().map(Value::to_string).collect::<Vec<_>>());
        sqlx::query(
            "INSERT INTO held_matches (rule, source_id, at, item) SELECT ?1, ?2, ?3, value FROM jsonb_each(?4)",
        )
        .bind(&*matches.name)
        .bind(source.0)
        .bind(at.as_millis())
        .bind(rows.to_string())
        .execute(&mut *connection)
        .await?;
        // Bounds matches that are never delivered.
        sqlx::query(
            "DELETE FROM held_matches WHERE rule = ?1 AND source_id = ?2 AND id <=
                 (SELECT id FROM held_matches WHERE rule = ?1 AND source_id = ?2 ORDER BY id DESC LIMIT 1 OFFSET ?3)",
        )
        .bind(&*matches.name)
        .bind(source.0)
        .bind(MOST_HELD)
        .execute(connection)
        .await?;
        return Ok(());
    }
    let held = sqlx::query("SELECT item FROM held_matches WHERE rule = ? AND source_id = ? ORDER BY id")
        .bind(&*matches.name)
        .bind(source.0)
        .fetch_all(&mut *connection)
        .await?;
    let held = held.iter().filter_map(|row| serde_json::from_str(row.get(0)).ok());
    let items: Vec<Value> = held.chain(matches.items.iter().cloned()).collect();
    if items.is_empty() {
        return Ok(());
    }
    let mut document = matches.document.clone();
    document.insert("items".to_owned(), Value::from(items));
    for target in &matches.targets {
        let delivery = NewDelivery {
            profile: matches.profile.clone(),
            rule: matches.rule.clone(),
            target: target.clone(),
            source,
            at,
            document: document.clone(),
        };
        outbox::enqueue(connection, &delivery).await?;
    }
    sqlx::query("DELETE FROM held_matches WHERE rule = ? AND source_id = ?")
        .bind(&*matches.name)
        .bind(source.0)
        .execute(connection)
        .await?;
    Ok(())
}

/// Stores the changed states of rules. Of several states of a rule the last one counts.
pub(super) async fn states_changed(connection: &mut SqliteConnection, states: &[&RuleState]) -> Result {
    if states.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = states
        .iter()
        .map(|state| {
            let executable = state.executable.map(|of| (of.since.as_millis(), of.until.as_millis()));
            let (since, until) = executable.unzip();
            (&*state.rule, state.source.map_or(0, |id| id.0), state.counted, since, until)
        })
        .collect();
    sqlx::query(
        "INSERT OR REPLACE INTO rule_states (rule, source_id, counted, executable_since, executable_until)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM jsonb_each(?)",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores changed due times.
pub(super) async fn due(connection: &mut SqliteConnection, due: &[&DueChange]) -> Result {
    if due.is_empty() {
        return Ok(());
    }
    let rows: Vec<_> = due
        .iter()
        .map(|one| {
            let rule = one.rule.as_deref();
            let at = one.due.at().map(Timestamp::as_millis);
            (one.source.0, at, one.reason.name(), one.asked_by.name(), rule)
        })
        .collect();
    sqlx::query(
        "UPDATE sources SET next_probe_at = new.value ->> 1, next_probe_reason = new.value ->> 2,
                            next_probe_policy = new.value ->> 3, next_probe_rule = new.value ->> 4
         FROM jsonb_each(?) AS new WHERE sources.id = new.value ->> 0 AND state <> 'removed'",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Deletes the states and held matches of rules that no longer exist.
pub(super) async fn forget_others(connection: &mut SqliteConnection, known: &[Arc<str>]) -> Result {
    let known = json!(known.iter().map(|name| &**name).collect::<Vec<_>>()).to_string();
    for table in [
        "DELETE FROM rule_states WHERE rule NOT IN (SELECT value FROM jsonb_each(?))",
        "DELETE FROM held_matches WHERE rule NOT IN (SELECT value FROM jsonb_each(?))",
    ] {
        sqlx::query(table).bind(&known).execute(&mut *connection).await?;
    }
    Ok(())
}

/// The stored states of all rules.
pub async fn states(connection: &mut Connection) -> std::result::Result<Vec<RuleState>, StoreError> {
    let rows =
        sqlx::query("SELECT rule, source_id, counted, executable_since, executable_until FROM rule_states")
            .fetch_all(connection)
            .await?;
    let time = |millis: Option<i64>| millis.map(Timestamp::from_millis);
    Ok(rows
        .iter()
        .map(|row| RuleState {
            rule: row.get::<String, _>(0).into(),
            source: Some(SourceId(row.get(1))).filter(|id| id.0 != 0),
            counted: row.get(2),
            executable: time(row.get(3))
                .zip(time(row.get(4)))
                .map(|(since, until)| Executable { since, until }),
        })
        .collect())
}

/// A stored update, with the fields that rules can match.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredUpdate {
    /// Time of detection.
    pub detected_at: Timestamp,
    /// Time of the update, maybe estimated.
    pub occurred_at: Timestamp,
    /// Whether that time is the item's own date.
    pub exact: bool,
    /// `new`, `edited` or `changed`.
    pub kind: String,
    /// The item's key.
    pub key: String,
    /// Title, if any.
    pub title: Option<String>,
    /// Link, if any.
    pub link: Option<String>,
    /// The authors.
    pub authors: Vec<String>,
    /// The categories.
    pub categories: Vec<String>,
}

impl Reader {
    /// The last updates of a source, newest first.
    pub async fn last_updates(
        &self,
        source: SourceId,
        most: u32,
    ) -> std::result::Result<Vec<StoredUpdate>, StoreError> {
        let rows = sqlx::query(
            "SELECT detected_at, occurred_at, kind, key, title, link, authors, categories,
                    occurred_exact FROM updates
             WHERE source_id = ? ORDER BY detected_at DESC, id DESC LIMIT ?",
        )
        .bind(source.0)
        .bind(most)
        .fetch_all(self.pool())
        .await?;
        let list = |text: Option<String>| -> Vec<String> {
            text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
        };
        Ok(rows
            .iter()
            .map(|row| StoredUpdate {
                detected_at: Timestamp::from_millis(row.get(0)),
                occurred_at: Timestamp::from_millis(row.get(1)),
                kind: row.get(2),
                key: row.get(3),
                title: row.get(4),
                link: row.get(5),
                authors: list(row.get(6)),
                categories: list(row.get(7)),
                exact: row.get(8),
            })
            .collect())
    }
}
