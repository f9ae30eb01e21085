//! Deliveries for display: the last ones, and the number in each state.

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::outbox::instant;
use super::reader::Reader;

/// Selects deliveries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Only in this state.
    pub state: Option<String>,
    /// Only for this target.
    pub target: Option<String>,
    /// Largest number of rows, the newest ones.
    pub limit: u32,
}

/// A delivery, for display.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// The row's number.
    pub id: i64,
    /// Idempotency key; the same for every attempt.
    pub key: String,
    /// The profile.
    pub profile: String,
    /// The rule of that profile.
    pub rule: String,
    /// The target's name.
    pub target: String,
    /// The source's name.
    pub source: String,
    /// Time of the match.
    pub created_at: Timestamp,
    /// `waiting`, `delivered` or `dead`.
    pub state: String,
    /// Number of attempts.
    pub attempts: u32,
    /// Start of the first attempt.
    pub first_tried_at: Option<Timestamp>,
    /// Earliest time of the next attempt.
    pub next_at: Option<Timestamp>,
    /// End of the successful attempt.
    pub delivered_at: Option<Timestamp>,
    /// Error of the last attempt.
    pub last_error: Option<String>,
    /// The JSON document.
    pub document: String,
}

/// Number of deliveries in each state, for one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryTotals {
    /// The target's name.
    pub target: String,
    /// Still to be delivered.
    pub waiting: u64,
    /// Delivered, and not yet pruned.
    pub delivered: u64,
    /// Failed for good.
    pub dead: u64,
}

impl Reader {
    /// The last matching deliveries, in ascending order.
    pub async fn deliveries(&self, filter: &Filter) -> Result<Vec<DeliveryRow>, StoreError> {
        let mut query = QueryBuilder::new(
            "SELECT deliveries.*, sources.name AS source FROM deliveries
             JOIN sources ON sources.id = source_id WHERE 1",
        );
        restrict(&mut query, filter);
        query.push(" ORDER BY deliveries.id DESC LIMIT ").push_bind(filter.limit);
        let rows = query.build().fetch_all(self.pool()).await?;
        Ok(rows
            .iter()
            .rev()
            .map(|row| DeliveryRow {
                id: row.get("id"),
                key: row.get("key"),
                profile: row.get("profile"),
                rule: row.get("rule"),
                target: row.get("target"),
                source: row.get("source"),
                created_at: Timestamp::from_millis(row.get("created_at")),
                state: row.get("state"),
                attempts: row.get("attempts"),
                first_tried_at: instant(row.get("first_tried_at")),
                next_at: instant(row.get("next_at")),
                delivered_at: instant(row.get("delivered_at")),
                last_error: row.get("last_error"),
                document: row.get("document"),
            })
            .collect())
    }

    /// The number of waiting deliveries.
    pub async fn waiting_deliveries(&self) -> Result<u64, StoreError> {
        let waiting: i64 = sqlx::query_scalar(
            "SELECT count(*) FROM deliveries INDEXED BY deliveries_waiting WHERE state = 'waiting'",
        )
        .fetch_one(self.pool())
        .await?;
        Ok(waiting.unsigned_abs())
    }

    /// The number of matching deliveries by target. Ignores the limit of the filter.
    pub async fn delivery_totals(&self, filter: &Filter) -> Result<Vec<DeliveryTotals>, StoreError> {
        let mut query = QueryBuilder::new(
            "SELECT target, sum(deliveries.state = 'waiting'), sum(deliveries.state = 'delivered'),
                    sum(deliveries.state = 'dead')
             FROM deliveries WHERE 1",
        );
        restrict(&mut query, filter);
        query.push(" GROUP BY target ORDER BY target");
        let rows = query.build().fetch_all(self.pool()).await?;
        let count = |row: &SqliteRow, at: usize| row.get::<i64, _>(at).unsigned_abs();
        Ok(rows
            .iter()
            .map(|row| DeliveryTotals {
                target: row.get(0),
                waiting: count(row, 1),
                delivered: count(row, 2),
                dead: count(row, 3),
            })
            .collect())
    }
}

fn restrict(query: &mut QueryBuilder<Sqlite>, filter: &Filter) {
    if let Some(state) = &filter.state {
        query.push(" AND deliveries.state = ").push_bind(state.clone());
    }
    if let Some(target) = &filter.target {
        query.push(" AND target = ").push_bind(target.clone());
    }
}
