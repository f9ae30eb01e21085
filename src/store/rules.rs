//! Stores and reads rule matches and the states of rules.
//!
//! Matches are written in the transaction of their update. Must not decide which updates match, nor when
//! they are delivered.

use std::sync::Arc;

use serde_json::{Value, json};
use sqlx::{Row, SqliteConnection};

use tidewatch_core::engine::action::DueChange;
use tidewatch_core::engine::rule_counts::{Executable, RuleState};
use tidewatch_core::observe::UpdateKind;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::delivery_key::item_key;
use super::json_rows::text_of;
use super::outbox::{self, NewDelivery};
use super::reader::Reader;
use super::record::{EventRecord, MatchRecord};
use super::{Connection, StoreError, events};

type Result = std::result::Result<(), sqlx::Error>;

/// Largest number of matches that a rule holds per source, and that a document has. Of held ones, the oldest
/// are dropped first and counted. No rule counts more updates.
pub const MOST_ITEMS: usize = 1000;

/// Largest size of the items of a document, and of the matches that a rule holds per source, in bytes.
const LARGEST_ITEMS: usize = 1024 * 1024;

/// A probe whose matches are recorded.
#[derive(Debug, Clone, Copy)]
pub(super) struct MatchingProbe {
    pub(super) source: SourceId,
    /// The number of its row.
    pub(super) probe: i64,
    /// Its end.
    pub(super) at: Timestamp,
}

/// Stores the matches of one rule: queues them with all held ones for delivery, or holds them.
pub(super) async fn record_matches(
    connection: &mut SqliteConnection,
    by: MatchingProbe,
    matches: &MatchRecord,
) -> Result {
    let found = keyed(connection, by, matches).await?;
    if !matches.deliver_now {
        return hold(connection, by, matches, &found).await;
    }
    let held =
        sqlx::query("SELECT item, more FROM held_matches WHERE rule = ? AND source_id = ? ORDER BY id")
            .bind(&*matches.name)
            .bind(by.source.0)
            .fetch_all(&mut *connection)
            .await?;
    let no_longer_held: i64 = held.iter().map(|row| row.get::<i64, _>(1)).sum();
    let held: Vec<Value> = held.iter().filter_map(|row| serde_json::from_str(row.get(0)).ok()).collect();
    let all = held.len() + found.len();
    let items = bounded(held, found);
    let more = matches.more + no_longer_held.unsigned_abs() + (all - items.len()) as u64;
    if items.is_empty() {
        return Ok(());
    }
    let mut document = matches.document.clone();
    if more > 0 {
        document.insert("more".to_owned(), Value::from(more));
    }
    document.insert("items".to_owned(), Value::from(items));
    for target in &matches.targets {
        let delivery = NewDelivery {
            profile: matches.profile.clone(),
            rule: matches.rule.clone(),
            target: target.clone(),
            source: by.source,
            at: by.at,
            document: document.clone(),
        };
        outbox::enqueue(connection, &delivery).await?;
    }
    sqlx::query("DELETE FROM held_matches WHERE rule = ? AND source_id = ?")
        .bind(&*matches.name)
        .bind(by.source.0)
        .execute(connection)
        .await?;
    Ok(())
}

/// The items of the record as they are delivered, each with its key.
async fn keyed(
    connection: &mut SqliteConnection,
    by: MatchingProbe,
    matches: &MatchRecord,
) -> std::result::Result<Vec<Value>, sqlx::Error> {
    let source = matches.document.get("source").and_then(Value::as_str).unwrap_or_default();
    let mut items = Vec::with_capacity(matches.items.len());
    for item in &matches.items {
        let before = match item.kind {
            UpdateKind::Changed => text_before(connection, by, &item.id).await?,
            UpdateKind::New | UpdateKind::Edited => None,
        };
        let key = ("key".to_owned(), Value::from(item_key(source, item, before)));
        items.push(Value::Object(std::iter::once(key).chain(item.fields.clone()).collect()));
    }
    Ok(items)
}

/// When a page changed to the same text before.
async fn text_before(
    connection: &mut SqliteConnection,
    by: MatchingProbe,
    text: &str,
) -> std::result::Result<Option<Timestamp>, sqlx::Error> {
    let before: Option<i64> = sqlx::query_scalar(
        "SELECT detected_at FROM updates WHERE source_id = ? AND kind = 'changed' AND key = ? AND probe_id IS NOT ?
         ORDER BY id DESC LIMIT 1",
    )
    .bind(by.source.0)
    .bind(text)
    .bind(by.probe)
    .fetch_optional(connection)
    .await?;
    Ok(before.map(Timestamp::from_millis))
}

/// Those of these items that one document has: first the items of this probe, then the held ones from the
/// newest on, at least one. They stay in their order.
fn bounded(mut held: Vec<Value>, mut found: Vec<Value>) -> Vec<Value> {
    let (mut taken, mut size) = (0, 0);
    let mut fits = |item: &&Value| {
        size += item.to_string().len();
        let fits = taken == 0 || taken < MOST_ITEMS && size <= LARGEST_ITEMS;
        taken += 1;
        fits
    };
    let of_found = found.iter().take_while(&mut fits).count();
    let of_held = if of_found == found.len() { held.iter().rev().take_while(&mut fits).count() } else { 0 };
    found.truncate(of_found);
    let mut items = held.split_off(held.len() - of_held);
    items.append(&mut found);
    items
}

/// Holds matches until the rule has counted enough updates. Of too many, the oldest are only counted.
async fn hold(
    connection: &mut SqliteConnection,
    by: MatchingProbe,
    matches: &MatchRecord,
    found: &[Value],
) -> Result {
    let rows = Value::from(found.iter().map(Value::to_string).collect::<Vec<_>>());
    sqlx::query(
        "INSERT INTO held_matches (rule, source_id, at, item, more)
         SELECT ?1, ?2, ?3, value, iif(key = 0, ?5, 0) FROM jsonb_each(?4)",
    )
    .bind(&*matches.name)
    .bind(by.source.0)
    .bind(by.at.as_millis())
    .bind(rows.to_string())
    .bind(i64::try_from(matches.more).unwrap_or(i64::MAX))
    .execute(&mut *connection)
    .await?;
    // How many were dropped before each one.
    let dropped: Vec<i64> = sqlx::query_scalar(
        "DELETE FROM held_matches WHERE id IN (
             SELECT id FROM (
                 SELECT id, row_number() OVER newest AS place, sum(length(CAST(item AS BLOB))) OVER newest AS bytes
                 FROM held_matches WHERE rule = ?1 AND source_id = ?2 WINDOW newest AS (ORDER BY id DESC))
             WHERE place > 1 AND (place > ?3 OR bytes > ?4))
         RETURNING more",
    )
    .bind(&*matches.name)
    .bind(by.source.0)
    .bind(MOST_ITEMS as i64)
    .bind(LARGEST_ITEMS as i64)
    .fetch_all(&mut *connection)
    .await?;
    if dropped.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE held_matches SET more = more + ?3 WHERE id =
             (SELECT min(id) FROM held_matches WHERE rule = ?1 AND source_id = ?2)",
    )
    .bind(&*matches.name)
    .bind(by.source.0)
    .bind(dropped.len() as i64 + dropped.iter().sum::<i64>())
    .execute(&mut *connection)
    .await?;
    // Once until the next delivery: the oldest match has the number of those dropped before.
    if dropped.iter().all(|&before| before == 0) {
        let detail = format!(
            "rule {}: its matches that are held until enough are counted have more than {MOST_ITEMS} items or \
             {LARGEST_ITEMS} bytes; the oldest are only counted until the next delivery",
            matches.name
        );
        let event = EventRecord {
            at: by.at,
            kind: "matches_left_out",
            source: Some(by.source),
            detail: Some(detail),
        };
        events::insert(connection, &[&event]).await?;
    }
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
    /// The last updates of a source by the present clock, newest first.
    pub async fn last_updates(
        &self,
        source: SourceId,
        most: u32,
    ) -> std::result::Result<Vec<StoredUpdate>, StoreError> {
        let rows = sqlx::query(
            "SELECT detected_at, occurred_at, kind, key, title, link, authors, categories,
                    occurred_exact, probe_id FROM updates
             WHERE source_id = ? ORDER BY +id DESC LIMIT ?",
        )
        .bind(source.0)
        .bind(most)
        .fetch_all(self.pool())
        .await?;
        let times = self.log_times().await?;
        let list = |text: Option<String>| -> Vec<String> {
            text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default()
        };
        Ok(rows
            .iter()
            .map(|row| {
                let logged = Timestamp::from_millis(row.get(0));
                let by = times.shift_of(row.get(9), logged);
                (row, logged + by, if row.get(8) { Span::ZERO } else { by })
            })
            .map(|(row, detected_at, by)| StoredUpdate {
                detected_at,
                occurred_at: Timestamp::from_millis(row.get(1)) + by,
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

#[cfg(test)]
mod tests {
    use super::*;

    fn items(range: std::ops::Range<usize>, size: usize) -> Vec<Value> {
        range.map(|n| json!({ "n": n, "text": "x".repeat(size) })).collect()
    }

    fn numbers(items: &[Value]) -> Vec<u64> {
        items.iter().map(|item| item["n"].as_u64().unwrap()).collect()
    }

    #[test]
    fn a_document_has_the_newest_items_in_their_order() {
        let few = bounded(items(0..2, 1), items(2..4, 1));
        assert_eq!(numbers(&few), [0, 1, 2, 3]);
        let many = bounded(items(0..1000, 1), items(1000..1010, 1));
        assert_eq!(numbers(&many), (10..1010).collect::<Vec<_>>());
        let large = bounded(items(0..4, 1), items(4..100, 60_000));
        assert_eq!(numbers(&large), (4..21).collect::<Vec<_>>());
        assert_eq!(numbers(&bounded(Vec::new(), items(0..2, 2_000_000))), [0]);
    }
}
