//! Delivers to a file: the last matches as an Atom feed.
//!
//! Each time, the feed is built from the accepted deliveries in the store; the old file is never read. A
//! reader of the file sees the old feed or the new one, never a part. Titles and texts come from sources,
//! so they are escaped, and characters that XML forbids are dropped.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use url::Url;

use crate::store::StoreError;
use crate::store::outbox::DeliveredDocument;
use crate::store::reader::Reader;
use tidewatch_core::time::Timestamp;

use super::delivery_outcome::DeliveryOutcome;
use super::shipment::Shipment;

/// Rows per query: documents may be large.
const PAGE: u32 = 16;

/// Size limit of the feed, in bytes; older entries are left out.
const LARGEST: usize = 32 * 1024 * 1024;

/// Writes the feed, including this document.
pub(super) async fn publish(
    target: &str,
    path: &Path,
    most: u32,
    shipment: &Shipment,
    reader: &Reader,
) -> DeliveryOutcome {
    let feed = match compose(target, most, shipment, reader).await {
        Ok(feed) => feed,
        Err(error) => return DeliveryOutcome::failed(error.to_string()),
    };
    let (place, shown) = (path.to_owned(), path.display().to_string());
    match tokio::task::spawn_blocking(move || replace(&place, feed.as_bytes())).await {
        Ok(Ok(())) => DeliveryOutcome::Delivered,
        Ok(Err(error)) => DeliveryOutcome::failed(format!("{shown} cannot be written: {error}")),
        Err(_) => DeliveryOutcome::failed("writing the feed panicked; please report it"),
    }
}

async fn compose(
    target: &str,
    most: u32,
    shipment: &Shipment,
    reader: &Reader,
) -> Result<String, StoreError> {
    let mut feed = AtomFeed { entries: String::new(), left: most, updated: None };
    let mut below = i64::MAX;
    loop {
        let rows = reader.delivered(target, shipment.id, below, PAGE).await?;
        for delivered in &rows {
            feed.add(delivered);
        }
        match rows.last() {
            Some(last) if feed.wants_more() => below = last.id,
            _ => return Ok(feed.finish(target)),
        }
    }
}

/// A feed under construction, newest entries first.
struct AtomFeed {
    entries: String,
    /// Number of entries that may still be added.
    left: u32,
    /// Time of the newest entry.
    updated: Option<String>,
}

impl AtomFeed {
    fn wants_more(&self) -> bool {
        self.left > 0 && self.entries.len() < LARGEST
    }

    /// Adds the items of one document.
    fn add(&mut self, delivered: &DeliveredDocument) {
        let document: Value = serde_json::from_str(&delivered.document).unwrap_or_default();
        let items = document["items"].as_array().map_or(&[][..], Vec::as_slice);
        let more =
            document["more"].as_u64().map(|more| json!({ "title": format!("and {more} more matches") }));
        for (n, item) in items.iter().chain(&more).enumerate() {
            if !self.wants_more() {
                return;
            }
            self.left -= 1;
            self.entry(delivered, n, item, &document);
        }
    }

    fn entry(&mut self, delivered: &DeliveredDocument, n: usize, item: &Value, document: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned).filter(|text| !text.trim().is_empty());
        let kind = text(&item["kind"]).unwrap_or_else(|| "match".to_owned());
        let source = text(&document["source"]).unwrap_or_else(|| "a source".to_owned());
        let link = text(&item["link"]).and_then(|link| web_address(&link));
        let title = text(&item["title"]).or_else(|| text(&item["id"])).unwrap_or_else(|| kind.clone());
        let updated = date(&item["detected_at"])
            .or_else(|| date(&document["at"]))
            .unwrap_or_else(|| rfc(delivered.at));
        let out = &mut self.entries;
        out.push_str("  <entry>\n");
        element(out, "id", &format!("urn:tidewatch:{}:{n}", delivered.key));
        element(out, "title", &title);
        element(out, "updated", &updated);
        if let Some(published) = date(&item["occurred_at"]) {
            element(out, "published", &published);
        }
        if let Some(link) = link {
            out.push_str("    <link rel=\"alternate\" href=\"");
            escape(out, &link);
            out.push_str("\"/>\n");
        }
        out.push_str("    <author><name>");
        escape(out, &source);
        out.push_str("</name></author>\n");
        for name in ["profile", "rule"] {
            if let Some(term) = text(&document[name]) {
                out.push_str("    <category scheme=\"urn:tidewatch:");
                out.push_str(name);
                out.push_str("\" term=\"");
                escape(out, &term);
                out.push_str("\"/>\n");
            }
        }
        let summary = text(&item["text"]).unwrap_or_else(|| format!("{kind}: {source}"));
        element(out, "summary", &summary);
        out.push_str("  </entry>\n");
        self.updated.get_or_insert(updated);
    }

    fn finish(self, target: &str) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-._:".contains(c);
        let name: String = target.chars().map(|c| if plain(c) { c } else { '_' }).collect();
        let mut out = String::with_capacity(self.entries.len() + 500);
        out.push_str(
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\">\n",
        );
        element(&mut out, "id", &format!("urn:tidewatch:{name}"));
        element(&mut out, "title", &format!("tidewatch: {target}"));
        element(&mut out, "updated", &self.updated.unwrap_or_else(|| rfc(Timestamp::from_secs(0))));
        out.push_str("    <author><name>tidewatch</name></author>\n");
        element(&mut out, "generator", "tidewatch");
        out.push_str(&self.entries);
        out.push_str("</feed>\n");
        out
    }
}

fn element(out: &mut String, name: &str, text: &str) {
    out.push_str("    <");
    out.push_str(name);
    out.push('>');
    escape(out, text);
    out.push_str("</");
    out.push_str(name);
    out.push_str(">\n");
}

/// Escapes text for an element or an attribute; drops characters that XML 1.0 forbids.
fn escape(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&apos;"),
            // Unescaped, a parser would change them to spaces or line feeds.
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            '\0'..='\x1f' | '\u{fffe}' | '\u{ffff}' => {}
            c => out.push(c),
        }
    }
}

/// The link, if it is http or https. It comes from a source and may be clicked, so other schemes are
/// dropped.
fn web_address(link: &str) -> Option<String> {
    let url = Url::parse(link).ok()?;
    matches!(url.scheme(), "http" | "https").then(|| url.into())
}

fn date(value: &Value) -> Option<String> {
    Timestamp::parse_iso(value.as_str()?).map(rfc)
}

/// RFC 3339, which allows only the years 0 to 9999; other times become the epoch.
fn rfc(at: Timestamp) -> String {
    let text = at.iso();
    if text.len() == 24 && text.starts_with(|c: char| c.is_ascii_digit()) {
        return text;
    }
    Timestamp::from_secs(0).iso()
}

/// Replaces the content of a file atomically, also if the power fails.
fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let mut fresh_name = std::ffi::OsString::from(".");
    fresh_name.push(name);
    fresh_name.push(".new");
    let fresh: PathBuf = folder.join(fresh_name);
    // Removes a leftover file, then creates a new one and never opens an existing one. So no link that
    // others place in the folder is followed.
    match fs::remove_file(&fresh) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).open(&fresh)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
}
