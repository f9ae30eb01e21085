//! Posts as documents: RSS, Atom, JSON Feed, HTML page.
//!
//! Knows the formats, and the faults of the malformed source. Must not know headers or requests.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;

use tidewatch_core::time::Timestamp;

use super::calendar::DemoPost;
use super::demo_sources::{DemoFormat, DemoSource, SpecialBehaviour};

/// Posts in a feed; enough that a burst pushes none out between two probes.
const SHOWN: usize = 100;

/// A date in the format of HTTP and RSS.
pub fn http_date(at: Timestamp) -> String {
    let since = Duration::from_millis(at.as_millis().max(0).unsigned_abs());
    httpdate::fmt_http_date(UNIX_EPOCH + since)
}

/// Identifier of a post.
pub fn key(source: &DemoSource, number: u32) -> String {
    format!("tag:{},2026:{number}", source.host)
}

/// The revision number in a page title.
pub fn revision(title: &str) -> Option<u32> {
    title.rsplit_once(' ')?.1.parse().ok()
}

/// The document with these posts, and its `Content-Type`.
pub fn document(source: &DemoSource, posts: &[DemoPost]) -> (String, &'static str) {
    let shown = || posts.iter().rev().take(SHOWN);
    let link = |post: &DemoPost| format!("http://{}/{}", source.host, post.number);
    match source.form {
        DemoFormat::Rss => (rss(source, shown(), link), "application/rss+xml; charset=utf-8"),
        DemoFormat::Atom => {
            let mut text = format!(
                "<?xml version=\"1.0\"?>\n<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>{}</title>\
                 <id>tag:{},2026:feed</id><updated>{}</updated>\n",
                source.name,
                source.host,
                posts.last().map_or_else(String::new, |post| post.at.iso()),
            );
            for post in shown() {
                text.push_str(&format!(
                    "<entry><id>{}</id><title>Entry {}</title><link href=\"{}\"/><updated>{}</updated></entry>\n",
                    key(source, post.number),
                    post.number,
                    link(post),
                    post.at.iso(),
                ));
            }
            (text + "</feed>\n", "application/atom+xml")
        }
        DemoFormat::Json => {
            let items = shown().map(|post| JsonFeedItem {
                content_text: "What happened.",
                date_published: post.at.iso(),
                id: key(source, post.number),
                title: format!("Story {}", post.number),
                url: link(post),
            });
            let feed = JsonFeed {
                items: items.collect(),
                title: source.name,
                version: "https://jsonfeed.org/version/1.1",
            };
            // Serialising strings to JSON cannot fail.
            (serde_json::to_string(&feed).unwrap_or_default(), "application/feed+json")
        }
        DemoFormat::Page => {
            let number = posts.last().map_or(0, |post| post.number);
            let page = format!(
                "<!doctype html><html><head><title>Quiet page, revision {number}</title></head>\
                 <body><main><h1>News</h1><p>This is revision {number} of a page that seldom changes.</p></main></body></html>"
            );
            (page, "text/html; charset=utf-8")
        }
    }
}

#[derive(Serialize)]
struct JsonFeed<'a> {
    items: Vec<JsonFeedItem>,
    title: &'a str,
    version: &'static str,
}

#[derive(Serialize)]
struct JsonFeedItem {
    content_text: &'static str,
    date_published: String,
    id: String,
    title: String,
    url: String,
}

fn rss<'a>(
    source: &DemoSource,
    shown: impl Iterator<Item = &'a DemoPost>,
    link: impl Fn(&DemoPost) -> String,
) -> String {
    let malformed = source.behaviour == SpecialBehaviour::Malformed;
    let and = if malformed { "&" } else { "&amp;" };
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"utf-8\"?>\n<rss version=\"2.0\"><channel><title>{}</title>\
         <link>http://{}/</link><description>A source of the demo</description>\n",
        source.name, source.host,
    );
    if let SpecialBehaviour::Hours { skip, ttl } = source.behaviour {
        let hours: String = (0..24)
            .filter(|hour| skip >> hour & 1 == 1)
            .map(|hour| format!("<hour>{hour}</hour>"))
            .collect();
        let minutes = ttl.as_millis() / 60_000;
        text.push_str(&format!("<ttl>{minutes}</ttl><skipHours>{hours}</skipHours>\n"));
    }
    for post in shown {
        text.push_str(&format!(
            "<item><guid isPermaLink=\"false\">{}</guid><title>Post {} {and} more</title><link>{}</link>\
             <pubDate>{}</pubDate></item>\n",
            key(source, post.number),
            post.number,
            link(post),
            http_date(post.at),
        ));
    }
    if malformed { text } else { text + "</channel></rss>\n" }
}
