//! The clean feed that is passed to the feed library.
//!
//! It separates reading broken documents from writing sound ones. It writes RSS 2.0 and Atom 1.0. Of several
//! titles, ids or links of one item it takes the first or the best. Must not know how the original was
//! written.

use quick_xml::escape::{escape, partial_escape};

use super::FeedHints;
use super::dialect::{FeedField, Flavour};
use super::labels::Labels;
use super::repairs::Repairs;

/// A clean feed for the library, and the values that the library would drop.
#[derive(Debug)]
pub(super) struct Clean {
    /// A well-formed document: RSS 2.0, Atom 1.0 or JSON Feed 1.1.
    pub(super) document: String,
    /// The labels of its items, in the order of the items. They are not passed to the library.
    pub(super) labels: Vec<Labels>,
    /// The publisher's polling hints.
    pub(super) hints: FeedHints,
    /// The repairs made.
    pub(super) repairs: Repairs,
}

/// Writes the clean document.
#[derive(Debug, Default)]
pub(super) struct CleanWriter {
    flavour: Flavour,
    out: String,
    titled: bool,
    draft: Option<Draft>,
    labels: Vec<Labels>,
}

/// The item being written.
#[derive(Debug, Default)]
struct Draft {
    /// Its offset in the output. An incomplete item is removed from there on.
    start: usize,
    written: Vec<FeedField>,
    id: Option<String>,
    /// The best link so far: its rank, as written, and resolved against `xml:base`.
    link: Option<(u8, String, String)>,
    /// True if the id may serve as link.
    permalink: bool,
    labels: Labels,
}

impl CleanWriter {
    pub(super) fn start(&mut self, flavour: Flavour) {
        self.flavour = flavour;
        self.out.push_str(match flavour {
            Flavour::Rss => {
                "<rss version=\"2.0\" xmlns:content=\"http://purl.org/rss/1.0/modules/content/\"><channel>"
            }
            Flavour::Atom => "<feed xmlns=\"http://www.w3.org/2005/Atom\">",
        });
    }

    pub(super) fn finish(mut self) -> (String, Vec<Labels>) {
        self.out.push_str(match self.flavour {
            Flavour::Rss => "</channel></rss>",
            Flavour::Atom => "</feed>",
        });
        (self.out, self.labels)
    }

    pub(super) fn in_item(&self) -> bool {
        self.draft.is_some()
    }

    /// Starts an item. `about` is RSS 1.0's id for the item; a guid replaces it.
    pub(super) fn open_item(&mut self, about: Option<String>) {
        let start = self.out.len();
        self.out.push_str(if self.flavour == Flavour::Rss { "<item>" } else { "<entry>" });
        self.draft = Some(Draft { start, id: about, ..Draft::default() });
    }

    /// Removes the open item. A partial item would count as edited once the whole one arrives.
    pub(super) fn abandon_item(&mut self) {
        if let Some(draft) = self.draft.take() {
            self.out.truncate(draft.start);
        }
    }

    pub(super) fn close_item(&mut self) {
        let Some(draft) = self.draft.take() else { return };
        self.labels.push(draft.labels);
        let (link_written, mut link) = match draft.link {
            Some((_, written, resolved)) => (Some(written), Some(resolved)),
            None => (None, None),
        };
        if link.is_none() && draft.permalink {
            link = draft.id.clone().filter(|id| id.starts_with("http"));
        }
        // The key is the id, else the link, both as written. A resolved link would change the key whenever
        // the feed's address changes.
        if let Some(id) = draft.id.or(link_written) {
            self.element(FeedField::Id, "", &id);
        }
        match (link, self.flavour) {
            (Some(link), Flavour::Rss) => self.element(FeedField::Link, "", &link),
            (Some(link), Flavour::Atom) => {
                self.element(FeedField::Link, &format!(" href=\"{}\"", escape(&link)), "");
            }
            (None, _) => {}
        }
        self.out.push_str(if self.flavour == Flavour::Rss { "</item>" } else { "</entry>" });
    }

    /// The labels of the item being written.
    pub(super) fn labels(&mut self) -> Option<&mut Labels> {
        self.draft.as_mut().map(|draft| &mut draft.labels)
    }

    pub(super) fn id(&mut self, text: &str, permalink: bool) {
        let Some(draft) = self.draft.as_mut() else { return };
        let id = text.trim();
        if !id.is_empty() && !draft.written.contains(&FeedField::Id) {
            draft.written.push(FeedField::Id);
            draft.id = Some(id.to_owned());
            draft.permalink = permalink;
        }
    }

    /// Offers a link. The lowest rank wins, then the first.
    pub(super) fn link(&mut self, rank: u8, written: &str, resolved: Option<String>) {
        let Some(draft) = self.draft.as_mut() else { return };
        if !written.is_empty() && draft.link.as_ref().is_none_or(|(best, ..)| rank < *best) {
            let resolved = resolved.unwrap_or_else(|| written.to_owned());
            draft.link = Some((rank, written.to_owned(), resolved));
        }
    }

    /// Writes any other field. The first non-empty value counts; the library would take the last.
    pub(super) fn text(&mut self, field: FeedField, text: &str, html: bool) {
        if text.trim().is_empty() {
            return;
        }
        match (&mut self.draft, field) {
            (_, FeedField::FeedTitle) if !self.titled => self.titled = true,
            (Some(draft), _) if field != FeedField::FeedTitle && !draft.written.contains(&field) => {
                draft.written.push(field);
            }
            _ => return,
        }
        let typed = matches!(
            field,
            FeedField::FeedTitle | FeedField::Title | FeedField::Summary | FeedField::Content
        );
        let attribute = match (self.flavour, typed, html) {
            (Flavour::Atom, true, true) => " type=\"html\"",
            (Flavour::Atom, true, false) => " type=\"text\"",
            _ => "",
        };
        self.element(field, attribute, text);
    }

    fn element(&mut self, field: FeedField, attribute: &str, text: &str) {
        let name = self.flavour.clean_name(field);
        for part in ["<", name, attribute, ">", &partial_escape(text), "</", name, ">"] {
            self.out.push_str(part);
        }
    }
}
