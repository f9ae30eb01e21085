//! Converts bytes to text.
//!
//! Three places may name a document's encoding: the byte order mark, the document and the HTTP header. They
//! contradict each other, and each may be wrong. So they are checked against the bytes. Must not know the
//! meaning of the text.
//!
//! Order of precedence: a byte order mark; the zero bytes of UTF-16; the document's declaration; the header;
//! UTF-8 if the bytes are valid UTF-8; windows-1252. A declared encoding that contradicts the bytes
//! (multi-byte UTF-8 under a Latin-1 label, invalid UTF-8 under a UTF-8 label) is overruled.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252};

/// The part of a document, in bytes, that is searched for its declaration.
const DECLARATION_WITHIN: usize = 1024;

/// A document as text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decoded<'b> {
    /// The text, without byte order mark. It is not copied if the bytes are UTF-8.
    pub(super) text: Cow<'b, str>,
    /// The declaration that was overruled, in a few words.
    pub(super) overruled: Option<String>,
}

/// Text of an XML or JSON document.
pub(super) fn xml<'b>(bytes: &'b [u8], content_type: Option<&str>) -> Decoded<'b> {
    decode(bytes, declared_in_prolog(bytes), charset_of(content_type))
}

/// Text of an HTML document. Here the header takes precedence over the document.
pub(super) fn html<'b>(bytes: &'b [u8], content_type: Option<&str>) -> Decoded<'b> {
    match charset_of(content_type) {
        Some(charset) => decode(bytes, Some(charset), None),
        None => decode(bytes, declared_in_meta(bytes), None),
    }
}

fn decode<'b>(
    bytes: &'b [u8],
    document: Option<&'static Encoding>,
    header: Option<&'static Encoding>,
) -> Decoded<'b> {
    let trusted = |encoding: &'static Encoding, bytes: &'b [u8]| {
        let (text, had_errors) = encoding.decode_without_bom_handling(bytes);
        Decoded { text, overruled: had_errors.then(|| format!("bytes that are not {}", encoding.name())) }
    };
    if let Some((encoding, mark)) = Encoding::for_bom(bytes) {
        return trusted(encoding, &bytes[mark..]);
    }
    // XML and JSON start with an ASCII character. A zero byte beside it means UTF-16 without a mark.
    match bytes {
        [0, first, ..] if *first != 0 => return trusted(UTF_16BE, bytes),
        [first, 0, ..] if *first != 0 => return trusted(UTF_16LE, bytes),
        _ => {}
    }
    // Bytes that read as ASCII cannot be UTF-16, even if the label says so.
    let label = document.or(header).filter(|label| *label != UTF_16BE && *label != UTF_16LE);
    let label_or_default = label.unwrap_or(UTF_8);
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let ascii = text.is_ascii();
            if label_or_default == UTF_8 || (ascii && label_or_default.is_ascii_compatible()) {
                // ISO-2022-JP consists of ASCII bytes but is not ASCII compatible. It is decoded below.
                return Decoded { text: Cow::Borrowed(text), overruled: None };
            }
            if !ascii {
                let overruled = Some(format!("labelled {} but is UTF-8", label_or_default.name()));
                return Decoded { text: Cow::Borrowed(text), overruled };
            }
            trusted(label_or_default, bytes)
        }
        Err(_) if label_or_default != UTF_8 => trusted(label_or_default, bytes),
        Err(_) => {
            // Labelled or assumed UTF-8, but invalid. A header with another encoding may be right.
            if let Some(other) = header.filter(|other| *other != UTF_8 && other.is_ascii_compatible()) {
                let mut decoded = trusted(other, bytes);
                decoded.overruled = Some(format!("labelled UTF-8 but is {}", other.name()));
                return decoded;
            }
            let text = String::from_utf8_lossy(bytes);
            let (good, bad) = text.chars().filter(|c| !c.is_ascii()).fold((0, 0), |(good, bad), c| {
                if c == char::REPLACEMENT_CHARACTER { (good, bad + 1) } else { (good + 1, bad) }
            });
            if good > bad {
                // Mostly UTF-8 with a few invalid sequences. Replacing those is better than garbling the
                // rest.
                let overruled = Some(format!("{bad} byte sequences that are not UTF-8"));
                return Decoded { text, overruled };
            }
            let mut decoded = trusted(WINDOWS_1252, bytes);
            decoded.overruled = match label {
                Some(_) => Some("labelled UTF-8 but is windows-1252".to_owned()),
                None => Some("no encoding declared, read as windows-1252".to_owned()),
            };
            decoded
        }
    }
}

/// The `charset` parameter of a `Content-Type`.
fn charset_of(content_type: Option<&str>) -> Option<&'static Encoding> {
    let value = content_type?;
    value.split(';').skip(1).find_map(|parameter| {
        let (name, label) = parameter.split_once('=')?;
        if !name.trim().eq_ignore_ascii_case("charset") {
            return None;
        }
        Encoding::for_label(label.trim().trim_matches(['"', '\'']).as_bytes())
    })
}

/// `encoding="…"` in the XML declaration, anywhere in the first bytes.
fn declared_in_prolog(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARATION_WITHIN)];
    let declaration = tags(head, b"<?xml").next()?;
    let end = declaration.windows(2).position(|two| two == b"?>")?;
    labelled(&lower_case(&declaration[..end]), "encoding")
}

/// `<meta charset=…>` or `<meta http-equiv=content-type content="…; charset=…">`.
fn declared_in_meta(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARATION_WITHIN)];
    tags(head, b"<meta").find_map(|tag| {
        let end = tag.iter().position(|byte| *byte == b'>').unwrap_or(tag.len());
        labelled(&lower_case(&tag[..end]), "charset")
    })
}

fn labelled(markup: &str, name: &str) -> Option<&'static Encoding> {
    let value = markup[markup.find(name)? + name.len()..].trim_start().strip_prefix('=')?;
    let value = value.trim_start().trim_start_matches(['"', '\'']);
    let end = value.find(|c: char| matches!(c, '"' | '\'' | ';' | '/' | '>') || c.is_ascii_whitespace());
    Encoding::for_label(&value.as_bytes()[..end.unwrap_or(value.len())])
}

/// The bytes from each tag on that starts like this, in any case.
fn tags<'b>(bytes: &'b [u8], start: &[u8]) -> impl Iterator<Item = &'b [u8]> {
    let brackets = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'<');
    let begins = |tag: &&[u8]| tag.get(..start.len()).is_some_and(|head| head.eq_ignore_ascii_case(start));
    brackets.map(|(at, _)| &bytes[at..]).filter(begins)
}

/// The bytes in lower case, one character per byte. Declarations are ASCII.
fn lower_case(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(bytes: &[u8], content_type: Option<&str>) -> String {
        xml(bytes, content_type).text.into_owned()
    }

    #[test]
    fn byte_order_marks_and_zero_bytes_take_precedence() {
        assert_eq!(text(b"\xef\xbb\xbf<a>\xc3\xa9", Some("text/xml; charset=iso-8859-1")), "<a>é");
        assert_eq!(text(b"\xff\xfe<\0\xe9\0", None), "<é");
        assert_eq!(text(b"\0<\0\xe9", Some("text/xml; charset=utf-8")), "<é");
        assert_eq!(text(b"<\0\xe9\0", None), "<é");
    }

    #[test]
    fn document_takes_precedence_over_header() {
        let latin2 = b"<?xml version='1.0' encoding='ISO-8859-2'?><a>\xb1</a>";
        assert!(text(latin2, Some("text/xml; charset=utf-8")).contains('ą'));
        assert!(text(b"<a>\xe9</a>", Some("text/xml; charset=\"ISO-8859-1\"")).contains('é'));
    }

    #[test]
    fn wrong_labels_are_overruled_and_reported() {
        let really_utf8 = xml("<?xml version='1.0' encoding='ISO-8859-1'?><a>é</a>".as_bytes(), None);
        assert!(really_utf8.text.contains("é"));
        assert!(really_utf8.overruled.is_some());
        let really_latin = xml(b"<?xml version='1.0' encoding='utf-8'?><a>caf\xe9</a>", None);
        assert!(really_latin.text.contains("café"));
        assert!(really_latin.overruled.is_some());
        let utf16_label = xml(b"<?xml version='1.0' encoding='utf-16'?><a>x</a>", None);
        assert!(utf16_label.text.contains("<a>x</a>"));
        let mostly: Vec<u8> = "<a>éééé".bytes().chain([0xff]).collect();
        let mostly = xml(&mostly, None);
        assert!(mostly.text.contains("éééé"));
        assert_eq!(xml(b"plain", Some("text/xml; charset=koi8-r")).overruled, None);
    }

    #[test]
    fn html_encoding_is_read_from_meta() {
        let page =
            b"<html><head><META http-equiv=Content-Type content='text/html; charset=windows-1251'>\xcf";
        assert!(html(page, None).text.ends_with('П'));
        assert!(html(b"<meta charset=koi8-r>\xd0", None).text.ends_with('п'));
        assert!(html(b"<meta charset=koi8-r>\xe9", Some("text/html; charset=latin1")).text.ends_with('é'));
    }
}
