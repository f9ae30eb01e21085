//! The feeds that the server sends: RSS of about 10 kB with 20 items.
//!
//! Numbers have a fixed width and texts a fixed length, so all feeds are equally long. A new item pushes the
//! oldest one out.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::time::{Duration, UNIX_EPOCH};

use httpdate::HttpDate;
use tidewatch_core::rng::Stream;

/// Items in a feed.
pub const ITEMS: usize = 20;

/// Different titles and descriptions.
const TEXTS: usize = 97;

/// Letters of a title, and of a description.
const TITLE: usize = 46;
const DESCRIPTION: usize = 240;

/// Age of the first items: one every five hours.
const APART: u64 = 5 * 3600;

const WORDS: [&str; 24] = [
    "the", "release", "of", "a", "new", "version", "brings", "support", "for", "several", "systems", "and",
    "fixes", "reports", "from", "readers", "about", "memory", "while", "large", "files", "are", "open",
    "today",
];

/// One feed: the number of its newest item and the dates of all, newest first, in seconds.
#[derive(Debug)]
pub struct FeedState {
    newest: u32,
    dates: VecDeque<u64>,
}

impl FeedState {
    /// A feed with twenty old items.
    pub fn new(now: u64) -> Self {
        Self { newest: ITEMS as u32, dates: (1..=ITEMS as u64).map(|item| now - item * APART).collect() }
    }

    /// Adds an item; the oldest one falls off.
    pub fn add_item(&mut self, now: u64) {
        self.newest += 1;
        self.dates.pop_back();
        self.dates.push_front(now);
    }
}

/// The texts of items.
#[derive(Debug)]
pub struct Documents {
    titles: Vec<String>,
    descriptions: Vec<String>,
}

impl Documents {
    /// The same texts each time.
    pub fn new() -> Self {
        let mut stream = Stream::new(1, "documents");
        let mut text = |letters: usize, before: &str, after: &str| {
            let mut text = before.to_owned();
            while text.len() + after.len() < letters {
                text.push_str(WORDS[(stream.unit() * WORDS.len() as f64) as usize]);
                text.push(' ');
            }
            text.truncate(letters - after.len());
            text + after
        };
        let titles = (0..TEXTS).map(|_| text(TITLE, "", "")).collect();
        let descriptions =
            (0..TEXTS).map(|_| text(DESCRIPTION, "&lt;p&gt;", " &amp;amp; more&lt;/p&gt;")).collect();
        Self { titles, descriptions }
    }

    /// The validator of a feed.
    pub fn etag(feed: &FeedState) -> String {
        format!("\"{:08}\"", feed.newest)
    }

    /// Writes the whole answer with this feed.
    pub fn write_answer(&self, answer: &mut Vec<u8>, path: usize, feed: &FeedState) {
        let mut body = String::with_capacity(12_000);
        let _ = write!(
            body,
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<rss version=\"2.0\"><channel>\n<title>Feed {path:07}</title>\n\
             <link>http://feeds.example/{path:07}/</link>\n<description>News of {path:07}</description>\n\
             <language>en</language>\n"
        );
        for (place, &date) in feed.dates.iter().enumerate() {
            let number = feed.newest - place as u32;
            let text = (path * 31 + number as usize) % TEXTS;
            let (title, description) = (&self.titles[text], &self.descriptions[text]);
            let date = HttpDate::from(UNIX_EPOCH + Duration::from_secs(date));
            let _ = write!(
                body,
                "<item>\n<guid isPermaLink=\"false\">tag:feeds.example,2026:{path:07}-{number:08}</guid>\n\
                 <link>http://feeds.example/{path:07}/{number:08}.html</link>\n\
                 <title>{number:08} {title}</title>\n<pubDate>{date}</pubDate>\n\
                 <description>{description}</description>\n</item>\n"
            );
        }
        body.push_str("</channel></rss>\n");
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/rss+xml\r\netag: {}\r\ncontent-length: {}\r\n\r\n",
            Self::etag(feed),
            body.len()
        );
        answer.extend_from_slice(head.as_bytes());
        answer.extend_from_slice(body.as_bytes());
    }
}
