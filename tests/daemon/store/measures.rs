//! How well probes were spent: counted by hand, by the reader and by the views.

use tidewatch::store::measures::Measures;
use tidewatch::store::retention::DeleteBefore;
use tidewatch_core::engine::slot_stats::SlotStats;

use super::*;

/// 2023-11-15 00:00 UTC on the clock of these tests, which starts on the evening before.
const MIDNIGHT: i64 = 6_400;

type DayRow = (String, String, i64, i64, i64, i64, i64, Option<f64>);

fn update(kind: UpdateKind, key: &str, occurred: Occurred) -> Update {
    Update { kind, occurred, ..new_item(key, 0) }
}

fn probe(id: SourceId, secs: i64, outcome: ProbeOutcome, updates: Vec<Update>) -> Write {
    let error = (outcome == ProbeOutcome::Failed).then(|| "no answer".to_owned());
    let observation = (!updates.is_empty()).then(|| Observation { updates, ..Observation::default() });
    Write::Ended(Box::new(ProbeRecord { outcome, observation, error, ..probe_record(id, secs) }))
}

/// Each probe takes a second. Delays of `a`: 100 s and 450.5 s, after midnight 100 s and 300.5 s; of
/// `b`: 10 s. There is a `c` that was never probed.
async fn logged() -> Store {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    sync(&store, &["a", "b", "c"], &[]).await;
    let first = vec![
        update(UpdateKind::New, "dated", Occurred::At(at(901))),
        update(UpdateKind::New, "undated", Occurred::Between(at(100), at(1_001))),
    ];
    let edit = vec![update(UpdateKind::Edited, "dated", Occurred::At(at(MIDNIGHT - 100)))];
    let change = vec![update(UpdateKind::Changed, "page", Occurred::Between(at(MIDNIGHT), at(7_001)))];
    store.write(probe(a, 100, ProbeOutcome::Unchanged, vec![]));
    store.write(probe(a, 1_000, ProbeOutcome::Updated, first));
    store.write(probe(a, 2_000, ProbeOutcome::NotModified, vec![]));
    store.write(probe(a, 3_000, ProbeOutcome::Failed, vec![]));
    // Sent on the one day, back on the other.
    store.write(probe(a, MIDNIGHT - 1, ProbeOutcome::Updated, edit));
    store.write(probe(a, MIDNIGHT, ProbeOutcome::Unchanged, vec![]));
    store.write(probe(a, 7_000, ProbeOutcome::Updated, change));
    store.write(probe(b, 500, ProbeOutcome::Failed, vec![]));
    store.write(probe(b, 600, ProbeOutcome::Updated, vec![new_item("only", 591)]));
    store.flush().await;
    store
}

async fn sync(store: &Store, names: &[&str], gone: &[&str]) {
    let (reply, synced) = oneshot::channel();
    let listed = names.iter().map(|name| listed(name, &format!("http://{name}/"))).collect();
    let gone = gone.iter().map(|name| (*name).to_owned()).collect();
    store.write(Write::Sync { listed, gone, at: at(50), reply });
    patience(LONGEST, synced).await.unwrap().unwrap();
}

async fn id_of(store: &Store, name: &str) -> SourceId {
    let sources = store.reader().await.sources().await.unwrap();
    sources.iter().find(|source| source.name == name).unwrap().id
}

fn measures(counts: [u64; 5], average: Option<f64>, median: Option<f64>) -> Measures {
    let [validations, useful_validations, freshness_misses, failed, updates] = counts;
    Measures {
        validations,
        useful_validations,
        freshness_misses,
        failed,
        updates,
        average_delay_s: average,
        median_delay_s: median,
    }
}

#[tokio::test]
async fn measures_are_those_counted_by_hand() {
    let store = logged().await;
    let (a, b, c) = (store.id("a"), store.id("b"), id_of(&store, "c").await);
    let reader = store.reader().await;

    let all = reader.measures(Timestamp::MIN, Timestamp::MAX).await.unwrap();
    assert_eq!(all.sources.len(), 3);
    assert_eq!(all.sources[&a], measures([6, 3, 3, 1, 4], Some(237.75), Some(200.25)));
    assert_eq!(all.sources[&b], measures([1, 1, 0, 1, 1], Some(10.0), Some(10.0)));
    assert_eq!(all.sources[&c], Measures::default(), "never probed");
    assert_eq!(all.total, measures([7, 4, 3, 2, 5], Some(192.2), Some(100.0)), "over all updates");

    // Its first instant is in it, its last is not; b has nothing there.
    let part = reader.measures(at(1_000), at(MIDNIGHT)).await.unwrap();
    assert_eq!(part.sources[&a], measures([3, 2, 1, 1, 2], Some(275.25), Some(275.25)));
    assert_eq!(part.sources[&b], Measures::default());
    assert_eq!(part.total, part.sources[&a]);
    let rest = reader.measures(at(MIDNIGHT), Timestamp::MAX).await.unwrap();
    assert_eq!(rest.sources[&a], measures([2, 1, 1, 0, 2], Some(200.25), Some(200.25)));
    let none = reader.measures(at(1_000), at(1_000)).await.unwrap();
    assert_eq!((none.sources.len(), none.total), (3, Measures::default()));
}

#[tokio::test]
async fn views_give_the_readers_figures_by_day_and_over_all() {
    let store = logged().await;
    let reader = store.reader().await;
    let mut connection = store.connection().await;
    let days: Vec<DayRow> = sqlx::query_as("SELECT * FROM readable_daily_measures ORDER BY source, day")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    let day = |source: &str, day: &str, [v, u, m, f, n]: [i64; 5], delay| {
        (source.to_owned(), day.to_owned(), v, u, m, f, n, Some(delay))
    };
    let wanted = [
        day("a", "2023-11-14", [4, 2, 2, 1, 2], 275.25),
        day("a", "2023-11-15", [2, 1, 1, 0, 2], 200.25),
        day("b", "2023-11-14", [1, 1, 0, 1, 1], 10.0),
    ];
    assert_eq!(days, wanted, "no row for a day on which nothing was done");
    for (source, day, validations, useful, misses, failed, updates, delay) in days {
        let midnight = Timestamp::parse_iso(&format!("{day}T00:00:00Z")).unwrap();
        let read = reader.measures(midnight, midnight + Span::from_days(1)).await.unwrap();
        let read = &read.sources[&id_of(&store, &source).await];
        let counts = [validations, useful, misses, failed, updates].map(i64::unsigned_abs);
        assert_eq!(&measures(counts, delay, read.median_delay_s), read, "{source} {day}");
    }

    let all = reader.measures(Timestamp::MIN, Timestamp::MAX).await.unwrap();
    let rows = sqlx::query("SELECT m.*, name FROM measures m JOIN sources s ON s.id = source_id")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(rows.len(), 3, "those without probes too");
    for row in rows {
        let columns = ["validations", "useful_validations", "freshness_misses", "failed", "updates"];
        let counts = columns.map(|column| row.get::<i64, _>(column).unsigned_abs());
        let read = &all.sources[&SourceId(row.get("source_id"))];
        let viewed = measures(counts, row.get("average_delay_s"), read.median_delay_s);
        assert_eq!(&viewed, read, "{}", row.get::<String, _>("name"));
    }
    let readable: Vec<(String, String, i64)> =
        sqlx::query_as("SELECT source, policy, validations FROM readable_measures ORDER BY source")
            .fetch_all(&mut connection)
            .await
            .unwrap();
    let wanted = [("a", 6), ("b", 1), ("c", 0)].map(|(name, n)| (name.to_owned(), "auto".to_owned(), n));
    assert_eq!(readable, wanted);
}

#[tokio::test]
async fn updates_keep_their_day_when_its_probes_are_pruned() {
    let store = logged().await;
    store.write(Write::Prune(DeleteBefore::probes(at(MIDNIGHT), at(MIDNIGHT))));
    store.flush().await;
    let mut connection = store.connection().await;
    let days: Vec<DayRow> = sqlx::query_as("SELECT * FROM readable_daily_measures ORDER BY source, day")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(days[0], ("a".into(), "2023-11-14".into(), 0, 0, 0, 0, 2, Some(275.25)));
    assert_eq!(days[2], ("b".into(), "2023-11-14".into(), 0, 0, 0, 0, 1, Some(10.0)));
}

#[tokio::test]
async fn a_removed_source_is_in_no_total_and_stays_in_the_views() {
    let store = logged().await;
    sync(&store, &["a", "c"], &["b"]).await;
    let all = store.reader().await.measures(Timestamp::MIN, Timestamp::MAX).await.unwrap();
    assert_eq!(all.sources.len(), 2);
    assert_eq!(all.total, all.sources[&store.id("a")]);
    assert_eq!(store.count("SELECT validations FROM readable_measures WHERE source = 'b'").await, 1);
}

#[tokio::test]
async fn the_view_over_all_reads_by_index_and_sorts_nothing() {
    let store = Store::new().await;
    let steps: Vec<(i64, i64, i64, String)> =
        sqlx::query_as("EXPLAIN QUERY PLAN SELECT * FROM readable_measures")
            .fetch_all(&mut store.connection().await)
            .await
            .unwrap();
    let plan = steps.into_iter().map(|step| step.3).collect::<Vec<_>>().join("\n");
    assert!(plan.contains("probes USING INDEX probes_by_source"), "{plan}");
    assert!(plan.contains("updates USING INDEX updates_by_source"), "{plan}");
    assert!(!plan.contains("TEMP B-TREE"), "{plan}");
}

#[tokio::test]
async fn slot_statistics_are_summed_and_pruned() {
    let store = Store::new().await;
    assert_eq!(store.reader().await.loads(at(0), Timestamp::MAX).await.unwrap(), None);
    let load = |since: i64, due, latest| SlotStats {
        until: at(since + 60),
        due,
        sampled: 5,
        late: 2,
        late_for: Span::from_secs(latest + 1),
        latest: Span::from_secs(latest),
        waiting: due,
        undiscovered_hours: 0.5,
        work: 1.5,
        tardy: 2,
        tardy_for: Span::from_secs(latest + 2),
        tardiest: Span::from_secs(latest),
        overdue: due,
        ..SlotStats::new(at(since))
    };
    for minute in [load(0, 7, 90), load(60, 10, 30), load(120, 3, 40)] {
        store.write(Write::Load(minute));
    }
    store.flush().await;
    let expected = SlotStats {
        since: at(60),
        until: at(180),
        due: 13,
        sampled: 10,
        late: 4,
        late_for: Span::from_secs(72),
        latest: Span::from_secs(40),
        waiting: 3,
        undiscovered_hours: 1.0,
        work: 3.0,
        tardy: 4,
        tardy_for: Span::from_secs(74),
        tardiest: Span::from_secs(40),
        overdue: 3,
    };
    assert_eq!(store.reader().await.loads(at(1), Timestamp::MAX).await.unwrap(), Some(expected));
    store.write(Write::Prune(DeleteBefore::probes(at(100), at(100))));
    store.flush().await;
    assert_eq!(
        store.reader().await.loads(at(0), Timestamp::MAX).await.unwrap().map(|loads| loads.since),
        Some(at(120))
    );
}
