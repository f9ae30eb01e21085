//! New items: rules, and properties over any sequence of documents.

use std::collections::HashMap;

use proptest::prelude::*;
use tidewatch_core::observe::compare::{self, key_hash};
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::{
    FeedItem, FetchedDocument, Fingerprints, ItemChange, Observation, Occurred, PageText, ParsedFeed,
    StoredView, Unreadable, UpdateKind, feed,
};
use tidewatch_core::time::Timestamp;

fn at(secs: i64) -> Timestamp {
    // Some day in 2026, so that dates are sane.
    Timestamp::from_secs(1_780_000_000 + secs)
}

fn item(key: &str, fingerprint: u64) -> FeedItem {
    FeedItem::new(key.to_owned(), fingerprint)
}

fn feed_of(items: Vec<FeedItem>) -> ParsedFeed {
    ParsedFeed { items, ..ParsedFeed::default() }
}

fn keyed(keys: &[&str]) -> ParsedFeed {
    feed_of(keys.iter().map(|key| item(key, 1)).collect())
}

/// What a store keeps of one source.
#[derive(Debug, Clone, Default)]
struct Stored {
    last: StoredView,
    /// Items that left the document.
    older: Fingerprints,
}

impl Stored {
    fn with(keys: &[&str], last_success: Timestamp) -> Self {
        let mut stored = Self::default();
        let first = stored.observe(keyed(keys), last_success);
        stored.carry(&first, last_success);
        stored
    }

    fn moved(&self) -> Self {
        Self { last: StoredView { moved: true, ..self.last.clone() }, older: self.older.clone() }
    }

    fn compare(&self, feed: ParsedFeed, now: Timestamp) -> Result<Observation, Unreadable> {
        let known = |key: u64| Some((key, *self.older.get(&key)?));
        let older = compare::unknown(&feed, &self.last).into_iter().filter_map(known).collect();
        compare::feed(feed, &self.last, &older, now)
    }

    fn observe(&self, feed: ParsedFeed, now: Timestamp) -> Observation {
        self.compare(feed, now).expect("comparable")
    }

    fn carry(&mut self, observation: &Observation, now: Timestamp) {
        self.older.extend(self.last.items.drain());
        for present in &observation.present {
            self.older.remove(&present.key_hash);
            self.last.items.insert(present.key_hash, present.fingerprint);
        }
        if let Some(page) = &observation.page {
            self.last.page = Some(page.fingerprint);
        }
        self.last.last_success = Some(now);
        self.last.moved = false;
    }
}

fn news(observation: &Observation) -> Vec<(&str, UpdateKind)> {
    observation.updates.iter().map(|update| (update.key.as_str(), update.kind)).collect()
}

#[test]
fn first_contact_is_history() {
    let mut dated = item("a", 1);
    dated.published = Some(at(-1000));
    let mut future = item("b", 1);
    future.published = Some(at(1000));
    future.updated = Some(at(-5));
    let mut ancient = item("c", 1);
    ancient.published = Some(Timestamp::from_millis(0));
    let first = Stored::default().observe(feed_of(vec![dated, future, ancient]), at(0));
    assert!(first.first_contact && first.updates.is_empty() && !first.gap);
    let dates: Vec<_> = first.present.iter().map(|present| present.dated).collect();
    assert_eq!(dates, [Some(at(-1000)), Some(at(-5)), None]);
}

#[test]
fn new_edited_and_back_again() {
    let mut seen = Stored::with(&["a", "b"], at(0));
    let second = seen.observe(feed_of(vec![item("c", 1), item("a", 2)]), at(10));
    assert_eq!(news(&second), [("c", UpdateKind::New), ("a", UpdateKind::Edited)]);
    assert!(!second.first_contact && !second.gap && second.gone.is_empty());
    seen.carry(&second, at(10));
    let third = seen.observe(feed_of(vec![item("c", 1), item("a", 2), item("b", 1)]), at(20));
    assert!(third.updates.is_empty(), "b was only away");
}

#[test]
fn event_times_lie_between_the_probes() {
    let seen = Stored::with(&["a"], at(0));
    let when = |published: Option<i64>, updated: Option<i64>, key: &str| {
        let mut dated = item(key, 2);
        dated.published = published.map(at);
        dated.updated = updated.map(at);
        seen.observe(feed_of(vec![item("z", 1), dated]), at(10)).updates[1].occurred
    };
    assert_eq!(when(Some(5), Some(6), "new"), Occurred::At(at(5)));
    assert_eq!(when(None, Some(6), "new"), Occurred::At(at(6)));
    assert_eq!(when(Some(-5), Some(6), "new"), Occurred::At(at(6)));
    assert_eq!(when(Some(0), None, "new"), Occurred::At(at(0)));
    assert_eq!(when(Some(10), None, "new"), Occurred::At(at(10)));
    assert_eq!(when(Some(11), None, "new"), Occurred::Between(at(0), at(10)));
    assert_eq!(when(None, None, "new"), Occurred::Between(at(0), at(10)));
    assert_eq!(when(Some(5), Some(7), "a"), Occurred::At(at(7)));
    assert_eq!(when(Some(5), Some(-7), "a"), Occurred::Between(at(0), at(10)));
    // The clock was set back.
    let back = seen.observe(keyed(&["a", "b"]), at(-10));
    assert_eq!(back.updates[0].occurred, Occurred::Between(at(-10), at(-10)));
}

#[test]
fn gaps_moves_and_sudden_silence() {
    let seen = Stored::with(&["a", "b"], at(0));
    let gap = seen.observe(keyed(&["c", "d"]), at(10));
    assert!(gap.gap && !gap.first_contact);
    assert_eq!(gap.updates.len(), 2);
    let moved = seen.moved();
    let elsewhere = moved.observe(keyed(&["c", "d"]), at(10));
    assert!(elsewhere.first_contact && !elsewhere.gap && elsewhere.updates.is_empty());
    let same = moved.observe(keyed(&["c", "a"]), at(10));
    assert_eq!((news(&same), same.first_contact), (vec![("c", UpdateKind::New)], false));
    assert_eq!(seen.compare(keyed(&[]), at(10)), Err(Unreadable::SuddenlyEmpty));
    let silent = Stored::with(&[], at(0));
    assert!(silent.observe(keyed(&[]), at(10)).updates.is_empty());
    let awake = silent.observe(keyed(&["a"]), at(10));
    assert_eq!((news(&awake), awake.gap), (vec![("a", UpdateKind::New)], false));
}

#[test]
fn items_are_gone_if_arrivals_do_not_explain_it() {
    let seen = Stored::with(&["a", "b", "c"], at(0));
    assert_eq!(seen.observe(keyed(&["a", "c"]), at(10)).gone, [key_hash("b")]);
    assert!(seen.observe(keyed(&["d", "a", "b"]), at(10)).gone.is_empty(), "c was pushed out");
    assert_eq!(seen.observe(keyed(&["d", "a"]), at(10)).gone.len(), 2);
    assert!(seen.observe(keyed(&["x", "y"]), at(10)).gone.is_empty(), "a gap says nothing");
    let cut = ParsedFeed { truncated: true, ..keyed(&["a"]) };
    assert!(seen.observe(cut, at(10)).gone.is_empty(), "a cut says nothing");
}

#[test]
fn present_items_show_what_is_to_be_written() {
    let changes = |observation: &Observation| -> Vec<ItemChange> {
        observation.present.iter().map(|present| present.change).collect()
    };
    let mut seen = Stored::with(&["a", "b", "c"], at(0));
    let second = seen.observe(feed_of(vec![item("d", 1), item("a", 2), item("b", 1)]), at(10));
    assert_eq!(changes(&second), [ItemChange::New, ItemChange::Edited, ItemChange::Unchanged]);
    assert_eq!((&second.left[..], second.gone.len()), (&[key_hash("c")][..], 0));
    seen.carry(&second, at(10));
    let third = seen.observe(feed_of(vec![item("c", 1), item("d", 1)]), at(20));
    assert_eq!(changes(&third), [ItemChange::Back, ItemChange::Unchanged]);
    let mut left = [key_hash("a"), key_hash("b")];
    left.sort_unstable();
    assert_eq!((&third.left[..], &third.gone[..]), (&left[..], &left[..]));
    // Also at first contact, and after a cut.
    let moved = seen.moved();
    let elsewhere = moved.observe(keyed(&["x"]), at(30));
    assert_eq!((changes(&elsewhere), elsewhere.left.len()), (vec![ItemChange::New], 3));
    let cut = seen.observe(ParsedFeed { truncated: true, ..keyed(&["a"]) }, at(30));
    assert_eq!((cut.left.len(), cut.gone.len()), (2, 0));
}

#[test]
fn items_are_read_as_far_as_the_comparison_needs_them() {
    let document = |items: &[(&str, &str)]| {
        let item = |(key, title): &(&str, &str)| {
            format!(
                "<item><guid>{key}</guid><title>{title}</title><description>text</description>\
                 <pubDate>Sun, 01 Nov 2026 10:00:00 GMT</pubDate></item>"
            )
        };
        let items: String = items.iter().map(item).collect();
        format!("<rss version='2.0'><channel>{items}</channel></rss>")
    };
    // Which items have details, and which have dates.
    let reads = |items: &[(&str, &str)], seen: &Stored| {
        let feed = read_after(document(items).as_bytes(), &seen.last).expect("a feed");
        let has = |test: fn(&FeedItem) -> bool| feed.items.iter().map(test).collect::<Vec<_>>();
        (has(|item| item.details.is_some()), has(|item| item.published.is_some()))
    };
    let now = Timestamp::parse_iso("2026-11-01T12:00:00Z").expect("a time");
    let mut seen = Stored::default();
    let both = [("a", "A"), ("b", "B")];
    assert_eq!(reads(&both, &seen), (vec![false, false], vec![true, true]), "first contact");
    let first = read_after(document(&both).as_bytes(), &seen.last).expect("a feed");
    let first = seen.observe(first, now);
    assert!(first.present.iter().all(|present| present.dated.is_some()));
    seen.carry(&first, now);
    assert_eq!(reads(&both, &seen), (vec![false, false], vec![false, false]), "unchanged");
    let changed = [("c", "C"), ("a", "A"), ("b", "Edited")];
    let expected = (vec![true, false, true], vec![true, false, true]);
    assert_eq!(reads(&changed, &seen), expected, "new and edited");
    seen.older.extend(seen.last.items.remove(&key_hash("b")).map(|print| (key_hash("b"), print)));
    assert_eq!(reads(&both, &seen), (vec![false, true], vec![false, true]), "b may be new");
}

#[test]
fn pages() {
    let page = |fingerprint| PageText { title: Some("T".into()), text: "x".into(), fingerprint };
    let mut seen = Stored::default();
    let first = compare::page(page(1), Some(at(0)), &seen.last, at(0), "http://p/");
    assert!(first.first_contact && first.updates.is_empty());
    // A source that was a feed before: probed, but never as a page.
    let switched = StoredView { last_success: Some(at(-5)), ..StoredView::default() };
    assert!(compare::page(page(1), None, &switched, at(0), "http://p/").first_contact);
    seen.carry(&first, at(0));
    assert!(compare::page(page(1), Some(at(5)), &seen.last, at(10), "http://p/").updates.is_empty());
    let changed = compare::page(page(0xab), Some(at(5)), &seen.last, at(10), "http://p/");
    let update = &changed.updates[0];
    assert_eq!((update.kind, update.occurred), (UpdateKind::Changed, Occurred::At(at(5))));
    assert_eq!((update.key.as_str(), update.link.as_deref()), ("00000000000000ab", Some("http://p/")));
    let moved = StoredView { moved: true, ..seen.last.clone() };
    let elsewhere = compare::page(page(3), None, &moved, at(10), "http://q/");
    assert!(elsewhere.first_contact && elsewhere.updates.is_empty());
    let vague = compare::page(page(2), Some(at(-5)), &seen.last, at(10), "http://p/");
    assert_eq!(vague.updates[0].occurred, Occurred::Between(at(0), at(10)));
}

const FEEDS: [&str; 3] = [
    "<?xml version='1.0' encoding='UTF-8'?><rss version='2.0'><channel><title>T &amp; é</title><ttl>5</ttl><item><guid>a</guid><title>A</title><description><![CDATA[<p>x</p>]]></description><pubDate>Sun, 01 Nov 2026 10:00:00 GMT</pubDate></item><item><title>B</title></item></channel></rss>",
    "<feed xmlns='http://www.w3.org/2005/Atom'><title>T</title><entry><id>1</id><title type='xhtml'><div>x</div></title><link href='/a'/><updated>2026-11-01T10:00:00Z</updated><content type='html'>&lt;b&gt;</content></entry></feed>",
    r#"{"version":"https://jsonfeed.org/version/1.1","title":"J","items":[{"id":"1","title":"é","date_published":"2026-11-01T10:00:00Z"},{"id":2,"url":"/x"}]}"#,
];

/// The feed as a source without items sees it: all items are new.
fn read(bytes: &[u8]) -> Result<ParsedFeed, Unreadable> {
    read_after(bytes, &StoredView { last_success: Some(at(0)), ..StoredView::default() })
}

fn read_after(bytes: &[u8], seen: &StoredView) -> Result<ParsedFeed, Unreadable> {
    feed::read(
        &FetchedDocument {
            bytes,
            content_type: None,
            url: "https://example.org/",
            limits: ReadingLimits::USUAL,
        },
        seen,
    )
}

fn any_document() -> impl Strategy<Value = Vec<FeedItem>> {
    let any_item =
        (0..12_u8, 0..3_u64, proptest::option::of(-50..150_i64), proptest::option::of(-50..150_i64));
    proptest::collection::vec(any_item, 0..8).prop_map(|items| {
        let dated = |(key, fingerprint, published, updated): (u8, u64, Option<i64>, Option<i64>)| {
            let mut item = item(&key.to_string(), fingerprint);
            item.published = published.map(at);
            item.updated = updated.map(at);
            item
        };
        items.into_iter().map(dated).collect()
    })
}

proptest! {
    #[test]
    fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let _ = read(&bytes);
    }

    #[test]
    fn mutated_feeds_are_read_without_panic_and_the_same_twice(
        which in 0..FEEDS.len(),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), 0..4_u8, any::<u8>()), 1..12),
    ) {
        let mut bytes = FEEDS[which].as_bytes().to_vec();
        for (place, change, byte) in changes {
            let place = place.index(bytes.len());
            match change {
                0 => bytes[place] = byte,
                1 => bytes.insert(place, byte),
                2 => { bytes.remove(place); }
                _ => { let piece = bytes[place..].to_vec(); bytes.extend(piece.iter().take(60)); }
            }
            if bytes.is_empty() { bytes.push(b'<'); }
        }
        prop_assert_eq!(read(&bytes), read(&bytes));
    }

    #[test]
    fn fragments_of_markup_are_read_without_panic(
        soup in "(<rss>|<channel>|</?item>|<(guid|title|link|ttl|hour)[ />]|</(guid|title|link)>|<!\\[CDATA\\[|\\]\\]>|<!--|-->|&[a-z#x0-9]{0,4};?|<[a-z:]{0,3} [a-z]='?|é|[ -~]){0,60}"
    ) {
        let _ = read(soup.as_bytes());
        if let Ok(feed) = read(format!("<rss version='2.0'><channel><item>{soup}").as_bytes()) {
            prop_assert!(feed.items.iter().all(|item| item.key.len() <= 1024));
        }
    }

    #[test]
    fn a_second_probe_shows_nothing_new(items in any_document()) {
        let mut seen = Stored::default();
        let first = seen.observe(feed_of(items.clone()), at(0));
        seen.carry(&first, at(0));
        let second = seen.observe(feed_of(items), at(100));
        prop_assert!(second.updates.is_empty() && second.gone.is_empty() && !second.gap);
    }

    #[test]
    fn each_key_is_new_at_most_once_and_dated_between_the_probes(
        documents in proptest::collection::vec(any_document(), 1..12)
    ) {
        let mut seen = Stored::default();
        let mut times_new: HashMap<String, u32> = HashMap::new();
        for (document, items) in documents.into_iter().enumerate() {
            let now = at(document as i64 * 10);
            let last_success = seen.last.last_success;
            let Ok(observation) = seen.compare(feed_of(items), now) else { continue };
            for update in &observation.updates {
                if update.kind == UpdateKind::New {
                    *times_new.entry(update.key.clone()).or_default() += 1;
                }
                let (from, to) = match update.occurred {
                    Occurred::At(at) => (at, at),
                    Occurred::Between(from, to) => (from, to),
                };
                prop_assert!(Some(from) >= last_success && from <= to && to <= now);
            }
            seen.carry(&observation, now);
        }
        prop_assert!(times_new.values().all(|times| *times == 1));
    }
}
