//! What is deleted, and what a stopped daemon leaves behind.

use tidewatch::store::record::DocumentRecord;
use tidewatch::store::retention::DeleteBefore;
use tidewatch_core::model::silence::LearnedUntil;

use super::*;

/// Prunes until nothing is left to be deleted.
pub(super) async fn prune(store: &Store, before: DeleteBefore) {
    store.write(Write::Prune(before));
    // Each part queues the next one; a flush is handled between them.
    for _ in 0..10 {
        store.flush().await;
    }
}

fn observed(id: SourceId, items: usize, secs: i64) -> Write {
    let keys: Vec<String> = (0..items).map(|number| number.to_string()).collect();
    let seen = Observation {
        present: keys.iter().map(|key| present(key, 1)).collect(),
        updates: vec![new_item("0", secs)],
        gap: true,
        ..Observation::default()
    };
    let beliefs = Some(believed(&[1]));
    Write::Ended(Box::new(ProbeRecord { observation: Some(seen), beliefs, ..probe_record(id, secs) }))
}

#[tokio::test]
async fn each_kind_of_row_has_its_age() {
    let store = Store::new().await;
    let id = store.id("a");
    for secs in [100, 900] {
        store.write(observed(id, 1, secs));
        store.write(Write::Event(EventRecord { at: at(secs), kind: "x", source: None, detail: None }));
    }
    store.flush().await;
    let mut connection = store.connection().await;
    sqlx::query("UPDATE updates SET kind = 'changed'").execute(&mut connection).await.unwrap();
    let robots = "INSERT INTO robots (origin, fetched_at, http_status, body) VALUES ('http://old', 0, 200, x''), ('http://new', 1700000000000, 200, x'')";
    sqlx::query(robots).execute(&mut connection).await.unwrap();
    let counts = async || {
        let of = |table: &str| format!("(SELECT count(*) FROM {table})");
        let tables = ["probes", "updates", "gaps", "events", "robots"].map(of).join(", ");
        let query = sqlx::AssertSqlSafe(format!("SELECT json_array({tables})"));
        let counts: String =
            sqlx::query_scalar(query).fetch_one(&mut store.connection().await).await.unwrap();
        counts
    };
    let none = DeleteBefore::probes(at(0), at(0));
    prune(&store, none).await;
    assert_eq!(counts().await, "[2,1,2,2,1]", "a robots.txt that was not asked for lately");
    prune(&store, DeleteBefore { probes: at(500), ..none }).await;
    assert_eq!(counts().await, "[1,1,2,2,1]");
    prune(&store, DeleteBefore { events: Some(at(500)), ..none }).await;
    assert_eq!(counts().await, "[1,1,2,1,1]");
    prune(&store, DeleteBefore { updates: Some(at(500)), ..none }).await;
    assert_eq!(counts().await, "[1,0,1,1,1]");
}

#[tokio::test]
async fn hosts_that_ask_for_nothing_any_more_are_deleted() {
    let store = Store::new().await;
    let hosts = "INSERT INTO hosts (host, public, paused_until, crawl_delay_ms) VALUES
         ('paused', 1, 1700000900000, 0), ('over', 1, 1700000100000, 0), ('never', 1, NULL, 0),
         ('slow', 1, NULL, 5000), ('slow and over', 1, 1700000100000, 5000)";
    sqlx::query(hosts).execute(&mut store.connection().await).await.unwrap();
    prune(&store, DeleteBefore::probes(at(500), at(600))).await;
    let left = "SELECT group_concat(host, ', ') FROM (SELECT host FROM hosts ORDER BY host)";
    let left: String = sqlx::query_scalar(left).fetch_one(&mut store.connection().await).await.unwrap();
    assert_eq!(left, "paused, slow, slow and over");
}

#[tokio::test]
async fn hosts_with_a_crawl_delay_are_not_many_more_than_sources() {
    let store = Store::new().await;
    let hosts = "WITH RECURSIVE n (value) AS (SELECT 1 UNION ALL SELECT value + 1 FROM n LIMIT 3000)
         INSERT INTO hosts (host, public, paused_until, crawl_delay_ms)
         SELECT value, 1, iif(value % 4 = 0, 1700000900000, NULL), 5000 FROM n";
    sqlx::query(hosts).execute(&mut store.connection().await).await.unwrap();
    prune(&store, DeleteBefore::probes(at(500), at(600))).await;
    let counts = "SELECT json_array(count(*) <= 1500, count(paused_until)) FROM hosts";
    let counts: String = sqlx::query_scalar(counts).fetch_one(&mut store.connection().await).await.unwrap();
    assert_eq!(counts, "[1,750]", "each pause is kept");
}

#[tokio::test]
async fn what_was_learned_of_a_source_that_was_removed_long_ago_is_deleted() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    for id in [a, b] {
        store.write(observed(id, 1_200, 100));
    }
    let (reply, synced) = oneshot::channel();
    store.write(Write::Sync { listed: Vec::new(), gone: vec!["a".to_owned()], at: at(200), reply });
    patience(LONGEST, synced).await.unwrap().unwrap();
    let kept = "SELECT (SELECT count(*) FROM items) + (SELECT count(*) FROM histories)";
    prune(&store, DeleteBefore::probes(at(50), at(300))).await;
    assert_eq!(store.count(kept).await, 2 * 1_201, "not yet");
    prune(&store, DeleteBefore::probes(at(250), at(300))).await;
    assert_eq!(store.count(kept).await, 1_201, "the other source keeps its own");
    let removed = "SELECT count(*) FROM sources WHERE name = 'a' AND moved AND known_items = 0";
    assert_eq!(store.count(removed).await, 1, "its next probe is a first contact");
    let inputs = store.reader().await.probe_inputs(a).await.unwrap();
    assert!(inputs.seen.moved && inputs.seen.items.is_empty() && inputs.history.is_none());
    assert_eq!(store.count("SELECT count(*) FROM updates").await, 2);
}

#[tokio::test]
async fn items_that_were_never_counted_are_bounded_too() {
    let store = Store::new().await;
    let id = store.id("a");
    // As an earlier version left them.
    sqlx::query(
        "WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 40)
         INSERT INTO items (source_id, key_hash, fingerprint, first_seen_at, last_seen_at, left_at)
         SELECT ?, n, 1, 0, n, n FROM n",
    )
    .bind(id.0)
    .execute(&mut store.connection().await)
    .await
    .unwrap();
    let learned = LearnedUntil { at: at(100), review_at: at(100) };
    let document = DocumentRecord {
        body_hash: Some(1),
        learned,
        fitted_at: None,
        review_settings: 0,
        max_items: 3,
        page_read_as: None,
    };
    let seen = Observation { present: vec![present("new", 1)], ..Observation::default() };
    let record = ProbeRecord { document: Some(document), observation: Some(seen), ..probe_record(id, 100) };
    store.write(Write::Ended(Box::new(record)));
    store.flush().await;
    // Four documents of three items, less one document: those that left last, and the one that is there.
    assert_eq!(store.count("SELECT count(*) FROM items").await, 9);
    assert_eq!(store.count("SELECT min(left_at) FROM items").await, 33);
    assert_eq!(store.count("SELECT known_items FROM sources WHERE items_forgotten IS NOT NULL").await, 9);
}

#[tokio::test]
async fn a_copy_of_the_file_alone_is_whole_after_a_stop() {
    let store = Store::new().await;
    let id = store.id("a");
    // Another connection of the same process, as a daemon has them.
    let reader = store.reader().await;
    assert_eq!(reader.sources().await.unwrap().len(), 2);
    for secs in 0..50 {
        store.write(Write::Ended(Box::new(probe_record(id, 100 + secs))));
    }
    let (folder, path) = store.close().await;
    let copy = folder.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    let mut copied = other_program(&copy).await;
    let probes: i64 =
        sqlx::query_scalar("SELECT count(*) FROM probes").fetch_one(&mut copied).await.unwrap();
    assert_eq!(probes, 50);
}

#[tokio::test]
async fn a_new_file_gives_room_back() {
    let store = Store::new().await;
    let id = store.id("a");
    let error = Some("x".repeat(4_000));
    for secs in 0..1_000 {
        let record = ProbeRecord { error: error.clone(), ..probe_record(id, 100 + secs) };
        store.write(Write::Ended(Box::new(record)));
    }
    store.flush().await;
    let pages = "SELECT page_count FROM pragma_page_count";
    let full = store.count(pages).await;
    prune(&store, DeleteBefore::probes(at(2_000), at(2_000))).await;
    let pruned = store.count(pages).await;
    assert!(pruned < full / 2, "{pruned} pages of {full}");
}

#[tokio::test]
async fn what_was_logged_by_a_clock_in_1970_is_not_old_when_that_is_set_right() {
    let store = Store::new().await;
    let id = store.id("a");
    // A boot in 1970, five minutes of running, and then network time.
    let (right, years) = (at(300), Span::from_secs(1_700_000_000));
    store.write(clock_set(-years, at(0) - years));
    store.write(Write::Ended(Box::new(probe_record(id, 100 - 1_700_000_000))));
    store.write(Write::Event(EventRecord { at: at(100) - years, kind: "x", source: None, detail: None }));
    store.write(clock_set(years, right));
    store.flush().await;
    let rows = "SELECT (SELECT count(*) FROM probes) + (SELECT count(*) FROM events WHERE kind = 'x')";
    prune(&store, DeleteBefore { events: Some(at(-900)), ..DeleteBefore::probes(at(-900), right) }).await;
    assert_eq!(store.count(rows).await, 2);
    // They become old as others do.
    prune(&store, DeleteBefore { events: Some(at(200)), ..DeleteBefore::probes(at(200), right) }).await;
    assert_eq!(store.count(rows).await, 0);
}
