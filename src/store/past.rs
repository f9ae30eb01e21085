//! The past updates and probes of sources, for commands that replay the log.
//!
//! The log may be larger than memory. So the sources with enough probes are listed first, and then only the
//! sampled ones are read, some at a time. Must not know how the result is used.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;

use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use tidewatch_core::observe::compare::key_hash;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::clock::StoredClock;
use super::reader::Reader;

/// The past of one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// The source's number.
    pub id: SourceId,
    /// The source's name.
    pub name: String,
    /// The source's group.
    pub group: Option<String>,
    /// Whether it is a page.
    pub page: bool,
    /// Times of its updates, ascending. Includes dated items of the feed from before its first probe.
    pub published: Vec<Timestamp>,
    /// The estimated ones of these times, ascending: the middle between two probes.
    pub guessed: Vec<Timestamp>,
    /// Start times of its logged probes, ascending.
    pub probed: Vec<Timestamp>,
    /// Start times of the probes that did not fail.
    pub answered: Vec<Timestamp>,
}

/// The past of some sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Pasts {
    /// Ordered by name.
    pub pasts: Vec<Past>,
    /// Number of all sources that are not removed.
    pub sources: usize,
}

/// Sources whose log one query reads.
const CHUNK: usize = 100;

impl Reader {
    /// The past of at most `sample` sources, spread evenly by name over the listed sources with more than
    /// two logged probes.
    pub async fn pasts(&self, sample: usize) -> Result<Pasts, StoreError> {
        let mut connection = self.connection().await?;
        let sources: i64 = sqlx::query_scalar("SELECT count(*) FROM sources WHERE state <> 'removed'")
            .fetch_one(&mut *connection)
            .await?;
        let mut logged = Vec::new();
        // Counts at most three probes: a log may be long.
        let query = "SELECT id, name, group_name, kind = 'page' FROM sources
             WHERE state <> 'removed'
               AND (SELECT count(*) FROM (SELECT 1 FROM probes WHERE source_id = sources.id LIMIT 3)) > 2
             ORDER BY name";
        let mut rows = sqlx::query(query).fetch(&mut *connection);
        while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
            logged.push(unread(&row?));
        }
        drop(rows);
        let mut pasts = spread(logged, sample);
        for chunk in pasts.chunks_mut(CHUNK) {
            read(&mut connection, chunk).await?;
        }
        Ok(Pasts { pasts, sources: usize::try_from(sources).unwrap_or(0) })
    }
}

fn unread(row: &SqliteRow) -> Past {
    Past {
        id: SourceId(row.get(0)),
        name: row.get(1),
        group: row.get(2),
        page: row.get(3),
        published: Vec::new(),
        guessed: Vec::new(),
        probed: Vec::new(),
        answered: Vec::new(),
    }
}

/// At most `sample` of them, at even distances.
fn spread<T>(all: Vec<T>, sample: usize) -> Vec<T> {
    let (len, sample) = (all.len(), sample.min(all.len()));
    let wanted: HashSet<usize> = (0..sample).map(|n| n * len / sample).collect();
    all.into_iter().enumerate().filter(|(at, _)| wanted.contains(at)).map(|(_, one)| one).collect()
}

/// Reads the log of these sources, by the present clock.
async fn read(connection: &mut SqliteConnection, pasts: &mut [Past]) -> Result<(), StoreError> {
    let ids = json!(pasts.iter().map(|past| past.id.0).collect::<Vec<_>>()).to_string();
    let places: HashMap<i64, usize> = pasts.iter().enumerate().map(|(at, past)| (past.id.0, at)).collect();
    let place = |row: &SqliteRow| places.get(&row.get::<i64, _>(0)).copied();
    let time = |row: &SqliteRow| Timestamp::from_millis(row.get(1));
    let times = StoredClock::read(connection).await?.log_times();

    let query = "SELECT source_id, started_at, outcome <> 'failed', id FROM probes
         WHERE source_id IN (SELECT value FROM json_each(?))";
    let mut rows = sqlx::query(query).bind(&ids).fetch(&mut *connection);
    while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
        let row = row?;
        let Some(past) = place(&row).and_then(|at| pasts.get_mut(at)) else { continue };
        let started = times.of(Some(row.get(3)), time(&row));
        past.probed.push(started);
        if row.get(2) {
            past.answered.push(started);
        }
    }
    drop(rows);

    // Items that were found as new, identified by key, since their times are not unique.
    let mut news: HashSet<(usize, u64)> = HashSet::new();
    let query = "SELECT source_id, occurred_at, occurred_exact, kind = 'new', key, probe_id, detected_at
         FROM updates
         WHERE kind <> 'edited' AND source_id IN (SELECT value FROM json_each(?))";
    let mut rows = sqlx::query(query).bind(&ids).fetch(&mut *connection);
    while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
        let row = row?;
        let Some(at) = place(&row) else { continue };
        let Some(past) = pasts.get_mut(at) else { continue };
        let mut published = time(&row);
        if !row.get::<bool, _>(2) {
            // Not a publisher's date, but between two probes.
            published += times.shift_of(row.get(5), Timestamp::from_millis(row.get(6)));
            past.guessed.push(published);
        }
        past.published.push(published);
        if row.get(3) {
            news.insert((at, key_hash(row.get(4))));
        }
    }
    drop(rows);

    // Items of the first probe are no updates, but their dates are known. Items first seen later are stored
    // as updates, which are usually kept longer than probes. If all items of the first probe are deleted, the
    // oldest remaining ones are updates too.
    let query = "SELECT source_id, dated_at, key_hash FROM (
             SELECT source_id, dated_at, key_hash, first_seen_at,
                    rank() OVER (PARTITION BY source_id ORDER BY first_seen_at + coalesce(
                        (SELECT shift_ms FROM log_clocks
                         WHERE first_seen_at BETWEEN coalesce(from_at, first_seen_at) AND coalesce(until_at, first_seen_at)
                         ORDER BY log_clocks.id DESC LIMIT 1), 0)) AS contact
             FROM items WHERE source_id IN (SELECT value FROM json_each(?)))
         WHERE contact = 1 AND dated_at <= first_seen_at";
    let mut rows = sqlx::query(query).bind(&ids).fetch(&mut *connection);
    while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
        let row = row?;
        let Some(at) = place(&row) else { continue };
        let Some(past) = pasts.get_mut(at) else { continue };
        if !news.contains(&(at, row.get::<i64, _>(2) as u64)) {
            past.published.push(time(&row));
        }
    }
    drop(rows);

    for past in pasts {
        for times in [&mut past.published, &mut past.guessed, &mut past.probed, &mut past.answered] {
            times.sort_unstable();
        }
    }
    Ok(())
}
