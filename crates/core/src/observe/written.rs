//! A feed as its document writes it.
//!
//! The readers of XML and JSON fill these values in one pass. Texts are parts of the document where that is
//! possible. Keys, dates and plain texts are made of them later, and only of items that need it. Must not
//! know how documents are read.

use std::borrow::Cow;

use super::FeedHints;
use super::repairs::Repairs;

/// A text of a document: a part of it, or a copy if references had to be replaced.
pub(super) type Written<'t> = Cow<'t, str>;

/// One feed.
#[derive(Debug, Default)]
pub(super) struct WrittenFeed<'t> {
    pub(super) title: Option<WrittenTitle<'t>>,
    /// The items in the order of the document.
    pub(super) items: Vec<WrittenItem<'t>>,
    pub(super) hints: FeedHints,
    pub(super) repairs: Repairs,
    /// An item without a date of its last edit has its publication date as such: so in RSS.
    pub(super) edited_when_published: bool,
}

/// A title, and whether tags in it are markup or literal text.
#[derive(Debug)]
pub(super) struct WrittenTitle<'t> {
    pub(super) text: Written<'t>,
    pub(super) markup: bool,
}

/// One item. Of several values for one field, it has the one that counts.
#[derive(Debug, Default)]
pub(super) struct WrittenItem<'t> {
    /// The id, else the link as written.
    pub(super) id: Option<Written<'t>>,
    /// The link, resolved against `xml:base`.
    pub(super) link: Option<Written<'t>>,
    pub(super) title: Option<WrittenTitle<'t>>,
    pub(super) summary: Option<Written<'t>>,
    pub(super) content: Option<Written<'t>>,
    pub(super) published: Option<Written<'t>>,
    pub(super) updated: Option<Written<'t>>,
    pub(super) authors: Vec<Written<'t>>,
    pub(super) categories: Vec<Written<'t>>,
}

impl WrittenFeed<'_> {
    /// The same feed, independent of the text that it was read from.
    pub(super) fn into_owned(self) -> WrittenFeed<'static> {
        WrittenFeed {
            title: self.title.map(WrittenTitle::into_owned),
            items: self.items.into_iter().map(WrittenItem::into_owned).collect(),
            hints: self.hints,
            repairs: self.repairs,
            edited_when_published: self.edited_when_published,
        }
    }
}

impl WrittenTitle<'_> {
    fn into_owned(self) -> WrittenTitle<'static> {
        WrittenTitle { text: owned(self.text), markup: self.markup }
    }
}

impl WrittenItem<'_> {
    fn into_owned(self) -> WrittenItem<'static> {
        WrittenItem {
            id: self.id.map(owned),
            link: self.link.map(owned),
            title: self.title.map(WrittenTitle::into_owned),
            summary: self.summary.map(owned),
            content: self.content.map(owned),
            published: self.published.map(owned),
            updated: self.updated.map(owned),
            authors: self.authors.into_iter().map(owned).collect(),
            categories: self.categories.into_iter().map(owned).collect(),
        }
    }
}

fn owned(text: Written<'_>) -> Written<'static> {
    Cow::Owned(text.into_owned())
}

/// The text without white space at its ends.
pub(super) fn trimmed(text: Written<'_>) -> Written<'_> {
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.trim()),
        Cow::Owned(text) if text.trim().len() == text.len() => Cow::Owned(text),
        Cow::Owned(text) => Cow::Owned(text.trim().to_owned()),
    }
}
