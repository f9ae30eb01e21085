//! Reading only those older items whose keys are in the document gives the same as comparing with all items
//! that a source ever had.

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;

use proptest::prelude::*;
use tidewatch_core::observe::compare::{self, key_hash};
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::{
    FeedItem, FetchedDocument, ItemChange, Observation, Occurred, ParsedFeed, Present, StoredView,
    Unreadable, Update, UpdateKind, feed,
};
use tidewatch_core::time::{Span, Timestamp};

/// 2026-11-01, noon.
const START: Timestamp = Timestamp::from_secs(1_793_534_400);

/// All items that a source ever had: fingerprint, and whether the last document has it.
#[derive(Debug, Default)]
struct History {
    items: HashMap<u64, (u64, bool)>,
    last_success: Option<Timestamp>,
    moved: bool,
}

impl History {
    /// What the store gives before a document is read.
    fn last(&self) -> StoredView {
        let items = self.items.iter().filter(|(_, item)| item.1).map(|(&key, item)| (key, item.0));
        StoredView {
            items: items.collect(),
            last_success: self.last_success,
            moved: self.moved,
            page: None,
        }
    }

    fn change(&self, item: &FeedItem) -> ItemChange {
        match self.items.get(&key_hash(&item.key)) {
            None => ItemChange::New,
            Some((known, _)) if *known != item.fingerprint => ItemChange::Edited,
            Some((_, in_last)) if !in_last => ItemChange::Back,
            Some(_) => ItemChange::Unchanged,
        }
    }

    /// The rule, with all items at hand and a feed that was read in full.
    fn observe(&self, feed: ParsedFeed, now: Timestamp) -> Result<Observation, Unreadable> {
        let mut keys = HashSet::new();
        let items: Vec<FeedItem> =
            feed.items.into_iter().filter(|item| keys.insert(key_hash(&item.key))).collect();
        let in_last = |item: &&FeedItem| self.items.get(&key_hash(&item.key)).is_some_and(|known| known.1);
        let last = self.items.values().filter(|known| known.1).count();
        let kept = items.iter().filter(in_last).count();
        if items.is_empty() && last > 0 {
            return Err(Unreadable::SuddenlyEmpty);
        }
        let all_new = items.iter().all(|item| self.change(item) == ItemChange::New);
        let first_contact = self.last_success.is_none() || (self.moved && !items.is_empty() && all_new);
        let gap = !first_contact && last > 0 && kept == 0 && !self.moved;
        let present = |item: &FeedItem| {
            let change = self.change(item);
            let read = first_contact || gap || matches!(change, ItemChange::New | ItemChange::Edited);
            let dated = item.published.filter(|at| read && *at <= now);
            Present { key_hash: key_hash(&item.key), fingerprint: item.fingerprint, change, dated }
        };
        let mut left: Vec<u64> = self.last().items.into_keys().filter(|key| !keys.contains(key)).collect();
        left.sort_unstable();
        let removed = !first_contact && kept > 0 && left.len() > items.len() - kept;
        let mut seen = Observation {
            present: items.iter().map(present).collect(),
            gone: if removed { left.clone() } else { Vec::new() },
            left,
            gap,
            first_contact,
            ..Observation::default()
        };
        for item in items.into_iter().filter(|_| !first_contact) {
            let (kind, date) = match self.change(&item) {
                ItemChange::New => (UpdateKind::New, item.published),
                ItemChange::Edited => (UpdateKind::Edited, item.updated),
                ItemChange::Back | ItemChange::Unchanged => continue,
            };
            let from = self.last_success.unwrap_or(now);
            let date = date.filter(|at| from <= *at && *at <= now);
            let occurred = date.map_or(Occurred::Between(from, now), Occurred::At);
            let details = item.details.expect("read in full");
            let update = Update::bare(kind, occurred, item.key);
            let (title, link, text) = (details.title, details.link, details.text);
            seen.updates.push(Update { title, link, text, labels: details.labels, ..update });
        }
        Ok(seen)
    }

    fn carry(&mut self, seen: &Observation, now: Timestamp) {
        self.items.values_mut().for_each(|item| item.1 = false);
        let present = seen.present.iter().map(|item| (item.key_hash, (item.fingerprint, true)));
        self.items.extend(present);
        (self.last_success, self.moved) = (Some(now), false);
    }
}

/// Key, version of the text, and minutes from the start to its date.
type Item = (u8, u8, Option<i64>);

fn document(items: &[Item]) -> String {
    let mut text = "<rss version='2.0'><channel><title>T</title>".to_owned();
    for (key, version, date) in items {
        write!(text, "<item><guid>{key}</guid><title>{key}.{version}</title>").expect("a String");
        if let Some(minutes) = date {
            let at = (START + Span::from_mins(*minutes)).iso();
            write!(text, "<pubDate>{at}</pubDate>").expect("a String");
        }
        text.push_str("</item>");
    }
    text + "</channel></rss>"
}

fn read(text: &str, seen: &StoredView) -> ParsedFeed {
    let document = FetchedDocument {
        bytes: text.as_bytes(),
        content_type: None,
        url: "https://example.org/",
        limits: ReadingLimits::USUAL,
    };
    feed::read(&document, seen).expect("a feed")
}

/// Documents of a few items each, and whether the address changed before.
fn any_documents() -> impl Strategy<Value = Vec<(Vec<Item>, bool)>> {
    let item = (0..9_u8, 0..2_u8, proptest::option::of(-20..120_i64));
    let document = proptest::collection::vec(item, 0..5);
    proptest::collection::vec((document, proptest::bool::weighted(0.2)), 1..15)
}

proptest! {
    #[test]
    fn older_items_by_key_give_the_same_as_all_items(documents in any_documents()) {
        let mut history = History::default();
        let unseen = StoredView { last_success: Some(START), ..StoredView::default() };
        for (n, (items, moved)) in (0_i64..).zip(documents) {
            let (text, now) = (document(&items), START + Span::from_mins(10 * n));
            history.moved |= moved;
            let expected = history.observe(read(&text, &unseen), now);
            let last = history.last();
            let feed = read(&text, &last);
            let unknown = compare::unknown(&feed, &last);
            prop_assert!(unknown.iter().all(|key| !last.items.contains_key(key)));
            let older = unknown.iter().filter_map(|key| Some((*key, history.items.get(key)?.0))).collect();
            prop_assert_eq!(&compare::feed(feed, &last, &older, now), &expected);
            if let Ok(seen) = &expected {
                history.carry(seen, now);
            }
        }
    }
}

#[test]
fn a_document_without_unknown_keys_needs_no_older_items() {
    let mut history = History::default();
    let at_first = read(&document(&[(1, 0, None), (2, 0, None)]), &history.last());
    assert!(compare::unknown(&at_first, &history.last()).is_empty(), "nothing is stored");
    let first = compare::feed(at_first, &history.last(), &HashMap::new(), START).expect("a feed");
    history.carry(&first, START);
    let edited = read(&document(&[(2, 1, None)]), &history.last());
    assert!(compare::unknown(&edited, &history.last()).is_empty());
    let with_new = read(&document(&[(3, 0, None), (2, 1, None)]), &history.last());
    assert_eq!(compare::unknown(&with_new, &history.last()), [key_hash(&with_new.items[0].key)]);
}
