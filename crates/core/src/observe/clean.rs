//! The clean feed that the feed library gets to see.
//!
//! Exists so that reading broken documents and writing sound ones stay apart. Knows how RSS 2.0 and
//! Atom 1.0 are written, and that of several titles, ids or links of one item the first or the best
//! counts. Must not know how the original was written.

use quick_xml::escape::{escape, partial_escape};

use super::FeedHints;
use super::dialect::{Field, Flavour};
use super::labels::Labels;
use super::repairs::Repairs;

/// A clean feed for the library, and what it would have lost.
#[derive(Debug)]
pub(super) struct Clean {
    /// A well-formed document: RSS 2.0, Atom 1.0 or JSON Feed 1.1.
    pub(super) document: String,
    /// What its items are labelled with, in their order. The library gets to see none of it.
    pub(super) labels: Vec<Labels>,
    /// What the publisher asks.
    pub(super) hints: FeedHints,
    /// What was repaired.
    pub(super) repairs: Repairs,
}

/// Writes the clean document.
#[derive(Debug, Default)]
pub(super) struct Writer {
    flavour: Flavour,
    out: String,
    titled: bool,
    draft: Option<Draft>,
    labels: Vec<Labels>,
}

/// The item being written.
#[derive(Debug, Default)]
struct Draft {
    /// Where it starts in the output: an item cut off is taken back.
    start: usize,
    written: Vec<Field>,
    id: Option<String>,
    /// The best link so far: its rank, as written, and resolved against `xml:base`.
    link: Option<(u8, String, String)>,
    /// The id may serve as link.
    permalink: bool,
    labels: Labels,
}

impl Writer {
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

    /// `about` is RSS 1.0's name for the item, which a guid outranks.
    pub(super) fn open_item(&mut self, about: Option<String>) {
        let start = self.out.len();
        self.out.push_str(if self.flavour == Flavour::Rss { "<item>" } else { "<entry>" });
        self.draft = Some(Draft { start, id: about, ..Draft::default() });
    }

    /// Half an item would look edited when the whole one comes: better none.
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
        // Identity is the id, else the link, both as written: resolving would change the key
        // whenever the feed's address does.
        if let Some(id) = draft.id.or(link_written) {
            self.element(Field::Id, "", &id);
        }
        match (link, self.flavour) {
            (Some(link), Flavour::Rss) => self.element(Field::Link, "", &link),
            (Some(link), Flavour::Atom) => {
                self.element(Field::Link, &format!(" href=\"{}\"", escape(&link)), "");
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
        if !id.is_empty() && !draft.written.contains(&Field::Id) {
            draft.written.push(Field::Id);
            draft.id = Some(id.to_owned());
            draft.permalink = permalink;
        }
    }

    /// A link; the lowest rank wins, then the first.
    pub(super) fn link(&mut self, rank: u8, written: &str, resolved: Option<String>) {
        let Some(draft) = self.draft.as_mut() else { return };
        if !written.is_empty() && draft.link.as_ref().is_none_or(|(best, ..)| rank < *best) {
            let resolved = resolved.unwrap_or_else(|| written.to_owned());
            draft.link = Some((rank, written.to_owned(), resolved));
        }
    }

    /// Any other field: the first that says something. The library would take the last.
    pub(super) fn text(&mut self, field: Field, text: &str, html: bool) {
        if text.trim().is_empty() {
            return;
        }
        match (&mut self.draft, field) {
            (_, Field::FeedTitle) if !self.titled => self.titled = true,
            (Some(draft), _) if field != Field::FeedTitle && !draft.written.contains(&field) => {
                draft.written.push(field);
            }
            _ => return,
        }
        let typed = matches!(field, Field::FeedTitle | Field::Title | Field::Summary | Field::Content);
        let attribute = match (self.flavour, typed, html) {
            (Flavour::Atom, true, true) => " type=\"html\"",
            (Flavour::Atom, true, false) => " type=\"text\"",
            _ => "",
        };
        self.element(field, attribute, text);
    }

    fn element(&mut self, field: Field, attribute: &str, text: &str) {
        let name = self.flavour.clean_name(field);
        for part in ["<", name, attribute, ">", &partial_escape(text), "</", name, ">"] {
            self.out.push_str(part);
        }
    }
}
