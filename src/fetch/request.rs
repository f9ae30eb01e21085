//! One conditional GET to be made.

use std::fmt;

use url::Url;

/// `ETag` and `Last-Modified` byte for byte, as one pair, and the URL that gave them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// The URL whose answer carried them ([`final_url`](super::answer::Answer::final_url)); they are sent to no other.
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
