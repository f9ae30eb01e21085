//! Rows of the outbox: once each, as long as they matter, and true to a clock that was set.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::store::outbox::{Retried, Which, retry};
use tidewatch::store::record::{DeliveryRecord, EventRecord, Settled};
use tidewatch::store::writer::Write;
use tidewatch_core::time::Span;

use super::office::{Office, at, document};

/// Someone else with the file open, as `sqlite3` would.
async fn other_program(office: &Office) -> SqliteConnection {
    SqliteConnectOptions::new().filename(office.store()).connect().await.unwrap()
}

/// Kind, source and detail of all events.
pub async fn events(office: &Office) -> Vec<(String, Option<String>, Option<String>)> {
    sqlx::query_as("SELECT kind, source, detail FROM readable_events ORDER BY id")
        .fetch_all(&mut other_program(office).await)
        .await
        .unwrap()
}

fn settle(id: i64, secs: i64, settled: Settled) -> Write {
    Write::Delivery(DeliveryRecord { id, tried_at: at(secs), at: at(secs + 1), settled, event: None })
}

fn failed(secs: i64) -> Settled {
    Settled::Failed { next_at: at(secs), error: "no".into() }
}

#[tokio::test]
async fn the_same_match_is_told_once_to_each_target() {
    let office = Office::closed(1.0).await;
    for _ in 0..2 {
        office.tell("exec:a", &["x", "y"]).await;
        office.tell("exec:b", &["x"]).await;
    }
    let rows = office.rows().await;
    assert_eq!(
        rows.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(),
        ["exec:a", "exec:a", "exec:b"]
    );
    assert!(rows.iter().all(|row| row.document.starts_with(&format!("{{\"key\":\"{}\",", row.key))));
    assert_ne!(rows[0].key, rows[2].key, "keys are of a target");
    assert_eq!(office.reader.waiting_targets().await.unwrap(), ["exec:a", "exec:b"]);
    assert_eq!(office.reader.next_waiting("exec:a").await.unwrap().unwrap().id, rows[0].id);
    assert_eq!(office.reader.next_waiting("exec:c").await.unwrap(), None);
    assert_eq!(office.reader.document(rows[2].id).await.unwrap().unwrap(), rows[2].document);
    let told: serde_json::Value = serde_json::from_str(&rows[0].document).unwrap();
    assert_eq!(told["items"], document("x")["items"]);
}

#[tokio::test]
async fn what_became_of_a_row_is_stored_with_its_event() {
    let office = Office::closed(1.0).await;
    office.tell("exec:a", &["x"]).await;
    let id = office.rows().await[0].id;
    office.write(settle(id, 10, failed(20))).await;
    office.write(settle(id, 20, failed(40))).await;
    let row = office.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.attempts, row.first_tried_at), ("waiting", 2, Some(at(10))));
    assert_eq!((row.next_at, row.last_error.as_deref()), (Some(at(40)), Some("no")));
    let event =
        EventRecord { at: at(41), kind: "delivery_dead", source: Some(office.source), detail: None };
    office
        .write(Write::Delivery(DeliveryRecord {
            id,
            tried_at: at(40),
            at: at(41),
            settled: Settled::Dead { error: "never".into() },
            event: Some(event),
        }))
        .await;
    let row = office.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.next_at, row.last_error.as_deref()), ("dead", None, Some("never")));
    assert_eq!(events(&office).await, [("delivery_dead".to_owned(), Some("a".to_owned()), None)]);
    assert_eq!(office.reader.next_waiting("exec:a").await.unwrap(), None);

    assert_eq!(retry(&office.store(), &Which::Numbers(vec![id])).await.unwrap(), Retried::Waiting(1));
    let row = office.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.attempts, row.first_tried_at), ("waiting", 0, None));
    office.write(settle(id, 50, Settled::Delivered)).await;
    let row = office.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.delivered_at, row.last_error), ("delivered", Some(at(51)), None));
    let shown: (String, String) = sqlx::query_as("SELECT source, delivered_at FROM readable_deliveries")
        .fetch_one(&mut other_program(&office).await)
        .await
        .unwrap();
    assert_eq!(shown, ("a".to_owned(), at(51).iso()));
}

#[tokio::test]
async fn only_what_was_taken_long_ago_is_forgotten() {
    let office = Office::closed(1.0).await;
    office.tell("exec:a", &["old", "new", "dead", "waits"]).await;
    let ids: Vec<i64> = office.rows().await.iter().map(|row| row.id).collect();
    office.write(settle(ids[0], 10, Settled::Delivered)).await;
    office.write(settle(ids[1], 1000, Settled::Delivered)).await;
    office.write(settle(ids[2], 10, Settled::Dead { error: "no".into() })).await;
    office.write(settle(ids[3], 10, failed(20))).await;
    office.write(Write::Prune { before: at(500) }).await;
    let left: Vec<i64> = office.rows().await.iter().map(|row| row.id).collect();
    assert_eq!(left, ids[1..]);
    // However many there are, a bite at a time.
    let titles: Vec<String> = (0..1200).map(|n| n.to_string()).collect();
    office.tell("exec:b", &titles.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for row in office.rows().await.iter().filter(|row| row.target == "exec:b") {
        office.write(settle(row.id, 10, Settled::Delivered)).await;
    }
    office.write(Write::Prune { before: at(500) }).await;
    super::office::until("all are forgotten", async || office.rows().await.len() == 3).await;
}

#[tokio::test]
async fn rows_that_wait_move_with_a_clock_that_is_set() {
    let office = Office::closed(1.0).await;
    office.tell("exec:a", &["waits", "dead"]).await;
    let ids: Vec<i64> = office.rows().await.iter().map(|row| row.id).collect();
    office.write(settle(ids[0], 10, failed(20))).await;
    office.write(settle(ids[1], 10, Settled::Dead { error: "no".into() })).await;
    office.write(Write::Shift { by: Span::from_hours(-2), since: at(0) }).await;
    let rows = office.rows().await;
    assert_eq!((rows[0].first_tried_at, rows[0].next_at), (Some(at(10 - 7200)), Some(at(20 - 7200))));
    assert_eq!(rows[1].first_tried_at, Some(at(10)), "history stays where it was");
}
