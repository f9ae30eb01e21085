//! Rows of the outbox: unique, pruned when old, and moved when the clock is set.

use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::clock::ClockReading;
use tidewatch::store::clock::{ClockSeen, Correction, CorrectionFound};
use tidewatch::store::outbox::{NextDelivery, Retried, Which, retry};
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

/// What the target is sent at that time.
async fn next(fixture: &Fixture, target: &str, secs: i64) -> NextDelivery {
    let latest = at(secs) + Span::from_days(1);
    fixture.reader.next_waiting(target, at(secs), latest).await.unwrap()
}

fn failed(secs: i64) -> Settled {
    Settled::Failed { next_at: at(secs), pauses_target: false, error: "no".into() }
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
    assert!(matches!(next(&fixture, "exec:a", 0).await, NextDelivery::Due(row) if row.id == rows[0].id));
    assert_eq!(next(&fixture, "exec:c", 0).await, NextDelivery::Later(None));
    assert_eq!(fixture.reader.document(rows[2].id).await.unwrap().unwrap(), rows[2].document);
    let stored: serde_json::Value = serde_json::from_str(&rows[0].document).unwrap();
    let mut expected = document("x")["items"].clone();
    expected[0]["key"] = stored["items"][0]["key"].clone();
    assert_eq!(stored["items"], expected);
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
    assert_eq!(next(&fixture, "exec:a", 41).await, NextDelivery::Later(None));

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
    // A delivery does not outlive its update: the page's next change may have the same key.
    let updates = Some(at(2000));
    fixture.write(Write::Prune(DeleteBefore { updates, ..DeleteBefore::probes(at(500), at(500)) })).await;
    let left: Vec<i64> = fixture.rows().await.iter().map(|row| row.id).collect();
    assert_eq!(left, [ids[3]]);
    // Many rows are pruned in batches.
    let titles: Vec<String> = (0..1200).map(|n| n.to_string()).collect();
    fixture.enqueue("exec:b", &titles.iter().map(String::as_str).collect::<Vec<_>>()).await;
    for row in fixture.rows().await.iter().filter(|row| row.target == "exec:b") {
        fixture.write(settle(row.id, 10, Settled::Delivered)).await;
    }
    fixture.write(Write::Prune(DeleteBefore::probes(at(500), at(500)))).await;
    crate::waiting::until_found("all are pruned", async || fixture.rows().await.len() == 1).await;
}

#[tokio::test]
async fn waiting_rows_move_when_the_clock_is_set() {
    let fixture = Fixture::stopped(1.0).await;
    fixture.enqueue("exec:a", &["waits", "dead"]).await;
    let ids: Vec<i64> = fixture.rows().await.iter().map(|row| row.id).collect();
    fixture.write(settle(ids[0], 10, failed(20))).await;
    fixture.write(settle(ids[1], 10, Settled::Dead { error: "no".into() })).await;
    let (by, now) = (Span::from_hours(-2), at(100 - 7200));
    let seen = ClockSeen { reading: ClockReading { now, booted_at: now }, boot: None };
    let correction = Correction { at: now, by, found: CorrectionFound::Running };
    fixture.write(Write::ClockSet(correction, seen)).await;
    let rows = fixture.rows().await;
    assert_eq!((rows[0].first_tried_at, rows[0].next_at), (Some(at(10 - 7200)), Some(at(20 - 7200))));
    assert_eq!(rows[1].first_tried_at, Some(at(10)), "history stays where it was");
}

#[tokio::test]
async fn a_failed_row_delays_its_source_and_a_requested_pause_the_target() {
    let fixture = Fixture::stopped(1.0).await;
    fixture.enqueue("exec:a", &["a1", "a2"]).await;
    fixture.enqueue_from(fixture.other_source, "exec:a", &["b1", "b2"]).await;
    let ids: Vec<i64> = fixture.rows().await.iter().map(|row| row.id).collect();
    let due = async |secs| match next(&fixture, "exec:a", secs).await {
        NextDelivery::Due(row) => Ok(row.id),
        NextDelivery::Later(at) => Err(at),
    };
    assert_eq!(due(0).await, Ok(ids[0]));
    fixture.write(settle(ids[0], 0, failed(100))).await;
    assert_eq!(due(1).await, Ok(ids[2]), "a2 waits for a1");
    fixture.write(settle(ids[2], 1, failed(50))).await;
    assert_eq!(due(2).await, Err(Some(at(50))));
    assert_eq!(due(50).await, Ok(ids[2]));
    assert_eq!(due(100).await, Ok(ids[2]), "the one that waits longest first");
    fixture.write(settle(ids[2], 50, Settled::Delivered)).await;
    assert_eq!(due(51).await, Ok(ids[3]));
    let pause = Settled::Failed { next_at: at(80), pauses_target: true, error: "busy".into() };
    fixture.write(settle(ids[3], 51, pause)).await;
    fixture.enqueue_from(fixture.other_source, "exec:b", &["b1"]).await;
    assert_eq!(due(52).await, Err(Some(at(80))), "for all sources");
    assert_eq!(due(101).await, Ok(ids[3]));
    assert!(matches!(next(&fixture, "exec:b", 52).await, NextDelivery::Due(_)), "other targets go on");
    // By hand, a pause ends at once.
    assert_eq!(retry(&fixture.store(), &Which::Numbers(vec![ids[3]])).await.unwrap(), Retried::Waiting(1));
    assert_eq!(due(53).await, Ok(ids[3]));
    fixture.write(settle(ids[3], 54, Settled::Delivered)).await;
    assert_eq!(due(101).await, Ok(ids[0]));
    // What never failed comes first, so that documents which no receiver takes delay no other source.
    fixture.enqueue_from(fixture.other_source, "exec:a", &["b3"]).await;
    let b3 = fixture.rows().await.iter().map(|row| row.id).max().unwrap();
    assert_eq!(due(101).await, Ok(b3));
    fixture.write(settle(b3, 101, Settled::Delivered)).await;
    // Times from a changed clock are ignored.
    assert_eq!(due(-100_000).await, Ok(ids[0]));
}

#[tokio::test]
async fn matches_that_are_no_longer_held_are_counted() {
    let fixture = Fixture::stopped(1.0).await;
    for round in 0..3 {
        let titles: Vec<String> = (0..500).map(|n| format!("{round} {n}")).collect();
        let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
        fixture.hold("exec:a", &titles).await;
    }
    assert!(fixture.rows().await.is_empty());
    fixture.enqueue("exec:a", &["last"]).await;
    let document: serde_json::Value = serde_json::from_str(&fixture.rows().await[0].document).unwrap();
    let items = document["items"].as_array().unwrap();
    assert_eq!((items.len(), document["more"].as_u64()), (1000, Some(501)));
    assert_eq!((&items[0]["title"], &items[999]["title"]), (&"1 1".into(), &"last".into()));
}

#[tokio::test]
async fn held_matches_are_bounded_in_bytes_and_an_event_says_once_that_some_are_left_out() {
    let fixture = Fixture::stopped(1.0).await;
    let large = |n: usize| format!("{n} {}", "x".repeat(100_000));
    let bytes = "SELECT sum(length(CAST(item AS BLOB))) FROM held_matches";
    for round in 0..3 {
        let titles: Vec<String> = (0..9).map(|n| large(9 * round + n)).collect();
        fixture.hold("exec:a", &titles.iter().map(String::as_str).collect::<Vec<_>>()).await;
        let held: i64 =
            sqlx::query_scalar(bytes).fetch_one(&mut other_program(&fixture).await).await.unwrap();
        assert!(held <= 1024 * 1024, "{held} bytes after round {round}");
    }
    let logged = events(&fixture).await;
    let [(kind, source, Some(detail))] = &logged[..] else { panic!("one event: {logged:?}") };
    assert_eq!((kind.as_str(), source.as_deref()), ("matches_left_out", Some("a")));
    assert!(detail.contains("rule me/all") && detail.contains("1048576 bytes"), "{detail}");
    fixture.enqueue("exec:a", &["last"]).await;
    let document: serde_json::Value = serde_json::from_str(&fixture.rows().await[0].document).unwrap();
    let items = document["items"].as_array().unwrap();
    assert_eq!(document["more"].as_u64().unwrap() + items.len() as u64, 28, "all are counted");
    assert_eq!(items.last().unwrap()["title"], "last");
    // After the delivery there is another event.
    let titles: Vec<String> = (0..12).map(large).collect();
    fixture.hold("exec:a", &titles.iter().map(String::as_str).collect::<Vec<_>>()).await;
    assert_eq!(events(&fixture).await.len(), 2);
    // One that is larger than all may be is held nevertheless.
    fixture.hold("exec:a", &["y".repeat(2_000_000).as_str()]).await;
    let held = "SELECT count(*) FROM held_matches";
    let held: i64 = sqlx::query_scalar(held).fetch_one(&mut other_program(&fixture).await).await.unwrap();
    assert_eq!(held, 1);
}

#[tokio::test]
async fn a_page_that_returns_to_a_text_has_another_key_also_when_its_probes_are_pruned() {
    let fixture = Fixture::stopped(1.0).await;
    for text in ["one", "two", "one"] {
        fixture.page_changed("exec:a", text).await;
    }
    fixture.write(Write::Prune(DeleteBefore::probes(at(1_000_000), at(1_000_000)))).await;
    let left: (i64, i64) = sqlx::query_as(
        "SELECT (SELECT count(*) FROM probes), (SELECT count(*) FROM updates WHERE probe_id IS NULL)",
    )
    .fetch_one(&mut other_program(&fixture).await)
    .await
    .unwrap();
    assert_eq!(left, (0, 3), "the updates stay");
    fixture.page_changed("exec:a", "one").await;
    let keys: std::collections::HashSet<String> =
        fixture.rows().await.into_iter().map(|row| row.key).collect();
    assert_eq!(keys.len(), 4, "each change is delivered");
}
