//! Feeds: bytes in, identified items out.
//!
//! Turns any document that a publisher calls a feed into items that can be compared with those of earlier
//! probes. Stages: decode, inspect, clean, parse with the feed library, identify. Must not know what was seen
//! before, nor the time.
//!
//! The library only gets the clean document that `salvage` or `json` wrote.

use feed_rs::model::{Entry, FeedType};
use url::Url;

use super::guard::{self, Front};
use super::labels::Labels;
use super::repairs::Repairs;
use super::{FeedItem, FetchedDocument, ParsedFeed, Unreadable, encoding, identity, json, salvage, text};
use crate::time::Timestamp;

/// Reads a feed of any dialect, as far as possible.
///
/// The same bytes always give the same items with the same keys and fingerprints.
///
/// # Errors
/// [`Unreadable::NotAFeed`] if there is nothing to read, with a description of the document;
/// [`Unreadable::TooComplex`] if the document would take excessive time or memory.
pub fn read(document: &FetchedDocument<'_>) -> Result<ParsedFeed, Unreadable> {
    let decoded = encoding::xml(document.bytes, document.content_type);
    let source =
        decoded.text.trim_start_matches(|c: char| c.is_whitespace() || c == '\u{feff}' || c == '\0');
    if source.is_empty() {
        return Err(Unreadable::NotAFeed("the document is empty".to_owned()));
    }
    let url = Url::parse(document.url).ok();
    let repairs = Repairs { encoding: decoded.overruled, ..Repairs::default() };
    let clean = if source.starts_with('{') {
        json::clean(source, repairs)?
    } else {
        match guard::front(source)? {
            Front::Feed { at, junk } => {
                salvage::clean(&source[at..], url.as_ref(), Repairs { junk, ..repairs })?
            }
            Front::Html(title) => return Err(Unreadable::NotAFeed(page_instead(title))),
            Front::Other(what) => return Err(Unreadable::NotAFeed(format!("{what}; is the URL right?"))),
            Front::Nothing => match (source.find('{'), source.contains("\"items\"")) {
                (Some(at), true) => json::clean(&source[at..], Repairs { junk: true, ..repairs })?,
                _ => return Err(Unreadable::NotAFeed(format!("it starts with `{}`", beginning(source)))),
            },
        }
    };
    let parser = feed_rs::parser::Builder::new()
        // No random ids: an item without an id is identified below.
        .id_generator(|_, _, _| String::new())
        .sanitize_content(false)
        .build();
    let parsed =
        parser.parse(clean.document.as_bytes()).map_err(|error| Unreadable::NotAFeed(error.to_string()))?;
    let escaped_titles = matches!(parsed.feed_type, FeedType::RSS0 | FeedType::RSS1 | FeedType::RSS2);
    // If the library dropped or added an item, labels could not be assigned to items.
    let mut labels = clean.labels;
    if labels.len() != parsed.entries.len() {
        labels = vec![Labels::default(); parsed.entries.len()];
    }
    let items = parsed.entries.into_iter().zip(labels);
    let items = items.map(|(entry, labels)| item(entry, labels, url.as_ref(), escaped_titles)).collect();
    let items = identity::distinct(items);
    if clean.repairs.truncated && items.is_empty() {
        // If this succeeded, everything in the next complete document would count as new.
        return Err(Unreadable::NotAFeed("it is cut off before its first item".to_owned()));
    }
    Ok(ParsedFeed {
        title: parsed.title.and_then(|title| {
            let markup = escaped_titles || title.content_type.essence().subty == "html";
            text::title(&title.content, markup)
        }),
        hints: clean.hints,
        repaired: clean.repairs.sentence(items.len()),
        truncated: clean.repairs.truncated,
        items,
    })
}

fn item(entry: Entry, labels: Labels, url: Option<&Url>, escaped_titles: bool) -> FeedItem {
    let (title, markup) = entry.title.map_or((String::new(), false), |title| {
        let markup = escaped_titles || title.content_type.essence().subty == "html";
        (title.content, markup)
    });
    let written_link = entry.links.into_iter().next().map_or(String::new(), |link| link.href);
    let summary = entry.summary.map_or(String::new(), |summary| summary.content);
    let content = entry.content.and_then(|content| content.body).unwrap_or_default();
    let seen = [&title, &written_link, &summary, &content].map(|part| text::folded(part));
    FeedItem {
        key: identity::key(&entry.id, &written_link, &[&seen[0], &seen[2], &seen[3]]),
        fingerprint: text::fingerprint(seen.iter().map(String::as_str)),
        title: text::title(&title, markup),
        link: absolute(&written_link, url),
        published: entry.published.map(|at| Timestamp::from_millis(at.timestamp_millis())),
        updated: entry.updated.map(|at| Timestamp::from_millis(at.timestamp_millis())),
        labels,
        text: text::plain([&summary, &content]),
    }
}

/// An absolute link with a scheme that is safe to open: no `javascript:`, no `file:`.
fn absolute(link: &str, url: Option<&Url>) -> Option<String> {
    if link.is_empty() {
        return None;
    }
    let link = Url::options().base_url(url).parse(link).ok()?;
    matches!(link.scheme(), "http" | "https").then(|| link.into())
}

fn page_instead(title: Option<String>) -> String {
    match title {
        Some(title) => format!("an HTML page titled `{title}`; is the URL right?"),
        None => "an HTML page; is the URL right?".to_owned(),
    }
}

fn beginning(source: &str) -> String {
    text::folded(text::head(source, 200)).chars().filter(|c| !c.is_control()).take(40).collect()
}
