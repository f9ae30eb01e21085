//! Converts the response to a probe into values.
//!
//! A feed or page is parsed ([`feed`], [`page`]) and its items get keys. They are compared with what earlier
//! probes saw ([`compare`]). The result is updates, each with its time or the interval it lies in. A
//! [`query`] selects among updates. Must not know where bytes come from or where values go: no I/O, no clock.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

use crate::time::{Span, Timestamp};

use labels::Labels;
use limits::ReadingLimits;
use query::ItemFields;

mod attributes;
mod capture;
pub mod compare;
mod dialect;
mod draft;
mod encoding;
#[cfg(test)]
mod equivalence_tests;
pub mod feed;
mod guard;
mod hints;
mod identity;
mod json;
mod json_value;
pub mod labels;
mod library;
pub mod limits;
mod link;
mod markup;
pub mod page;
pub mod query;
mod repairs;
mod salvage;
mod text;
mod written;

/// The kind of document that a source serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SourceKind {
    /// RSS, Atom or JSON Feed.
    #[default]
    Feed,
    /// Anything else whose text can be compared.
    Page,
}

impl SourceKind {
    /// The name in configuration and store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Feed => "feed",
            Self::Page => "page",
        }
    }
}

/// The decompressed bytes of one response, with what is needed to parse them.
#[derive(Debug, Clone, Copy)]
pub struct FetchedDocument<'a> {
    /// The body.
    pub bytes: &'a [u8],
    /// The `Content-Type` header, if any.
    pub content_type: Option<&'a str>,
    /// The address of the body. Relative links are resolved against it.
    pub url: &'a str,
    /// How much of it is read.
    pub limits: ReadingLimits<'a>,
}

/// One parsed feed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedFeed {
    /// The feed's own title.
    pub title: Option<String>,
    /// Items in the order of the document.
    pub items: Vec<FeedItem>,
    /// The publisher's polling hints.
    pub hints: FeedHints,
    /// The faults of a malformed document that was read in part or with repairs.
    pub repaired: Option<String>,
    /// The document ended too early: an item missing here may still exist.
    pub truncated: bool,
    /// The document has more items than are read: one missing here may be among the others.
    pub cut: bool,
}

/// One item of a feed, with its key.
#[derive(Debug, Clone, PartialEq)]
pub struct FeedItem {
    /// guid, else link, else hash of title, summary and content.
    pub key: String,
    /// [`compare::key_hash`] of the key.
    key_hash: u64,
    /// Hash of title, link, summary and content. It changes when the item is edited.
    pub fingerprint: u64,
    /// Publication date, as the item states it. Like `updated`, it is read if the item is edited or was not
    /// in the last document.
    pub published: Option<Timestamp>,
    /// Date of the last edit, as the item states it.
    pub updated: Option<Timestamp>,
    /// The rest, which is read if the item may be an update.
    pub details: Option<ItemDetails>,
}

impl FeedItem {
    /// An item of which no more is known.
    pub fn new(key: String, fingerprint: u64) -> Self {
        let key_hash = text::fingerprint([key.as_str()]);
        Self { key, key_hash, fingerprint, published: None, updated: None, details: None }
    }

    /// The hash of its key, and its fingerprint.
    pub fn identity(&self) -> (u64, u64) {
        (self.key_hash, self.fingerprint)
    }
}

/// The parts of an item that its update shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ItemDetails {
    /// Title as plain text, one line.
    pub title: Option<String>,
    /// Absolute link.
    pub link: Option<String>,
    /// Authors and categories.
    pub labels: Labels,
    /// Summary and content without markup, up to a maximum length.
    pub text: Option<String>,
}

/// The polling hints of a feed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedHints {
    /// RSS `ttl`: the minimum interval between probes.
    pub ttl: Option<Span>,
    /// `skipHours`: bit h set = no probes in UTC hour h.
    pub skip_hours: u32,
    /// `skipDays`: bit d set = no probes on UTC day d, 0 = Monday.
    pub skip_days: u8,
    /// `sy:updatePeriod` / `sy:updateFrequency`: the publisher's own interval. It can only lower the rate of
    /// probes.
    pub update_period: Option<Span>,
}

/// The text of a page that is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct PageText {
    /// The page's title.
    pub title: Option<String>,
    /// The selected text without ignored parts, white space folded.
    pub text: String,
    /// Hash of `text`.
    pub fingerprint: u64,
}

/// The results of earlier probes of this source.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StoredView {
    /// Time of the last successful probe; `None` = first contact.
    pub last_success: Option<Timestamp>,
    /// The items of the last document.
    pub items: Fingerprints,
    /// The page's fingerprint at the last probe.
    pub page: Option<u64>,
    /// The source's address changed since the last probe. No overlap then means another feed, not a gap.
    pub moved: bool,
}

/// The fingerprints of stored items, by [`compare::key_hash`] of their key.
pub type Fingerprints = HashMap<u64, u64>;

/// The differences that one response shows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// Updates since the last probe. Empty on first contact.
    pub updates: Vec<Update>,
    /// For feeds: every item now in the document.
    pub present: Vec<Present>,
    /// Items that were in the document at the last probe and are not in it now, in order.
    pub left: Vec<u64>,
    /// Those of `left` that vanished although others of the last probe are still there: removed by the
    /// publisher.
    pub gone: Vec<u64>,
    /// No item of the last probe is left: items may have been lost.
    pub gap: bool,
    /// The publisher's polling hints.
    pub hints: FeedHints,
    /// For pages: the text that was compared.
    pub page: Option<PageText>,
    /// A remark for the log, for example that the document was malformed.
    pub note: Option<String>,
    /// The document has more items than were read.
    pub cut: bool,
    /// This was the first contact: the items are history, not updates.
    pub first_contact: bool,
}

/// An item that is in the document now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Present {
    /// [`compare::key_hash`] of its key.
    pub key_hash: u64,
    /// Its fingerprint.
    pub fingerprint: u64,
    /// What differs from the stored item.
    pub change: ItemChange,
    /// Its own date, if plausible: input for the rate estimate. Always `None` for an item without change,
    /// except at first contact and after a gap.
    pub dated: Option<Timestamp>,
}

/// How an item differs from the stored one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ItemChange {
    /// It is not stored.
    #[default]
    New,
    /// Its fingerprint is another.
    Edited,
    /// It is the same, but was not in the document at the last probe.
    Back,
    /// It is the same, and was there at the last probe. Nothing of it must be written.
    Unchanged,
}

/// One change at the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Its kind.
    pub kind: UpdateKind,
    /// Its time.
    pub occurred: Occurred,
    /// The key of the item, or the fingerprint of the page's text in hex.
    pub key: String,
    /// Title, if any.
    pub title: Option<String>,
    /// Link, if any.
    pub link: Option<String>,
    /// Authors and categories.
    pub labels: Labels,
    /// For an item, its text in the feed; for a page, the text that was compared.
    pub text: Option<String>,
}

impl Update {
    /// An update with kind, time and key only.
    pub fn bare(kind: UpdateKind, occurred: Occurred, key: impl Into<String>) -> Self {
        let (key, labels) = (key.into(), Labels::default());
        Self { kind, occurred, key, title: None, link: None, labels, text: None }
    }

    /// The fields that a condition can test.
    pub fn fields(&self) -> ItemFields<'_> {
        ItemFields {
            title: self.title.as_deref(),
            link: self.link.as_deref(),
            id: Some(&self.key),
            text: self.text.as_deref(),
            authors: &self.labels.authors,
            categories: &self.labels.categories,
        }
    }
}

/// The kind of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UpdateKind {
    /// A new item.
    New,
    /// A known item with other content.
    Edited,
    /// A page's text changed.
    Changed,
}

impl UpdateKind {
    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Edited => "edited",
            Self::Changed => "changed",
        }
    }
}

/// The time of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurred {
    /// The item's own date, which lies between the two probes.
    At(Timestamp),
    /// Between the last probe and this one.
    Between(Timestamp, Timestamp),
}

/// A document that could not be read. The probe counts as failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Neither RSS nor Atom nor JSON Feed.
    #[error("not a feed: {0}")]
    NotAFeed(String),
    /// Too deep, too many elements, or too slow to read.
    #[error("refused: {0}")]
    TooComplex(String),
    /// The page's selectors matched nothing.
    #[error("nothing on the page matches {0}")]
    NothingSelected(String),
    /// The feed had items at the last probe and is empty now.
    #[error("the feed is empty though it had items at the last probe")]
    SuddenlyEmpty,
}

impl Unreadable {
    fn too_slow() -> Self {
        Self::TooComplex("it takes too long to read".to_owned())
    }
}
