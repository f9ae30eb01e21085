//! Compares a document with what earlier probes of the source saw.
//!
//! One rule decides for every source what counts as an update and when it happened. It works on items,
//! fingerprints and the times of two probes. Must not know formats, storage or the clock: `now` is an
//! argument.

use std::collections::HashSet;

use super::labels::Labels;
use super::{
    FeedItem, ItemChange, ItemDetails, Observation, Occurred, PageText, ParsedFeed, Present, StoredView,
    Unreadable, Update, UpdateKind, text,
};
use crate::time::Timestamp;

/// 1990-01-01. No web page is older, so an earlier date is wrong.
const WEB_BEGINS: Timestamp = Timestamp::from_secs(631_152_000);

/// The hash under which an item's key is stored.
pub fn key_hash(key: &str) -> u64 {
    text::fingerprint([key])
}

/// What of an item must be read, besides key and fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Needed {
    Nothing,
    Dates,
    Everything,
}

/// What [`feed`] needs of each of these items.
pub(super) fn needed(items: &[FeedItem], seen: &StoredView) -> Vec<Needed> {
    let overlap = Overlap::of(items, seen);
    let needed = |item: &FeedItem| match change(item, seen) {
        ItemChange::New | ItemChange::Edited if !overlap.first_contact => Needed::Everything,
        _ if overlap.first_contact || overlap.gap => Needed::Dates,
        _ => Needed::Nothing,
    };
    items.iter().map(needed).collect()
}

/// Compares a feed, which was read with the same `seen`, with what was seen.
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
    let mut taken = HashSet::with_capacity(feed.items.len());
    let items: Vec<FeedItem> = feed.items.into_iter().filter(|item| taken.insert(item.key_hash)).collect();
    let overlap = Overlap::of(&items, seen);
    if items.is_empty() && seen.last_success.is_some() && overlap.last > 0 {
        return Err(Unreadable::SuddenlyEmpty);
    }
    let present = items.iter().map(|item| Present {
        key_hash: item.key_hash,
        fingerprint: item.fingerprint,
        change: change(item, seen),
        dated: history_date(item, now),
    });
    let mut observation = Observation {
        present: present.collect(),
        gap: overlap.gap,
        hints: feed.hints,
        note: feed.repaired,
        ..Observation::default()
    };
    if overlap.kept < overlap.last {
        let left = seen.items.iter().filter(|(hash, item)| item.in_last && !taken.contains(hash));
        observation.left = left.map(|(hash, _)| *hash).collect();
        observation.left.sort_unstable();
    }
    let last_success = match seen.last_success {
        Some(last_success) if !overlap.first_contact => last_success,
        _ => {
            observation.first_contact = true;
            return Ok(observation);
        }
    };
    let arrived = items.len() - overlap.kept;
    if overlap.kept > 0 && observation.left.len() > arrived && !feed.truncated {
        observation.gone.clone_from(&observation.left);
    }
    for (item, present) in items.into_iter().zip(&observation.present) {
        let (kind, dates) = match present.change {
            ItemChange::New => (UpdateKind::New, [item.published, item.updated]),
            ItemChange::Edited => (UpdateKind::Edited, [item.updated, None]),
            ItemChange::Back | ItemChange::Unchanged => continue,
        };
        let ItemDetails { title, link, labels, text } = item.details.unwrap_or_default();
        let occurred = occurred(dates, last_success, now);
        observation.updates.push(Update { kind, occurred, key: item.key, title, link, labels, text });
    }
    Ok(observation)
}

/// What a document has in common with the one before.
struct Overlap {
    /// The number of items in the last document.
    last: usize,
    /// How many of those are still there.
    kept: usize,
    first_contact: bool,
    gap: bool,
}

impl Overlap {
    fn of(items: &[FeedItem], seen: &StoredView) -> Self {
        let known = |item: &FeedItem| seen.items.get(&item.key_hash);
        let last = seen.items.values().filter(|item| item.in_last).count();
        let kept = items.iter().filter_map(known).filter(|known| known.in_last).count();
        let strange = seen.moved && !items.is_empty() && items.iter().all(|item| known(item).is_none());
        let first_contact = seen.last_success.is_none() || strange;
        let gap = !first_contact && last > 0 && kept == 0 && !items.is_empty() && !seen.moved;
        Self { last, kept, first_contact, gap }
    }
}

fn change(item: &FeedItem, seen: &StoredView) -> ItemChange {
    match seen.items.get(&item.key_hash) {
        None => ItemChange::New,
        Some(known) if known.fingerprint != item.fingerprint => ItemChange::Edited,
        Some(known) if !known.in_last => ItemChange::Back,
        Some(_) => ItemChange::Unchanged,
    }
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
