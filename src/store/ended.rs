//! Stores finished probes: log, updates, items, pages, validators, models and the state of the sources.
//!
//! The probes are of different sources, and each statement takes the rows of all of them. So their number does
//! not change the number of statements.

use std::collections::HashMap;

use serde_json::json;
use sqlx::SqliteConnection;

use tidewatch_core::observe::{ItemChange, Observation, Occurred, Present, Update};
use tidewatch_core::time::{Span, Timestamp};

use super::json_rows::{Hex, text_of};
use super::record::{DocumentRecord, ProbeRecord, ValidatorsChange};
use super::rules::MatchingProbe;
use super::{known_items, predictions, rhythm, rules, source_row};

type Result<T = ()> = std::result::Result<T, sqlx::Error>;

/// An observation, with the source's and the probe's number and the end of the probe.
type Seen<'r> = (i64, i64, Timestamp, &'r Observation);

/// Stores finished probes of different sources.
pub(super) async fn insert(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    if records.is_empty() {
        return Ok(());
    }
    let first = log(connection, records).await?;
    let seen: Vec<Seen<'_>> = (first..)
        .zip(records)
        .filter_map(|(probe, record)| {
            Some((record.attempt.source.0, probe, record.finished, record.observation.as_ref()?))
        })
        .collect();
    updates(connection, &seen).await?;
    items(connection, &seen).await?;
    left(connection, &seen).await?;
    gaps(connection, &seen).await?;
    pages(connection, &seen).await?;
    source_row::write(connection, records).await?;
    validators(connection, records).await?;
    documents(connection, records).await?;
    forget_items(connection, records).await?;
    rhythm::write_models(connection, records).await?;
    rhythm::bursts(connection, records).await?;
    hosts(connection, records).await?;
    for (probe, record) in (first..).zip(records) {
        let by = MatchingProbe { source: record.attempt.source, probe, at: record.finished };
        for matches in &record.matches {
            rules::record_matches(connection, by, matches).await?;
        }
    }
    let states: Vec<_> = records.iter().flat_map(|record| &record.rules).collect();
    rules::states_changed(connection, &states).await?;
    predictions::count(connection, records).await
}

/// Adds the probes to the log. Returns the number of the first; the others follow in order.
async fn log(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result<i64> {
    let first: i64 = sqlx::query_scalar(
        // Not a number that a correction of the clock counts as earlier: the log may have been emptied.
        "SELECT max(coalesce((SELECT max(id) FROM probes), 0),
                    coalesce((SELECT max(last_probe) FROM clock_corrections), 0)) + 1",
    )
    .fetch_one(&mut *connection)
    .await?;
    let rows: Vec<_> = (first..)
        .zip(records)
        .map(|(probe, record)| {
            let attempt = &record.attempt;
            let in_force = |until: Option<Timestamp>| {
                until.filter(|&until| until > record.finished).map(Timestamp::as_millis)
            };
            let updates = record.observation.as_ref().map_or(0, |seen| seen.updates.len());
            (
                probe,
                attempt.source.0,
                attempt.due.as_millis(),
                attempt.started.as_millis(),
                (record.finished.as_millis() - attempt.started.as_millis()).max(0),
                record.outcome.name(),
                record.http_status,
                record.bytes,
                updates,
                attempt.policy.name(),
                attempt.reason.name(),
                record.error.as_deref(),
                record.tardy.map(Span::as_millis),
                record.uncharged.then_some(1),
                in_force(record.memory.fresh_until),
                in_force(record.memory.retry_until),
            )
        })
        .collect();
    sqlx::query(
        "INSERT INTO probes (id, source_id, due_at, started_at, duration_ms, outcome, http_status, bytes,
                             updates_found, policy, reason, error, tardy_ms, uncharged,
                             fresh_until, retry_until)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11, value ->> 12, value ->> 13,
                value ->> 14, value ->> 15
         FROM jsonb_each(?)",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(first)
}

async fn updates(connection: &mut SqliteConnection, seen: &[Seen<'_>]) -> Result {
    let row = |source: i64, probe: i64, at: Timestamp, update: &Update| {
        let (occurred, after, exact) = match update.occurred {
            Occurred::At(at) => (at, None, 1),
            Occurred::Between(from, to) => (middle(from, to), Some(from.as_millis()), 0),
        };
        json!([
            source,
            probe,
            at.as_millis(),
            occurred.as_millis(),
            after,
            exact,
            update.kind.name(),
            update.key,
            update.title,
            update.link,
            labels(&update.labels.authors),
            labels(&update.labels.categories)
        ])
    };
    let rows: Vec<_> = seen
        .iter()
        .flat_map(|&(source, probe, at, seen)| {
            seen.updates.iter().map(move |update| row(source, probe, at, update))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO updates (source_id, probe_id, detected_at, occurred_at, occurred_after, occurred_exact,
                              kind, key, title, link, authors, categories)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 5, value ->> 6,
                value ->> 7, value ->> 8, value ->> 9, value ->> 10, value ->> 11
         FROM jsonb_each(?) WHERE true
         ON CONFLICT DO NOTHING",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// A list as JSON; `None` if empty.
fn labels(list: &[String]) -> Option<String> {
    (!list.is_empty()).then(|| json!(list).to_string())
}

/// Stores the items that came, changed or came back. The others of a document keep their rows as they are.
async fn items(connection: &mut SqliteConnection, seen: &[Seen<'_>]) -> Result {
    let row = |&(source, _, now, seen): &Seen<'_>| {
        let changed = seen.present.iter().filter(|item| item.change != ItemChange::Unchanged);
        let row = move |item: &Present| {
            let (key, fingerprint) = (item.key_hash as i64, item.fingerprint as i64);
            (source, key, fingerprint, item.dated.map(Timestamp::as_millis), now.as_millis())
        };
        changed.map(row).collect::<Vec<_>>()
    };
    let rows: Vec<_> = seen.iter().flat_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO items (source_id, key_hash, fingerprint, dated_at, first_seen_at, last_seen_at)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 4
         FROM jsonb_each(?) WHERE true
         ON CONFLICT (source_id, key_hash) DO UPDATE
         SET fingerprint = excluded.fingerprint, last_seen_at = excluded.last_seen_at, left_at = NULL,
             gone_at = NULL",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Marks the items that left their document, and those of them that their publisher removed. They were last
/// seen at the answer before. Must come before that time changes.
async fn left(connection: &mut SqliteConnection, seen: &[Seen<'_>]) -> Result {
    let row = |&(source, _, now, seen): &Seen<'_>| {
        let removed = !seen.gone.is_empty();
        let rows =
            seen.left.iter().map(move |&key| (source, key as i64, now.as_millis(), u8::from(removed)));
        rows.collect::<Vec<_>>()
    };
    let rows: Vec<_> = seen.iter().flat_map(row).collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE items SET left_at = gone.value ->> 2, gone_at = iif(gone.value ->> 3, gone.value ->> 2, gone_at),
             last_seen_at = max(last_seen_at, coalesce(
                 (SELECT last_look_at FROM sources WHERE sources.id = items.source_id), 0))
         FROM jsonb_each(?) AS gone
         WHERE source_id = gone.value ->> 0 AND key_hash = gone.value ->> 1",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

async fn gaps(connection: &mut SqliteConnection, seen: &[Seen<'_>]) -> Result {
    let rows: Vec<_> = seen
        .iter()
        .filter(|(.., seen)| seen.gap)
        .map(|(source, probe, at, _)| (source, probe, at.as_millis()))
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO gaps (source_id, probe_id, at)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(?)",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// Stores the texts of pages, if they changed.
async fn pages(connection: &mut SqliteConnection, seen: &[Seen<'_>]) -> Result {
    let rows: Vec<_> = seen
        .iter()
        .filter_map(|(source, _, _, seen)| {
            let page = seen.page.as_ref()?;
            Some((source, page.fingerprint as i64, &page.text))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO pages (source_id, fingerprint, text)
         SELECT value ->> 0, value ->> 1, value ->> 2 FROM jsonb_each(?) WHERE true
         ON CONFLICT (source_id) DO UPDATE SET fingerprint = excluded.fingerprint, text = excluded.text
         WHERE fingerprint <> excluded.fingerprint",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// A header's value: as text, which is readable in the store, or as other bytes.
type HeaderColumns<'r> = (Option<&'r str>, Option<Hex<&'r [u8]>>);

fn header(value: Option<&[u8]>) -> HeaderColumns<'_> {
    match value.map(|bytes| (std::str::from_utf8(bytes), bytes)) {
        None => (None, None),
        Some((Ok(text), _)) => (Some(text), None),
        Some((Err(_), bytes)) => (None, Some(Hex(bytes))),
    }
}

async fn validators(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    let mut replaced = Vec::new();
    let mut refreshed = Vec::new();
    for record in records {
        let id = record.attempt.source.0;
        match &record.validators {
            ValidatorsChange::Keep => {}
            ValidatorsChange::Replace { url, etag, last_modified } => {
                let (etag, last_modified) = (header(etag.as_deref()), header(last_modified.as_deref()));
                let unread: [Option<&str>; 2] = [None, None];
                replaced.push((id, etag.0, etag.1, last_modified.0, last_modified.1, url, unread));
            }
            ValidatorsChange::Unread { url, etag, last_modified, unread } => {
                let (etag, last_modified) = (header(etag.as_deref()), header(last_modified.as_deref()));
                let unread = [Some(&*unread.error), Some(&*unread.within)];
                replaced.push((id, etag.0, etag.1, last_modified.0, last_modified.1, url, unread));
            }
            ValidatorsChange::Refresh { etag, last_modified } => {
                let (etag, last_modified) = (header(etag.as_deref()), header(last_modified.as_deref()));
                refreshed.push((id, etag.0, etag.1, last_modified.0, last_modified.1));
            }
        }
    }
    if !replaced.is_empty() {
        sqlx::query(
            "UPDATE sources SET etag = coalesce(new.value ->> 1, unhex(new.value ->> 2)),
                 last_modified = coalesce(new.value ->> 3, unhex(new.value ->> 4)),
                 validators_url = new.value ->> 5,
                 unread = new.value ->> 6 ->> 0, unread_within = new.value ->> 6 ->> 1
             FROM jsonb_each(?) AS new WHERE sources.id = new.value ->> 0",
        )
        .bind(text_of(&replaced)?)
        .execute(&mut *connection)
        .await?;
    }
    if !refreshed.is_empty() {
        sqlx::query(
            "UPDATE sources SET etag = coalesce(new.value ->> 1, unhex(new.value ->> 2), etag),
                 last_modified = coalesce(new.value ->> 3, unhex(new.value ->> 4), last_modified)
             FROM jsonb_each(?) AS new WHERE sources.id = new.value ->> 0",
        )
        .bind(text_of(&refreshed)?)
        .execute(connection)
        .await?;
    }
    Ok(())
}

/// Stores what is known of documents that were read. If the rate was fitted again since the probe read it, the next
/// probe is reviewed.
async fn documents(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    let rows: Vec<_> = records
        .iter()
        .filter_map(|record| {
            let DocumentRecord { body_hash, learned, fitted_at, review_settings, max_items, page_read_as } =
                *record.document.as_ref()?;
            let cut = record.observation.as_ref().is_some_and(|seen| seen.cut);
            Some((
                record.attempt.source.0,
                body_hash.map(|hash| hash as i64),
                learned.at.as_millis(),
                learned.review_at.as_millis(),
                fitted_at.map(Timestamp::as_millis),
                review_settings as i64,
                cut.then_some(max_items),
                added_items(record),
                page_read_as.map(|hash| hash as i64),
            ))
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "UPDATE sources SET body_hash = coalesce(new.value ->> 1, body_hash), learned_until = new.value ->> 2,
             review_at = iif((SELECT fitted_at FROM fits WHERE source_id = sources.id) IS new.value ->> 4,
                             new.value ->> 3, NULL),
             review_settings = new.value ->> 5,
             cut_at = iif(new.value ->> 1 IS NULL, cut_at, new.value ->> 6),
             page_read_as = iif(new.value ->> 1 IS NULL, page_read_as, new.value ->> 8),
             known_items = iif(new.value ->> 7, coalesce(known_items + new.value ->> 7,
                 (SELECT count(*) FROM items WHERE source_id = sources.id)), known_items)
         FROM jsonb_each(?) AS new WHERE sources.id = new.value ->> 0",
    )
    .bind(text_of(&rows)?)
    .execute(connection)
    .await?;
    Ok(())
}

/// The number of items that the source did not have, at most: of those that came back, rows may have been deleted.
fn added_items(record: &ProbeRecord) -> usize {
    let present = record.observation.as_ref().map_or(&[][..], |seen| &seen.present);
    let added = |item: &&Present| matches!(item.change, ItemChange::New | ItemChange::Back);
    present.iter().filter(added).count()
}

/// Bounds the number of items of each source.
async fn forget_items(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    let changed: Vec<_> = records
        .iter()
        .filter_map(|record| {
            let added = Some(added_items(record) as i64).filter(|&added| added > 0)?;
            Some((record.attempt.source.0, added, record, record.document.as_ref()?.max_items))
        })
        .collect();
    // Those that were not counted before the probe were counted just now.
    let uncounted: Vec<i64> = changed
        .iter()
        .filter(|(.., record, _)| record.stored.known_items.is_none())
        .map(|(source, ..)| *source)
        .collect();
    let counted = known_items::counted(connection, &uncounted).await?;
    for (source, added, record, max_items) in changed {
        let before = record.stored.known_items.map(|known| known + added);
        let known = before.or_else(|| counted.get(&source).copied()).unwrap_or(0);
        if known_items::may_be_too_many(known, max_items) {
            known_items::bound(connection, source, max_items, record.finished).await?;
        }
    }
    Ok(())
}

/// Stores the changed limits of host groups.
async fn hosts(connection: &mut SqliteConnection, records: &[&ProbeRecord]) -> Result {
    let rows: Vec<_> = records
        .iter()
        .filter_map(|record| record.host.as_ref())
        .map(|host| {
            let paused_until = host.paused_until.map(Timestamp::as_millis);
            (&host.key, u8::from(host.public), paused_until, host.crawl_delay.as_millis())
        })
        .collect();
    if rows.is_empty() {
        return Ok(());
    }
    sqlx::query(
        "INSERT INTO hosts (host, public, paused_until, crawl_delay_ms)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM jsonb_each(?) WHERE true
         ON CONFLICT (host) DO UPDATE
         SET paused_until = excluded.paused_until, crawl_delay_ms = excluded.crawl_delay_ms",
    )
    .bind(text_of(&rows)?)
    .execute(&mut *connection)
    .await?;
    // In a batch, a later change ends an earlier one of the same host group.
    let mut next: HashMap<&str, i64> = HashMap::new();
    let mut logged: Vec<_> = records
        .iter()
        .rev()
        .filter_map(|record| {
            let host = record.host.as_ref()?;
            let at = record.finished.as_millis();
            let paused_until = host.paused_until.map(Timestamp::as_millis);
            Some((&host.key, at, next.insert(&host.key, at), paused_until, host.crawl_delay.as_millis()))
        })
        .collect();
    logged.reverse();
    let logged = text_of(&logged)?;
    sqlx::query(
        "UPDATE host_limits SET ended_at = (SELECT min(value ->> 1) FROM jsonb_each(?1) WHERE value ->> 0 = host)
         WHERE ended_at IS NULL AND host IN (SELECT value ->> 0 FROM jsonb_each(?1))",
    )
    .bind(&logged)
    .execute(&mut *connection)
    .await?;
    sqlx::query(
        "INSERT INTO host_limits (host, at, ended_at, paused_until, crawl_delay_ms)
         SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4 FROM jsonb_each(?)",
    )
    .bind(logged)
    .execute(connection)
    .await?;
    Ok(())
}

fn middle(from: Timestamp, to: Timestamp) -> Timestamp {
    from + Span::from_millis((to - from).as_millis() / 2)
}
