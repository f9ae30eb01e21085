//! Makes one POST for a delivery.
//!
//! Uses the same client as probes, with the same guard against private addresses, and shows no URL in
//! errors. Follows no redirect: the document and its headers go to the configured URL only. Must not know
//! what is posted, nor whether it is retried.

use std::fmt;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use url::Url;

use super::address::host_of;
use super::client::Fetcher;
use super::error::{FetchError, FetchFault};
use super::failure::explain;
use super::freshness;
use crate::clock::Clock;
use tidewatch_core::time::Span;

/// One POST to be made. `Debug` shows neither the body nor secrets.
#[derive(Clone)]
pub struct PostRequest {
    /// The URL; its user and password become `Authorization`.
    pub url: Url,
    /// Headers with secrets already read.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    /// Whether private addresses are allowed.
    pub allow_private: bool,
}

impl fmt::Debug for PostRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Post")
            .field("host", &format_args!("{}", host_of(&self.url)))
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("bytes", &self.body.len())
            .field("allow_private", &self.allow_private)
            .finish()
    }
}

/// The response to a POST; its body is not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PostAnswer {
    /// HTTP status.
    pub status: u16,
    /// The time before the next allowed request, from `Retry-After` or a rate-limit header.
    pub retry_after: Option<Span>,
}

impl Fetcher {
    /// Makes one POST. Returns a response for any status. The caller sets the total time-out.
    pub async fn post(&self, post: PostRequest, clock: &Clock) -> Result<PostAnswer, FetchError> {
        let client = self.client(&post.url, post.allow_private, clock.now()).await?;
        let host = host_of(&post.url);
        let mut url = post.url;
        url.set_fragment(None);
        let response = client
            .post(url)
            // The response body is not read, so any type is accepted.
            .header(header::ACCEPT, HeaderValue::from_static("*/*"))
            .headers(post.headers)
            .body(post.body)
            .send()
            .await
            .map_err(|error| {
                let doing = if error.is_connect() { "cannot connect to" } else { "no answer from" };
                explain(doing, &host, FetchFault::Connection, &error)
            })?;
        let status = response.status().as_u16();
        let timing = freshness::read(status, response.headers(), clock.now());
        Ok(PostAnswer { status, retry_after: timing.retry_after })
    }
}
