//! Writes that SQLite refuses for their content: the rest of their batch is stored, and the writer goes on.

use tidewatch_core::engine::slot_stats::SlotStats;

use super::*;

/// The store refuses updates with this key.
const REFUSE: &str = "CREATE TRIGGER refuse BEFORE INSERT ON updates WHEN NEW.key = 'refused'
                      BEGIN SELECT RAISE(ABORT, 'refused by a trigger'); END";

fn with_update(id: SourceId, secs: i64, key: &str) -> Write {
    let seen = Observation {
        updates: vec![new_item(key, secs)],
        present: vec![present(key, 1)],
        ..Observation::default()
    };
    Write::Ended(Box::new(ProbeRecord {
        outcome: ProbeOutcome::Updated,
        observation: Some(seen),
        ..probe_record(id, secs)
    }))
}

#[tokio::test]
async fn the_end_of_a_probe_that_is_refused_is_stored_as_failed_and_the_rest_of_its_batch_as_it_is() {
    let mut store = Store::with(REFUSE).await;
    let (a, b) = (store.id("a"), store.id("b"));
    // All in one batch: the writer runs on this thread.
    store.write(Write::Started(vec![attempt(a, 100), attempt(b, 100)]));
    store.write(with_update(b, 100, "one"));
    store.write(with_update(a, 100, "refused"));
    store.write(with_update(b, 200, "two"));
    store.flush().await;
    assert!(matches!(store.handle.receipts.recv().await, Some(Receipt::Started(_))));
    for id in [b, a, b] {
        assert_eq!(store.handle.receipts.recv().await, Some(Receipt::Ended(id)));
    }
    assert_eq!(store.count("SELECT count(*) FROM updates").await, 2);
    assert_eq!(store.count("SELECT count(*) FROM flights").await, 0);
    let failed = "SELECT count(*) FROM probes WHERE outcome = 'failed' AND error LIKE '%cannot be stored'";
    assert_eq!(store.count(failed).await, 1);
    let named = "SELECT count(*) FROM events JOIN sources ON sources.id = source_id
                 WHERE events.kind = 'write_refused' AND name = 'a' AND detail LIKE '%refused by a trigger%'";
    assert_eq!(store.count(named).await, 1);
    // The next one is stored as usual.
    store.write(with_update(a, 300, "three"));
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM updates").await, 3);
    store.close().await;
}

#[tokio::test]
async fn a_number_that_is_not_finite_is_refused_alone() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let rate = |source, per_week| RateRecord {
        source,
        fitted_at: at(100),
        origin: "individual",
        cycle: "week",
        time_zone: "UTC".to_owned(),
        segments: vec![(0, 604_800, 1.0)],
        per_week,
        dispersion: None,
        updates: 5,
        since: None,
        habits: None,
    };
    let load = SlotStats { undiscovered_hours: f64::INFINITY, until: at(160), ..SlotStats::new(at(100)) };
    store.write(Write::Load(load));
    store.write(Write::Rates(vec![rate(a, f64::NAN), rate(b, 168.0)]));
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM loads").await, 0);
    let stored: Vec<(i64, f64)> = sqlx::query_as("SELECT source_id, per_week FROM fits")
        .fetch_all(&mut store.connection().await)
        .await
        .unwrap();
    assert_eq!(stored, [(b.0, 168.0)]);
    assert_eq!(store.count("SELECT count(*) FROM events WHERE kind = 'write_refused'").await, 2);
    store.close().await;
}
