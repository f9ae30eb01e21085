//! Normalises text: folds white space, strips tags, hashes.
//!
//! Titles and contents are plain text, HTML, or HTML escaped twice. They must compare equal if only white
//! space differs. Must not know which field of which format a string comes from.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The longest title kept, in characters.
const TITLE_CHARS: usize = 500;

/// Reduces runs of white space to one space and removes them at the ends.
pub(super) fn folded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for word in text.split_whitespace() {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(word);
    }
    out
}

/// A title: one line, bounded. `markup` is true if tags are markup, false if they are literal text.
pub(super) fn title(text: &str, markup: bool) -> Option<String> {
    // Text beyond this cannot reach the result, and a "title" may have megabytes.
    let text = head(text, TITLE_CHARS * 64);
    let stripped = if markup { without_tags(text) } else { text.to_owned() };
    let line = folded(&html_escape::decode_html_entities(&stripped));
    let line: String = line.chars().filter(|c| !c.is_control()).collect();
    if line.is_empty() {
        return None;
    }
    if line.chars().count() <= TITLE_CHARS {
        return Some(line);
    }
    Some(line.chars().take(TITLE_CHARS - 1).chain(['…']).collect())
}

/// Maximum length of an item's text kept for conditions, in bytes.
const TEXT_BYTES: usize = 64 * 1024;

/// The text of several pieces of markup in order, without tags and bounded.
pub(super) fn plain<'a>(pieces: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let mut all = String::new();
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        let left = TEXT_BYTES.saturating_sub(all.len());
        // Markup may be most of the piece.
        let stripped = without_tags(head(piece, left * 4));
        let words = folded(&html_escape::decode_html_entities(&stripped));
        if !all.is_empty() && !words.is_empty() {
            all.push(' ');
        }
        all.push_str(head(&words, left));
    }
    (!all.is_empty()).then_some(all)
}

/// The longest prefix of at most `bytes` bytes that ends between characters.
pub(super) fn head(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Removes tags from text. `a < b` and `<3` stay.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        let (before, tail) = rest.split_at(open);
        out.push_str(before);
        let is_tag = tail[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!'));
        match tail.find('>') {
            Some(close) if is_tag => {
                rest = &tail[close + 1..];
            }
            // No `>` follows, so nothing further can be a tag.
            None => {
                rest = "";
                out.push_str(tail);
            }
            Some(_) => {
                out.push('<');
                rest = &tail[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// A stable 64-bit hash of several strings: the first eight bytes of a SHA-256 over them and their lengths.
/// The lengths make a shift of text from one string to the next change the hash.
pub(super) fn fingerprint<'a>(parts: impl IntoIterator<Item = &'a str>) -> u64 {
    let digest = digest(parts);
    digest.iter().take(8).fold(0, |hash, byte| hash << 8 | u64::from(*byte))
}

/// The whole hash in hex.
pub(super) fn hex<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    digest(parts).iter().fold(String::with_capacity(64), |mut hex, byte| {
        // Writing into a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part.as_bytes());
    }
    hasher.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_are_reduced_to_one_plain_line() {
        assert_eq!(title("  <b>Tom</b> &amp;\n Jerry ", true).as_deref(), Some("Tom & Jerry"));
        assert_eq!(title("a < b, I <3 you", true).as_deref(), Some("a < b, I <3 you"));
        assert_eq!(title("Use <b> sparingly", false).as_deref(), Some("Use <b> sparingly"));
        assert_eq!(title(" \u{0} <br/> ", true), None);
        assert_eq!(title(&"é".repeat(100_000), true).map(|t| t.chars().count()), Some(500));
        // Takes linear time even if no bracket closes.
        assert!(title(&"<a".repeat(1_000_000), true).is_some());
    }

    #[test]
    fn hashes_are_stable_and_depend_on_part_boundaries() {
        assert_eq!(fingerprint(["a", "bc"]), fingerprint(["a", "bc"]));
        assert_ne!(fingerprint(["a", "bc"]), fingerprint(["ab", "c"]));
        // Stored in databases: this value must never change.
        assert_eq!(fingerprint(["tide"]), 0x8cfd0b34cb5d82a9);
        assert_eq!(hex(["tide"])[..16], *"8cfd0b34cb5d82a9");
        assert_eq!(hex(["tide"]).len(), 64);
    }
}
