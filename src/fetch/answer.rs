//! The answer to one GET.

use url::Url;

use tidewatch_core::time::{Span, Timestamp};

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
