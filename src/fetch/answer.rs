//! The answer to one GET.

use url::Url;

use super::body::{UnreadBody, WireBody};
use tidewatch_core::time::{Span, Timestamp};

/// The response after all redirects.
#[derive(Debug)]
pub struct HttpAnswer {
    /// Status of the last hop.
    pub status: u16,
    /// The URL after redirects, without user, password and fragment.
    pub final_url: Url,
    /// The new address of the source: set if every redirect was permanent (301/308) and the last hop
    /// answered with 2xx or 304.
    pub moved_to: Option<Url>,
    /// The `ETag` of this answer; a 304 may lack it.
    pub etag: Option<Vec<u8>>,
    /// The `Last-Modified` of this answer; a 304 may lack it.
    pub last_modified: Option<Vec<u8>>,
    /// `Last-Modified` as a time.
    pub modified_at: Option<Timestamp>,
    /// `max-age` (less `Age`) or `Expires`: the time for which the document stays fresh.
    pub fresh_for: Option<Span>,
    /// `Retry-After`, `x-ratelimit-reset` or `ratelimit`: the time before the next allowed request.
    pub retry_after: Option<Span>,
    /// A 429, or a 403/503 with a rate limit: pauses the whole host group.
    pub throttled: bool,
    /// `Content-Type`.
    pub content_type: Option<String>,
    /// The body, not yet decoded. Empty unless 2xx. Our own limits may refuse it, and the headers are valid then.
    pub body: Result<WireBody, UnreadBody>,
}
