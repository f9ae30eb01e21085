//! The item that is being read from XML.
//!
//! Publishers give items several titles, ids or links. The first non-empty value counts, of links the best.
//! Must not know the elements that the values come from.

use std::borrow::Cow;

use super::dialect::FeedField;
use super::limits::{MAX_ADDRESS, MAX_LABELS};
use super::written::{Written, WrittenItem, WrittenTitle, trimmed};

/// An item with the values read so far.
#[derive(Debug, Default)]
pub(super) struct Draft<'t> {
    item: WrittenItem<'t>,
    /// An id was read, and not only RSS 1.0's `about`.
    identified: bool,
    /// The id may serve as link.
    permalink: bool,
    link: Option<DraftLink<'t>>,
}

/// The best link so far.
#[derive(Debug)]
struct DraftLink<'t> {
    rank: u8,
    written: Written<'t>,
    resolved: Option<String>,
}

impl<'t> Draft<'t> {
    /// A new item. `about` is RSS 1.0's id for the item; a guid replaces it.
    pub(super) fn new(about: Option<Written<'t>>) -> Self {
        Self { item: WrittenItem { id: about, ..WrittenItem::default() }, ..Self::default() }
    }

    pub(super) fn id(&mut self, text: Written<'t>, permalink: bool) {
        let id = trimmed(text);
        if !id.is_empty() && !self.identified {
            self.identified = true;
            self.item.id = Some(id);
            self.permalink = permalink;
        }
    }

    /// Offers a link. The lowest rank wins, then the first. `resolve` resolves it against `xml:base`, if
    /// there is one.
    pub(super) fn link(
        &mut self,
        rank: u8,
        written: Written<'t>,
        resolve: impl FnOnce(&str) -> Option<String>,
    ) {
        let written = trimmed(written);
        if !written.is_empty() && self.link.as_ref().is_none_or(|best| rank < best.rank) {
            let resolved = resolve(&written);
            self.link = Some(DraftLink { rank, written, resolved });
        }
    }

    pub(super) fn title(&mut self, title: WrittenTitle<'t>) {
        if self.item.title.is_none() && !title.text.trim().is_empty() {
            self.item.title = Some(title);
        }
    }

    /// Takes any other field of text.
    pub(super) fn text(&mut self, field: FeedField, text: Written<'t>) {
        let value = match field {
            FeedField::Summary => &mut self.item.summary,
            FeedField::Content => &mut self.item.content,
            FeedField::Published => &mut self.item.published,
            FeedField::Updated => &mut self.item.updated,
            _ => return,
        };
        if value.is_none() && !text.trim().is_empty() {
            *value = Some(text);
        }
    }

    pub(super) fn author(&mut self, text: Written<'t>) {
        push_label(&mut self.item.authors, text);
    }

    pub(super) fn category(&mut self, text: Written<'t>) {
        push_label(&mut self.item.categories, text);
    }

    /// The complete item.
    pub(super) fn finish(self) -> WrittenItem<'t> {
        let mut item = self.item;
        // The key is the id, else the link, both as written. A resolved link would change the key whenever
        // the feed's address changes.
        match self.link {
            Some(DraftLink { written, resolved: Some(resolved), .. }) => {
                item.id = item.id.or(Some(written));
                item.link = Some(Cow::Owned(resolved));
            }
            Some(DraftLink { written, resolved: None, .. }) => {
                item.id = item.id.or_else(|| Some(written.clone()));
                item.link = Some(written);
            }
            None if self.permalink => item.link = item.id.clone().filter(|id| id.starts_with("http")),
            None => {}
        }
        item.link = item.link.filter(|link| link.len() <= MAX_ADDRESS);
        item
    }
}

fn push_label<'t>(labels: &mut Vec<Written<'t>>, text: Written<'t>) {
    if labels.len() < MAX_LABELS {
        labels.push(text);
    }
}
