//! Makes one conditional GET and follows its redirects.
//!
//! All requests of this program use this client: no cookies, no Referer, no proxies, no silent retries.
//! Validators go only to the URL that gave them, configured headers only to their origin. Redirects are
//! followed here, not by `reqwest`, because every hop is checked and none inherits headers. A redirect from
//! https to http is followed, but counts as another origin. Must not know why or when a request is made.

use std::sync::Arc;
use std::time::Duration;

use http::header::{self, HeaderMap, HeaderValue};
use reqwest::{Client, Response};
use url::Url;

use super::address::{host_of, strip};
use super::answer::HttpAnswer;
use super::body::{self, WireBody};
use super::body_memory::BodyMemory;
use super::connections::Connections;
use super::error::{FetchError, FetchFault};
use super::failure::explain;
use super::freshness::{self, http_date};
use super::guard::Guard;
use super::own_waits::OwnWaits;
use super::request::{FetchRequest, Validators};
use super::robots::PRODUCT;
use crate::clock::{Clock, Stopwatch, patience};
use crate::config::params::FetchParams;
use tidewatch_core::observe::limits::MAX_ADDRESS;
use tidewatch_core::time::Timestamp;

/// Largest number of redirects.
const MOST_REDIRECTS: usize = 5;

const ACCEPT: &str = "application/atom+xml, application/rss+xml, application/feed+json, \
     application/xml;q=0.9, application/json;q=0.9, text/html;q=0.8, */*;q=0.5";

/// Longest header value that is kept, in bytes. A longer validator would be stored and sent with each request.
const LONGEST_VALUE: usize = 4096;

/// Most hosts with a kept connection.
pub const MOST_KEPT: usize = 1_000;

/// A request and its redirects so far.
#[derive(Debug)]
pub struct FetchProgress {
    url: Url,
    visited: Vec<Url>,
    /// Whether all redirects were permanent.
    permanent: bool,
    /// After a redirect to another origin, a redirect back gets no credentials either: the other origin chose it.
    at_origin: bool,
    time_left: Duration,
}

impl FetchProgress {
    /// The URL that is requested next.
    pub fn url(&self) -> &Url {
        &self.url
    }
}

/// How far an exchange came.
#[derive(Debug)]
pub enum FetchStep {
    /// The answer.
    Answered(Box<HttpAnswer>),
    /// A redirect to another origin.
    Redirected(FetchProgress),
}

/// An HTTP client. Cheap to clone; clones share connections.
#[derive(Debug, Clone)]
pub struct Fetcher {
    connections: Arc<Connections>,
    guard: Guard,
    params: Arc<FetchParams>,
    bodies: BodyMemory,
}

impl Fetcher {
    /// Creates a fetcher with these limits. `contact` goes into the User-Agent.
    pub fn new(params: &FetchParams, contact: Option<&str>) -> Result<Self, FetchError> {
        Self::with_limits(params, contact, Guard::default(), MOST_KEPT)
    }

    /// A fetcher for a changed configuration. Bodies that the old one still reads count for the same memory, unless the
    /// largest size of a body changed.
    pub fn renewed(&self, params: &FetchParams, contact: Option<&str>) -> Result<Self, FetchError> {
        let new = Self::new(params, contact)?;
        let same = params.max_body == self.params.max_body;
        Ok(if same { Self { bodies: self.bodies.clone(), ..new } } else { new })
    }

    /// Creates a fetcher with another definition of public addresses, which keeps connections of at most this
    /// many hosts. For tests.
    pub fn with_limits(
        params: &FetchParams,
        contact: Option<&str>,
        guard: Guard,
        most_kept: usize,
    ) -> Result<Self, FetchError> {
        let connections = Connections::new(params, &common_headers(contact)?, &guard, most_kept)?;
        let bodies = BodyMemory::new(params.max_body);
        Ok(Self { connections: Arc::new(connections), guard, params: Arc::new(params.clone()), bodies })
    }

    /// The limits within which documents are read.
    pub fn params(&self) -> &FetchParams {
        &self.params
    }

    /// A request that is not sent yet.
    pub fn begin(&self, request: &FetchRequest) -> FetchProgress {
        let mut url = request.url.clone();
        strip(&mut url);
        FetchProgress {
            url,
            visited: Vec::new(),
            permanent: true,
            at_origin: true,
            time_left: self.params.total_timeout.to_duration(),
        }
    }

    /// Sends the next request of an exchange, and follows redirects within its origin. All requests of an exchange
    /// share the total time-out, which does not count waits for our own memory.
    pub async fn go_on(
        &self,
        request: &FetchRequest,
        exchange: FetchProgress,
        clock: &Clock,
    ) -> Result<FetchStep, FetchError> {
        let (time_left, stopwatch) = (exchange.time_left, Stopwatch::start());
        let waits = OwnWaits::default();
        let step = waits.patience(time_left, self.follow(request, exchange, clock, &waits)).await;
        let step = step.map_err(|_| {
            let total = self.params.total_timeout;
            FetchError::remote(format!("{} took longer than {total} in all", host_of(&request.url)))
        })??;
        Ok(match step {
            FetchStep::Redirected(next) => {
                let time_left = (time_left + waits.total()).saturating_sub(stopwatch.elapsed());
                FetchStep::Redirected(FetchProgress { time_left, ..next })
            }
            answered @ FetchStep::Answered(_) => answered,
        })
    }

    async fn follow(
        &self,
        request: &FetchRequest,
        exchange: FetchProgress,
        clock: &Clock,
        waits: &OwnWaits,
    ) -> Result<FetchStep, FetchError> {
        let FetchProgress { mut url, mut visited, mut permanent, mut at_origin, time_left } = exchange;
        loop {
            at_origin &= url.origin() == request.url.origin();
            let response = match (self.hop(request, &url, at_origin, clock.now()).await, visited.last()) {
                (Ok(response), _) => response,
                (Err(error), Some(from)) => return Err(error.after_redirect(&host_of(from))),
                (Err(error), None) => return Err(error),
            };
            let Some(next) = redirect(&url, &response)? else {
                let moved = !visited.is_empty() && permanent;
                let answer = self.answer(response, (url, moved), clock, waits).await?;
                return Ok(FetchStep::Answered(Box::new(answer)));
            };
            permanent &= matches!(response.status().as_u16(), 301 | 308);
            visited.push(url.clone());
            if visited.contains(&next) {
                return Err(FetchError::remote(format!("a redirect loop at {}", host_of(&url))));
            }
            if visited.len() > MOST_REDIRECTS {
                return Err(FetchError::remote(format!("more than {MOST_REDIRECTS} redirects")));
            }
            let elsewhere = next.origin() != url.origin();
            url = next;
            if elsewhere {
                return Ok(FetchStep::Redirected(FetchProgress {
                    url,
                    visited,
                    permanent,
                    at_origin,
                    time_left,
                }));
            }
        }
    }

    async fn hop(
        &self,
        request: &FetchRequest,
        url: &Url,
        at_origin: bool,
        now: Timestamp,
    ) -> Result<Response, FetchError> {
        let client = self.client(url, request.allow_private, now).await?;
        let mut target = url.clone();
        if at_origin {
            // The HTTP library converts these to `Authorization`. Setting them fails only without a host.
            let _ = target.set_username(request.url.username());
            let _ = target.set_password(request.url.password());
        }
        let mut builder = client.get(target).headers(conditions(request, url));
        if at_origin {
            builder = builder.headers(request.headers.clone());
        }
        let host = host_of(url);
        // Connecting has its own time-out in the HTTP library; the headers may then take one read time-out.
        let limit = self.params.connect_timeout + self.params.read_timeout;
        match patience(limit.to_duration(), builder.send()).await {
            // The connection may be one that was kept, and the network may be down since.
            Err(_) => Err(FetchError::no_answer(format!("{host} did not answer within {limit}"))),
            Ok(Err(error)) if error.is_connect() && error.is_timeout() => {
                let limit = self.params.connect_timeout;
                Err(FetchError::not_connected(format!("no connection to {host} within {limit}")))
            }
            Ok(Err(error)) if error.is_connect() => {
                Err(explain("cannot connect to", &host, FetchFault::Connection, &error))
            }
            Ok(Err(error)) => Err(explain("no answer from", &host, FetchFault::NoAnswer, &error)),
            Ok(Ok(response)) => Ok(response),
        }
    }

    /// The client that is allowed to request this URL, if any.
    pub(super) async fn client(
        &self,
        url: &Url,
        allow_private: bool,
        now: Timestamp,
    ) -> Result<Client, FetchError> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(FetchError::remote(format!("`{}` is not http or https", url.scheme())));
        }
        if !allow_private {
            self.guard.check_literal(url)?;
        }
        Ok(self.connections.client(url, allow_private, now).await)
    }

    async fn answer(
        &self,
        response: Response,
        (url, moved): (Url, bool),
        clock: &Clock,
        waits: &OwnWaits,
    ) -> Result<HttpAnswer, FetchError> {
        let status = response.status().as_u16();
        let timing = freshness::read(status, response.headers(), clock.now());
        let bytes = |name| {
            let value = response.headers().get(name).map(|value: &HeaderValue| value.as_bytes().to_vec());
            value.filter(|bytes| !bytes.is_empty() && bytes.len() <= LONGEST_VALUE)
        };
        let (etag, last_modified) = (bytes(header::ETAG), bytes(header::LAST_MODIFIED));
        let content_type =
            bytes(header::CONTENT_TYPE).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let modified_at = response.headers().get(header::LAST_MODIFIED).and_then(http_date);
        let body = match status {
            206 => return Err(FetchError::remote("206: a part of the document, which was not asked for")),
            200..=299 => body::read(response, &self.params, &self.bodies, waits).await?,
            _ => Ok(WireBody::default()),
        };
        Ok(HttpAnswer {
            status,
            moved_to: (moved && matches!(status, 200..=299 | 304)).then(|| url.clone()),
            final_url: url,
            etag,
            last_modified,
            modified_at,
            fresh_for: timing.fresh_for,
            retry_after: timing.retry_after,
            throttled: timing.throttled,
            content_type,
            body,
        })
    }
}

/// The headers of every request.
pub fn common_headers(contact: Option<&str>) -> Result<HeaderMap, FetchError> {
    let version = env!("CARGO_PKG_VERSION");
    let agent = match contact {
        Some(contact) => format!("{PRODUCT}/{version} (+{contact})"),
        None => format!("{PRODUCT}/{version}"),
    };
    let agent = HeaderValue::from_str(&agent).map_err(|_| {
        FetchError::remote("the contact cannot be put into the User-Agent; use an address or URL in ASCII")
    })?;
    Ok(HeaderMap::from_iter([
        (header::USER_AGENT, agent),
        (header::ACCEPT, HeaderValue::from_static(ACCEPT)),
        (header::ACCEPT_ENCODING, HeaderValue::from_static("gzip, br, deflate, zstd")),
    ]))
}

/// `If-None-Match` and `If-Modified-Since`, if this URL gave the validators.
fn conditions(request: &FetchRequest, url: &Url) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let Some(Validators { url: from, etag, last_modified }) = &request.validators else { return headers };
    // `url` and `HttpAnswer::final_url` never contain the user or fragment of the configured URL.
    let mut asked = request.url.clone();
    strip(&mut asked);
    if from != url.as_str() && !(from == request.url.as_str() && asked == *url) {
        return headers;
    }
    for (name, value) in [(header::IF_NONE_MATCH, etag), (header::IF_MODIFIED_SINCE, last_modified)] {
        if let Some(value) = value.as_ref().and_then(|bytes| HeaderValue::from_bytes(bytes).ok()) {
            headers.insert(name, value);
        }
    }
    headers
}

/// The target of a redirect; `None` for other responses.
fn redirect(from: &Url, response: &Response) -> Result<Option<Url>, FetchError> {
    if !matches!(response.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
        return Ok(None);
    }
    let Some(location) = response.headers().get(header::LOCATION) else { return Ok(None) };
    let mut next = std::str::from_utf8(location.as_bytes())
        .ok()
        .and_then(|location| from.join(location).ok())
        .ok_or_else(|| {
            FetchError::remote(format!("{} redirects to something that is no URL", host_of(from)))
        })?;
    strip(&mut next);
    if next.as_str().len() > MAX_ADDRESS {
        return Err(FetchError::remote(format!(
            "{} redirects to an address longer than {MAX_ADDRESS} bytes",
            host_of(from)
        )));
    }
    Ok(Some(next))
}
