//! Normalises text: folds white space, strips tags, hashes.
//!
//! Titles and contents are plain text, HTML, or HTML escaped twice. They must compare equal if only white
//! space differs. Must not know which field of which format a string comes from.

use std::borrow::Cow;
use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// The longest title kept, in characters.
const TITLE_CHARS: usize = 500;

/// The part of a title that is read, in bytes: what is beyond cannot reach the result.
pub(super) const TITLE_BYTES: usize = TITLE_CHARS * 64;

/// Reduces runs of white space to one space and removes them at the ends.
pub(super) fn folded(text: &str) -> Cow<'_, str> {
    let text = text.trim();
    let Some(mut end) = unfolded(text, 0) else { return Cow::Borrowed(text) };
    let mut out = String::with_capacity(text.len());
    let mut start = 0;
    loop {
        out.push_str(&text[start..end]);
        out.push(' ');
        start = text.len() - text[end..].trim_start().len();
        match unfolded(text, start) {
            Some(next) => end = next,
            None => break,
        }
    }
    out.push_str(&text[start..]);
    Cow::Owned(out)
}

/// Bytes that are tested at once.
const BLOCK: usize = 32;

/// Where the first white space from `start` on begins that is not a single space. The text has none at its
/// ends and none at `start`.
fn unfolded(text: &str, start: usize) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = start;
    while at < bytes.len() {
        // Most blocks have no such white space, and the compiler tests all bytes of one together.
        if let Some(block) = bytes.get(at..=at + BLOCK) {
            let odd = |here: u8, next: u8| may_be_space(here) | ((here == b' ') & (next == b' '));
            if !(0..BLOCK).fold(false, |found, byte| found | odd(block[byte], block[byte + 1])) {
                at += BLOCK;
                continue;
            }
        }
        let end = bytes.len().min(at + BLOCK);
        for here in at..end {
            let space = match bytes[here] {
                b' ' => bytes.get(here + 1) == Some(&b' '),
                byte => may_be_space(byte) && text[here..].starts_with(char::is_whitespace),
            };
            if space {
                return Some(if bytes[here - 1] == b' ' { here - 1 } else { here });
            }
        }
        at = end;
    }
    None
}

/// True for the first byte of any white space but the plain space, and for a few others.
fn may_be_space(byte: u8) -> bool {
    (byte < b' ') | (byte == 0xc2) | ((0xe1..=0xe3).contains(&byte))
}

/// A title: one line, bounded. `markup` is true if tags are markup, false if they are literal text.
pub(super) fn title(text: &str, markup: bool) -> Option<String> {
    let text = head(text, TITLE_BYTES);
    let stripped = if markup { without_tags(text) } else { Cow::Borrowed(text) };
    let decoded = html_escape::decode_html_entities(&stripped);
    let line = folded(&decoded);
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
pub(super) fn plain<'a>(pieces: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let mut all = String::new();
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        let left = TEXT_BYTES.saturating_sub(all.len());
        // Markup may be most of the piece.
        let stripped = without_tags(head(piece, left * 4));
        let decoded = html_escape::decode_html_entities(&stripped);
        let words = folded(&decoded);
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
fn without_tags(text: &str) -> Cow<'_, str> {
    if !text.contains('<') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        let (before, tail) = rest.split_at(open);
        out.push_str(before);
        if !tail[1..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '/' | '!')) {
            out.push('<');
            rest = &tail[1..];
            continue;
        }
        match tail.find('>') {
            Some(close) => rest = &tail[close + 1..],
            // No `>` follows, so nothing further can be a tag.
            None => {
                rest = "";
                out.push_str(tail);
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
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
    use proptest::prelude::*;

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
    fn white_space_is_folded() {
        for (text, folded_text) in [
            ("", ""),
            (" \n\t", ""),
            ("a b c", "a b c"),
            (" a  b\r\nc ", "a b c"),
            ("a\u{a0}b\u{2003} \u{3000}c\u{85}d\u{1680}", "a b c d"),
            ("é ’ \u{200b}\u{1} 日本", "é ’ \u{200b}\u{1} 日本"),
        ] {
            assert_eq!(folded(text), folded_text, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn folding_joins_words_with_one_space(text in "([ab<é’日]|[ \n\r\t\u{a0}\u{85}\u{2003}\u{2029}]| ){0,90}") {
            let words: Vec<&str> = text.split_whitespace().collect();
            prop_assert_eq!(folded(&text), words.join(" "));
        }
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
