//! Writes that are committed together.

use sqlx::AssertSqlSafe;
use tidewatch::store::record::{ComparedProbe, DocumentRecord, StoredColumns};
use tidewatch_core::engine::rule_counts::{RuleOutcomes, RuleState};
use tidewatch_core::model::probe_forecast::ProbeForecast;
use tidewatch_core::model::silence::LearnedUntil;

use super::*;

/// All rows of all tables, as text. The seed of a store is random.
async fn rows_of(store: &Store) -> Vec<String> {
    let mut connection = store.connection().await;
    let tables: Vec<(String, String)> = sqlx::query_as(
        "SELECT t.name, group_concat('quote(' || c.name || ')', ' || '' | '' || ')
         FROM sqlite_schema t JOIN pragma_table_info(t.name) c
         WHERE t.type = 'table' AND t.name NOT LIKE '\\_%' ESCAPE '\\' AND t.name <> 'meta' GROUP BY t.name",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    let mut rows = Vec::new();
    for (table, columns) in tables {
        let query = format!("SELECT '{table}: ' || {columns} FROM {table} ORDER BY 1");
        let of_table: Vec<String> =
            sqlx::query_scalar(AssertSqlSafe(query)).fetch_all(&mut connection).await.unwrap();
        rows.extend(of_table);
    }
    rows
}

fn document(body_hash: u64, learned: i64, review: i64) -> DocumentRecord {
    DocumentRecord {
        max_items: 10_000,
        body_hash: Some(body_hash),
        learned: LearnedUntil { at: at(learned), review_at: at(review) },
        fitted_at: None,
        review_settings: 7,
        page_read_as: Some(u64::MAX - 1),
    }
}

fn rates_at(source: SourceId, secs: i64) -> Write {
    Write::Rates(vec![RateRecord {
        source,
        fitted_at: at(secs),
        origin: "individual",
        cycle: "week",
        time_zone: "UTC".to_owned(),
        segments: vec![(0, 604_800, 1.0)],
        per_week: 168.0,
        dispersion: None,
        updates: 20,
        since: None,
        habits: None,
    }])
}

fn ended(id: SourceId, n: i64) -> ProbeRecord {
    let key = format!("item {}", n % 7);
    let observation = Observation {
        updates: vec![new_item(&key, n)],
        present: vec![present(&key, n as u64), present("always", 1)],
        gap: n % 5 == 0,
        page: (n % 4 == 0).then(|| PageText { title: None, text: key.clone(), fingerprint: n as u64 }),
        ..Observation::default()
    };
    let validators = match n % 3 {
        0 => ValidatorsChange::Keep,
        1 => ValidatorsChange::Refresh { etag: Some(vec![b'"', n as u8, 0xff]), last_modified: None },
        _ => ValidatorsChange::Replace {
            url: format!("http://a/{n}"),
            etag: None,
            last_modified: Some(b"now".to_vec()),
        },
    };
    let host = HostRecord {
        key: "a".into(),
        public: true,
        paused_until: Some(at(n)),
        crawl_delay: Span::from_secs(n),
    };
    let event = |kind| EventRecord { at: at(n), kind, source: Some(id), detail: None };
    let forecast = ProbeForecast { updates: 0.5, dispersion: 2.0, overflow: Some(0.25) };
    let compared = ComparedProbe {
        forecast,
        found: 1,
        overflowed: n % 5 == 0,
        false_alarms: 0.001,
        burst: false,
        went_quiet: n % 2 == 0,
        quiet_ended: false,
        rules: RuleOutcomes::default(),
    };
    let state = RuleState { rule: "p/r".into(), source: Some(id), counted: n as u32, executable: None };
    let document = document(n as u64, n, n * 2);
    ProbeRecord {
        observation: (n % 3 != 0).then_some(observation),
        error: (n % 6 == 0).then(|| format!("error {n}")),
        document: (n % 3 != 0).then_some(document),
        beliefs: (n % 3 != 0).then(|| believed(&n.to_le_bytes())),
        events: vec![event("rests"), event("quiet")],
        host: (n % 4 == 0).then_some(host),
        compared: (n % 3 != 0).then_some(compared),
        rules: vec![state],
        validators,
        ..probe_record(id, n)
    }
}

/// The n-th write, in an order that no engine gives: two of a source are often in one transaction.
fn write(ids: [SourceId; 2], n: i64) -> Write {
    let id = ids[usize::from(n * 31 % 7 < 3)];
    let due = DueChange {
        source: id,
        due: Due::At(at(n)),
        reason: Reason::Plan,
        asked_by: Policy::Plan,
        rule: None,
    };
    match n * 17 % 11 {
        0..=4 => Write::Ended(Box::new(ended(id, n))),
        5 | 6 => Write::Started(ids.map(|id| attempt(id, n)).to_vec()),
        7 => Write::Cancelled(id),
        8 => Write::Due(vec![due]),
        9 => Write::FirstDue(vec![(id, at(n))]),
        _ => Write::Event(EventRecord { at: at(n), kind: "started", source: None, detail: None }),
    }
}

#[tokio::test]
async fn writes_that_are_committed_together_leave_the_same_rows_as_one_by_one() {
    let (together, apart) = (Store::new().await, Store::new().await);
    let ids = ["a", "b"].map(|name| together.id(name));
    for n in 1..150 {
        together.write(write(ids, n));
        apart.write(write(ids, n));
        apart.flush().await;
    }
    together.flush().await;
    let (together, apart) = (rows_of(&together).await, rows_of(&apart).await);
    assert!(together.iter().filter(|row| row.starts_with("probes: ")).count() > 60);
    assert_eq!(together, apart);
}

#[tokio::test]
async fn a_start_is_answered_with_what_the_request_needs() {
    let mut store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let validators = ValidatorsChange::Replace {
        url: "http://a/".into(),
        etag: Some(b"W/\"x\xff\"".to_vec()),
        last_modified: None,
    };
    let document = Some(document(u64::MAX, 100, 900));
    let mut record = ProbeRecord { validators, document, ..probe_record(a, 100) };
    record.memory.burst.newest = Some(at(40));
    store.write(Write::Ended(Box::new(record)));
    store.flush().await;
    assert_eq!(store.handle.receipts.recv().await, Some(Receipt::Ended(a)));
    let hash = Some(store.count("SELECT state_hash FROM sources WHERE name = 'a'").await);
    store.write(Write::Started(vec![attempt(b, 200), attempt(a, 200)]));
    let inputs = RequestInputs {
        validators_url: Some("http://a/".into()),
        etag: Some(b"W/\"x\xff\"".to_vec()),
        last_modified: None,
        body_hash: Some(u64::MAX),
        last_answer: Some(at(100)),
        newest: Some(at(40)),
        learned: Some(LearnedUntil { at: at(100), review_at: at(900) }),
        review_settings: Some(7),
        cut_at: None,
        unread: None,
        page_read_as: Some(u64::MAX - 1),
        items_forgotten: false,
        corrected: Span::ZERO,
        stored: StoredColumns { hash, ..StoredColumns::default() },
    };
    let started = Receipt::Started(vec![(b, RequestInputs::default()), (a, inputs)]);
    assert_eq!(store.handle.receipts.recv().await, Some(started));
    // Another address: nothing of the old one is used.
    let (reply, synced) = oneshot::channel();
    let listed = vec![listed("a", "http://elsewhere/"), listed("b", "http://b/")];
    store.write(Write::Sync { listed, gone: Vec::new(), at: at(300), reply });
    synced.await.unwrap();
    let learned = Some(LearnedUntil { at: at(100), review_at: Timestamp::MIN });
    let page_read_as = Some(u64::MAX - 1);
    let elsewhere =
        RequestInputs { learned, review_settings: Some(7), page_read_as, ..RequestInputs::default() };
    assert_eq!(store.reader().await.request_inputs(a).await.unwrap(), elsewhere);
}

#[tokio::test]
async fn after_a_new_rate_the_next_answer_is_reviewed() {
    let store = Store::new().await;
    let id = store.id("a");
    let review_at = async || {
        store.flush().await;
        let inputs = store.reader().await.request_inputs(id).await.unwrap();
        inputs.learned.expect("it has learned").review_at
    };
    let ended_with_rate_of = |secs, fitted_at: Option<i64>| {
        let document = DocumentRecord { fitted_at: fitted_at.map(at), ..document(1, secs, 900) };
        Write::Ended(Box::new(ProbeRecord { document: Some(document), ..probe_record(id, secs) }))
    };
    store.write(ended_with_rate_of(100, None));
    assert_eq!(review_at().await, at(900));
    store.write(rates_at(id, 150));
    assert_eq!(review_at().await, Timestamp::MIN);
    store.write(ended_with_rate_of(200, None));
    assert_eq!(review_at().await, Timestamp::MIN, "the probe had read no rate");
    store.write(ended_with_rate_of(300, Some(150)));
    assert_eq!(review_at().await, at(900));
}

#[tokio::test]
async fn columns_that_a_probe_seldom_changes_are_written_if_they_changed() {
    let store = Store::new().await;
    let id = store.id("a");
    let ended_after = async |secs, error_streak, hash| {
        let stored = StoredColumns { hash, ..StoredColumns::default() };
        let mut record = ProbeRecord { stored, ..probe_record(id, secs) };
        record.memory.error_streak = error_streak;
        store.write(Write::Ended(Box::new(record)));
        store.flush().await;
        store.reader().await.request_inputs(id).await.unwrap().stored.hash
    };
    let row = async || {
        let columns =
            "SELECT error_streak * 1000 + last_probe_at / 1000 % 1000 FROM sources WHERE name = 'a'";
        store.count(columns).await
    };
    let two_errors = ended_after(100, 2, None).await;
    assert_eq!(row().await, 2_101);
    // A hand-made change shows that they are not written again.
    sqlx::query("UPDATE sources SET error_streak = 9")
        .execute(&mut store.connection().await)
        .await
        .unwrap();
    assert_eq!(ended_after(200, 2, two_errors).await, two_errors);
    assert_eq!(row().await, 9_201);
    let no_error = ended_after(300, 0, two_errors).await;
    assert!(no_error.is_some() && no_error != two_errors);
    assert_eq!(row().await, 301);
    // After a change by others they are written in any case.
    store.write(clock_set(Span::from_secs(60), at(1000)));
    store.flush().await;
    // Rows of sources follow in parts.
    store.flush().await;
    assert_eq!(store.reader().await.request_inputs(id).await.unwrap().stored.hash, None);
}

#[tokio::test]
async fn an_estimate_is_written_if_its_rate_moved_and_time_without_updates_is_added_when_it_is_read() {
    let store = Store::new().await;
    let id = store.id("a");
    let mut estimate = ChangePointRate::seeded(0.25, 40.0);
    let mut hours = 0;
    let mut ended_after = async |silent| {
        hours += silent;
        estimate.learn_silence(f64::from(silent));
        let stored = store.reader().await.request_inputs(id).await.unwrap().stored;
        let mut record = ProbeRecord { stored, ..probe_record(id, i64::from(hours) * 3600) };
        (record.memory.estimate, record.memory.last_success) = (estimate, Some(record.attempt.started));
        store.write(Write::Ended(Box::new(record)));
        store.flush().await;
        estimate
    };
    let counted = async || {
        let until = store.count("SELECT estimate_until FROM sources WHERE name = 'a'").await;
        (Timestamp::from_millis(until) - at(0)).as_millis() / 3_600_000
    };
    ended_after(1).await;
    assert_eq!(counted().await, 1);
    let last = ended_after(1).await;
    assert_eq!(counted().await, 1, "the rate is within three per cent of the stored one");
    let list = [listed("a", "http://a/"), listed("b", "http://b/")];
    let loaded = load(&mut store.connection().await, &list, at(0), at(0)).await;
    let read = loaded["a"].memory.estimate.known_rate().unwrap();
    assert!((read / last.known_rate().unwrap() - 1.0).abs() < 1e-6, "{read}");
    ended_after(1).await;
    assert_eq!(counted().await, 3);
}
