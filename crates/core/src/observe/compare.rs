//! Compares a document with what earlier probes of the source saw.
//!
//! One rule decides for every source what counts as an update and when it happened. It works on items,
//! fingerprints and the times of two probes. Must not know formats, storage or the clock: `now` is an
//! argument.

use std::collections::HashSet;

use super::labels::Labels;
use super::{
    FeedItem, Fingerprints, ItemChange, ItemDetails, Observation, Occurred, PageText, ParsedFeed, Present,
    StoredView, Unreadable, Update, UpdateKind, text,
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

/// What [`feed`] may need of this item. One that was not in the last document may be new, so it is read in
/// full.
pub(super) fn needed(item: &FeedItem, seen: &StoredView) -> Needed {
    match seen.items.get(&item.key_hash) {
        _ if seen.last_success.is_none() => Needed::Dates,
        Some(&known) if known == item.fingerprint => Needed::Nothing,
        _ => Needed::Everything,
    }
}

/// Hashes of the keys that are not in the last document. The caller searches the source's older items for
/// them. None at first contact, when nothing is stored.
pub fn unknown(feed: &ParsedFeed, seen: &StoredView) -> Vec<u64> {
    if seen.last_success.is_none() {
        return Vec::new();
    }
    feed.items.iter().map(|item| item.key_hash).filter(|key| !seen.items.contains_key(key)).collect()
}

/// Those of the [`unknown`] items that are not among these older ones either. None if the source moved and nothing at
/// its new address is known: then this is a first contact.
pub fn unknown_besides<'f>(
    feed: &'f ParsedFeed,
    seen: &StoredView,
    older: &Fingerprints,
) -> Vec<&'f FeedItem> {
    let known =
        |item: &FeedItem| seen.items.contains_key(&item.key_hash) || older.contains_key(&item.key_hash);
    if seen.moved && !feed.items.iter().any(known) {
        return Vec::new();
    }
    feed.items.iter().filter(|item| !known(item)).collect()
}

/// The items after the last one that was in the last document. If that was not read to its end, they were behind it.
pub fn after_known<'f>(feed: &'f ParsedFeed, seen: &StoredView) -> &'f [FeedItem] {
    let last = feed.items.iter().rposition(|item| seen.items.contains_key(&item.key_hash));
    last.map_or(&[], |last| &feed.items[last + 1..])
}

/// Compares a feed, which was read with the same `seen`, with what was seen. `older` holds those of the
/// [`unknown`] items that were in a document before the last one.
///
/// - First contact: all items are history and none is an update. The same holds if the source moved and no
///   item at the new address is known: that is another feed, not a hundred new items.
/// - An unknown key is new. A known key with another fingerprint is edited. An item that was absent for a
///   while and is back is not new.
/// - Gap: the last probe had items and none of them is left. Items may have appeared and vanished unseen.
/// - Gone: new items push old ones off the end of a feed, so arrivals explain as many losses. If more
///   vanished than arrived, and items of the last probe are still there, the vanished ones count as removed
///   by the publisher. Stored items have no order, so pushed-out and removed items cannot be distinguished:
///   all are listed. A document that was not read to its end proves nothing about missing items.
///
/// # Errors
/// [`Unreadable::SuddenlyEmpty`] if the last probe had items and this one has none. That is nearly always a
/// fault at the publisher.
pub fn feed(
    feed: ParsedFeed,
    seen: &StoredView,
    older: &Fingerprints,
    now: Timestamp,
) -> Result<Observation, Unreadable> {
    let mut taken = HashSet::with_capacity(feed.items.len());
    let items: Vec<FeedItem> = feed.items.into_iter().filter(|item| taken.insert(item.key_hash)).collect();
    let overlap = Overlap::of(&items, seen, older);
    if items.is_empty() && seen.last_success.is_some() && !seen.items.is_empty() {
        return Err(Unreadable::SuddenlyEmpty);
    }
    let all_dated = overlap.first_contact || overlap.gap;
    let present = items.iter().map(|item| {
        let change = change(item, seen, older);
        // An item that is back was dated before.
        let dated = all_dated || matches!(change, ItemChange::New | ItemChange::Edited);
        Present {
            key_hash: item.key_hash,
            fingerprint: item.fingerprint,
            change,
            dated: history_date(item, now).filter(|_| dated),
        }
    });
    let mut observation = Observation {
        present: present.collect(),
        gap: overlap.gap,
        hints: feed.hints,
        note: feed.repaired,
        cut: feed.cut,
        ..Observation::default()
    };
    if overlap.kept < seen.items.len() {
        observation.left = seen.items.keys().filter(|key| !taken.contains(key)).copied().collect();
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
    if overlap.kept > 0 && observation.left.len() > arrived && !(feed.truncated || feed.cut) {
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
    /// How many items of the last document are still there.
    kept: usize,
    first_contact: bool,
    gap: bool,
}

impl Overlap {
    fn of(items: &[FeedItem], seen: &StoredView, older: &Fingerprints) -> Self {
        let within =
            |known: &Fingerprints| items.iter().filter(|item| known.contains_key(&item.key_hash)).count();
        let kept = within(&seen.items);
        let strange = seen.moved && !items.is_empty() && kept + within(older) == 0;
        let first_contact = seen.last_success.is_none() || strange;
        let gap = !first_contact && !seen.items.is_empty() && kept == 0 && !items.is_empty() && !seen.moved;
        Self { kept, first_contact, gap }
    }
}

fn change(item: &FeedItem, seen: &StoredView, older: &Fingerprints) -> ItemChange {
    let last = seen.items.get(&item.key_hash);
    match last.or_else(|| older.get(&item.key_hash)) {
        None => ItemChange::New,
        Some(&known) if known != item.fingerprint => ItemChange::Edited,
        Some(_) if last.is_none() => ItemChange::Back,
        Some(_) => ItemChange::Unchanged,
    }
}

/// Compares a page with what was seen. `modified_at` is the server's `Last-Modified` time.
///
/// Without a stored fingerprint this is the first contact, even if a last probe is recorded. So it is if the source moved.
pub fn page(
    page: PageText,
    modified_at: Option<Timestamp>,
    seen: &StoredView,
    now: Timestamp,
    url: &str,
) -> Observation {
    let mut observation = Observation::default();
    match (seen.last_success, seen.page) {
        (Some(last_success), Some(before)) if !seen.moved => {
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
