//! The bare loop: what the libraries cost without the daemon, in a process of its own.
//!
//! One reqwest client with 32 requests at once, feed-rs on a 200, and one writer: SQLite in transactions of
//! 500 probes, with one statement for each kind of row. It keeps validators in memory and decides nothing.

use std::io::{BufRead, Write as _};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use reqwest::header::{ETAG, HeaderValue, IF_NONE_MATCH};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::clock::{Clock, Stopwatch};
use tokio::runtime::Builder;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use url::Url;

/// Requests at once.
const AT_ONCE: usize = 32;
/// Probes in a transaction.
const BATCH: usize = 500;

/// What a run did.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct BareCounts {
    /// All probes.
    pub probes: u64,
    /// Those answered with 304.
    pub not_modified: u64,
}

/// A command: this many probes, or as many as this time allows.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct BareOrder {
    /// The most probes.
    pub probes: usize,
    /// The longest time, in seconds.
    pub seconds: f64,
}

/// Obeys the orders on standard input until that ends. The runtime has as many threads as the daemon's, or
/// only this one.
pub fn run(ports: &[u16], sources: usize, store: &Path, one_thread: bool) -> Result<()> {
    let mut builder = if one_thread { Builder::new_current_thread() } else { Builder::new_multi_thread() };
    let runtime = builder.enable_all().build()?;
    let (mut bare, mut connection) = runtime.block_on(BareLoop::open(ports, sources, store))?;
    for line in std::io::stdin().lock().lines() {
        let order: BareOrder = serde_json::from_str(&line?)?;
        let counts;
        (counts, connection) = runtime.block_on(bare.probe(order, connection))?;
        let mut out = std::io::stdout().lock();
        writeln!(out, "{}", serde_json::to_string(&counts)?)?;
        out.flush()?;
    }
    Ok(())
}

struct BareSource {
    id: i64,
    url: Url,
    etag: Mutex<Option<HeaderValue>>,
}

struct BareLoop {
    client: reqwest::Client,
    clock: Clock,
    sources: Arc<Vec<BareSource>>,
    /// The source that is probed next.
    next: usize,
}

impl BareLoop {
    async fn open(ports: &[u16], sources: usize, store: &Path) -> Result<(Self, SqliteConnection)> {
        let sources: Vec<BareSource> = (0..sources)
            .map(|number| {
                let port = ports[number % ports.len()];
                let url = Url::parse(&format!("http://127.0.0.1:{port}/{number}.xml"))?;
                Ok(BareSource { id: i64::try_from(number)?, url, etag: Mutex::default() })
            })
            .collect::<Result<_>>()?;
        // As the daemon has it.
        let options = SqliteConnectOptions::new()
            .filename(store)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Normal)
            .disable_statement_logging();
        let mut connection = options.connect().await?;
        sqlx::raw_sql(
            "CREATE TABLE sources (id INTEGER PRIMARY KEY, url TEXT NOT NULL, etag TEXT, last_modified TEXT);
             CREATE TABLE probes (id INTEGER PRIMARY KEY, source_id INTEGER NOT NULL, started_at INTEGER NOT NULL,
                 duration_ms INTEGER NOT NULL, http_status INTEGER NOT NULL, bytes INTEGER NOT NULL);
             CREATE TABLE items (source_id INTEGER NOT NULL, key TEXT NOT NULL, title TEXT, link TEXT,
                 published_at INTEGER, PRIMARY KEY (source_id, key)) WITHOUT ROWID;",
        )
        .execute(&mut connection)
        .await?;
        let rows: Vec<(i64, &str)> =
            sources.iter().map(|source| (source.id, source.url.as_str())).collect();
        sqlx::query("INSERT INTO sources (id, url) SELECT value ->> 0, value ->> 1 FROM json_each(?)")
            .bind(serde_json::to_string(&rows)?)
            .execute(&mut connection)
            .await?;
        let client = reqwest::Client::builder().no_proxy().build()?;
        let bare = Self { client, clock: Clock::wall(), sources: Arc::new(sources), next: 0 };
        Ok((bare, connection))
    }

    async fn probe(
        &mut self,
        order: BareOrder,
        connection: SqliteConnection,
    ) -> Result<(BareCounts, SqliteConnection)> {
        let (results, inbox) = mpsc::channel(2 * BATCH);
        let writer = tokio::spawn(write(connection, inbox));
        let (taken, stopwatch) = (Arc::new(AtomicUsize::new(0)), Stopwatch::start());
        let limit = Duration::from_secs_f64(order.seconds);
        let mut workers = JoinSet::new();
        for _ in 0..AT_ONCE {
            let (client, clock, sources) = (self.client.clone(), self.clock.clone(), self.sources.clone());
            let (taken, results, first) = (Arc::clone(&taken), results.clone(), self.next);
            workers.spawn(async move {
                loop {
                    let number = taken.fetch_add(1, Ordering::Relaxed);
                    if number >= order.probes || stopwatch.elapsed() > limit {
                        return Ok(());
                    }
                    let source = &sources[(first + number) % sources.len()];
                    let result = fetch(&client, &clock, source).await?;
                    results.send(result).await.context("the writer ended")?;
                }
            });
        }
        drop(results);
        while let Some(ended) = workers.join_next().await {
            let ended: Result<()> = ended?;
            ended?;
        }
        let (counts, connection) = writer.await??;
        self.next = (self.next + usize::try_from(counts.probes)?) % self.sources.len();
        Ok((counts, connection))
    }
}

/// An answered probe.
struct Answered {
    source: i64,
    started: i64,
    duration: i64,
    status: u16,
    bytes: usize,
    /// The validator and the items of a 200.
    full: Option<(String, Vec<AnsweredItem>)>,
}

struct AnsweredItem {
    key: String,
    title: Option<String>,
    link: Option<String>,
    published: Option<i64>,
}

async fn fetch(client: &reqwest::Client, clock: &Clock, source: &BareSource) -> Result<Answered> {
    let known = source.etag.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let mut request = client.get(source.url.clone());
    if let Some(etag) = known {
        request = request.header(IF_NONE_MATCH, etag);
    }
    let started = clock.now().as_millis();
    let answer = request.send().await?;
    let status = answer.status().as_u16();
    let etag = answer.headers().get(ETAG).cloned();
    let body = answer.bytes().await?;
    let duration = clock.now().as_millis() - started;
    let full = match status {
        304 => None,
        200 => Some(items(&body)?),
        _ => bail!("HTTP {status}"),
    };
    let full = full.map(|items| {
        let text = etag.as_ref().and_then(|etag| etag.to_str().ok()).unwrap_or_default().to_owned();
        *source.etag.lock().unwrap_or_else(PoisonError::into_inner) = etag;
        (text, items)
    });
    Ok(Answered { source: source.id, started, duration, status, bytes: body.len(), full })
}

fn items(body: &[u8]) -> Result<Vec<AnsweredItem>> {
    let feed = feed_rs::parser::parse(body)?;
    let items = feed.entries.into_iter().map(|entry| AnsweredItem {
        key: entry.id,
        title: entry.title.map(|title| title.content),
        link: entry.links.into_iter().next().map(|link| link.href),
        published: entry.published.map(|at| at.timestamp_millis()),
    });
    Ok(items.collect())
}

/// Writes all results, and returns the connection when there are no more.
async fn write(
    mut connection: SqliteConnection,
    mut inbox: mpsc::Receiver<Answered>,
) -> Result<(BareCounts, SqliteConnection)> {
    let mut counts = BareCounts::default();
    let mut batch = Vec::with_capacity(BATCH);
    loop {
        let space = BATCH - batch.len();
        let more = inbox.recv_many(&mut batch, space).await > 0;
        if more && batch.len() < BATCH {
            continue;
        }
        if !batch.is_empty() {
            commit(&mut connection, &batch).await?;
            counts.probes += batch.len() as u64;
            counts.not_modified += batch.iter().filter(|probe| probe.status == 304).count() as u64;
            batch.clear();
        }
        if !more {
            return Ok((counts, connection));
        }
    }
}

async fn commit(connection: &mut SqliteConnection, batch: &[Answered]) -> Result<()> {
    sqlx::query("BEGIN IMMEDIATE").execute(&mut *connection).await?;
    let probes: Vec<_> = batch
        .iter()
        .map(|probe| (probe.source, probe.started, probe.duration, probe.status, probe.bytes))
        .collect();
    sqlx::query(
        "INSERT INTO probes (source_id, started_at, duration_ms, http_status, bytes)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?)",
    )
    .bind(serde_json::to_string(&probes)?)
    .execute(&mut *connection)
    .await?;
    let full = || batch.iter().filter_map(|probe| Some((probe.source, probe.full.as_ref()?)));
    let validators: Vec<_> = full().map(|(source, (etag, _))| (source, etag)).collect();
    if !validators.is_empty() {
        sqlx::query(
            "UPDATE sources SET etag = new.value ->> 1, last_modified = new.value ->> 2
             FROM json_each(?) AS new WHERE sources.id = new.value ->> 0",
        )
        .bind(serde_json::to_string(&validators)?)
        .execute(&mut *connection)
        .await?;
        let items = full().flat_map(|(source, (_, items))| items.iter().map(move |item| (source, item)));
        let items: Vec<_> = items
            .map(|(source, item)| (source, &item.key, &item.title, &item.link, item.published))
            .collect();
        sqlx::query(
            "INSERT OR IGNORE INTO items (source_id, key, title, link, published_at)
             SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM json_each(?)",
        )
        .bind(serde_json::to_string(&items)?)
        .execute(&mut *connection)
        .await?;
    }
    sqlx::query("COMMIT").execute(&mut *connection).await?;
    Ok(())
}
