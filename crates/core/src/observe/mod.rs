//! Bytes in, values out: what a probe's answer says about a source.
//!
//! A feed or page is parsed ([`feed`], [`page`]), its items are identified, and compared with
//! what was seen before they become updates, each with its time or the interval it must lie in
//! ([`compare`]); which of them somebody asked for, a [`query`] says. Must not know where bytes come from or where values go: no I/O, no clock.

use serde::{Deserialize, Serialize};
use std::collections::HashMap;

use crate::time::{Span, Timestamp};

use labels::Labels;
use query::Said;

mod attributes;
mod clean;
pub mod compare;
mod dialect;
mod encoding;
pub mod feed;
mod guard;
mod hints;
mod identity;
mod json;
pub mod labels;
mod markup;
pub mod page;
pub mod query;
mod repairs;
mod salvage;
mod text;

/// What kind of document a source serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Kind {
    /// RSS, Atom or JSON Feed.
    #[default]
    Feed,
    /// Anything else whose text can be compared.
    Page,
}

impl Kind {
    /// The name in configuration and store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Feed => "feed",
            Self::Page => "page",
        }
    }
}

/// The bytes of one answer, decompressed, with what is needed to read them.
#[derive(Debug, Clone, Copy)]
pub struct Document<'a> {
    /// The body.
    pub bytes: &'a [u8],
    /// The `Content-Type` header, if any.
    pub content_type: Option<&'a str>,
    /// Where the body came from: relative links are resolved against it.
    pub url: &'a str,
}

/// One feed, read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Feed {
    /// The feed's own title.
    pub title: Option<String>,
    /// Items in the order of the document.
    pub items: Vec<Item>,
    /// What the publisher asks of pollers.
    pub hints: FeedHints,
    /// Set when the document was malformed and only partly or with repairs readable: what was wrong.
    pub repaired: Option<String>,
    /// The document ended too early: what is missing here is not gone.
    pub truncated: bool,
}

/// One item of a feed, identified.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Item {
    /// guid, else link, else hash of title and content.
    pub key: String,
    /// Hash of what a reader would see: title, link, content. Differs when the item was edited.
    pub fingerprint: u64,
    /// Title as plain text, one line.
    pub title: Option<String>,
    /// Absolute link.
    pub link: Option<String>,
    /// When it says it was published.
    pub published: Option<Timestamp>,
    /// When it says it was last edited.
    pub updated: Option<Timestamp>,
    /// Who wrote it, and what it is filed under.
    pub labels: Labels,
    /// What the feed has of it, without markup; the beginning, where that is long.
    pub text: Option<String>,
}

/// What a feed asks of its pollers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeedHints {
    /// RSS `ttl`: not more often than this.
    pub ttl: Option<Span>,
    /// `skipHours`: bit h set = not in UTC hour h.
    pub skip_hours: u32,
    /// `skipDays`: bit d set = not on UTC day d, 0 = Monday.
    pub skip_days: u8,
    /// `sy:updatePeriod` / `sy:updateFrequency`: the publisher's own rhythm. May only slow us.
    pub update_period: Option<Span>,
}

/// What a page's text is reduced to before it is compared.
#[derive(Debug, Clone, PartialEq)]
pub struct PageText {
    /// The page's title.
    pub title: Option<String>,
    /// The selected text, ignored parts cut out, white space folded.
    pub text: String,
    /// Hash of `text`.
    pub fingerprint: u64,
}

/// What earlier probes of this source saw.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Seen {
    /// When the last successful look at the source was; `None` = first contact.
    pub last_look: Option<Timestamp>,
    /// Items known, by [`compare::key_hash`] of their key.
    pub items: HashMap<u64, SeenItem>,
    /// The page's fingerprint at the last look.
    pub page: Option<u64>,
    /// The source's address changed since the last look: no overlap then means a new place, not a gap.
    pub moved: bool,
}

/// One remembered item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenItem {
    /// Its fingerprint when last seen.
    pub fingerprint: u64,
    /// It was in the document at the last look (else only in an older one).
    pub in_last: bool,
}

/// What one answer said that was not known before.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Observation {
    /// What happened since the last look. Empty on first contact.
    pub updates: Vec<Update>,
    /// For feeds: every item now in the document, to be remembered.
    pub present: Vec<Present>,
    /// Items that vanished although older ones are still there: taken down by the publisher.
    pub gone: Vec<u64>,
    /// No overlap with the last look of a full feed: items may have been lost.
    pub gap: bool,
    /// What the publisher asks.
    pub hints: FeedHints,
    /// For pages: the text that was compared.
    pub page: Option<PageText>,
    /// A remark for the log, for example that the document was malformed.
    pub note: Option<String>,
    /// This was the first contact: what is there is history, not news.
    pub first_contact: bool,
}

/// An item that is in the document now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Present {
    /// [`compare::key_hash`] of its key.
    pub key_hash: u64,
    /// Its fingerprint.
    pub fingerprint: u64,
    /// Its own date, when sane: history for learning.
    pub dated: Option<Timestamp>,
}

/// Something happened at the source.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// What.
    pub kind: UpdateKind,
    /// When.
    pub occurred: Occurred,
    /// Identity of the item, or the fingerprint of the page's text in hex.
    pub key: String,
    /// Title, if any.
    pub title: Option<String>,
    /// Link, if any.
    pub link: Option<String>,
    /// Who wrote it, and what it is filed under.
    pub labels: Labels,
    /// What it says: of an item, what its feed has of it; of a page, what was compared.
    pub text: Option<String>,
}

impl Update {
    /// One of which nothing more is known.
    pub fn bare(kind: UpdateKind, occurred: Occurred, key: impl Into<String>) -> Self {
        let (key, labels) = (key.into(), Labels::default());
        Self { kind, occurred, key, title: None, link: None, labels, text: None }
    }

    /// What can be asked about it.
    pub fn said(&self) -> Said<'_> {
        Said {
            title: self.title.as_deref(),
            link: self.link.as_deref(),
            id: Some(&self.key),
            text: self.text.as_deref(),
            authors: &self.labels.authors,
            categories: &self.labels.categories,
        }
    }
}

/// What kind of update.
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

/// When an update happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Occurred {
    /// The item's own date, believed.
    At(Timestamp),
    /// Somewhere between the last look and this one.
    Between(Timestamp, Timestamp),
}

/// A document that could not be read at all. The probe failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Neither RSS nor Atom nor JSON Feed.
    #[error("not a feed: {0}")]
    NotAFeed(String),
    /// Too deep or too many elements.
    #[error("refused: {0}")]
    TooComplex(String),
    /// The page's selectors matched nothing.
    #[error("nothing on the page matches {0}")]
    NothingSelected(String),
    /// The feed had items at the last look and is empty now.
    #[error("the feed is empty though it had items at the last look")]
    SuddenlyEmpty,
}
