//! The store over real files: atomic commits, clear errors for bad files, and no receipt without a
//! commit.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::waiting::LONGEST;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, Connection, Row, SqliteConnection};
use tempfile::TempDir;
use tidewatch::clock::{ClockReading, patience};
use tidewatch::store::attempts::RequestInputs;
use tidewatch::store::clock::{ClockSeen, Correction, CorrectionFound};
use tidewatch::store::load::{Remembered, begin, each, stored_state};
use tidewatch::store::lock::Lock;
use tidewatch::store::probe_inputs::InputsQueue;
use tidewatch::store::reader::{FitScope, Reader, ask};
use tidewatch::store::record::{
    BeliefsRecord, EventRecord, HostRecord, ProbeOutcome, ProbeRecord, RateRecord, RobotsFailures,
    RobotsRecord, StoredColumns, ValidatorsChange,
};
use tidewatch::store::retention::DeleteBefore;
use tidewatch::store::sync::Listed;
use tidewatch::store::writer::{Health, Receipt, Write, Writer, WriterHandle};
use tidewatch::store::{StoreError, open};
use tidewatch_core::engine::action::{AdoptedPlan, Attempt, DueChange};
use tidewatch_core::engine::constraint::Constraint;
use tidewatch_core::engine::reason::{Reason, SourceState};
use tidewatch_core::engine::source_memory::{BurstState, Due, MoveProof, ProbeCost, SourceMemory};
use tidewatch_core::model::change_point_rate::ChangePointRate;
use tidewatch_core::observe::{
    FeedHints, ItemChange, Observation, Occurred, PageText, Present, Update, UpdateKind, compare::key_hash,
};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tokio::sync::oneshot;

mod backups;
mod batches;
mod bursts;
mod churn;
mod clock_periods;
mod crashes;
mod habits;
mod lists;
mod measures;
mod plans;
mod predictions;
mod refused_writes;
mod replay_logs;
mod retention;

fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + secs)
}

fn listed(name: &str, url: &str) -> Listed {
    Listed {
        name: name.into(),
        url: url.into(),
        kind: "feed",
        policy: "auto",
        group: Some("g".into()),
        limits: "[1,2,3,\"a\"]".into(),
    }
}

fn attempt(id: SourceId, secs: i64) -> Attempt {
    Attempt {
        source: id,
        due: at(secs - 5),
        started: at(secs),
        policy: Policy::Uniform,
        reason: Reason::Constraint(Constraint::MaxAge),
        forecast: None,
    }
}

fn believed(history: &[u8]) -> BeliefsRecord {
    BeliefsRecord { history: history.to_vec(), ..BeliefsRecord::default() }
}

fn probe_record(id: SourceId, secs: i64) -> ProbeRecord {
    ProbeRecord {
        uncharged: false,
        attempt: attempt(id, secs),
        finished: at(secs + 1),
        outcome: ProbeOutcome::Unchanged,
        http_status: Some(200),
        bytes: 10,
        error: None,
        validators: ValidatorsChange::Keep,
        tardy: None,
        deadline: None,
        document: None,
        observation: None,
        memory: SourceMemory {
            due: Due::At(at(secs + 100)),
            last_probe: Some(at(secs + 1)),
            ..SourceMemory::default()
        },
        beliefs: None,
        burst: None,
        burst_so_far: None,
        host: None,
        events: Vec::new(),
        matches: Vec::new(),
        rules: Vec::new(),
        compared: None,
        room: None,
        stored: StoredColumns::default(),
    }
}

fn new_item(key: &str, secs: i64) -> Update {
    let title = Some(format!("title of {key} — «ü»"));
    Update { title, ..Update::bare(UpdateKind::New, Occurred::At(at(secs)), key) }
}

fn present(key: &str, fingerprint: u64) -> Present {
    Present { key_hash: key_hash(key), fingerprint, change: ItemChange::New, dated: Some(at(0)) }
}

struct Store {
    _dir: TempDir,
    path: PathBuf,
    handle: WriterHandle,
    stop: oneshot::Sender<()>,
    task: tokio::task::JoinHandle<Result<(), StoreError>>,
    loaded: HashMap<String, Remembered>,
}

/// The clock shows this.
fn clock_seen(now: Timestamp) -> ClockSeen {
    ClockSeen { reading: ClockReading { now, booted_at: now }, boot: None }
}

/// The clock was set by `by` to `now` while the daemon ran.
fn clock_set(by: Span, now: Timestamp) -> Write {
    Write::ClockSet(Correction { at: now, by, found: CorrectionFound::Running }, clock_seen(now))
}

/// The stored state of all sources, as a process loads it that starts at `now`.
async fn load(
    connection: &mut SqliteConnection,
    list: &[Listed],
    now: Timestamp,
    since: Timestamp,
) -> HashMap<String, Remembered> {
    begin(connection, list, now, None).await.unwrap();
    let mut found = HashMap::new();
    let take = |remembered: Remembered| drop(found.insert(remembered.name.clone(), remembered));
    let clock = stored_state(connection, &clock_seen(now)).await.unwrap().clock;
    each(connection, &clock, since + Span::from_days(1), since, take).await.unwrap();
    found
}

impl Store {
    async fn new() -> Self {
        Self::with("PRAGMA user_version").await
    }

    /// A store whose writer's connection was prepared with a statement.
    async fn with(pragma: &'static str) -> Self {
        let dir = TempDir::new().unwrap();
        let path = dir.path().join("t.db");
        Self::opened(dir, path, at(0), pragma).await
    }

    /// The store of a folder, after it was closed.
    async fn reopened(dir: TempDir, path: PathBuf, now: Timestamp) -> Self {
        Self::opened(dir, path, now, "PRAGMA user_version").await
    }

    async fn opened(dir: TempDir, path: PathBuf, now: Timestamp, pragma: &'static str) -> Self {
        let mut connection = open::for_writing(&path).await.unwrap();
        let list = [listed("a", "http://a/"), listed("b", "http://b/")];
        let loaded = load(&mut connection, &list, now, at(-1_000)).await;
        sqlx::query(pragma).fetch_all(&mut connection).await.unwrap();
        let (writer, handle) = Writer::new(connection);
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(writer.run(stopped));
        Self { _dir: dir, path, handle, stop, task, loaded }
    }

    fn id(&self, name: &str) -> SourceId {
        self.loaded[name].id
    }

    fn write(&self, write: Write) {
        self.handle.writes.send(write).unwrap();
    }

    async fn flush(&self) {
        let (done, committed) = oneshot::channel();
        self.write(Write::Flush(done));
        patience(LONGEST, committed).await.unwrap().unwrap();
    }

    async fn reader(&self) -> Reader {
        Reader::open(&self.path).await.unwrap()
    }

    async fn connection(&self) -> SqliteConnection {
        other_program(&self.path).await
    }

    async fn count(&self, query: &'static str) -> i64 {
        sqlx::query_scalar(query).fetch_one(&mut self.connection().await).await.unwrap()
    }

    async fn close(self) -> (TempDir, PathBuf) {
        self.stop.send(()).unwrap();
        patience(LONGEST, self.task).await.unwrap().unwrap().unwrap();
        (self._dir, self.path)
    }
}

/// Another program that has the file open, such as `sqlite3`.
async fn other_program(path: &Path) -> SqliteConnection {
    SqliteConnectOptions::new().filename(path).busy_timeout(LONGEST).connect().await.unwrap()
}

#[tokio::test]
async fn a_probe_record_is_stored_completely_and_read_back_unchanged() {
    let mut store = Store::new().await;
    let id = store.id("a");
    let memory = SourceMemory {
        early_probes: 2,
        root_rate: 0.75,
        rule: Some("profile/rule".into()),
        state: SourceState::Backoff,
        due: Due::At(at(500)),
        reason: Reason::Constraint(Constraint::RetryAfter),
        last_probe: Some(at(101)),
        // The stored time is the start of the attempt.
        last_success: Some(at(100)),
        estimate: ChangePointRate::seeded(0.25, 40.0),
        last_update: Some(at(101)),
        error_streak: 3,
        known_updates: 17,
        fresh_until: Some(at(200)),
        retry_until: Some(at(500)),
        backoff_until: Some(at(300)),
        hints: FeedHints {
            ttl: Some(Span::from_mins(60)),
            skip_hours: 0b11,
            skip_days: 0b100_0000,
            update_period: Some(Span::from_days(1)),
        },
        holds: Some(20),
        cost: ProbeCost { bytes: 1234.5, millis: 80.25 },
        moving: Some(Box::new(MoveProof { target: "http://c/".into(), times: 2, since: at(50) })),
        adopted_url: Some("http://adopted/".into()),
        burst: BurstState {
            asked_by: Policy::Ttl,
            follows: Policy::AggHist,
            newest: Some(at(81)),
            burst_since: Some(at(82)),
            in_bursts: 437_000,
            quiet_since: Some(at(84)),
            reserve_whole_at: Some(at(85)),
        },
    };
    let seen = Observation {
        updates: vec![
            new_item("one", 90),
            Update { occurred: Occurred::Between(at(40), at(100)), ..new_item("two", 0) },
        ],
        present: vec![present("one", u64::MAX), present("two", 1 << 63), present("three", 5)],
        gap: true,
        page: Some(PageText { title: None, text: "text".into(), fingerprint: u64::MAX - 1 }),
        ..Observation::default()
    };
    store.write(Write::Started(vec![attempt(id, 100)]));
    store.write(Write::Ended(Box::new(ProbeRecord {
        outcome: ProbeOutcome::Updated,
        memory: memory.clone(),
        observation: Some(seen),
        validators: ValidatorsChange::Replace {
            url: "http://a/".into(),
            etag: Some(b"W/\"x\xff\"".to_vec()),
            last_modified: Some(b"Mon, 16 Nov 2026 00:00:00 GMT".to_vec()),
        },
        host: Some(HostRecord {
            key: "a".into(),
            public: true,
            paused_until: Some(at(500)),
            crawl_delay: Span::from_secs(7),
        }),
        events: vec![EventRecord {
            at: at(101),
            kind: "rests",
            source: Some(id),
            detail: Some("x".into()),
        }],
        ..probe_record(id, 100)
    })));
    let started = store.handle.receipts.recv().await;
    assert!(matches!(&started, Some(Receipt::Started(inputs)) if inputs[0].0 == id), "{started:?}");
    assert_eq!(store.handle.receipts.recv().await, Some(Receipt::Ended(id)));

    let request = store.reader().await.request_inputs(id).await.unwrap();
    assert_eq!(request.etag.as_deref(), Some(&b"W/\"x\xff\""[..]), "byte for byte, also when not UTF-8");
    assert_eq!(request.last_modified.as_deref(), Some(&b"Mon, 16 Nov 2026 00:00:00 GMT"[..]));
    assert_eq!(request.validators_url.as_deref(), Some("http://a/"));
    let inputs = store.reader().await.probe_inputs(id).await.unwrap();
    assert_eq!(inputs.seen.last_success, Some(at(100)), "the start of the probe, not its end");
    assert_eq!(inputs.seen.page, Some(u64::MAX - 1));
    let expected = [("one", u64::MAX), ("two", 1 << 63), ("three", 5)];
    assert_eq!(inputs.seen.items, HashMap::from(expected.map(|(key, print)| (key_hash(key), print))));

    let rows = sqlx::query("SELECT source, occurred_at, occurred_after, occurred_exact, kind, key, title FROM readable_updates ORDER BY id")
        .fetch_all(&mut store.connection().await)
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(rows[0].get::<String, _>("source"), "a");
    assert_eq!(rows[0].get::<String, _>("occurred_at"), at(90).iso());
    assert_eq!(rows[0].get::<String, _>("title"), "title of one — «ü»");
    assert_eq!(rows[1].get::<i64, _>("occurred_exact"), 0);
    assert_eq!(rows[1].get::<String, _>("occurred_at"), at(70).iso(), "the middle");
    assert_eq!(rows[1].get::<String, _>("occurred_after"), at(40).iso());
    assert_eq!(store.count("SELECT count(*) FROM flights").await, 0);
    assert_eq!(store.count("SELECT count(*) FROM gaps JOIN probes ON probes.id = probe_id").await, 1);
    assert_eq!(store.count("SELECT count(*) FROM events WHERE kind = 'rests'").await, 1);

    let (_dir, path) = store.close().await;
    let mut connection = open::for_writing(&path).await.unwrap();
    let list = [listed("a", "http://a/"), listed("b", "http://b/")];
    let loaded = load(&mut connection, &list, at(600), at(0)).await;
    let (name, answered_at) = ("a".to_owned(), Some("http://a/".into()));
    // The budget counts from the end of a probe.
    assert_eq!(loaded["a"], Remembered { id, name, memory, answered_at, probes: vec![at(101)] });
    let (host, paused, delay) =
        &stored_state(&mut connection, &clock_seen(at(600))).await.unwrap().hosts[0];
    assert_eq!((&*host.key, host.public, *paused, *delay), ("a", true, Some(at(500)), Span::from_secs(7)));
}

#[tokio::test]
async fn a_304_overwrites_only_what_it_carries_and_an_error_nothing() {
    let store = Store::new().await;
    let id = store.id("a");
    let replace = ValidatorsChange::Replace {
        url: "http://a/".into(),
        etag: Some(b"\"1\"".to_vec()),
        last_modified: Some(b"then".to_vec()),
    };
    let refresh = ValidatorsChange::Refresh { etag: Some(b"\"2\"".to_vec()), last_modified: None };
    for (n, validators) in [replace, refresh, ValidatorsChange::Keep].into_iter().enumerate() {
        store.write(Write::Ended(Box::new(ProbeRecord { validators, ..probe_record(id, 100 + n as i64) })));
    }
    store.flush().await;
    let inputs = store.reader().await.request_inputs(id).await.unwrap();
    assert_eq!(inputs.etag.as_deref(), Some(&b"\"2\""[..]));
    assert_eq!(inputs.last_modified.as_deref(), Some(&b"then"[..]));
    let drop = ValidatorsChange::Replace { url: "http://a/".into(), etag: None, last_modified: None };
    store.write(Write::Ended(Box::new(ProbeRecord { validators: drop, ..probe_record(id, 200) })));
    store.flush().await;
    let inputs = store.reader().await.request_inputs(id).await.unwrap();
    assert_eq!((inputs.etag, inputs.last_modified), (None, None), "one pair, from one answer");
}

#[tokio::test]
async fn an_item_is_new_once_and_the_last_document_is_known() {
    let store = Store::new().await;
    let id = store.id("a");
    for (n, keys) in [vec!["x", "y"], vec!["y", "z"]].into_iter().enumerate() {
        let seen = Observation {
            updates: vec![new_item("y", 1)],
            present: keys.iter().map(|key| present(key, n as u64)).collect(),
            left: vec![key_hash("x")],
            gone: vec![key_hash("x")],
            ..Observation::default()
        };
        store.write(Write::Ended(Box::new(ProbeRecord {
            observation: Some(seen),
            ..probe_record(id, 100 * (n as i64 + 1))
        })));
    }
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM updates").await, 1);
    let seen = store.reader().await.probe_inputs(id).await.unwrap().seen;
    assert_eq!(seen.items, HashMap::from([(key_hash("y"), 1), (key_hash("z"), 1)]));
    let keys = ["x", "z", "other"].map(key_hash).to_vec();
    let known =
        store.reader().await.known_items(&[(id, keys.clone()), (store.id("b"), keys)]).await.unwrap();
    assert_eq!(known, [HashMap::from([(key_hash("x"), 0), (key_hash("z"), 1)]), HashMap::new()]);
    assert_eq!(store.count("SELECT count(*) FROM items WHERE gone_at IS NOT NULL").await, 1);
}

#[tokio::test]
async fn only_items_that_left_their_feed_long_ago_are_forgotten() {
    let store = Store::new().await;
    let id = store.id("a");
    let probe_of = |new: &[&str], left: &[&str], days: i64| {
        let present = new.iter().map(|key| present(key, 1)).collect();
        let left = left.iter().map(|key| key_hash(key)).collect();
        let observation = Some(Observation { present, left, ..Observation::default() });
        Write::Ended(Box::new(ProbeRecord { observation, ..probe_record(id, 86_400 * days) }))
    };
    store.write(probe_of(&["old", "stays"], &[], 0));
    store.write(probe_of(&["recent"], &["old"], 100));
    store.write(probe_of(&["new"], &["recent"], 200));
    store.write(Write::Prune(DeleteBefore::probes(at(0), at(86_400 * 290))));
    store.flush().await;
    let keys = ["old", "stays", "recent", "new"].map(key_hash);
    let known = store.reader().await.known_items(&[(id, keys.to_vec())]).await.unwrap();
    assert_eq!(keys.map(|key| known[0].contains_key(&key)), [false, true, true, true]);
}

#[tokio::test]
async fn a_probe_reads_the_items_of_the_last_document_however_many_left() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    let mut connection = store.connection().await;
    for (id, fingerprint) in [(a, 7), (b, 8)] {
        // The oldest items have the greatest keys.
        sqlx::query(
            "WITH n (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 50020)
             INSERT INTO items (source_id, key_hash, fingerprint, first_seen_at, last_seen_at, left_at)
             SELECT ?, n, ?, 0, 0, iif(n > 20, 1, NULL) FROM n",
        )
        .bind(id.0)
        .bind(fingerprint)
        .execute(&mut connection)
        .await
        .unwrap();
    }
    let reader = store.reader().await;
    let items = reader.probe_inputs(a).await.unwrap().seen.items;
    assert_eq!(items, (1..=20).map(|key| (key, 7)).collect());
    let inputs = InputsQueue::start(reader);
    let known = async |id, keys: &[u64]| inputs.known_items(id, keys.to_vec()).await.unwrap();
    let all: Vec<u64> = (1..=60_000).collect();
    let (of_a, of_b, none, every) = tokio::join!(
        known(a, &[50_020, 50_021, u64::MAX]),
        known(b, &[21, 5]),
        known(a, &[]),
        known(b, &all)
    );
    assert_eq!((of_a, of_b), (HashMap::from([(50_020, 7)]), HashMap::from([(21, 8), (5, 8)])));
    assert_eq!((none.len(), every.len()), (0, 50_020));
}

#[tokio::test]
async fn an_interrupted_attempt_is_counted_at_the_next_start() {
    let store = Store::new().await;
    let id = store.id("a");
    store.write(Write::Started(vec![attempt(id, 100)]));
    store.flush().await;
    let (_dir, path) = store.close().await;
    let mut connection = open::for_writing(&path).await.unwrap();
    let list = [listed("a", "http://a/"), listed("b", "http://b/")];
    let loaded = load(&mut connection, &list, at(130), at(0)).await;
    assert_eq!(loaded["a"].probes, vec![at(130)], "it may have reached the server until just now");
    let error: String =
        sqlx::query_scalar("SELECT error FROM probes").fetch_one(&mut connection).await.unwrap();
    assert!(error.starts_with("interrupted"), "{error}");
    let again = load(&mut connection, &list, at(140), at(0)).await;
    assert_eq!(again["a"].probes.len(), 1, "once");
}

#[tokio::test]
async fn a_commit_is_on_the_disk_before_it_is_acknowledged() {
    let dir = TempDir::new().unwrap();
    let mut connection = open::for_writing(&dir.path().join("t.db")).await.unwrap();
    open::prepare_for_probes(&mut connection, 1).await.unwrap();
    let setting: (i64, String) =
        sqlx::query_as("SELECT (SELECT synchronous FROM pragma_synchronous), (SELECT journal_mode FROM pragma_journal_mode)")
            .fetch_one(&mut connection)
            .await
            .unwrap();
    // 2 is FULL: the log is written to the disk with each commit.
    assert_eq!(setting, (2, "wal".to_owned()));
}

#[tokio::test]
async fn a_full_store_is_retried_until_there_is_room_and_nothing_is_acknowledged_meanwhile() {
    // SQLite's page limit gives the same error as a full disk.
    let mut store = Store::with("PRAGMA max_page_count = 90").await;
    let id = store.id("a");
    let big = "x".repeat(20_000);
    let mut sent = 0;
    let mut acknowledged = 0;
    while *store.handle.health.borrow() == Health::Well {
        assert!(sent < 500, "the limit was never reached");
        let event = EventRecord { at: at(sent), kind: "filler", source: None, detail: Some(big.clone()) };
        store.write(Write::Event(event));
        store.write(Write::Ended(Box::new(probe_record(id, 100 + sent))));
        sent += 1;
        tokio::select! {
            Some(Receipt::Ended(_)) = store.handle.receipts.recv() => acknowledged += 1,
            changed = store.handle.health.changed() => changed.unwrap(),
        }
    }
    assert!(
        matches!(&*store.handle.health.borrow(), Health::Stalled(why) if why.contains("full")),
        "gives the reason"
    );
    while let Ok(Receipt::Ended(_)) = store.handle.receipts.try_recv() {
        acknowledged += 1;
    }
    let committed = store.count("SELECT count(*) FROM probes").await;
    assert_eq!(acknowledged, committed, "no receipt without a commit, no commit without a receipt");
    assert!(committed < sent);
    // A user deletes rows.
    let mut other = store.connection().await;
    sqlx::query("DELETE FROM events WHERE kind = 'filler'").execute(&mut other).await.unwrap();
    other.close().await.unwrap();
    let well = patience(LONGEST, store.handle.health.wait_for(|health| *health == Health::Well))
        .await
        .unwrap()
        .is_ok();
    assert!(well, "the writer gave up: {:?}", store.task.await);
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM probes").await, sent, "nothing was lost");
}

#[tokio::test]
async fn others_may_read_and_write_while_the_daemon_writes() {
    let store = Store::new().await;
    let id = store.id("a");
    let mut other = store.connection().await;
    sqlx::query("CREATE TABLE mine (n INTEGER)").execute(&mut other).await.unwrap();
    for n in 0..100 {
        store.write(Write::Ended(Box::new(probe_record(id, n))));
        sqlx::query("INSERT INTO mine VALUES (1)").execute(&mut other).await.unwrap();
        sqlx::query("SELECT count(*) FROM readable_probes").fetch_one(&mut other).await.unwrap();
    }
    store.flush().await;
    assert_eq!(store.count("SELECT count(*) FROM probes").await, 100);
    assert_eq!(store.count("SELECT count(*) FROM mine").await, 100);
}

#[tokio::test]
async fn old_probes_are_pruned_in_batches_and_updates_stay() {
    let store = Store::new().await;
    let id = store.id("a");
    for n in 0..1_300 {
        store.write(Write::Ended(Box::new(probe_record(id, n))));
    }
    let seen = Observation { updates: vec![new_item("k", 1)], ..Observation::default() };
    store.write(Write::Ended(Box::new(ProbeRecord { observation: Some(seen), ..probe_record(id, 50) })));
    store.write(Write::Prune(DeleteBefore::probes(at(1_200), at(1_200))));
    // Each batch queues the next one; a flush is handled between them.
    let mut left = 1_301;
    for _ in 0..10 {
        store.flush().await;
        left = store.count("SELECT count(*) FROM probes").await;
    }
    assert_eq!(left, 100);
    assert_eq!(store.count("SELECT count(*) FROM updates WHERE probe_id IS NULL").await, 1);
}

#[tokio::test]
async fn a_foreign_file_is_refused_with_a_clear_error_and_left_unchanged() {
    let dir = TempDir::new().unwrap();
    let path = |name: &str| dir.path().join(name);

    std::fs::write(
        path("text.db"),
        "this is not a database, it is a text of more than a hundred bytes, ".repeat(4),
    )
    .unwrap();
    let error = open::for_writing(&path("text.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::NotADatabase(_)), "{error}");

    let mut foreign = SqliteConnectOptions::new()
        .filename(path("other.db"))
        .create_if_missing(true)
        .connect()
        .await
        .unwrap();
    sqlx::query("CREATE TABLE theirs (x)").execute(&mut foreign).await.unwrap();
    foreign.close().await.unwrap();
    let error = open::for_writing(&path("other.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::Foreign(_)), "{error}");

    let mut newer = open::for_writing(&path("newer.db")).await.unwrap();
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (9999, 'x', 1, x'', 0)")
        .execute(&mut newer)
        .await
        .unwrap();
    newer.close().await.unwrap();
    let error = open::for_writing(&path("newer.db")).await.unwrap_err();
    let migrations = concat!(env!("CARGO_MANIFEST_DIR"), "/migrations");
    let names = std::fs::read_dir(migrations).unwrap().map(|file| file.unwrap().file_name());
    let last = names.map(|name| name.to_str().unwrap()[..4].parse().unwrap()).max();
    assert!(
        matches!(error, StoreError::Newer { found: 9999, known, .. } if Some(known) == last),
        "{error}"
    );
    let error = Reader::open(&path("newer.db")).await.unwrap_err();
    assert!(error.to_string().contains("newer tidewatch"), "{error}");

    let error = Reader::open(&path("none.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::Missing(_)), "{error}");
    assert!(!path("none.db").exists(), "reading creates nothing");

    let error = open::for_writing(&path("no/such/folder/t.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
}

#[test]
fn a_store_has_one_daemon() {
    let dir = TempDir::new().unwrap();
    let path = dir.path().join("t.db");
    let held = Lock::take(&path).unwrap();
    assert!(matches!(Lock::take(&path), Err(StoreError::InUse(_))));
    drop(held);
    assert!(Lock::take(&path).is_ok());
}

#[tokio::test]
async fn requests_reach_the_daemon_and_its_answer_comes_back() {
    let store = Store::new().await;
    let id = store.id("b");
    let reader = store.reader().await;
    let number = ask(&store.path, id, at(10)).await.unwrap();
    let open = reader.open_requests().await.unwrap();
    assert_eq!((open.len(), open[0].id, open[0].source), (1, number, id));
    store.write(Write::Answer { request: number, answer: "accepted".into() });
    store.flush().await;
    assert_eq!(reader.answer(number).await.unwrap().as_deref(), Some("accepted"));
    assert!(reader.open_requests().await.unwrap().is_empty());
}

/// The daemon passes over numbers that it has seen.
#[tokio::test]
async fn numbers_of_requests_are_not_given_again_after_restarts_and_deletions() {
    let mut store = Store::new().await;
    let mut last = 0;
    for round in 1..4 {
        let number = ask(&store.path, store.id("b"), at(10 * round)).await.unwrap();
        assert!(number > last, "{number} after {last}");
        last = number;
        store.write(Write::Answer { request: number, answer: "accepted".into() });
        store.flush().await;
        store.write(Write::Prune(DeleteBefore::probes(at(100_000), at(100_000))));
        store.flush().await;
        let Store { _dir, path, stop, task, .. } = store;
        stop.send(()).unwrap();
        task.await.unwrap().unwrap();
        store = Store::reopened(_dir, path, at(10 * round + 5)).await;
    }
}

/// A removed source may have the new name, which is noticed before, unless it was removed in between.
#[tokio::test]
async fn a_rename_to_a_name_that_is_taken_changes_nothing() {
    let store = Store::new().await;
    store.write(Write::Rename { names: vec![("a".into(), "b".into())], at: at(5) });
    store.write(Write::Rename { names: vec![("a".into(), "c".into())], at: at(6) });
    store.flush().await;
    let mut connection = store.connection().await;
    let names: Vec<String> = sqlx::query_scalar("SELECT name FROM sources ORDER BY id")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(names, ["c", "b"]);
    let logged: Vec<String> = sqlx::query_scalar("SELECT detail FROM events WHERE kind = 'renamed'")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(logged, ["from a to c"]);
}

#[tokio::test]
async fn robots_are_remembered() {
    let store = Store::new().await;
    let record = RobotsRecord {
        origin: "http://a".into(),
        fetched_at: at(1),
        http_status: 200,
        body: b"User-agent: *".to_vec(),
        crawl_delay: Some(Span::from_secs(9)),
        failed: Some(RobotsFailures { at: at(2), times: 3 }),
        redirect_site: None,
    };
    store.write(Write::Robots(RobotsRecord { http_status: 0, ..record.clone() }));
    store.write(Write::Robots(record.clone()));
    store.flush().await;
    assert_eq!(store.reader().await.robots("http://a").await.unwrap(), Some(record));
    assert_eq!(store.reader().await.robots("http://b").await.unwrap(), None);
}

#[tokio::test]
async fn robots_of_redirects_are_bounded_per_site_and_in_all() {
    let store = Store::new().await;
    let robots = |origin: String, site: Option<String>, secs| {
        Write::Robots(RobotsRecord {
            origin,
            fetched_at: at(secs),
            http_status: 404,
            body: Vec::new(),
            crawl_delay: None,
            failed: None,
            redirect_site: site,
        })
    };
    // A redirect to the origin of a source does not make it another's.
    store.write(robots("http://own".into(), None, 0));
    store.write(robots("http://own".into(), Some("one".into()), 1));
    for n in 0..80 {
        store.write(robots(format!("http://one:{n}"), Some("one".into()), 2 + n));
    }
    store.flush().await;
    let origins = async || -> Vec<String> {
        let query = sqlx::query_scalar("SELECT origin FROM robots ORDER BY fetched_at DESC LIMIT 65");
        query.fetch_all(&mut store.connection().await).await.unwrap()
    };
    let mut wanted: Vec<String> = (16..80).rev().map(|n| format!("http://one:{n}")).collect();
    wanted.push("http://own".into());
    assert_eq!(origins().await, wanted);
    for n in 0..1_100 {
        store.write(robots(format!("http://site{n}"), Some(format!("site{n}")), 100 + n));
    }
    store.flush().await;
    // One of them is of a source.
    let count = sqlx::query_scalar::<_, i64>(
        "SELECT (SELECT count(*) FROM robots) - 1 - (SELECT count(*) FROM sources)",
    );
    assert_eq!(count.fetch_one(&mut store.connection().await).await.unwrap(), 1_000);
    assert_eq!(origins().await[0], "http://site1099");
    assert!(store.reader().await.robots("http://own").await.unwrap().is_some());
    store.write(robots("http://site1099".into(), None, 2_000));
    store.flush().await;
    let of_source = store.reader().await.robots("http://site1099").await.unwrap().unwrap();
    assert_eq!(of_source.redirect_site, None);
}

#[tokio::test]
async fn evidence_and_rates_are_kept_and_replaced() {
    let store = Store::new().await;
    let (a, b) = (store.id("a"), store.id("b"));
    store.write(Write::Ended(Box::new(ProbeRecord {
        beliefs: Some(believed(&[1, 2, 3])),
        ..probe_record(a, 100)
    })));
    store.write(Write::Ended(Box::new(ProbeRecord {
        outcome: ProbeOutcome::Updated,
        ..probe_record(b, 110)
    })));
    store.write(Write::Ended(Box::new(ProbeRecord {
        outcome: ProbeOutcome::Failed,
        ..probe_record(b, 120)
    })));
    let rate = |source, segments: &[(u32, u32, f64)]| RateRecord {
        source,
        fitted_at: at(200),
        origin: "blend",
        cycle: "day",
        time_zone: "Europe/London".into(),
        segments: segments.to_vec(),
        per_week: 12.5,
        dispersion: None,
        updates: 7,
        since: Some(at(1)),
        habits: None,
    };
    store.write(Write::Rates(vec![
        rate(a, &[(0, 3600, 0.5), (3600, 604_800, 0.25)]),
        rate(b, &[(0, 604_800, 1.0)]),
    ]));
    store.write(Write::Rates(vec![rate(a, &[(0, 604_800, 2.0)])]));
    store.flush().await;
    let reader = store.reader().await;
    let histories = reader.histories(SourceId(i64::MIN), 10, FitScope::All).await.unwrap();
    assert_eq!(histories.len(), 1);
    assert!(
        reader.histories(SourceId(i64::MIN), 10, FitScope::WithoutRate).await.unwrap().is_empty(),
        "it has a rate"
    );
    assert_eq!((histories[0].id, &histories[0].bytes[..], histories[0].blind), (a, &[1, 2, 3][..], false));
    assert_eq!(reader.probe_inputs(a).await.unwrap().history, Some(vec![1, 2, 3]));
    assert_eq!(reader.probe_times(b).await.unwrap(), vec![(at(110), true)], "failures are not counted");
    assert_eq!(reader.rate_segments(a).await.unwrap(), vec![(0, 604_800, 2.0)]);
    assert_eq!(reader.rate_segments(b).await.unwrap(), vec![(0, 604_800, 1.0)]);
    let fits = reader.fits().await.unwrap();
    assert_eq!((fits[&a].per_week, fits[&a].updates, fits[&a].since), (12.5, 7, Some(at(1))));
    assert_eq!(fits[&b].dispersion, None);
}

#[tokio::test]
async fn every_table_has_a_readable_view_that_can_be_read() {
    let store = Store::new().await;
    let mut connection = store.connection().await;
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name <> '_sqlx_migrations'",
    )
    .fetch_all(&mut connection)
    .await
    .unwrap();
    assert!(tables.len() >= 15);
    for table in tables {
        let query = sqlx::AssertSqlSafe(format!("SELECT * FROM readable_{table}"));
        sqlx::query(query).fetch_all(&mut connection).await.unwrap();
    }
    let sources = store.reader().await.sources().await.unwrap();
    assert_eq!(sources.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
}

#[tokio::test]
async fn tables_and_views_have_the_columns_that_users_rely_on() {
    let store = Store::new().await;
    let rows: Vec<String> = sqlx::query_scalar(
        "SELECT t.type || ' ' || t.name || ': ' || group_concat(c.name, ', ' ORDER BY c.cid)
         FROM sqlite_schema t JOIN pragma_table_info(t.name) c
         WHERE t.type IN ('table', 'view') AND t.name NOT LIKE 'sqlite%' AND t.name <> '_sqlx_migrations'
         GROUP BY t.name ORDER BY t.type, t.name",
    )
    .fetch_all(&mut store.connection().await)
    .await
    .unwrap();
    insta::assert_snapshot!(rows.join("\n"));
}
