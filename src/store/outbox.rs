//! The outbox: deliveries that are queued until their target has accepted them.
//!
//! A row is written in the transaction of its update and settled after its target has accepted it, so that
//! no match is lost. Knows the order of the rows of a target and their states. Must not know how a target
//! is reached, nor when a delivery is tried again.

use std::path::Path;
use std::sync::Arc;

use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use sqlx::{Connection, QueryBuilder, Row, SqliteConnection};

use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::delivery_key::delivery_key;
use super::reader::Reader;
use super::record::{DeliveryRecord, Settled};
use super::{StoreError, events, open};

/// A delivery to be queued.
#[derive(Debug, Clone, PartialEq)]
pub struct NewDelivery {
    /// The profile.
    pub profile: Arc<str>,
    /// The rule of that profile.
    pub rule: Arc<str>,
    /// The name of a configured target.
    pub target: Arc<str>,
    /// The source of the match.
    pub source: SourceId,
    /// Time of the match.
    pub at: Timestamp,
    /// The document without its `key`.
    pub document: Map<String, Value>,
}

/// A queued delivery without its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingDelivery {
    /// The row's number; of a source, lower ones are delivered first.
    pub id: i64,
    /// Idempotency key; the same for every attempt.
    pub key: String,
    /// The source of the match.
    pub source: SourceId,
    /// Number of attempts.
    pub attempts: u32,
    /// Start of the first attempt.
    pub first_tried_at: Option<Timestamp>,
}

/// What a target is sent next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NextDelivery {
    /// This delivery, now.
    Due(WaitingDelivery),
    /// Nothing before this time; `None`: nothing is waiting.
    Later(Option<Timestamp>),
}

/// A document that its target has accepted or is about to accept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveredDocument {
    /// The row's number.
    pub id: i64,
    /// The delivery's key.
    pub key: String,
    /// Time of the match.
    pub at: Timestamp,
    /// The JSON document.
    pub document: String,
}

/// Selects deliveries to be retried by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// These numbers. All must exist and be undelivered.
    Numbers(Vec<i64>),
    /// All deliveries in state `dead`.
    Dead {
        /// Only for this target.
        target: Option<String>,
    },
}

/// The result of a retry by hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Retried {
    /// This many deliveries are queued again.
    Waiting(u64),
    /// Nothing changed: these numbers do not exist or are delivered.
    Unfit(Vec<i64>),
}

/// A document with its key as the first field.
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
    /// The idempotency key. The same matches have the same key, whenever they are found.
    pub fn key(&self) -> String {
        let items = self.document.get("items").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        delivery_key(&self.target, (&self.profile, &self.rule), items)
    }
}

/// Queues a delivery; does nothing if its key is already queued for the target. Must run in the transaction
/// of the update.
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

/// Stores the result of an attempt, also if the row was reset by hand during the attempt.
pub(super) async fn settle(
    connection: &mut SqliteConnection,
    record: &DeliveryRecord,
) -> Result<(), sqlx::Error> {
    let (state, delivered, next, pauses_target, error) = match &record.settled {
        Settled::Delivered => ("delivered", Some(record.at), None, false, None),
        Settled::Failed { next_at, pauses_target, error } => {
            ("waiting", None, Some(*next_at), *pauses_target, Some(error))
        }
        Settled::Dead { error } => ("dead", None, None, false, Some(error)),
    };
    sqlx::query(
        "UPDATE deliveries SET state = ?2, attempts = attempts + 1,
             first_tried_at = coalesce(first_tried_at, ?3), delivered_at = ?4, next_at = ?5, last_error = ?6,
             pauses_target = ?7
         WHERE id = ?1 AND state = 'waiting'",
    )
    .bind(record.id)
    .bind(state)
    .bind(record.tried_at.as_millis())
    .bind(delivered.map(Timestamp::as_millis))
    .bind(next.map(Timestamp::as_millis))
    .bind(error)
    .bind(pauses_target)
    .execute(&mut *connection)
    .await?;
    if let Some(event) = &record.event {
        events::insert(connection, &[event]).await?;
    }
    Ok(())
}

/// Moves the times of queued deliveries when the clock is set by `by`.
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

/// Resets deliveries to `waiting`, with no attempts. Runs in another process, with or without a daemon.
pub async fn retry(path: &Path, which: &Which) -> Result<Retried, StoreError> {
    let mut connection = open::existing_for_writing(path).await?;
    let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut query = QueryBuilder::new(
        "UPDATE deliveries SET state = 'waiting', attempts = 0, first_tried_at = NULL, next_at = NULL,
             pauses_target = 0 WHERE ",
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
    /// The next delivery to a target: the oldest of a source without a failed one, so that documents which no receiver
    /// takes delay no other source; else the failed one that waits longest. If the receiver asked for a pause, none before its end. Times after `latest` result from a
    /// changed clock and are ignored.
    pub async fn next_waiting(
        &self,
        target: &str,
        now: Timestamp,
        latest: Timestamp,
    ) -> Result<NextDelivery, StoreError> {
        let pause: Option<i64> = sqlx::query_scalar(
            "SELECT max(next_at) FROM deliveries INDEXED BY deliveries_pausing
             WHERE target = ? AND state = 'waiting' AND pauses_target = 1 AND next_at > ? AND next_at <= ?",
        )
        .bind(target)
        .bind(now.as_millis())
        .bind(latest.as_millis())
        .fetch_one(self.pool())
        .await?;
        if pause.is_some() {
            return Ok(NextDelivery::Later(instant(pause)));
        }
        let mut due = sqlx::query(
            "SELECT id, key, source_id, attempts, first_tried_at
             FROM deliveries AS due INDEXED BY deliveries_waiting
             WHERE target = ?1 AND state = 'waiting' AND next_at IS NULL AND NOT EXISTS (
                 SELECT 1 FROM deliveries AS failed INDEXED BY deliveries_failed
                 WHERE failed.target = ?1 AND failed.source_id = due.source_id AND failed.state = 'waiting'
                     AND failed.next_at IS NOT NULL AND failed.id < due.id)
             ORDER BY id LIMIT 1",
        )
        .bind(target)
        .fetch_optional(self.pool())
        .await?;
        if due.is_none() {
            due = sqlx::query(
                "SELECT id, key, source_id, attempts, first_tried_at
                 FROM deliveries AS due INDEXED BY deliveries_failed
                 WHERE target = ?1 AND state = 'waiting' AND next_at IS NOT NULL AND NOT (next_at > ?2 AND next_at <= ?3)
                     AND NOT EXISTS (
                         SELECT 1 FROM deliveries AS earlier INDEXED BY deliveries_failed
                         WHERE earlier.target = ?1 AND earlier.source_id = due.source_id AND earlier.state = 'waiting'
                             AND earlier.next_at IS NOT NULL AND earlier.id < due.id)
                 ORDER BY next_at, id LIMIT 1",
            )
            .bind(target)
            .bind(now.as_millis())
            .bind(latest.as_millis())
            .fetch_optional(self.pool())
            .await?;
        }
        if let Some(row) = due {
            return Ok(NextDelivery::Due(WaitingDelivery {
                id: row.get(0),
                key: row.get(1),
                source: SourceId(row.get(2)),
                attempts: row.get(3),
                first_tried_at: instant(row.get(4)),
            }));
        }
        let next: Option<i64> = sqlx::query_scalar(
            "SELECT min(next_at) FROM deliveries INDEXED BY deliveries_failed
             WHERE target = ? AND state = 'waiting' AND next_at > ? AND next_at <= ?",
        )
        .bind(target)
        .bind(now.as_millis())
        .bind(latest.as_millis())
        .fetch_one(self.pool())
        .await?;
        Ok(NextDelivery::Later(instant(next)))
    }

    /// Whether this delivery failed and is to be tried again later. A retry by hand ends that.
    pub async fn waits_for_retry(&self, id: i64) -> Result<bool, StoreError> {
        let waits = sqlx::query_scalar(
            "SELECT EXISTS (SELECT 1 FROM deliveries WHERE id = ? AND state = 'waiting' AND next_at IS NOT NULL)",
        );
        Ok(waits.bind(id).fetch_one(self.pool()).await?)
    }

    /// The document of a delivery.
    pub async fn document(&self, id: i64) -> Result<Option<String>, StoreError> {
        Ok(sqlx::query_scalar("SELECT document FROM deliveries WHERE id = ?")
            .bind(id)
            .fetch_optional(self.pool())
            .await?)
    }

    /// The targets that have queued deliveries. Cost depends on the number of targets, not of rows.
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

    /// The documents that a target has accepted, plus the row `current`: those with numbers below `below`,
    /// newest first.
    pub async fn delivered(
        &self,
        target: &str,
        current: i64,
        below: i64,
        limit: u32,
    ) -> Result<Vec<DeliveredDocument>, StoreError> {
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
            .map(|row| DeliveredDocument {
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
    fn the_key_is_the_first_field_and_appears_once() {
        let delivery = delivery("exec:a", "r", "\0\u{1b}\n\"");
        let keyed = Keyed { key: &"k".into(), rest: &delivery.document };
        let text = serde_json::to_string(&keyed).unwrap();
        assert_eq!(text, r#"{"key":"k","at":"now","items":[{"title":"\u0000\u001b\n\""}]}"#);
    }
}
