//! Deliveries as people ask for them: the last ones, and how many there are.

use sqlx::sqlite::SqliteRow;
use sqlx::{QueryBuilder, Row, Sqlite};

use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::outbox::instant;
use super::reader::Reader;

/// Which rows are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// In this state only.
    pub state: Option<String>,
    /// For this target only.
    pub target: Option<String>,
    /// The last so many.
    pub limit: u32,
}

/// A row as people see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRow {
    /// Its number.
    pub id: i64,
    /// Its key.
    pub key: String,
    /// Whose wish.
    pub profile: String,
    /// Which of their rules.
    pub rule: String,
    /// Who is told.
    pub target: String,
    /// The source's name.
    pub source: String,
    /// When it matched.
    pub created_at: Timestamp,
    /// `waiting`, `delivered` or `dead`.
    pub state: String,
    /// How often it was tried.
    pub attempts: u32,
    /// When it was first tried.
    pub first_tried_at: Option<Timestamp>,
    /// Not before.
    pub next_at: Option<Timestamp>,
    /// When it was taken.
    pub delivered_at: Option<Timestamp>,
    /// Why it was not.
    pub last_error: Option<String>,
    /// JSON as it is sent.
    pub document: String,
}

/// How many rows of a target are in each state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Totals {
    /// Who is told.
    pub target: String,
    /// Not taken yet.
    pub waiting: u64,
    /// Taken, as far as the log reaches.
    pub delivered: u64,
    /// Given up.
    pub dead: u64,
}

impl Reader {
    /// The last deliveries, the newest last.
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

    /// How many there are, by target; the filter's limit does not count here.
    pub async fn delivery_totals(&self, filter: &Filter) -> Result<Vec<Totals>, StoreError> {
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
            .map(|row| Totals {
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
