//! Extra request headers of a source.
//!
//! The daemon sets some headers itself; other values for them would break conditional requests or
//! politeness. This module checks header names and values. It must not open secret files.

use std::collections::HashSet;
use std::path::PathBuf;

use super::fault::Faults;
use super::raw_header::HeaderValue;
use super::reader::At;
use super::secret::Secret;

/// Headers that users cannot set, and why.
const OURS: [(&str, &str); 12] = [
    ("if-none-match", "it is sent from what the store remembers"),
    ("if-modified-since", "it is sent from what the store remembers"),
    ("user-agent", "set `contact` in [daemon] to say who you are"),
    ("accept-encoding", "it says what tidewatch can decompress"),
    ("host", "it comes from the URL"),
    ("cookie", "no cookies are kept or sent"),
    ("referer", "no page led here"),
    ("connection", "it belongs to the connection, not to the source"),
    ("content-length", "requests have no body"),
    ("transfer-encoding", "requests have no body"),
    ("upgrade", "it belongs to the connection, not to the source"),
    ("range", "half a document can't be compared"),
];

/// Checks headers.
pub fn check(raw: Vec<(At<String>, At<HeaderValue>)>, faults: &mut Faults) -> Vec<(String, Secret)> {
    let mut seen = HashSet::new();
    let mut headers = Vec::with_capacity(raw.len());
    for (name, value) in raw {
        let lower = name.value.to_ascii_lowercase();
        if http::HeaderName::from_bytes(name.value.as_bytes()).is_err() {
            faults.add_with_hint(
                name.at,
                format!("`{}` can't be a header's name", name.value),
                "expected letters, digits and hyphens, such as X-Api-Key",
            );
        } else if let Some((_, why)) = OURS.iter().find(|(ours, _)| *ours == lower) {
            faults.add_with_hint(name.at, format!("the header `{}` can't be set", name.value), *why);
        } else if !seen.insert(lower) {
            faults.add_with_hint(
                name.at,
                format!("the header `{}` is given twice", name.value),
                "capitals make no difference; keep one of them",
            );
        } else if let Some(secret) = secret(&format!("header `{}`", name.value), value, faults) {
            headers.push((name.value, secret));
        }
    }
    headers
}

/// Checks a value that may be a secret stored elsewhere. `what` names it in messages.
pub(super) fn secret(what: &str, value: At<HeaderValue>, faults: &mut Faults) -> Option<Secret> {
    match value.value {
        HeaderValue::Literal(text) => {
            if text.trim() != text || http::HeaderValue::from_str(&text).is_err() {
                faults.add_with_hint(
                    value.at,
                    format!("the value of {what} can't be sent"),
                    "expected plain ASCII without line breaks or white space at the ends",
                );
                return None;
            }
            Some(Secret::Literal(text))
        }
        HeaderValue::File(path) => {
            if path.is_empty() || path.contains('\0') {
                faults.add_with_hint(
                    value.at,
                    format!("the file of {what} has no usable path"),
                    "expected the path of a file that holds the value",
                );
                return None;
            }
            Some(Secret::File(PathBuf::from(path)))
        }
        HeaderValue::Credential(word) => {
            let plain = |c: char| c.is_ascii_graphic() && c != '/' && c != ':';
            if word.is_empty() || word == "." || word == ".." || !word.chars().all(plain) {
                faults.add_with_hint(
                    value.at,
                    format!("`{word}` can't be the name of a credential"),
                    "expected the name given to LoadCredential= in the systemd unit",
                );
                return None;
            }
            Some(Secret::Credential(word))
        }
    }
}
