//! Rows of the outbox: unique, pruned when old, and moved when the clock is set.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::store::outbox::{Retried, Which, retry};
use tidewatch::store::record::{DeliveryRecord, EventRecord, Settled};
use tidewatch::store::retention::DeleteBefore;
use tidewatch::store::writer::Write;
use tidewatch_core::time::Span;

use super::fixture::{Fixture, at, document};

/// Another program that has the file open, such as `sqlite3`.
async fn other_program(fixture: &Fixture) -> SqliteConnection {
    SqliteConnectOptions::new().filename(fixture.store()).connect().await.unwrap()
}

/// Kind, source and detail of all events.
pub async fn events(fixture: &Fixture) -> Vec<(String, Option<String>, Option<String>)> {
    sqlx::query_as("SELECT kind, source, detail FROM readable_events ORDER BY id")
        .fetch_all(&mut other_program(fixture).await)
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
async fn the_same_match_is_stored_once_for_each_target() {
    let fixture = Fixture::stopped(1.0).await;
    for _ in 0..2 {
        fixture.enqueue("exec:a", &["x", "y"]).await;
        fixture.enqueue("exec:b", &["x"]).await;
    }
    let rows = fixture.rows().await;
    assert_eq!(
        rows.iter().map(|row| row.target.as_str()).collect::<Vec<_>>(),
        ["exec:a", "exec:a", "exec:b"]
    );
    assert!(rows.iter().all(|row| row.document.starts_with(&format!("{{\"key\":\"{}\",", row.key))));
    assert_ne!(rows[0].key, rows[2].key, "keys are of a target");
    assert_eq!(fixture.reader.waiting_targets().await.unwrap(), ["exec:a", "exec:b"]);
    assert_eq!(fixture.reader.next_waiting("exec:a").await.unwrap().unwrap().id, rows[0].id);
    assert_eq!(fixture.reader.next_waiting("exec:c").await.unwrap(), None);
    assert_eq!(fixture.reader.document(rows[2].id).await.unwrap().unwrap(), rows[2].document);
    let stored: serde_json::Value = serde_json::from_str(&rows[0].document).unwrap();
    assert_eq!(stored["items"], document("x")["items"]);
}

#[tokio::test]
async fn the_outcome_of_a_row_is_stored_with_its_event() {
    let fixture = Fixture::stopped(1.0).await;
    fixture.enqueue("exec:a", &["x"]).await;
    let id = fixture.rows().await[0].id;
    fixture.write(settle(id, 10, failed(20))).await;
    fixture.write(settle(id, 20, failed(40))).await;
    let row = fixture.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.attempts, row.first_tried_at), ("waiting", 2, Some(at(10))));
    assert_eq!((row.next_at, row.last_error.as_deref()), (Some(at(40)), Some("no")));
    let event =
        EventRecord { at: at(41), kind: "delivery_dead", source: Some(fixture.source), detail: None };
    fixture
        .write(Write::Delivery(DeliveryRecord {
            id,
            tried_at: at(40),
            at: at(41),
            settled: Settled::Dead { error: "never".into() },
            event: Some(event),
        }))
        .await;
    let row = fixture.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.next_at, row.last_error.as_deref()), ("dead", None, Some("never")));
    assert_eq!(events(&fixture).await, [("delivery_dead".to_owned(), Some("a".to_owned()), None)]);
    assert_eq!(fixture.reader.next_waiting("exec:a").await.unwrap(), None);

    assert_eq!(retry(&fixture.store(), &Which::Numbers(vec![id])).await.unwrap(), Retried::Waiting(1));
    let row = fixture.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.attempts, row.first_tried_at), ("waiting", 0, None));
    fixture.write(settle(id, 50, Settled::Delivered)).await;
    let row = fixture.rows().await.remove(0);
    assert_eq!((row.state.as_str(), row.delivered_at, row.last_error), ("delivered", Some(at(51)), None));
    let shown: (String, String) = sqlx::query_as("SELECT source, delivered_at FROM readable_deliveries")
        .fetch_one(&mut other_program(&fixture).await)
        .await
        .unwrap();
    assert_eq!(shown, ("a".to_owned(), at(51).iso()));
}

#[tokio::test]
async fn only_rows_that_ended_long_ago_are_pruned() {
    let fixture = Fixture::stopped(1.0).await;
    fixture.enqueue("exec:a", &["old", "new", "dead", "waits"]).await;
    let ids: Vec<i64> = fixture.rows().await.iter().map(|row| row.id).collect();
    fixture.write(settle(ids[0], 10, Settled::Delivered)).await;
    fixture.write(settle(ids[1], 1000, Settled::Delivered)).await;
    fixture.write(settle(ids[2], 10, Settled::Dead { error: "no".into() })).await;
    fixture.write(settle(ids[3], 10, failed(20))).await;
    fixture.write(Write::Prune(DeleteBefore::probes(at(500), at(500)))).await;
    let left: Vec<i64> = fixture.rows().await.iter().map(|row| row.id).collect();
    assert_eq!(left, [ids[1], ids[3]]);
    // Many rows are pruned in batches.
    let titles: Vec<String> = (0..1200).map(|n| n.to_string()).collect();
    fixture.enqueue("exec:b", &titles.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for row in fixture.rows().await.iter().filter(|row| row.target == "exec:b") {
        fixture.write(settle(row.id, 10, Settled::Delivered)).await;
    }
    fixture.write(Write::Prune(DeleteBefore::probes(at(500), at(500)))).await;
    crate::waiting::until_found("all are pruned", async || fixture.rows().await.len() == 2).await;
}

#[tokio::test]
async fn waiting_rows_move_when_the_clock_is_set() {
    let fixture = Fixture::stopped(1.0).await;
    fixture.enqueue("exec:a", &["waits", "dead"]).await;
    let ids: Vec<i64> = fixture.rows().await.iter().map(|row| row.id).collect();
    fixture.write(settle(ids[0], 10, failed(20))).await;
    fixture.write(settle(ids[1], 10, Settled::Dead { error: "no".into() })).await;
    fixture.write(Write::Shift { by: Span::from_hours(-2), since: at(0) }).await;
    let rows = fixture.rows().await;
    assert_eq!((rows[0].first_tried_at, rows[0].next_at), (Some(at(10 - 7200)), Some(at(20 - 7200))));
    assert_eq!(rows[1].first_tried_at, Some(at(10)), "history stays where it was");
}
