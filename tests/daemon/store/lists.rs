//! The configured list is written to the store: all of it at a start, the changes while running.

use super::*;

/// Name, URL, state and whether the address changed since the last probe.
async fn rows(connection: &mut SqliteConnection) -> Vec<(String, String, String, bool)> {
    sqlx::query_as("SELECT name, url, state, moved FROM sources ORDER BY id")
        .fetch_all(connection)
        .await
        .unwrap()
}

#[tokio::test]
async fn a_start_applies_the_whole_list() {
    let dir = TempDir::new().unwrap();
    let mut connection = open::for_writing(&dir.path().join("t.db")).await.unwrap();
    let names = |found: &HashMap<String, Remembered>| -> Vec<(i64, String)> {
        let mut names: Vec<_> = found.values().map(|known| (known.id.0, known.name.clone())).collect();
        names.sort();
        names
    };
    let one = |id: i64, name: &str| (id, name.to_owned());
    let first = [listed("c", "http://c/"), listed("a", "http://a/"), listed("b", "http://b/")];
    let found = load(&mut connection, &first, at(0), at(0)).await;
    assert_eq!(names(&found), [one(1, "c"), one(2, "a"), one(3, "b")], "numbers in the order of the list");
    let second = [listed("a", "http://elsewhere/"), listed("d", "http://d/"), listed("b", "http://b/")];
    let found = load(&mut connection, &second, at(10), at(0)).await;
    assert_eq!(names(&found), [one(2, "a"), one(3, "b"), one(4, "d")]);
    let row = |name: &str, url: &str, state: &str, moved| (name.into(), url.into(), state.into(), moved);
    let wanted = [
        row("c", "http://c/", "removed", false),
        row("a", "http://elsewhere/", "learning", true),
        row("b", "http://b/", "learning", false),
        row("d", "http://d/", "learning", false),
    ];
    assert_eq!(rows(&mut connection).await, wanted);
    let found = load(&mut connection, &first[..1], at(20), at(0)).await;
    assert_eq!(names(&found), [one(1, "c")], "back under its number");
}

#[tokio::test]
async fn a_first_due_time_does_not_overwrite_that_of_a_later_probe() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let memory = SourceMemory { due: Due::At(at(900)), ..SourceMemory::default() };
    store.write(Write::Ended(Box::new(ProbeRecord { memory, ..probe_record(a, 100) })));
    store.write(Write::FirstDue(vec![(a, at(5)), (b, at(6))]));
    store.flush().await;
    let due: Vec<i64> = sqlx::query_scalar("SELECT next_probe_at FROM sources ORDER BY name")
        .fetch_all(&mut store.connection().await)
        .await
        .unwrap();
    assert_eq!(due, [at(900).as_millis(), at(6).as_millis()]);
}

#[tokio::test]
async fn the_list_is_applied_and_learned_state_is_kept() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let validators = ValidatorsChange::Replace {
        url: "http://a/".into(),
        etag: Some(b"\"1\"".to_vec()),
        last_modified: None,
    };
    let memory = SourceMemory { known_updates: 12, due: Due::At(at(900)), ..SourceMemory::default() };
    store.write(Write::Ended(Box::new(ProbeRecord { validators, memory, ..probe_record(a, 100) })));
    let sync = |listed: Vec<Listed>, gone: &[&str]| {
        let (reply, synced) = oneshot::channel();
        let gone = gone.iter().map(|name| (*name).to_owned()).collect();
        store.write(Write::Sync { listed, gone, at: at(200), reply });
        async { patience(LONGEST, synced).await.unwrap().unwrap() }
    };
    // b goes, c comes, a moves.
    let synced = sync(vec![listed("a", "http://elsewhere/"), listed("c", "http://c/")], &["b"]).await;
    assert_eq!(synced.ids["a"], a);
    assert_eq!(synced.removed, vec![b]);
    assert_eq!(synced.moved, HashSet::from(["a".to_owned()]));
    assert_eq!(synced.stored, HashSet::from(["a".to_owned()]), "c is new");
    // A repeated sync gives the same result.
    let again = sync(vec![listed("a", "http://elsewhere/"), listed("c", "http://c/")], &["b"]).await;
    assert_eq!((again.ids["a"], again.removed), (a, vec![b]));
    assert!(again.stored.contains("c"), "c was stored by the first sync");
    let inputs = store.reader().await.probe_inputs(a).await.unwrap();
    assert_eq!(
        store.reader().await.request_inputs(a).await.unwrap().etag,
        None,
        "the new address never gave one"
    );
    assert!(inputs.seen.moved);
    assert_eq!(store.count("SELECT known_updates FROM sources WHERE name = 'a'").await, 12);
    assert_eq!(store.count("SELECT count(*) FROM sources WHERE state = 'removed' AND name = 'b'").await, 1);
    // b returns under its old number.
    let synced = sync(vec![listed("a", "http://elsewhere/"), listed("b", "http://b/")], &[]).await;
    assert_eq!(synced.ids["b"], b);
    assert!(synced.stored.contains("b"), "it is back");
    assert!(synced.removed.is_empty() && synced.moved.is_empty());
}
