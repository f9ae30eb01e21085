//! The log as `replay` reads it: its sources, their updates, and the probes that found them.

use super::*;
use tidewatch::store::past::Past;

const HOUR: i64 = 3_600;

async fn replay_logs(store: &Store) -> Vec<Past> {
    store.reader().await.pasts(100).await.unwrap().pasts
}

fn dated(key: &str, secs: i64) -> Present {
    Present { dated: Some(at(secs)), ..present(key, 1) }
}

fn probed(id: SourceId, secs: i64, updates: Vec<Update>, present: Vec<Present>) -> Write {
    let outcome = if updates.is_empty() { ProbeOutcome::Unchanged } else { ProbeOutcome::Updated };
    let observation = Some(Observation { updates, present, ..Observation::default() });
    Write::Ended(Box::new(ProbeRecord { outcome, observation, ..probe_record(id, secs) }))
}

fn failed(id: SourceId, secs: i64) -> Write {
    let error = Some("no answer".to_owned());
    Write::Ended(Box::new(ProbeRecord { outcome: ProbeOutcome::Failed, error, ..probe_record(id, secs) }))
}

/// Four probes of `a` and one that fails, two items of first contact, and three updates: dated,
/// undated, and one that is only an edit.
async fn logged() -> Store {
    let store = Store::new().await;
    let a = store.id("a");
    let undated = Update { occurred: Occurred::Between(at(HOUR), at(2 * HOUR)), ..new_item("undated", 0) };
    let edit = Update { kind: UpdateKind::Edited, ..new_item("old", 3 * HOUR) };
    // One has a date in the future and was not published yet.
    let first = vec![dated("old", -9_000), dated("older", -50_000), dated("announced", 90 * HOUR)];
    store.write(probed(a, 100, vec![], first));
    store.write(probed(a, HOUR, vec![new_item("dated", 2_000)], vec![dated("dated", 2_000)]));
    store.write(failed(a, HOUR + 600));
    store.write(probed(a, 2 * HOUR, vec![undated], vec![Present { dated: None, ..present("undated", 1) }]));
    store.write(probed(a, 4 * HOUR, vec![edit], vec![dated("old", -9_000)]));
    store.flush().await;
    store
}

#[tokio::test]
async fn a_replay_log_has_the_updates_and_the_probes_of_a_source() {
    let store = logged().await;
    let read = store.reader().await.pasts(100).await.unwrap();
    assert_eq!(read.sources, 2, "b has no log, but is there");
    let middle = at(HOUR + HOUR / 2);
    let expected = Past {
        id: store.id("a"),
        name: "a".into(),
        group: Some("g".into()),
        page: false,
        published: vec![at(-50_000), at(-9_000), at(2_000), middle],
        guessed: vec![middle],
        probed: [100, HOUR, HOUR + 600, 2 * HOUR, 4 * HOUR].map(at).to_vec(),
        answered: [100, HOUR, 2 * HOUR, 4 * HOUR].map(at).to_vec(),
    };
    assert_eq!(read.pasts, [expected]);
}

#[tokio::test]
async fn nothing_counts_twice_after_probes_were_pruned() {
    let store = logged().await;
    let before = replay_logs(&store).await;
    let mut connection = store.connection().await;
    let pruned = "DELETE FROM probes WHERE started_at < ?";
    sqlx::query(pruned).bind(at(HOUR + 1).as_millis()).execute(&mut connection).await.unwrap();
    let after = replay_logs(&store).await;
    assert_eq!(after[0].published, before[0].published);
    assert_eq!(after[0].probed, [HOUR + 600, 2 * HOUR, 4 * HOUR].map(at));
    // Without the items of first contact, only the later updates are left.
    let forgotten = "DELETE FROM items WHERE first_seen_at < ?";
    sqlx::query(forgotten).bind(at(HOUR).as_millis()).execute(&mut connection).await.unwrap();
    assert_eq!(replay_logs(&store).await[0].published, before[0].published[2..]);
}

#[tokio::test]
async fn a_feed_that_was_empty_at_first_has_no_first_contact_to_count() {
    let store = Store::new().await;
    let b = store.id("b");
    store.write(probed(b, 100, vec![], vec![]));
    store.write(probed(b, 200, vec![new_item("one", 150)], vec![dated("one", 150)]));
    store.write(probed(b, 300, vec![], vec![dated("one", 150)]));
    store.flush().await;
    assert_eq!(replay_logs(&store).await[0].published, [at(150)]);
}

#[tokio::test]
async fn a_removed_source_or_one_with_two_probes_has_no_replay_log() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    [100, 200].into_iter().for_each(|secs| store.write(probed(a, secs, vec![], vec![])));
    [100, 200, 300].into_iter().for_each(|secs| store.write(probed(b, secs, vec![], vec![])));
    store.flush().await;
    let names = async || replay_logs(&store).await.into_iter().map(|past| past.name).collect::<Vec<_>>();
    assert_eq!(names().await, ["b"]);
    store.write(failed(a, 300));
    store.flush().await;
    assert_eq!(names().await, ["a", "b"]);
    let removed = "UPDATE sources SET state = 'removed' WHERE name = 'b'";
    sqlx::query(removed).execute(&mut store.connection().await).await.unwrap();
    let read = store.reader().await.pasts(100).await.unwrap();
    assert_eq!((read.sources, read.pasts.len()), (1, 1));
    assert_eq!(read.pasts[0].name, "a");
}

#[tokio::test]
async fn a_sample_is_spread_evenly_and_has_the_requested_size() {
    let store = Store::new().await;
    let names: Vec<String> = (0..250).map(|n| format!("s{n:03}")).collect();
    let list = names.iter().map(|name| listed(name, &format!("http://{name}/"))).collect();
    let (reply, synced) = oneshot::channel();
    store.write(Write::Sync { listed: list, gone: vec![], at: at(50), reply });
    patience(LONGEST, synced).await.unwrap().unwrap();
    let logged = "INSERT INTO probes (source_id, due_at, started_at, duration_ms, outcome, policy, reason)
         SELECT sources.id, value, value, 1, 'unchanged', 'uniform', 'x' FROM sources, json_each('[1000,2000,3000]')
         WHERE name LIKE 's%'";
    sqlx::query(logged).execute(&mut store.connection().await).await.unwrap();
    let reader = store.reader().await;
    let sampled = async |sample: usize| reader.pasts(sample).await.unwrap();
    let five = sampled(5).await;
    assert_eq!(five.sources, 252);
    let names_of = |pasts: &[Past]| pasts.iter().map(|past| past.name.clone()).collect::<Vec<_>>();
    assert_eq!(names_of(&five.pasts), ["s000", "s050", "s100", "s150", "s200"]);
    for sample in [1, 149, 200, 249, 250, 251, 1_000] {
        let pasts = sampled(sample).await.pasts;
        assert_eq!(pasts.len(), sample.min(250), "{sample}");
        assert!(pasts.iter().all(|past| past.probed.len() == 3), "each has its log");
    }
    assert_eq!(names_of(&sampled(1_000).await.pasts), names);
}
