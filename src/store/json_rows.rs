//! Many rows as one JSON text. SQLite builds it; decoding it is much faster than reading single rows.

/// Decodes rows from one JSON text.
pub(super) fn read_text<'t, T: serde::Deserialize<'t>>(text: &'t str) -> Result<T, sqlx::Error> {
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
}
