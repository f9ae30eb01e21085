//! Strings as a reader sees them.
//!
//! Exists because titles and contents arrive as plain text, as HTML, as HTML escaped twice, and
//! must compare equal when only white space moved. Knows folding, stripping and hashing. Must not
//! know which field of which format a string came from.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The longest title kept, in characters.
const TITLE_CHARS: usize = 500;

/// Runs of white space become one space; none at the ends.
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

/// A title: one line, bounded. `markup` says whether tags in it are markup or meant literally.
pub(super) fn title(text: &str, markup: bool) -> Option<String> {
    // Nothing beyond this can reach the result, and a "title" may be megabytes.
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

/// Of what an item says, so many bytes are kept to be asked about.
const TEXT_BYTES: usize = 64 * 1024;

/// What several pieces of markup say, one after the other, without tags and bounded.
pub(super) fn plain<'a>(pieces: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let mut all = String::new();
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        let left = TEXT_BYTES.saturating_sub(all.len());
        // Markup may be most of it.
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

/// Text without what looks like tags. `a < b` and `<3` stay.
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
            // No `>` anywhere ahead: nothing further can be a tag.
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

/// A stable 64-bit hash of several strings: the first eight bytes of a SHA-256 over them with
/// their lengths, so that no text can move from one to the next unnoticed.
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
    fn titles_become_one_plain_line() {
        assert_eq!(title("  <b>Tom</b> &amp;\n Jerry ", true).as_deref(), Some("Tom & Jerry"));
        assert_eq!(title("a < b, I <3 you", true).as_deref(), Some("a < b, I <3 you"));
        assert_eq!(title("Use <b> sparingly", false).as_deref(), Some("Use <b> sparingly"));
        assert_eq!(title(" \u{0} <br/> ", true), None);
        assert_eq!(title(&"é".repeat(100_000), true).map(|t| t.chars().count()), Some(500));
        // Linear even when no bracket ever closes.
        assert!(title(&"<a".repeat(1_000_000), true).is_some());
    }

    #[test]
    fn hashes_are_stable_and_keep_parts_apart() {
        assert_eq!(fingerprint(["a", "bc"]), fingerprint(["a", "bc"]));
        assert_ne!(fingerprint(["a", "bc"]), fingerprint(["ab", "c"]));
        // Stored in databases: this value may never change.
        assert_eq!(fingerprint(["tide"]), 0x8cfd0b34cb5d82a9);
        assert_eq!(hex(["tide"])[..16], *"8cfd0b34cb5d82a9");
        assert_eq!(hex(["tide"]).len(), 64);
    }
}
