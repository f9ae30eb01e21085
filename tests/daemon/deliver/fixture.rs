//! A store with its writer, and a dispatcher that reads its outbox.

use std::collections::HashMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use crate::waiting::{soon, until_found};
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use tidewatch::clock::Clock;
use tidewatch::config::params::FetchParams;
use tidewatch::config::target::{TargetConfig, Way};
use tidewatch::deliver::dispatcher::Dispatcher;
use tidewatch::fetch::client::Fetcher;
use tidewatch::store::deliveries::{DeliveryRow, Filter};
use tidewatch::store::reader::Reader;
use tidewatch::store::record::{
    MatchRecord, MatchedItem, ProbeOutcome, ProbeRecord, StoredColumns, ValidatorsChange,
};
use tidewatch::store::sync::Listed;
use tidewatch::store::writer::{Write, Writer, WriterHandle};
use tidewatch::store::{load, open};
use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::observe::{Observation, Occurred, Update, UpdateKind};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::JoinHandle;
use url::Url;

pub const HOUR: Span = Span::from_hours(1);

/// A title that means something to shells, terminals, XML, JSON and C.
pub const HOSTILE: &str = "$(reboot); `id` | x && y > /etc/passwd 'a' \"b\" \\ \\n <b>&amp;</b> ]]> <!-- \
     \r\n\t\u{0}\u{1}\u{1b}[31m\u{7f}\u{9b} \u{fffe} \u{2028} \u{202e}ünïcödé 日本 🦀 %s {} ${HOME}";

pub fn at(secs: i64) -> Timestamp {
    Timestamp::from_secs(1_790_000_000 + secs)
}

pub fn exec(name: &str, command: &[&str]) -> TargetConfig {
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    TargetConfig {
        name: name.into(),
        way: Way::Exec { command },
        timeout: HOUR,
        give_up: Span::from_days(3),
    }
}

/// A program of the user's that happens to be a shell; `$0` is `file`.
pub fn script(name: &str, text: &str, file: &Path) -> TargetConfig {
    exec(name, &["/bin/sh", "-c", text, file.to_str().unwrap()])
}

pub fn webhook(name: &str, url: Url) -> TargetConfig {
    let way = Way::Webhook { url, secret: None, headers: Vec::new(), allow_private: true };
    TargetConfig { name: name.into(), way, timeout: HOUR, give_up: Span::from_days(3) }
}

/// A document about one item of that title.
pub fn document(title: &str) -> Map<String, Value> {
    let document = json!({
        "profile": "me", "rule": "all", "source": "a", "url": "http://a/", "at": at(0).iso(),
        "items": [{
            "kind": "new", "id": format!("id of {}", title.chars().take(100).collect::<String>()),
            "title": title, "link": "http://a/1?b=c&d=<e>", "occurred_at": at(-60).iso(),
            "detected_at": at(-1).iso(),
        }],
    });
    match document {
        Value::Object(document) => document,
        other => panic!("{other}"),
    }
}

thread_local! {
    static LOG: Log = Log::default();
}

/// The log of this thread. All tasks of a test run on one thread.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    /// The log of this thread from now on. One subscriber for all threads: several that come and go may miss
    /// events, because tracing caches whether any of them wants an event.
    pub fn listen() -> Self {
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_ansi(false)
            .with_writer(|| LOG.with(Self::clone));
        // An error means that another test has installed it.
        let _ = subscriber.try_init();
        let log = LOG.with(Self::clone);
        log.0.lock().unwrap().clear();
        log
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl std::io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A store, and a dispatcher that can be started and stopped.
pub struct Fixture {
    folder: TempDir,
    pub clock: Clock,
    pub reader: Reader,
    pub source: SourceId,
    /// The source `b`.
    pub other_source: SourceId,
    pub wake: Arc<Notify>,
    handle: WriterHandle,
    targets: watch::Sender<Arc<Vec<Arc<TargetConfig>>>>,
    fetcher: watch::Sender<Fetcher>,
    dispatcher: Option<JoinHandle<()>>,
    _stop: oneshot::Sender<()>,
}

impl Fixture {
    /// A fixture whose clock runs `speed` times as fast as real time. No dispatcher runs yet.
    pub async fn stopped(speed: f64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.db");
        let mut connection = open::for_writing(&path).await.unwrap();
        let listed = ["a", "b"].map(|name| {
            let url = format!("http://{name}/");
            let limits = "[1,2,3,\"a\"]".into();
            Listed { name: name.into(), url, kind: "feed", policy: "auto", group: None, limits }
        });
        load::begin(&mut connection, &listed, at(0), None).await.unwrap();
        let reader = Reader::open(&path).await.unwrap();
        let sources = reader.sources().await.unwrap();
        let (source, other_source) = (sources[0].id, sources[1].id);
        let (writer, handle) = Writer::new(connection);
        let (stop, stopped) = oneshot::channel();
        tokio::spawn(writer.run(stopped));
        let params = FetchParams {
            max_body: 1 << 20,
            max_items: 10_000,
            connect_timeout: Span::from_secs(10),
            read_timeout: Span::from_secs(10),
            total_timeout: Span::from_secs(30),
            resolve: vec![("hook.example".to_owned(), IpAddr::from([127, 0, 0, 1]))],
        };
        let fetcher = Fetcher::new(&params, Some("mailto:me@example.org")).unwrap();
        Self {
            folder,
            clock: Clock::accelerated(at(0), speed),
            reader,
            source,
            other_source,
            wake: Arc::default(),
            handle,
            targets: watch::channel(Arc::default()).0,
            fetcher: watch::channel(fetcher).0,
            dispatcher: None,
            _stop: stop,
        }
    }

    /// A fixture with a running dispatcher for these targets.
    pub async fn running(speed: f64, targets: Vec<TargetConfig>) -> Self {
        Self::stopped(speed).await.run_with(targets)
    }

    /// Starts the dispatcher for these targets.
    pub fn run_with(mut self, targets: Vec<TargetConfig>) -> Self {
        self.configure(targets);
        self.start();
        self
    }

    pub fn start(&mut self) {
        let dispatcher = Dispatcher {
            reader: self.reader.clone(),
            writes: self.handle.writes.clone(),
            clock: self.clock.clone(),
            targets: self.targets.subscribe(),
            fetcher: self.fetcher.subscribe(),
            committed: Arc::clone(&self.wake),
        };
        self.dispatcher = Some(tokio::spawn(dispatcher.run()));
    }

    /// Aborts the dispatcher.
    pub async fn stop(&mut self) {
        let dispatcher = self.dispatcher.take().unwrap();
        dispatcher.abort();
        assert!(dispatcher.await.unwrap_err().is_cancelled());
    }

    pub fn configure(&self, targets: Vec<TargetConfig>) {
        self.targets.send_replace(Arc::new(targets.into_iter().map(Arc::new).collect()));
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.path("t.db")
    }

    /// Writes documents with these titles into the outbox, as after a probe that matched them, and wakes
    /// the dispatcher.
    pub async fn enqueue(&self, target: &str, titles: &[&str]) {
        self.enqueue_from(self.source, target, titles).await;
    }

    /// The same for a probe of that source.
    pub async fn enqueue_from(&self, source: SourceId, target: &str, titles: &[&str]) {
        self.matched(source, target, titles, true).await;
    }

    /// Matches of a rule that has not counted enough updates.
    pub async fn hold(&self, target: &str, titles: &[&str]) {
        self.matched(self.source, target, titles, false).await;
    }

    async fn matched(&self, source: SourceId, target: &str, titles: &[&str], deliver_now: bool) {
        let matched = |title: &&str| {
            let mut document = document(title);
            let items = document.remove("items").and_then(|items| items.as_array().cloned()).unwrap();
            let item = |fields: &Value| MatchedItem {
                kind: UpdateKind::New,
                id: format!("{title} of {}", source.0),
                content: None,
                fields: fields.as_object().unwrap().clone(),
            };
            MatchRecord {
                name: "me/all".into(),
                profile: "me".into(),
                rule: "all".into(),
                targets: vec![target.into()],
                document,
                items: items.iter().map(item).collect(),
                more: 0,
                deliver_now,
            }
        };
        self.probed(source, None, titles.iter().map(matched).collect()).await;
    }

    /// A probe of a page that found this text, and the rule's match.
    pub async fn page_changed(&self, target: &str, text: &str) {
        let now = self.clock.now();
        let changed = Update::bare(UpdateKind::Changed, Occurred::Between(now - HOUR, now), text);
        let observation = Observation { updates: vec![changed], ..Observation::default() };
        let document = document(text);
        let fields = document["items"][0].as_object().unwrap().clone();
        let item = MatchedItem { kind: UpdateKind::Changed, id: text.to_owned(), content: None, fields };
        let matched = MatchRecord {
            name: "me/all".into(),
            profile: "me".into(),
            rule: "all".into(),
            targets: vec![target.into()],
            document,
            items: vec![item],
            more: 0,
            deliver_now: true,
        };
        self.probed(self.source, Some(observation), vec![matched]).await;
    }

    async fn probed(&self, source: SourceId, observation: Option<Observation>, matches: Vec<MatchRecord>) {
        let now = self.clock.now();
        let (policy, reason) = (Policy::Uniform, Reason::Policy);
        let record = ProbeRecord {
            uncharged: false,
            attempt: Attempt { source, due: now, started: now, policy, reason, forecast: None },
            finished: now,
            outcome: ProbeOutcome::Updated,
            http_status: Some(200),
            bytes: 0,
            error: None,
            validators: ValidatorsChange::Keep,
            tardy: None,
            deadline: None,
            document: None,
            observation,
            memory: SourceMemory { due: Due::At(now + HOUR), ..SourceMemory::default() },
            beliefs: None,
            burst: None,
            burst_so_far: None,
            host: None,
            events: Vec::new(),
            matches,
            rules: Vec::new(),
            compared: None,
            room: None,
            stored: StoredColumns::default(),
        };
        self.write(Write::Ended(Box::new(record))).await;
        self.wake.notify_one();
    }

    /// Adds a source to the store.
    pub async fn add_source(&self, name: &str) -> SourceId {
        let mut connection = open::for_writing(&self.store()).await.unwrap();
        let added = sqlx::query_scalar(
            "INSERT INTO sources (name, url, kind, policy, added_at)
             VALUES (?, 'http://c/', 'feed', 'auto', 0) RETURNING id",
        );
        SourceId(added.bind(name).fetch_one(&mut connection).await.unwrap())
    }

    /// Writes a document into the outbox that no probe can produce.
    pub async fn insert_row(&self, key: &str, target: &str, document: &Map<String, Value>) {
        let mut connection = open::for_writing(&self.store()).await.unwrap();
        sqlx::query(
            "INSERT INTO deliveries (key, profile, rule, target, source_id, created_at, document)
             VALUES (?, 'me', 'all', ?, ?, ?, ?)",
        )
        .bind(key)
        .bind(target)
        .bind(self.source.0)
        .bind(self.clock.now().as_millis())
        .bind(Value::from(document.clone()).to_string())
        .execute(&mut connection)
        .await
        .unwrap();
        self.wake.notify_one();
    }

    /// Writes something, and waits until it is committed.
    pub async fn write(&self, write: Write) {
        let (done, committed) = oneshot::channel();
        self.handle.writes.send(write).unwrap();
        self.handle.writes.send(Write::Flush(done)).unwrap();
        soon("a commit", committed).await.unwrap();
    }

    /// All rows, in order.
    pub async fn rows(&self) -> Vec<DeliveryRow> {
        self.reader.deliveries(&Filter { limit: 10_000, ..Filter::default() }).await.unwrap()
    }

    /// The number of rows in each state.
    pub async fn states(&self) -> HashMap<String, usize> {
        let mut states = HashMap::new();
        for row in self.rows().await {
            *states.entry(row.state).or_default() += 1;
        }
        states
    }

    /// Waits until this number of rows is delivered.
    pub async fn delivered(&self, count: usize) {
        until_found(&format!("{count} deliveries"), async || {
            self.states().await.get("delivered").copied().unwrap_or_default() >= count
        })
        .await;
    }

    /// Waits until the first row for a target has failed once, and returns it.
    pub async fn failed(&self, target: &str) -> DeliveryRow {
        let first = async || self.rows().await.into_iter().find(|row| row.target == target).unwrap();
        until_found("a failed attempt", async || first().await.last_error.is_some()).await;
        first().await
    }
}
