//! The outbox: what somebody is to be told, until it is known that they were.
//!
//! Exists so that nothing is lost between an update and whoever waits for it: a row is written in
//! the transaction of its update and settled only after its target has taken it. Knows the order
//! of rows within a target and what may become of one. Must not know how a target is reached, nor
//! when to try again: that is decided by whoever tries.

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};
use sqlx::{Connection, QueryBuilder, Row, SqliteConnection};

use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::reader::Reader;
use super::record::{DeliveryRecord, Settled};
use super::{StoreError, events, open};

/// Something that somebody is to be told.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDelivery {
    /// Whose wish.
    pub profile: Arc<str>,
    /// Which of their rules.
    pub rule: Arc<str>,
    /// Who is told: the name of a configured target.
    pub target: Arc<str>,
    /// What it is about.
    pub source: SourceId,
    /// When it matched.
    pub at: Timestamp,
    /// What is told, all but its `key`.
    pub document: Map<String, Value>,
}

/// A row that waits, without its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its number; lower ones go first.
    pub id: i64,
    /// The same whenever the same is sent.
    pub key: String,
    /// What it is about.
    pub source: SourceId,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was first tried.
    pub first_tried_at: Option<Timestamp>,
    /// Not before.
    pub next_at: Option<Timestamp>,
}

/// A document that its target has taken, or is about to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The number of its row.
    pub id: i64,
    /// Its key.
    pub key: String,
    /// When it matched.
    pub at: Timestamp,
    /// JSON.
    pub document: String,
}

/// Which rows are to be tried again by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// These. All of them must be there and not be delivered.
    Numbers(Vec<i64>),
    /// Whatever was given up, for one target or for all.
    Dead {
        /// For this one only.
        target: Option<String>,
    },
}

/// What came of trying again by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    /// So many rows wait again.
    Waiting(u64),
    /// Nothing was changed: these are not there, or delivered.
    Unfit(Vec<i64>),
}

/// A document with its key in front.
struct Keyed<'a> {
    key: &'a Value,
    rest: &'a Map<String, Value>,
}

impl Serialize for Keyed<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let rest = self.rest.iter().filter(|(name, _)| *name != "key");
        serializer.collect_map(std::iter::once(("key", self.key)).chain(rest.map(|(k, v)| (k.as_str(), v))))
    }
}

impl NewDelivery {
    /// What tells this from everything else that the target is told. The same match gives the same
    /// key, whenever it is found.
    pub fn key(&self) -> String {
        let items = self.document.get("items").map(Value::to_string).unwrap_or_default();
        let source = self.source.0.to_le_bytes();
        let parts: [&[u8]; 5] = [
            self.target.as_bytes(),
            self.profile.as_bytes(),
            self.rule.as_bytes(),
            &source,
            items.as_bytes(),
        ];
        let mut digest = Sha256::new();
        for part in parts {
            // With its length, so that no two lists of parts are the same bytes.
            digest.update((part.len() as u64).to_le_bytes());
            digest.update(part);
        }
        digest.finalize()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

/// Puts a delivery into the outbox, once however often it is asked. Belongs into the transaction of
/// what it is about.
pub(super) async fn enqueue(
    connection: &mut SqliteConnection,
    delivery: &NewDelivery,
) -> Result<(), sqlx::Error> {
    let key = delivery.key();
    let keyed = Keyed { key: &Value::from(key.as_str()), rest: &delivery.document };
    let document = serde_json::to_string(&keyed).map_err(|error| sqlx::Error::Encode(error.into()))?;
    sqlx::query(
        "INSERT INTO deliveries (key, profile, rule, target, source_id, created_at, document)
         VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (target, key) DO NOTHING",
    )
    .bind(key)
    .bind(&*delivery.profile)
    .bind(&*delivery.rule)
    .bind(&*delivery.target)
    .bind(delivery.source.0)
    .bind(delivery.at.as_millis())
    .bind(document)
    .execute(connection)
    .await?;
    Ok(())
}

/// An attempt that ended. One that was set back by hand meanwhile is settled all the same.
pub(super) async fn settle(
    connection: &mut SqliteConnection,
    record: &DeliveryRecord,
) -> Result<(), sqlx::Error> {
    let (state, delivered, next, error) = match &record.settled {
        Settled::Delivered => ("delivered", Some(record.at), None, None),
        Settled::Failed { next_at, error } => ("waiting", None, Some(*next_at), Some(error)),
        Settled::Dead { error } => ("dead", None, None, Some(error)),
    };
    sqlx::query(
        "UPDATE deliveries SET state = ?2, attempts = attempts + 1,
             first_tried_at = coalesce(first_tried_at, ?3), delivered_at = ?4, next_at = ?5, last_error = ?6
         WHERE id = ?1 AND state = 'waiting'",
    )
    .bind(record.id)
    .bind(state)
    .bind(record.tried_at.as_millis())
    .bind(delivered.map(Timestamp::as_millis))
    .bind(next.map(Timestamp::as_millis))
    .bind(error)
    .execute(&mut *connection)
    .await?;
    if let Some(event) = &record.event {
        events::insert(connection, event).await?;
    }
    Ok(())
}

/// The clock was set by so much: those that wait, wait as long as before.
pub(super) async fn shift(connection: &mut SqliteConnection, by: Span) -> Result<(), sqlx::Error> {
    sqlx::query(
        "UPDATE deliveries SET next_at = next_at + ?1, first_tried_at = first_tried_at + ?1
         WHERE state = 'waiting'",
    )
    .bind(by.as_millis())
    .execute(connection)
    .await?;
    Ok(())
}

/// Sets rows back to waiting, as if they had never been tried: from another process, beside a
/// daemon or without one.
pub async fn retry(path: &Path, which: &Which) -> Result<Retried, StoreError> {
    // What opens for writing would make a store where there is none.
    open::check_readable(path).await?;
    let mut connection = open::for_writing(path).await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut query = QueryBuilder::new(
        "UPDATE deliveries SET state = 'waiting', attempts = 0, first_tried_at = NULL, next_at = NULL WHERE ",
    );
    match which {
        Which::Numbers(numbers) => {
            let wanted = json!(numbers).to_string();
            let unfit: Vec<i64> = sqlx::query_scalar(
                "SELECT value FROM json_each(?) WHERE NOT EXISTS (
                     SELECT 1 FROM deliveries WHERE id = value AND state <> 'delivered')",
            )
            .bind(&wanted)
            .fetch_all(&mut *transaction)
            .await?;
            if !unfit.is_empty() {
                return Ok(Retried::Unfit(unfit));
            }
            query.push("id IN (SELECT value FROM json_each(").push_bind(wanted).push("))");
        }
        Which::Dead { target } => {
            query.push("state = 'dead'");
            if let Some(target) = target {
                query.push(" AND target = ").push_bind(target);
            }
        }
    }
    let done = query.build().execute(&mut *transaction).await?;
    transaction.commit().await?;
    connection.close().await?;
    Ok(Retried::Waiting(done.rows_affected()))
}

impl Reader {
    /// The oldest row that waits for a target.
    pub async fn next_waiting(&self, target: &str) -> Result<Option<Waiting>, StoreError> {
        let row = sqlx::query(
            "SELECT id, key, source_id, attempts, first_tried_at, next_at FROM deliveries
             WHERE target = ? AND state = 'waiting' ORDER BY id LIMIT 1",
        )
        .bind(target)
        .fetch_optional(self.pool())
        .await?;
        Ok(row.map(|row| Waiting {
            id: row.get(0),
            key: row.get(1),
            source: SourceId(row.get(2)),
            attempts: row.get(3),
            first_tried_at: instant(row.get(4)),
            next_at: instant(row.get(5)),
        }))
    }

    /// A row's document.
    pub async fn document(&self, id: i64) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT document FROM deliveries WHERE id = ?")
            .bind(id)
            .fetch_optional(self.pool())
            .await?)
    }

    /// The targets that rows wait for. Cheap, however many wait: it goes from name to name.
    pub async fn waiting_targets(&self) -> Result<Vec<String>, StoreError> {
        Ok(sqlx::query_scalar(
            "WITH RECURSIVE names (name) AS (
                 SELECT min(target) FROM deliveries WHERE state = 'waiting'
                 UNION ALL
                 SELECT (SELECT min(target) FROM deliveries WHERE state = 'waiting' AND target > name)
                 FROM names WHERE name IS NOT NULL)
             SELECT name FROM names WHERE name IS NOT NULL",
        )
        .fetch_all(self.pool())
        .await?)
    }

    /// What a target has taken and, as if it had, the row `current`: the latest first, those with
    /// numbers below `below`.
    pub async fn told(
        &self,
        target: &str,
        current: i64,
        below: i64,
        limit: u32,
    ) -> Result<Vec<Told>, StoreError> {
        let rows = sqlx::query(
            "SELECT id, key, created_at, document FROM deliveries
             WHERE target = ? AND id < ? AND (state = 'delivered' OR id = ?) ORDER BY id DESC LIMIT ?",
        )
        .bind(target)
        .bind(below)
        .bind(current)
        .bind(limit)
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .iter()
            .map(|row| Told {
                id: row.get(0),
                key: row.get(1),
                at: Timestamp::from_millis(row.get(2)),
                document: row.get(3),
            })
            .collect())
    }
}

pub(super) fn instant(millis: Option<i64>) -> Option<Timestamp> {
    millis.map(Timestamp::from_millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(target: &str, rule: &str, title: &str) -> NewDelivery {
        let Value::Object(document) = json!({ "at": "now", "key": "mine", "items": [{ "title": title }] })
        else {
            panic!("an object")
        };
        NewDelivery {
            profile: "p".into(),
            rule: rule.into(),
            target: target.into(),
            source: SourceId(1),
            at: Timestamp::from_secs(0),
            document,
        }
    }

    #[test]
    fn keys_tell_matches_apart_and_nothing_else_does() {
        let key = delivery("exec:a", "r", "t").key();
        assert_eq!(key.len(), 32);
        let later = NewDelivery { at: Timestamp::from_secs(9), ..delivery("exec:a", "r", "t") };
        assert_eq!(later.key(), key);
        let others =
            [("exec:ar", "", "t"), ("exec:b", "r", "t"), ("exec:a", "q", "t"), ("exec:a", "r", "u")];
        for (target, rule, title) in others {
            assert_ne!(delivery(target, rule, title).key(), key, "{target} {rule} {title}");
        }
    }

    #[test]
    fn the_key_comes_first_and_once() {
        let delivery = delivery("exec:a", "r", "\0\u{1b}\n\"");
        let keyed = Keyed { key: &"k".into(), rest: &delivery.document };
        let text = serde_json::to_string(&keyed).unwrap();
        assert_eq!(text, r#"{"key":"k","at":"now","items":[{"title":"\u0000\u001b\n\""}]}"#);
    }
}
