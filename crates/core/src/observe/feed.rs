//! Feeds: bytes in, identified items out.
//!
//! Turns any document that a publisher calls a feed into items that can be compared with those of earlier
//! probes. Stages: decode, inspect, take what is written, identify; then read dates and details of the items
//! that need them. Must not know the time.

use std::borrow::Cow;

use feed_rs::model::Entry;
use url::Url;

use super::compare::{self, Needed};
use super::guard::{self, Front};
use super::labels::Labels;
use super::library::{self, CleanItem};
use super::limits::{MAX_ADDRESS, MAX_DATE, ReadingLimits};
use super::repairs::Repairs;
use super::written::{Written, WrittenFeed, WrittenItem};
use super::{
    FeedItem, FetchedDocument, ItemDetails, ParsedFeed, StoredView, Unreadable, encoding, identity, json,
    link, salvage, text,
};
use crate::time::Timestamp;

/// Reads a feed of any dialect, as far as possible.
///
/// The same bytes always give the same items with the same keys and fingerprints. The other fields of an item
/// are only read if [`compare::feed`] may need them to compare the feed with `seen`.
///
/// # Errors
/// [`Unreadable::NotAFeed`] if there is nothing to read, with a description of the document;
/// [`Unreadable::TooComplex`] if the document would take excessive time or memory.
pub fn read(document: &FetchedDocument<'_>, seen: &StoredView) -> Result<ParsedFeed, Unreadable> {
    // A base of any length would be copied into each link.
    let url =
        Some(document.url).filter(|url| url.len() <= MAX_ADDRESS).and_then(|url| Url::parse(url).ok());
    let written = decoded(document, url.as_ref())?;
    let absolute =
        |item: &WrittenItem<'_>| link::absolute(&link::normalised(item.link.as_deref()?), url.as_ref());
    let identities = identity::identities(&written.items, absolute);
    if written.repairs.truncated && identities.is_empty() {
        // If this succeeded, everything in the next complete document would count as new.
        return Err(Unreadable::NotAFeed("it is cut off before its first item".to_owned()));
    }
    let places: Vec<usize> = identities.iter().map(|identity| identity.place).collect();
    let items = identities.into_iter().map(|identity| FeedItem::new(identity.key, identity.fingerprint));
    let mut items: Vec<FeedItem> = items.collect();
    let mut wanted: Vec<Wanted<'_, '_>> = Vec::new();
    for (item, place) in items.iter_mut().zip(places) {
        let needed = compare::needed(item, seen);
        if needed != Needed::Nothing {
            wanted.push(Wanted { item, written: &written.items[place], needed });
        }
    }
    fill(wanted, written.edited_when_published, url.as_ref())?;
    Ok(ParsedFeed {
        title: written.title.and_then(|title| text::title(&title.text, title.markup)),
        hints: written.hints,
        repaired: written.repairs.sentence(items.len()),
        truncated: written.repairs.truncated,
        cut: written.repairs.left_out > 0,
        items,
    })
}

/// What the document says.
fn decoded<'d>(document: &FetchedDocument<'d>, url: Option<&Url>) -> Result<WrittenFeed<'d>, Unreadable> {
    let decoded = encoding::xml(document.bytes, document.content_type);
    let repairs = Repairs { encoding: decoded.overruled, ..Repairs::default() };
    match decoded.text {
        Cow::Borrowed(text) => written(text, url, document.limits, repairs),
        Cow::Owned(text) => written(&text, url, document.limits, repairs).map(WrittenFeed::into_owned),
    }
}

/// What the text says, if it is a feed.
pub(super) fn written<'t>(
    text: &'t str,
    url: Option<&Url>,
    limits: ReadingLimits<'_>,
    repairs: Repairs,
) -> Result<WrittenFeed<'t>, Unreadable> {
    let source = text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}' || c == '\0');
    if source.is_empty() {
        return Err(Unreadable::NotAFeed("the document is empty".to_owned()));
    }
    if source.starts_with('{') {
        return json::read(source, limits, repairs);
    }
    match guard::front(source)? {
        Front::Feed { at, junk } => {
            let mut repairs = Repairs { junk, ..repairs };
            match salvage::without_controls(&source[at..], &mut repairs) {
                Cow::Borrowed(text) => salvage::read(text, url, limits, repairs),
                Cow::Owned(text) => salvage::read(&text, url, limits, repairs).map(WrittenFeed::into_owned),
            }
        }
        Front::Html(title) => Err(Unreadable::NotAFeed(page_instead(title))),
        Front::Other(what) => Err(Unreadable::NotAFeed(format!("{what}; is the URL right?"))),
        Front::Nothing => match (source.find('{'), source.contains("\"items\"")) {
            (Some(at), true) => json::read(&source[at..], limits, Repairs { junk: true, ..repairs }),
            _ => Err(Unreadable::NotAFeed(format!("it starts with `{}`", beginning(source)))),
        },
    }
}

/// An item of which more is to be read.
struct Wanted<'i, 't> {
    item: &'i mut FeedItem,
    written: &'i WrittenItem<'t>,
    needed: Needed,
}

impl<'i> Wanted<'i, '_> {
    fn clean(&self) -> CleanItem<'i> {
        let written = self.written;
        let date = |date: &'i Option<Written<'_>>| {
            date.as_deref().map(str::trim).filter(|date| date.len() <= MAX_DATE)
        };
        let dates = CleanItem {
            date_published: date(&written.published),
            date_modified: date(&written.updated),
            ..CleanItem::default()
        };
        if self.needed == Needed::Dates {
            return dates;
        }
        let title = written.title.as_ref().map(|title| text::head(&title.text, text::TITLE_BYTES));
        CleanItem { title, url: written.link.as_deref(), ..dates }
    }
}

/// Items that the library reads at once. Its entries take much more memory than what is taken from them.
const AT_ONCE: usize = 256;

/// Reads the dates of these items, and the details if they are needed.
fn fill(
    mut wanted: Vec<Wanted<'_, '_>>,
    edited_when_published: bool,
    url: Option<&Url>,
) -> Result<(), Unreadable> {
    for wanted in wanted.chunks_mut(AT_ONCE) {
        let clean: Vec<CleanItem<'_>> = wanted.iter().map(Wanted::clean).collect();
        let entries = library::entries(&clean)?;
        for (Wanted { item, written, needed }, entry) in wanted.iter_mut().zip(entries) {
            item.published = entry.published.map(|at| Timestamp::from_millis(at.timestamp_millis()));
            item.updated = entry.updated.map(|at| Timestamp::from_millis(at.timestamp_millis()));
            if edited_when_published {
                item.updated = item.updated.or(item.published);
            }
            if *needed == Needed::Everything {
                item.details = Some(details(written, entry, url));
            }
        }
    }
    Ok(())
}

fn details(written: &WrittenItem<'_>, entry: Entry, url: Option<&Url>) -> ItemDetails {
    let markup = written.title.as_ref().is_some_and(|title| title.markup);
    let mut labels = Labels::default();
    written.authors.iter().for_each(|author| labels.author(author));
    written.categories.iter().for_each(|category| labels.category(category));
    ItemDetails {
        title: entry.title.and_then(|title| text::title(&title.content, markup)),
        link: entry.links.first().and_then(|link| link::absolute(&link.href, url)),
        labels,
        text: text::plain([&written.summary, &written.content].into_iter().flatten().map(|text| &**text)),
    }
}

fn page_instead(title: Option<String>) -> String {
    match title {
        Some(title) => format!("an HTML page titled `{title}`; is the URL right?"),
        None => "an HTML page; is the URL right?".to_owned(),
    }
}

fn beginning(source: &str) -> String {
    text::folded(text::head(source, 200)).chars().filter(|c| !c.is_control()).take(40).collect()
}
