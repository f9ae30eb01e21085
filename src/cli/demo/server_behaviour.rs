//! The responses of each source.
//!
//! Builds a response together with its meaning for a poller ([`AnswerMeaning`]), so that the two cannot
//! disagree and the checks need not parse headers. Knows the publications up to a moment and the earlier
//! responses. Must not know sockets or politeness rules.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use tidewatch_core::time::{Span, Timestamp};

use super::demo_sources::{CLOSED, CRAWL_DELAY, DemoSource, FEED, SentValidators, SpecialBehaviour};
use super::text::{document, http_date};

/// The parts of a request that affect the response.
#[derive(Debug, Clone, Default)]
pub struct DemoRequest {
    /// The host, without port.
    pub host: String,
    /// The path.
    pub path: String,
    /// `If-None-Match`, byte for byte.
    pub etag: Option<Vec<u8>>,
    /// `If-Modified-Since`, byte for byte.
    pub last_modified: Option<Vec<u8>>,
}

impl DemoRequest {
    /// Whether it asks for robots.txt.
    pub fn is_for_robots(&self) -> bool {
        self.path == "/robots.txt"
    }
}

/// A response.
#[derive(Debug, Clone, Default)]
pub struct DemoReply {
    /// Status.
    pub status: u16,
    /// Extra headers of this response.
    pub headers: Vec<(&'static str, String)>,
    /// The body as it is sent.
    pub body: Vec<u8>,
    /// `Content-Length`, if it promises more bytes than are sent.
    pub announced_length: Option<usize>,
    /// Its meaning for a poller.
    pub meaning: AnswerMeaning,
}

/// The meaning of a response for a poller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AnswerMeaning {
    /// Whether it is complete and readable, so that its validators and hints apply.
    pub sound: bool,
    /// `ETag`.
    pub etag: Option<Vec<u8>>,
    /// `Last-Modified`.
    pub last_modified: Option<Vec<u8>>,
    /// `max-age`.
    pub fresh_for: Option<Span>,
    /// `Retry-After`.
    pub retry_after: Option<Span>,
    /// `ttl`, which stays in force.
    pub ttl: Option<Span>,
    /// `skipHours`, which stay in force.
    pub skip_hours: Option<u32>,
    /// `Crawl-delay` for the host.
    pub crawl_delay: Option<Span>,
    /// Host and path of a redirect.
    pub redirect_to: Option<(String, String)>,
    /// Whether the redirect is permanent.
    pub permanent: bool,
    /// Whether the status is 410.
    pub gone: bool,
}

/// Earlier responses of one source.
#[derive(Debug, Clone, Default)]
pub struct AnswerCounts {
    answers: u32,
    recent: Vec<Timestamp>,
    refusals: u32,
}

impl DemoReply {
    fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// With one more header.
    pub fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Response for an unknown address.
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
        reply.meaning.crawl_delay = Some(CRAWL_DELAY);
        reply
    }

    fn redirect(status: u16, host: &str, port: u16, path: &str) -> Self {
        let mut reply = Self::new(status).with("location", format!("http://{host}:{port}{path}"));
        reply.meaning.redirect_to = Some((host.to_owned(), path.to_owned()));
        reply.meaning.permanent = status == 301;
        reply
    }

    /// A refusal with `Retry-After`, in seconds or as a date.
    fn refusal(status: u16, retry_after: Span, at: Timestamp, as_date: bool) -> Self {
        let value = match as_date {
            // The `Date` header, to which this is relative, has whole seconds too.
            true => http_date(at + retry_after),
            false => (retry_after.as_millis() / 1000).to_string(),
        };
        let mut reply = Self::new(status).with("retry-after", value);
        reply.meaning.retry_after = Some(retry_after);
        reply
    }
}

/// The response of `source` at that moment. Redirects use `port`.
pub fn answer(
    source: &DemoSource,
    counts: &mut AnswerCounts,
    request: &DemoRequest,
    at: Timestamp,
    port: u16,
) -> std::io::Result<DemoReply> {
    counts.answers += 1;
    match source.behaviour {
        SpecialBehaviour::Gone(from) if at >= from => {
            let mut reply = DemoReply::new(410);
            reply.meaning.gone = true;
            return Ok(reply);
        }
        SpecialBehaviour::Throttles { most, within, retry_after } => {
            counts.recent.retain(|&earlier| earlier + within > at);
            if counts.recent.len() >= most {
                counts.refusals += 1;
                return Ok(DemoReply::refusal(429, retry_after, at, counts.refusals.is_multiple_of(2)));
            }
            counts.recent.push(at);
        }
        SpecialBehaviour::ClosedAtNoon { retry_after } if at.utc_hour() == 12 => {
            return Ok(DemoReply::refusal(503, retry_after, at, false));
        }
        SpecialBehaviour::Moved { from, host } if at >= from && request.host != host => {
            return Ok(DemoReply::redirect(301, host, port, FEED));
        }
        SpecialBehaviour::Flaky if counts.answers % 10 == 5 => return Ok(DemoReply::new(503)),
        // The loop does not contain the first address.
        SpecialBehaviour::Carousel => {
            let next = if request.path == "/a" { "/b" } else { "/a" };
            return Ok(DemoReply::redirect(302, source.host, port, next));
        }
        SpecialBehaviour::Bomb => return bomb(),
        _ => {}
    }
    published(source, counts, request, at)
}

/// The current document, or 304 if it is unchanged.
fn published(
    source: &DemoSource,
    counts: &AnswerCounts,
    request: &DemoRequest,
    at: Timestamp,
) -> std::io::Result<DemoReply> {
    let out = &source.posts[..source.posts.partition_point(|post| post.at <= at)];
    let latest = out.last();
    let number = latest.map_or(0, |post| post.number);
    let etag = match source.validators {
        SentValidators::Etag | SentValidators::Both => Some(format!("\"{}-{number}\"", source.name)),
        SentValidators::WeakEtag => Some(format!("W/\"{}-{number}\"", source.name)),
        SentValidators::Nothing | SentValidators::LastModified => None,
    };
    let last_modified = match source.validators {
        SentValidators::LastModified | SentValidators::Both => latest.map(|post| http_date(post.at)),
        _ => None,
    };
    let same = |sent: &Option<Vec<u8>>, now: &Option<String>| {
        now.is_some() && sent.as_deref() == now.as_deref().map(str::as_bytes)
    };
    // A response that breaks off needs a body, so it ignores the validators, as servers may.
    let breaks_off = source.behaviour == SpecialBehaviour::Flaky && counts.answers.is_multiple_of(10);
    let unchanged = match etag {
        _ if breaks_off => false,
        Some(_) => same(&request.etag, &etag),
        None => same(&request.last_modified, &last_modified),
    };
    let mut reply = DemoReply::new(if unchanged { 304 } else { 200 });
    if let Some(etag) = etag {
        reply.meaning.etag = Some(etag.clone().into_bytes());
        reply = reply.with("etag", etag);
    }
    if let Some(date) = last_modified {
        reply.meaning.last_modified = Some(date.clone().into_bytes());
        reply = reply.with("last-modified", date);
    }
    if let SpecialBehaviour::MaxAge(age) = source.behaviour {
        reply.meaning.fresh_for = Some(age);
        reply = reply.with("cache-control", format!("max-age={}", age.as_millis() / 1000));
    }
    reply.meaning.sound = true;
    if unchanged {
        return Ok(reply);
    }
    let (text, kind) = document(source, out);
    reply = reply.with("content-type", kind);
    reply.body = text.into_bytes();
    match source.behaviour {
        SpecialBehaviour::Hours { skip, ttl } => {
            (reply.meaning.skip_hours, reply.meaning.ttl) = (Some(skip), Some(ttl));
        }
        SpecialBehaviour::Gzip => {
            reply.body = gzip(&reply.body)?;
            reply = reply.with("content-encoding", "gzip");
        }
        SpecialBehaviour::Flaky if breaks_off => {
            let announced = reply.body.len();
            reply.body.truncate(announced / 2);
            (reply.announced_length, reply.meaning.sound) = (Some(announced), false);
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

/// A gzip body that unpacks to more than the largest accepted body.
fn bomb() -> std::io::Result<DemoReply> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    let piece = vec![b' '; 1 << 20];
    for _ in 0..12 {
        encoder.write_all(&piece)?;
    }
    let mut reply =
        DemoReply::new(200).with("content-type", "application/rss+xml").with("content-encoding", "gzip");
    reply.body = encoder.finish()?;
    Ok(reply)
}
