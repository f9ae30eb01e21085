//! Attributes of one start tag, and the prefixes they declare.
//!
//! The library's own attribute parser compares each attribute with every other, so a tag with a million
//! attributes takes hours. This one takes linear time and reads the attributes that feeds use. Must not know
//! which element carries them.

use std::collections::HashMap;

use quick_xml::events::BytesStart;

use super::dialect::Space;

/// Maximum number of prefixes a document can declare. Others get their customary meaning.
const MAX_PREFIXES: usize = 64;

/// The attributes that feeds use.
#[derive(Debug, Default)]
pub(super) struct Attributes {
    pub(super) xmlns: Option<String>,
    pub(super) base: Option<String>,
    pub(super) about: Option<String>,
    pub(super) href: Option<String>,
    pub(super) rel: Option<String>,
    pub(super) media: Option<String>,
    pub(super) src: Option<String>,
    pub(super) permalink: Option<String>,
    pub(super) term: Option<String>,
    pub(super) version: bool,
}

impl Attributes {
    /// Reads a tag's attributes. Broken ones are skipped; the last of several with one name counts.
    pub(super) fn of(start: &BytesStart<'_>, prefixes: &mut Prefixes) -> Self {
        let mut found = Self::default();
        for attribute in start.html_attributes().with_checks(false).flatten() {
            let value = || html_escape::decode_html_entities(&attribute.value).into_owned();
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
                    found.about = Some(value().trim().to_owned()).filter(|about| !about.is_empty());
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
pub(super) struct Prefixes(HashMap<String, Space>);

impl Prefixes {
    fn declare(&mut self, prefix: &str, uri: &str) {
        if self.0.len() < MAX_PREFIXES {
            self.0.insert(prefix.to_owned(), Space::of_uri(uri));
        }
    }

    /// The namespace of a prefix: as declared, else the customary one.
    pub(super) fn space(&self, prefix: &str) -> Space {
        self.0.get(prefix).copied().unwrap_or_else(|| Space::by_custom(prefix))
    }
}
