//! What is new: a document against what was seen before.
//!
//! Exists so that one rule decides, for every source, what counts as an update and when it
//! happened. Knows items, fingerprints and the two looks an event must lie between. Must not know
//! formats, where memories are kept, nor what time it is: `now` is handed in.

use std::collections::HashSet;

use super::labels::Labels;
use super::{
    Feed, Item, Observation, Occurred, PageText, Present, Seen, Unreadable, Update, UpdateKind, text,
};
use crate::time::Timestamp;

/// 1990-01-01: no web page is older, so an earlier date is a broken one.
const WEB_BEGINS: Timestamp = Timestamp::from_secs(631_152_000);

/// What an item's key is remembered as.
pub fn key_hash(key: &str) -> u64 {
    text::fingerprint([key])
}

/// Compares a feed with what was seen.
///
/// - First contact: everything is history, nothing is news. So too when the source moved and
///   nothing at the new place was known: another feed, not a hundred new items.
/// - An unknown key is new, a known one with another fingerprint edited. An item that was gone
///   for a while and is back is not new.
/// - Gap: the last look had items and none of them is left. Something may have come and gone.
/// - Gone: items vanish from the end of a feed as new ones push them out, so arrivals explain as
///   many losses. When more vanished than arrived, while items of the last look are still there,
///   the vanished count as taken down. `Seen` has no order, so with both at once the one pushed
///   out cannot be told from the one taken down: all are named. A truncated document proves
///   nothing about what is missing.
///
/// # Errors
/// [`Unreadable::SuddenlyEmpty`] when there were items at the last look: far more often a fault at
/// the publisher than the truth.
pub fn feed(feed: Feed, seen: &Seen, now: Timestamp) -> Result<Observation, Unreadable> {
    let last: HashSet<u64> =
        seen.items.iter().filter(|(_, item)| item.in_last).map(|(hash, _)| *hash).collect();
    if feed.items.is_empty() && seen.last_look.is_some() && !last.is_empty() {
        return Err(Unreadable::SuddenlyEmpty);
    }
    let mut taken = HashSet::new();
    let items: Vec<(u64, Item)> = feed
        .items
        .into_iter()
        .map(|item| (key_hash(&item.key), item))
        .filter(|(hash, _)| taken.insert(*hash))
        .collect();
    let present: Vec<Present> = items
        .iter()
        .map(|(hash, item)| Present {
            key_hash: *hash,
            fingerprint: item.fingerprint,
            dated: history_date(item, now),
        })
        .collect();
    let mut observation =
        Observation { present, hints: feed.hints, note: feed.repaired, ..Observation::default() };

    let strange =
        seen.moved && !items.is_empty() && !items.iter().any(|(hash, _)| seen.items.contains_key(hash));
    let last_look = match seen.last_look {
        Some(last_look) if !strange => last_look,
        _ => {
            observation.first_contact = true;
            return Ok(observation);
        }
    };

    let kept = items.iter().filter(|(hash, _)| last.contains(hash)).count();
    observation.gap = !last.is_empty() && kept == 0 && !items.is_empty() && !seen.moved;
    let vanished = last.len() - kept;
    let arrived = items.len() - kept;
    if kept > 0 && vanished > arrived && !feed.truncated {
        observation.gone = last.difference(&taken).copied().collect();
        observation.gone.sort_unstable();
    }
    for (hash, item) in items {
        let (kind, dates) = match seen.items.get(&hash) {
            None => (UpdateKind::New, [item.published, item.updated]),
            Some(known) if known.fingerprint != item.fingerprint => {
                (UpdateKind::Edited, [item.updated, None])
            }
            Some(_) => continue,
        };
        let occurred = occurred(dates, last_look, now);
        observation.updates.push(Update {
            kind,
            occurred,
            key: item.key,
            title: item.title,
            link: item.link,
            labels: item.labels,
            text: item.text,
        });
    }
    Ok(observation)
}

/// Compares a page with what was seen. `modified_at` is when the server says it changed.
///
/// Without a remembered fingerprint this is the first contact, whatever else is remembered.
pub fn page(
    page: PageText,
    modified_at: Option<Timestamp>,
    seen: &Seen,
    now: Timestamp,
    url: &str,
) -> Observation {
    let mut observation = Observation::default();
    match (seen.last_look, seen.page) {
        (Some(last_look), Some(before)) => {
            if before != page.fingerprint {
                observation.updates.push(Update {
                    kind: UpdateKind::Changed,
                    occurred: occurred([modified_at, None], last_look, now),
                    key: format!("{:016x}", page.fingerprint),
                    title: page.title.clone(),
                    link: Some(url.to_owned()),
                    labels: Labels::default(),
                    text: Some(page.text.clone()),
                });
            }
        }
        _ => observation.first_contact = true,
    }
    observation.page = Some(page);
    observation
}

/// The first date that lies between the two looks, else the interval itself.
fn occurred(dates: [Option<Timestamp>; 2], last_look: Timestamp, now: Timestamp) -> Occurred {
    // A clock set back must not turn the interval around.
    let from = last_look.min(now);
    match dates.into_iter().flatten().find(|at| from <= *at && *at <= now) {
        Some(at) => Occurred::At(at),
        None => Occurred::Between(from, now),
    }
}

/// An item's own date for learning, if it can be true.
fn history_date(item: &Item, now: Timestamp) -> Option<Timestamp> {
    [item.published, item.updated].into_iter().flatten().find(|at| WEB_BEGINS <= *at && *at <= now)
}
