//! One POST: a document to somebody who asked for it.
//!
//! Exists because deliveries go through the same door as probes: the same client, the same guard
//! against private addresses, the same care that no error shows a URL. Follows no redirect: whoever
//! configured an address meant that one, and a document with its headers goes nowhere else. Must
//! not know what is posted, nor whether to try again.

use std::fmt;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use url::Url;

use super::address::host_of;
use super::client::Fetcher;
use super::error::FetchError;
use super::failure::explain;
use super::freshness;
use crate::clock::Clock;
use tidewatch_core::time::Span;

/// One POST to be made. `Debug` shows neither what is posted nor anything that may be secret.
#[derive(Clone)]
pub struct Post {
    /// Where. User and password in it become `Authorization`.
    pub url: Url,
    /// Headers with secrets already read.
    pub headers: HeaderMap,
    /// What.
    pub body: Bytes,
    /// Private addresses are permitted.
    pub allow_private: bool,
}

impl fmt::Debug for Post {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post")
            .field("host", &format_args!("{}", host_of(&self.url)))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("bytes", &self.body.len())
            .field("allow_private", &self.allow_private)
            .finish()
    }
}

/// How a POST was answered. What the answer says beyond this is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answered {
    /// Status.
    pub status: u16,
    /// `Retry-After` and its kin: not before this long from now.
    pub retry_after: Option<Span>,
}

impl Fetcher {
    /// Posts, once. An answer of any status is an answer. How long it may take in all is the
    /// caller's to say.
    pub async fn post(&self, post: Post, clock: &Clock) -> Result<Answered, FetchError> {
        let client = self.client(&post.url, post.allow_private)?;
        let host = host_of(&post.url);
        let mut url = post.url;
        url.set_fragment(None);
        let response = client
            .post(url)
            // What the answer holds does not matter, so whatever comes is fine.
            .header(header::ACCEPT, HeaderValue::from_static("*/*"))
            .headers(post.headers)
            .body(post.body)
            .send()
            .await
            .map_err(|error| {
                let doing = if error.is_connect() { "cannot connect to" } else { "no answer from" };
                explain(doing, &host, &error)
            })?;
        let status = response.status().as_u16();
        let timing = freshness::read(status, response.headers(), clock.now());
        Ok(Answered { status, retry_after: timing.retry_after })
    }
}
