//! Stage one for headers and secrets: a literal text, or the place where the text is stored.

use toml::de::DeValue;

use super::fault::{Faults, Spot};
use super::reader::{At, TomlTable, wrong_type};

/// A header value as written.
#[derive(Debug)]
pub enum HeaderValue {
    /// Literal text.
    Literal(String),
    /// `{ file = … }`
    File(String),
    /// `{ credential = … }`
    Credential(String),
}

/// The `headers` of a source or target.
pub(super) fn read_headers(
    table: &mut TomlTable<'_>,
    faults: &mut Faults,
) -> Vec<(At<String>, At<HeaderValue>)> {
    let Some(mut table) = table.table("headers", "headers", faults) else { return Vec::new() };
    let mut headers = Vec::new();
    for (name, at, value) in table.take_values() {
        let title = format!("header `{}`", name.value);
        headers.extend(secret_value(&title, at, value, &table, faults).map(|value| (name, value)));
    }
    headers
}

/// A value that may be a secret. A literal value is masked in messages.
pub(super) fn secret_value<'i>(
    title: &str,
    at: Spot,
    value: DeValue<'i>,
    within: &TomlTable<'i>,
    faults: &mut Faults,
) -> Option<At<HeaderValue>> {
    let expected = "a text in quotes, { file = \"path\" } or { credential = \"name\" }";
    match value {
        DeValue::String(text) => {
            faults.hide(at);
            Some(At { value: HeaderValue::Literal(text.into_owned()), at })
        }
        DeValue::Table(inner) => {
            let mut inner = within.inner(at, title, inner);
            if inner.holds_other_than(&["file", "credential"]) {
                // An unexpected key may hold the secret itself, so the whole table is masked.
                faults.hide(at);
            }
            let file = inner.text("file", faults);
            let credential = inner.text("credential", faults);
            inner.finish(faults);
            match (file, credential) {
                (Some(path), None) => Some(At { value: HeaderValue::File(path.value), at: path.at }),
                (None, Some(word)) => Some(At { value: HeaderValue::Credential(word.value), at: word.at }),
                (Some(_), Some(_)) => {
                    let hint = "keep either `file` or `credential`";
                    faults.add_with_hint(at, format!("{title} has two values"), hint);
                    None
                }
                (None, None) => {
                    let hint = format!("expected {expected}");
                    faults.add_with_hint(at, format!("{title} has no value"), hint);
                    None
                }
            }
        }
        other => {
            faults.hide(at);
            let key = title.trim_start_matches("header ").trim_matches('`');
            wrong_type(key, at, &other, expected, faults);
            None
        }
    }
}
