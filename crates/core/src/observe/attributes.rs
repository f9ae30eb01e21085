//! Attributes of one start tag, and the prefixes they declare.
//!
//! The library's own attribute parser compares each attribute with every other, so a tag with a million
//! attributes takes hours. This one takes linear time and reads the attributes that feeds use. Must not know
//! which element carries them.

use std::borrow::Cow;

use quick_xml::events::attributes;

use super::dialect::Space;
use super::written::{Written, trimmed};

/// Maximum number of prefixes a document can declare. Others get their customary meaning.
const MAX_PREFIXES: usize = 64;

/// The attributes that feeds use.
#[derive(Debug, Default)]
pub(super) struct Attributes<'t> {
    pub(super) xmlns: Option<Written<'t>>,
    pub(super) base: Option<Written<'t>>,
    pub(super) about: Option<Written<'t>>,
    pub(super) href: Option<Written<'t>>,
    pub(super) rel: Option<Written<'t>>,
    pub(super) media: Option<Written<'t>>,
    pub(super) src: Option<Written<'t>>,
    pub(super) permalink: Option<Written<'t>>,
    pub(super) term: Option<Written<'t>>,
    pub(super) version: bool,
}

impl<'t> Attributes<'t> {
    /// Reads the attributes of a tag, which is its text between the brackets, after a name of this length.
    /// Broken ones are skipped; the last of several with one name counts.
    pub(super) fn of(tag: &'t str, name: usize, prefixes: &mut Prefixes<'t>) -> Self {
        let mut found = Self::default();
        for attribute in attributes::Attributes::html(tag, name).with_checks(false).flatten() {
            let value = || match &attribute.value {
                Cow::Borrowed(value) => html_escape::decode_html_entities(*value),
                Cow::Owned(value) => Cow::Owned(html_escape::decode_html_entities(value).into_owned()),
            };
            match attribute.key.0 {
                "xmlns" => found.xmlns = Some(value()),
                "xml:base" => found.base = Some(value()),
                "href" => found.href = Some(value()),
                "rel" => found.rel = Some(value()),
                "type" => found.media = Some(value()),
                "src" => found.src = Some(value()),
                "term" => found.term = Some(value()),
                "version" => found.version = true,
                "about" | "rdf:about" => {
                    found.about = Some(trimmed(value())).filter(|about| !about.is_empty());
                }
                key => {
                    if let Some(prefix) = key.strip_prefix("xmlns:") {
                        prefixes.declare(prefix, &value());
                    } else if key.eq_ignore_ascii_case("isPermaLink") {
                        found.permalink = Some(value());
                    }
                }
            }
        }
        found
    }
}

/// Namespaces by prefix. One table per document: no feed in use gives a prefix two meanings.
#[derive(Debug, Default)]
pub(super) struct Prefixes<'t>(Vec<(&'t str, Space)>);

impl<'t> Prefixes<'t> {
    fn declare(&mut self, prefix: &'t str, uri: &str) {
        if self.0.len() < MAX_PREFIXES {
            let space = Space::of_uri(uri);
            match self.0.iter_mut().find(|(known, _)| *known == prefix) {
                Some((_, known)) => *known = space,
                None => self.0.push((prefix, space)),
            }
        }
    }

    /// The namespace of a prefix: as declared, else the customary one.
    pub(super) fn space(&self, prefix: &str) -> Space {
        let declared = self.0.iter().find(|(known, _)| *known == prefix);
        declared.map_or_else(|| Space::by_custom(prefix), |(_, space)| *space)
    }
}
