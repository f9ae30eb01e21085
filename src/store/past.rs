//! What sources published in the past, and when they were probed: the log, to be tried out again.
//!
//! Suits the commands that look back. The log of all sources may be larger than memory, so it is first
//! asked who has one, and then read for those only who are wanted, a few at a time. Must not know what
//! is made of it.

use std::collections::{HashMap, HashSet};
use std::future::poll_fn;

use serde_json::json;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use tidewatch_core::observe::compare::key_hash;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Timestamp;

use super::StoreError;
use super::reader::Reader;

/// A source's past.
#[derive(Debug, Clone, PartialEq)]
pub struct Past {
    /// Whose.
    pub id: SourceId,
    /// Its name.
    pub name: String,
    /// Its group.
    pub group: Option<String>,
    /// It is a page.
    pub page: bool,
    /// When it published, ascending; from before it was watched, what its feed still dated.
    pub published: Vec<Timestamp>,
    /// Those of these times that are guesses, ascending: all that is known is between which looks.
    pub guessed: Vec<Timestamp>,
    /// When its probes were sent, ascending, as far as the log goes back.
    pub probed: Vec<Timestamp>,
    /// Those of them that were answered: the others saw nothing.
    pub answered: Vec<Timestamp>,
}

/// The past of some sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Pasts {
    /// In the order of their names.
    pub pasts: Vec<Past>,
    /// How many sources are watched in all.
    pub sources: usize,
}

/// Sources whose log is read at a time.
const CHUNK: usize = 100;

impl Reader {
    /// The past of at most `sample` sources, spread evenly by name over those that are still watched and
    /// have more than two probes in the log.
    pub async fn pasts(&self, sample: usize) -> Result<Pasts, StoreError> {
        let mut connection = self.connection().await?;
        let sources: i64 = sqlx::query_scalar("SELECT count(*) FROM sources WHERE state <> 'removed'")
            .fetch_one(&mut *connection)
            .await?;
        let mut logged = Vec::new();
        // Counts no further than it must: a log may be long.
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

/// So many of them, or all if they are fewer, at even distances.
fn spread<T>(all: Vec<T>, sample: usize) -> Vec<T> {
    let (len, sample) = (all.len(), sample.min(all.len()));
    let wanted: HashSet<usize> = (0..sample).map(|n| n * len / sample).collect();
    all.into_iter().enumerate().filter(|(at, _)| wanted.contains(at)).map(|(_, one)| one).collect()
}

/// Reads the log of these.
async fn read(connection: &mut SqliteConnection, pasts: &mut [Past]) -> Result<(), StoreError> {
    let ids = json!(pasts.iter().map(|past| past.id.0).collect::<Vec<_>>()).to_string();
    let places: HashMap<i64, usize> = pasts.iter().enumerate().map(|(at, past)| (past.id.0, at)).collect();
    let place = |row: &SqliteRow| places.get(&row.get::<i64, _>(0)).copied();
    let time = |row: &SqliteRow| Timestamp::from_millis(row.get(1));

    let query = "SELECT source_id, started_at, outcome <> 'failed' FROM probes
         WHERE source_id IN (SELECT value FROM json_each(?))";
    let mut rows = sqlx::query(query).bind(&ids).fetch(&mut *connection);
    while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
        let row = row?;
        let Some(past) = place(&row).and_then(|at| pasts.get_mut(at)) else { continue };
        past.probed.push(time(&row));
        if row.get(2) {
            past.answered.push(time(&row));
        }
    }
    drop(rows);

    // Items that were news. They are told by their key, since a time may be anything.
    let mut news: HashSet<(usize, u64)> = HashSet::new();
    let query = "SELECT source_id, occurred_at, occurred_exact, kind = 'new', key FROM updates
         WHERE kind <> 'edited' AND source_id IN (SELECT value FROM json_each(?))";
    let mut rows = sqlx::query(query).bind(&ids).fetch(&mut *connection);
    while let Some(row) = poll_fn(|context| rows.as_mut().poll_next(context)).await {
        let row = row?;
        let Some(at) = place(&row) else { continue };
        let Some(past) = pasts.get_mut(at) else { continue };
        past.published.push(time(&row));
        if !row.get::<bool, _>(2) {
            past.guessed.push(time(&row));
        }
        if row.get(3) {
            news.insert((at, key_hash(row.get(4))));
        }
    }
    drop(rows);

    // What was there at first contact is no update, but it is known when it came. Items that were first
    // seen later are updates, which outlast the probes that found them. Where all of first contact are
    // forgotten, the first that are left are updates too.
    let query = "SELECT source_id, dated_at, key_hash FROM items AS i
         WHERE source_id IN (SELECT value FROM json_each(?)) AND dated_at <= first_seen_at
           AND first_seen_at = (SELECT min(first_seen_at) FROM items WHERE source_id = i.source_id)";
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
