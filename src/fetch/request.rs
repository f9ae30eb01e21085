//! One conditional GET to be made.

use std::fmt;

use url::Url;

/// `ETag` and `Last-Modified`, byte for byte, and the URL that gave them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Validators {
    /// The URL that gave them ([`final_url`](super::answer::HttpAnswer::final_url)); they are sent to no
    /// other.
    pub url: String,
    /// `ETag`, quotes and `W/` included.
    pub etag: Option<Vec<u8>>,
    /// `Last-Modified`.
    pub last_modified: Option<Vec<u8>>,
}

/// One conditional GET to be made. `Debug` shows neither header values nor the user, password and query of
/// the URL.
#[derive(Clone)]
pub struct FetchRequest {
    /// The URL.
    pub url: Url,
    /// Validators of an earlier answer.
    pub validators: Option<Validators>,
    /// Configured headers, with secrets already read. Sent only to the origin of `url`.
    pub headers: http::HeaderMap,
    /// Whether private addresses are allowed.
    pub allow_private: bool,
}

impl fmt::Debug for FetchRequest {
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
