//! The network.
//!
//! Exists so that one probe is one polite, bounded, conditional GET, one delivery is one guarded
//! POST, and nothing else in the crate opens a socket. Knows HTTP: validators, redirects, encodings,
//! freshness, throttling, robots.txt, which addresses are private. Must not know when to probe, nor
//! what a body means, nor keep anything between two requests but idle connections.

pub mod body;
pub mod client;
pub mod decode;
mod failure;
pub mod freshness;
pub mod guard;
pub mod host_group;
pub mod post;
pub mod robots;
pub mod secret;

use std::fmt;

use url::Url;

use tidewatch_core::time::{Span, Timestamp};

/// `ETag` and `Last-Modified` byte for byte, as one pair, and the URL that gave them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// The URL whose answer carried them ([`Answer::final_url`]); they are sent to no other.
    pub url: String,
    /// `ETag`, quotes and `W/` included.
    pub etag: Option<Vec<u8>>,
    /// `Last-Modified`.
    pub last_modified: Option<Vec<u8>>,
}

/// One conditional GET to be made. `Debug` shows neither the values of headers nor the parts of
/// the URL in which people keep passwords and tokens.
#[derive(Clone)]
pub struct Request {
    /// Where.
    pub url: Url,
    /// What earlier answers gave.
    pub validators: Option<Validators>,
    /// Extra headers with secrets already read. Sent only to the origin of `url`.
    pub headers: http::HeaderMap,
    /// Private addresses are permitted.
    pub allow_private: bool,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field(
                "url",
                &format_args!("{}", self.url[url::Position::BeforeHost..].split('?').next().unwrap_or("")),
            )
            .field("validators", &self.validators.is_some())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("allow_private", &self.allow_private)
            .finish()
    }
}

/// What came back.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The last hop's status.
    pub status: u16,
    /// Where the answer came from after redirects, without user, password and fragment.
    pub final_url: Url,
    /// Every hop on the way was permanent (301/308) and the last one answered with 2xx or 304:
    /// the address the source says it has moved to.
    pub moved_to: Option<Url>,
    /// Validators this answer carried (a 304 carries only some, or none).
    pub etag: Option<Vec<u8>>,
    /// See `etag`.
    pub last_modified: Option<Vec<u8>>,
    /// `Last-Modified` as an instant.
    pub modified_at: Option<Timestamp>,
    /// `max-age` (less `Age`) or `Expires`: the publisher says it won't change for this long.
    pub fresh_for: Option<Span>,
    /// `Retry-After`, `x-ratelimit-reset`, `ratelimit`: not before this long from now.
    pub retry_after: Option<Span>,
    /// 429, or a 403/503 that speaks of a rate limit: the whole host group must rest.
    pub throttled: bool,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// The body, decompressed. Empty unless 2xx.
    pub body: Vec<u8>,
    /// Bytes of the body on the wire.
    pub wire_bytes: u64,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// What happened, with what to do where that can be said. Never holds a secret.
    pub message: String,
    /// The host was reached, or the failure has nothing to do with reaching it; when nobody can be
    /// reached, it's our own network.
    pub reached: bool,
}
