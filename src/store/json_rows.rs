//! Many rows as one JSON text: SQLite makes it, and it is far quicker to read than a row each.

/// Rows that SQLite put into one text.
pub(super) fn read_text<'t, T: serde::Deserialize<'t>>(text: &'t str) -> Result<T, sqlx::Error> {
    serde_json::from_str(text).map_err(|error| sqlx::Error::Decode(error.into()))
}
