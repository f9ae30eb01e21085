//! How each character answers.
//!
//! Exists so that an answer, and what it *tells* a poller, are made in one place and cannot
//! disagree: the judge holds the daemon to [`Told`], not to headers it would have to parse as the
//! daemon does. Knows the world at a moment and what was answered before. Must not know sockets,
//! nor judge anybody.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use tidewatch_core::time::{Span, Timestamp};

use super::cast::{CLOSED, CRAWL_DELAY, Character, FEED, Gives, Quirk};
use super::text::{document, http_date};

/// What a request asks for, as far as an answer depends on it.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// The host, without port.
    pub host: String,
    /// The path.
    pub path: String,
    /// `If-None-Match`, byte for byte.
    pub etag: Option<Vec<u8>>,
    /// `If-Modified-Since`, byte for byte.
    pub last_modified: Option<Vec<u8>>,
}

/// An answer.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Headers, beside those that every answer has.
    pub headers: Vec<(&'static str, String)>,
    /// The body as sent.
    pub body: Vec<u8>,
    /// More is announced than comes.
    pub breaks_off: bool,
    /// What a poller knows from it.
    pub told: Told,
}

/// What an answer tells a poller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// It can be read whole: what it says must be remembered.
    pub sound: bool,
    /// Its validators.
    pub etag: Option<Vec<u8>>,
    /// See `etag`.
    pub last_modified: Option<Vec<u8>>,
    /// `max-age`.
    pub fresh_for: Option<Span>,
    /// `Retry-After`.
    pub rest: Option<Span>,
    /// `ttl`, from now on.
    pub ttl: Option<Span>,
    /// `skipHours`, from now on.
    pub skip_hours: Option<u32>,
    /// `Crawl-delay` for the host.
    pub crawl_delay: Option<Span>,
    /// Host and path of a redirect.
    pub elsewhere: Option<(String, String)>,
    /// It is permanent.
    pub for_good: bool,
    /// 410.
    pub gone: bool,
}

/// What a character remembers of its own answers.
#[derive(Debug, Clone, Default)]
pub struct Habit {
    answers: u32,
    recent: Vec<Timestamp>,
    refusals: u32,
}

impl Reply {
    fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Nothing is published here.
    pub fn not_found() -> Self {
        Self::new(404)
    }

    /// The robots.txt of a host.
    pub fn robots(host_of_pages: bool) -> Self {
        if !host_of_pages {
            return Self::not_found();
        }
        let delay = CRAWL_DELAY.as_millis() / 1000;
        let text = format!("User-agent: *\nDisallow: {CLOSED}\nCrawl-delay: {delay}\n");
        let mut reply = Self::new(200).with("content-type", "text/plain");
        reply.body = text.into_bytes();
        reply.told.crawl_delay = Some(CRAWL_DELAY);
        reply
    }

    fn redirect(status: u16, host: &str, port: u16, path: &str) -> Self {
        let mut reply = Self::new(status).with("location", format!("http://{host}:{port}{path}"));
        reply.told.elsewhere = Some((host.to_owned(), path.to_owned()));
        reply.told.for_good = status == 301;
        reply
    }

    /// A refusal that says when to come back: in seconds, or every other time as a date.
    fn rest(status: u16, rest: Span, at: Timestamp, as_date: bool) -> Self {
        let value = match as_date {
            // `Date`, against which this is read, is cut to the second as well.
            true => http_date(at + rest),
            false => (rest.as_millis() / 1000).to_string(),
        };
        let mut reply = Self::new(status).with("retry-after", value);
        reply.told.rest = Some(rest);
        reply
    }
}

/// What `character` answers at that moment. `port` is where redirects lead.
pub fn answer(
    character: &Character,
    habit: &mut Habit,
    asked: &Asked,
    at: Timestamp,
    port: u16,
) -> std::io::Result<Reply> {
    habit.answers += 1;
    match character.quirk {
        Quirk::Gone(from) if at >= from => {
            let mut reply = Reply::new(410);
            reply.told.gone = true;
            return Ok(reply);
        }
        Quirk::Throttles { most, within, rest } => {
            habit.recent.retain(|&earlier| earlier + within > at);
            if habit.recent.len() >= most {
                habit.refusals += 1;
                return Ok(Reply::rest(429, rest, at, habit.refusals.is_multiple_of(2)));
            }
            habit.recent.push(at);
        }
        Quirk::ClosedAtNoon { rest } if at.utc_hour() == 12 => {
            return Ok(Reply::rest(503, rest, at, false));
        }
        Quirk::Moved { from, host } if at >= from && asked.host != host => {
            return Ok(Reply::redirect(301, host, port, FEED));
        }
        Quirk::Flaky if habit.answers % 10 == 5 => return Ok(Reply::new(503)),
        // Leads into a circle that does not pass through its beginning.
        Quirk::Carousel => {
            let next = if asked.path == "/a" { "/b" } else { "/a" };
            return Ok(Reply::redirect(302, character.host, port, next));
        }
        Quirk::Bomb => return bomb(),
        _ => {}
    }
    published(character, habit, asked, at)
}

/// The document as it stands, or that it has not changed.
fn published(character: &Character, habit: &Habit, asked: &Asked, at: Timestamp) -> std::io::Result<Reply> {
    let out = &character.posts[..character.posts.partition_point(|post| post.at <= at)];
    let latest = out.last();
    let number = latest.map_or(0, |post| post.number);
    let etag = match character.gives {
        Gives::Etag | Gives::Both => Some(format!("\"{}-{number}\"", character.name)),
        Gives::WeakEtag => Some(format!("W/\"{}-{number}\"", character.name)),
        Gives::Nothing | Gives::LastModified => None,
    };
    let last_modified = match character.gives {
        Gives::LastModified | Gives::Both => latest.map(|post| http_date(post.at)),
        _ => None,
    };
    let same = |sent: &Option<Vec<u8>>, now: &Option<String>| {
        now.is_some() && sent.as_deref() == now.as_deref().map(str::as_bytes)
    };
    // What is to break off must have a body, so the condition is passed over, as servers may.
    let breaks_off = character.quirk == Quirk::Flaky && habit.answers.is_multiple_of(10);
    let unchanged = match etag {
        _ if breaks_off => false,
        Some(_) => same(&asked.etag, &etag),
        None => same(&asked.last_modified, &last_modified),
    };
    let mut reply = Reply::new(if unchanged { 304 } else { 200 });
    if let Some(etag) = etag {
        reply.told.etag = Some(etag.clone().into_bytes());
        reply = reply.with("etag", etag);
    }
    if let Some(date) = last_modified {
        reply.told.last_modified = Some(date.clone().into_bytes());
        reply = reply.with("last-modified", date);
    }
    if let Quirk::MaxAge(age) = character.quirk {
        reply.told.fresh_for = Some(age);
        reply = reply.with("cache-control", format!("max-age={}", age.as_millis() / 1000));
    }
    reply.told.sound = true;
    if unchanged {
        return Ok(reply);
    }
    let (text, kind) = document(character, out);
    reply = reply.with("content-type", kind);
    reply.body = text.into_bytes();
    match character.quirk {
        Quirk::Hours { skip, ttl } => {
            (reply.told.skip_hours, reply.told.ttl) = (Some(skip), Some(ttl));
        }
        Quirk::Gzip => {
            reply.body = gzip(&reply.body)?;
            reply = reply.with("content-encoding", "gzip");
        }
        Quirk::Flaky if breaks_off => {
            let announced = reply.body.len();
            reply.body.truncate(announced / 2);
            reply = reply.with("content-length", announced.to_string());
            (reply.breaks_off, reply.told.sound) = (true, false);
        }
        _ => {}
    }
    Ok(reply)
}

fn gzip(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    encoder.finish()
}

/// Unpacks to more than the largest body that is taken, a thousand times its size.
fn bomb() -> std::io::Result<Reply> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let piece = vec![b' '; 1 << 20];
    for _ in 0..12 {
        encoder.write_all(&piece)?;
    }
    let mut reply =
        Reply::new(200).with("content-type", "application/rss+xml").with("content-encoding", "gzip");
    reply.body = encoder.finish()?;
    Ok(reply)
}
