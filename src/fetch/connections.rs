//! Which HTTP client sends a request, so that kept connections are few and young.
//!
//! A connection is kept for a redirect or the next request to its host. Without limits, a fleet of many hosts
//! would keep more connections than a process may open, and a host that is requested every few seconds would
//! keep one for as long as the daemon runs. Must not know which requests are allowed.

use std::time::Duration;

use http::header::HeaderMap;
use reqwest::Client;
use url::Url;

use super::error::{FetchError, FetchFault};
use super::failure::explain;
use super::guard::{Guard, Resolver};
use super::kept_hosts::KeptHosts;
use crate::clock::Stopwatch;
use crate::config::params::FetchParams;

/// Header limit for HTTP/2; for HTTP/1, the HTTP library stops at about 400 KiB and 100 fields.
const MOST_HEADER_BYTES: u32 = 64 * 1024;

/// Time for which an idle connection is kept. The HTTP library may take twice as long to close it.
const IDLE: Duration = Duration::from_secs(30);

/// Time after which requests go over new connections.
const LIFE: Duration = Duration::from_secs(300);

/// Clients for requests with and without permission for private addresses. Separate, so that a request
/// without permission cannot reuse a connection to such an address.
#[derive(Debug)]
pub(super) struct Connections {
    guarded: Clients,
    open: Clients,
    kept: KeptHosts,
    started: Stopwatch,
    /// The clients of a pair are used alternately, each for this time. It is long enough that the other one has
    /// closed its connections at the end.
    life: Duration,
}

/// Clients that differ only in the connections that they keep.
#[derive(Debug)]
struct Clients {
    /// They keep one connection per host.
    keeping: [Client; 2],
    /// It closes each connection after the answer.
    closing: Client,
}

impl Connections {
    /// Creates clients that keep connections of at most `most_kept` hosts.
    pub(super) fn new(
        params: &FetchParams,
        headers: &HeaderMap,
        guard: &Guard,
        most_kept: usize,
    ) -> Result<Self, FetchError> {
        let clients = |guard| {
            let resolver = Resolver::new(&params.resolve, guard);
            let client = |kept_per_host| build(params, headers, &resolver, kept_per_host);
            Ok(Clients { keeping: [client(1)?, client(1)?], closing: client(0)? })
        };
        let hold = params.total_timeout.to_duration().saturating_add(2 * IDLE);
        Ok(Self {
            guarded: clients(Some(guard.clone()))?,
            open: clients(None)?,
            kept: KeptHosts::new(most_kept, hold),
            started: Stopwatch::start(),
            life: LIFE.max(hold),
        })
    }

    /// The client for a request that is sent now.
    pub(super) fn client(&self, url: &Url, allow_private: bool) -> &Client {
        let clients = if allow_private { &self.open } else { &self.guarded };
        if !self.kept.keeps(url, allow_private) {
            return &clients.closing;
        }
        let changes = self.started.elapsed().as_millis() / self.life.as_millis();
        &clients.keeping[usize::from(changes % 2 == 1)]
    }
}

fn build(
    params: &FetchParams,
    headers: &HeaderMap,
    resolver: &Resolver,
    kept_per_host: usize,
) -> Result<Client, FetchError> {
    Client::builder()
        .default_headers(headers.clone())
        .dns_resolver(resolver.clone())
        .connect_timeout(params.connect_timeout.to_duration())
        .redirect(reqwest::redirect::Policy::none())
        .retry(reqwest::retry::never())
        .referer(false)
        .no_proxy()
        .http2_max_header_list_size(MOST_HEADER_BYTES)
        .pool_idle_timeout(IDLE)
        .pool_max_idle_per_host(kept_per_host)
        .build()
        .map_err(|error| explain("cannot set up the HTTP client:", "TLS", FetchFault::Answer, &error))
}
