//! Approximate scanning of HTML tags.
//!
//! It answers two questions that the rewriter does not: whether markup separates words, and whether a
//! document would make the rewriter slow. It uses tag names and approximate nesting. Must not know the
//! selectors.

use std::collections::HashMap;

use super::{Unreadable, text};

/// Maximum number of steps that the rewriter may take through its open elements: about a second. Real pages
/// need thousands of times less.
const MAX_WORK: usize = 500_000_000;

/// Elements that do not separate words.
const INLINE: [&str; 34] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "code", "data", "del", "dfn", "em", "font",
    "i", "ins", "kbd", "label", "mark", "nobr", "q", "s", "samp", "small", "span", "strike", "strong",
    "sub", "sup", "time", "tt", "u", "var", "wbr",
];

/// Elements without content.
const VOID: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track",
    "wbr",
];

/// Elements whose content is text even if it resembles tags.
const RAW: [&str; 8] = ["script", "style", "textarea", "title", "noscript", "iframe", "xmp", "noembed"];

/// Whether the markup between two texts separates words. Every tag that is not inline does, and so does text
/// that was left out.
pub(super) fn separates(between: &str) -> bool {
    let mut rest = between;
    while let Some(tag) = rest.strip_prefix('<') {
        if let Some(comment) = tag.strip_prefix("!--") {
            match comment.find("-->") {
                Some(end) => rest = &comment[end + 3..],
                None => return true,
            }
            continue;
        }
        let name = name_of(tag.strip_prefix('/').unwrap_or(tag));
        if !INLINE.iter().any(|inline| inline.eq_ignore_ascii_case(name)) {
            return true;
        }
        match end_of_tag(tag) {
            Some(end) => rest = &tag[end..],
            None => return true,
        }
    }
    !rest.is_empty()
}

/// Refuses documents that take the rewriter quadratic time. It keeps a stack of open elements and scans it at
/// end tags that close nothing. With a selector on ancestors it also scans it at start tags. A hundred
/// thousand open elements would take hours.
pub(super) fn refuse_excess(html: &str) -> Result<(), Unreadable> {
    // Each tag scans at most those before it. Ordinary pages have too few to need more than a count.
    let tags = html.bytes().filter(|byte| *byte == b'<').count();
    if tags.saturating_mul(tags) / 2 <= MAX_WORK {
        return Ok(());
    }
    let mut open: Vec<&str> = Vec::new();
    let mut counts: HashMap<&str, usize> = HashMap::new();
    let mut work = 0_usize;
    let mut rest = html;
    while let Some(found) = rest.find('<') {
        let tag = &rest[found + 1..];
        rest = tag;
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.find("-->").map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let closing = tag.strip_prefix('/');
        let name = name_of(closing.unwrap_or(tag));
        if name.is_empty() {
            continue;
        }
        if closing.is_some() {
            match counts.get(name) {
                None | Some(0) => work += open.len(),
                Some(_) => {
                    while let Some(top) = open.pop() {
                        counts.entry(top).and_modify(|count| *count -= 1);
                        if top == name {
                            break;
                        }
                    }
                }
            }
        } else {
            work += open.len();
            if RAW.iter().any(|raw| raw.eq_ignore_ascii_case(name)) {
                rest = after_raw_text(tag, name);
            } else if !VOID.iter().any(|void| void.eq_ignore_ascii_case(name)) {
                open.push(name);
                *counts.entry(name).or_default() += 1;
            }
        }
        if work > MAX_WORK {
            return Err(Unreadable::TooComplex("elements nested absurdly deep".to_owned()));
        }
    }
    Ok(())
}

/// The text after the end tag of a raw-text element. Each element is searched once and forward only. One that
/// is never closed extends to the end of the document.
fn after_raw_text<'t>(tag: &'t str, name: &str) -> &'t str {
    let mut rest = tag;
    while let Some(found) = rest.find("</") {
        rest = &rest[found + 2..];
        if name_of(rest).eq_ignore_ascii_case(name) {
            return rest;
        }
    }
    ""
}

/// The tag name at the start of this text, or empty if there is none.
fn name_of(tag: &str) -> &str {
    if !tag.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return "";
    }
    // Bounded: otherwise `<a<a<a…` would be scanned to its end for each tag.
    let tag = text::head(tag, 64);
    let end = tag.find(|c: char| c.is_ascii_whitespace() || matches!(c, '>' | '/')).unwrap_or(tag.len());
    &tag[..end]
}

/// The offset after the `>` that ends this tag. A `>` in a quoted value does not count.
fn end_of_tag(tag: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in tag.bytes().enumerate() {
        match (byte, quote) {
            (_, Some(open)) if byte == open => quote = None,
            (_, Some(_)) => {}
            (b'"' | b'\'', None) => quote = Some(byte),
            (b'>', None) => return Some(at + 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_markup_keeps_words_together() {
        for together in ["", "</b>", "<a href='a>b'><em>", "<!-- x -->", "</SPAN><wbr>"] {
            assert!(!separates(together), "{together}");
        }
        for apart in ["</p><p>", "<br/>", "</b><img>", "<script>x</script>", "<b", "left out"] {
            assert!(separates(apart), "{apart}");
        }
    }

    #[test]
    fn excessive_nesting_is_refused_and_ordinary_is_not() {
        assert!(refuse_excess(&"<div>".repeat(200_000)).is_err());
        assert!(refuse_excess(&format!("{}{}", "<i>".repeat(20_000), "</b>".repeat(200_000))).is_err());
        assert!(refuse_excess(&"<p>unclosed".repeat(10_000)).is_ok());
        assert!(refuse_excess(&"<div><p>x</p></div>".repeat(50_000)).is_ok());
        assert!(refuse_excess("<script>if (a<b) '<div>'</script>< / <> </").is_ok());
    }
}
