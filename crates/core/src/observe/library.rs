//! The feed library as reader of dates and titles.
//!
//! It never gets an original document. It gets a clean JSON Feed of the wanted items with only these fields,
//! whatever the format of the original: JSON takes the least time to write and to read. Must not know why an
//! item is wanted.

use feed_rs::model::Entry;
use feed_rs::parser::Builder;
use serde::Serialize;

use super::Unreadable;

/// The fields of an item that the library reads.
#[derive(Debug, Default, Serialize)]
pub(super) struct CleanItem<'w> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) title: Option<&'w str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<&'w str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) date_published: Option<&'w str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) date_modified: Option<&'w str>,
}

#[derive(Serialize)]
struct CleanFeed<'w> {
    version: &'static str,
    title: &'static str,
    items: &'w [CleanItem<'w>],
}

/// Reads items, and returns one entry for each.
pub(super) fn entries(items: &[CleanItem<'_>]) -> Result<Vec<Entry>, Unreadable> {
    let refused = |error: &dyn std::fmt::Display| Unreadable::NotAFeed(error.to_string());
    let feed = CleanFeed { version: "https://jsonfeed.org/version/1.1", title: "", items };
    let document = serde_json::to_vec(&feed).map_err(|error| refused(&error))?;
    let parser = Builder::new()
        // No random ids.
        .id_generator(|_, _, _| String::new())
        .sanitize_content(false)
        .build();
    let entries = parser.parse(&document[..]).map_err(|error| refused(&error))?.entries;
    if entries.len() != items.len() {
        return Err(refused(&"the feed library dropped items"));
    }
    Ok(entries)
}
