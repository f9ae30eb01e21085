//! Compares a document with what earlier probes of the source saw.
//!
//! One rule decides for every source what counts as an update and when it happened. It works on items,
//! fingerprints and the times of two probes. Must not know formats, storage or the clock: `now` is an
//! argument.

use std::collections::HashSet;

use super::labels::Labels;
use super::{
    FeedItem, Observation, Occurred, PageText, ParsedFeed, Present, StoredView, Unreadable, Update,
    UpdateKind, text,
};
use crate::time::Timestamp;

/// 1990-01-01. No web page is older, so an earlier date is wrong.
const WEB_BEGINS: Timestamp = Timestamp::from_secs(631_152_000);

/// The hash under which an item's key is stored.
pub fn key_hash(key: &str) -> u64 {
    text::fingerprint([key])
}

/// Compares a feed with what was seen.
///
/// - First contact: all items are history and none is an update. The same holds if the source moved and no
///   item at the new address is known: that is another feed, not a hundred new items.
/// - An unknown key is new. A known key with another fingerprint is edited. An item that was absent for a
///   while and is back is not new.
/// - Gap: the last probe had items and none of them is left. Items may have appeared and vanished unseen.
/// - Gone: new items push old ones off the end of a feed, so arrivals explain as many losses. If more
///   vanished than arrived, and items of the last probe are still there, the vanished ones count as removed
///   by the publisher. Stored items have no order, so pushed-out and removed items cannot be distinguished:
///   all are listed. A truncated document proves nothing about missing items.
///
/// # Errors
/// [`Unreadable::SuddenlyEmpty`] if the last probe had items and this one has none. That is nearly always a
/// fault at the publisher.
pub fn feed(feed: ParsedFeed, seen: &StoredView, now: Timestamp) -> Result<Observation, Unreadable> {
    let last: HashSet<u64> =
        seen.items.iter().filter(|(_, item)| item.in_last).map(|(hash, _)| *hash).collect();
    if feed.items.is_empty() && seen.last_success.is_some() && !last.is_empty() {
        return Err(Unreadable::SuddenlyEmpty);
    }
    let mut taken = HashSet::new();
    let items: Vec<(u64, FeedItem)> = feed
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
    let last_success = match seen.last_success {
        Some(last_success) if !strange => last_success,
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
        let occurred = occurred(dates, last_success, now);
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

/// Compares a page with what was seen. `modified_at` is the server's `Last-Modified` time.
///
/// Without a stored fingerprint this is the first contact, even if a last probe is recorded.
pub fn page(
    page: PageText,
    modified_at: Option<Timestamp>,
    seen: &StoredView,
    now: Timestamp,
    url: &str,
) -> Observation {
    let mut observation = Observation::default();
    match (seen.last_success, seen.page) {
        (Some(last_success), Some(before)) => {
            if before != page.fingerprint {
                observation.updates.push(Update {
                    kind: UpdateKind::Changed,
                    occurred: occurred([modified_at, None], last_success, now),
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

/// The first date between the two probes, else the interval itself.
fn occurred(dates: [Option<Timestamp>; 2], last_success: Timestamp, now: Timestamp) -> Occurred {
    // If the clock was set back, the interval must not be reversed.
    let from = last_success.min(now);
    match dates.into_iter().flatten().find(|at| from <= *at && *at <= now) {
        Some(at) => Occurred::At(at),
        None => Occurred::Between(from, now),
    }
}

/// An item's own date for the rate estimate, if it is plausible.
fn history_date(item: &FeedItem, now: Timestamp) -> Option<Timestamp> {
    [item.published, item.updated].into_iter().flatten().find(|at| WEB_BEGINS <= *at && *at <= now)
}
