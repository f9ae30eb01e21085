//! Which HTTP client sends a request, so that kept connections are few and young.
//!
//! A connection is kept for a redirect or the next request to its host. Without limits, a fleet of many hosts
//! would keep more connections than a process may open, and a host that is requested every few seconds would
//! keep one for as long as the daemon runs. Must not know which requests are allowed.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
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
use tidewatch_core::time::{Span, Timestamp};

/// Header limit for HTTP/2; for HTTP/1, the HTTP library stops at about 400 KiB and 100 fields.
const MOST_HEADER_BYTES: u32 = 64 * 1024;

/// Time for which an idle connection is kept. The HTTP library may take twice as long to close it.
const IDLE: Duration = Duration::from_secs(30);

/// Time after which requests go over new connections.
const LIFE: Duration = Duration::from_secs(300);

/// The certificates of authorities are read again after this time, by the daemon's clock: a daemon that runs for years
/// needs the new ones.
const ROOTS_READ_EVERY: Span = Span::from_days(1);

/// The same after they could not be read, as while a package of them is replaced.
const ROOTS_READ_AGAIN: Span = Span::from_hours(1);

/// Clients for all requests. The HTTP library reads the certificates of authorities when a client is made, so that all
/// are made again from time to time.
#[derive(Debug)]
pub(super) struct Connections {
    settings: ClientSettings,
    current: RwLock<Arc<AllClients>>,
    /// When the clients are made again; not known before the first request.
    renewal: Mutex<Option<Renewal>>,
    kept: KeptHosts,
    started: Stopwatch,
    /// The clients of a pair are used alternately, each for this time. It is long enough that the other one has
    /// closed its connections at the end.
    life: Duration,
}

/// What a client is made from.
#[derive(Debug, Clone)]
struct ClientSettings {
    params: FetchParams,
    headers: HeaderMap,
    guard: Guard,
}

/// When clients are made again.
#[derive(Debug, Clone, Copy)]
struct Renewal {
    last: Timestamp,
    next: Timestamp,
}

/// Clients for requests with and without permission for private addresses. Separate, so that a request
/// without permission cannot reuse a connection to such an address.
#[derive(Debug)]
struct AllClients {
    guarded: Clients,
    open: Clients,
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
        let settings =
            ClientSettings { params: params.clone(), headers: headers.clone(), guard: guard.clone() };
        let hold = params.total_timeout.to_duration().saturating_add(2 * IDLE);
        Ok(Self {
            current: RwLock::new(Arc::new(settings.clients()?)),
            settings,
            renewal: Mutex::new(None),
            kept: KeptHosts::new(most_kept, hold),
            started: Stopwatch::start(),
            life: LIFE.max(hold),
        })
    }

    /// The client for a request that is sent now.
    pub(super) async fn client(&self, url: &Url, allow_private: bool, now: Timestamp) -> Client {
        if self.begins_renewal(now) {
            self.renew(now).await;
        }
        let current = Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner));
        let clients = if allow_private { &current.open } else { &current.guarded };
        if !self.kept.keeps(url, allow_private) {
            return clients.closing.clone();
        }
        let changes = self.started.elapsed().as_millis() / self.life.as_millis();
        clients.keeping[usize::from(changes % 2 == 1)].clone()
    }

    /// Whether the clients are to be made again, by the caller.
    fn begins_renewal(&self, now: Timestamp) -> bool {
        let mut renewal = self.renewal.lock().unwrap_or_else(PoisonError::into_inner);
        // The clock may have been set back.
        let due = renewal.is_some_and(|Renewal { last, next }| now >= next || now < last);
        if due {
            // Until it has succeeded.
            *renewal = Some(Renewal { last: now, next: now + ROOTS_READ_AGAIN });
        } else if renewal.is_none() {
            *renewal = Some(Renewal { last: now, next: now + ROOTS_READ_EVERY });
        }
        due
    }

    /// Makes the clients again, on a blocking thread: they read files. Other requests use the old ones meanwhile.
    /// Requests in progress keep theirs, and idle connections of the old ones are closed.
    async fn renew(&self, now: Timestamp) {
        let settings = self.settings.clone();
        let made = tokio::task::spawn_blocking(move || settings.clients()).await;
        match made {
            Ok(Ok(clients)) => {
                *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(clients);
                let again = Renewal { last: now, next: now + ROOTS_READ_EVERY };
                *self.renewal.lock().unwrap_or_else(PoisonError::into_inner) = Some(again);
                tracing::debug!("the certificates of authorities were read again");
            }
            Ok(Err(error)) => {
                tracing::warn!(
                    %error,
                    "the certificates of authorities cannot be read again; those of before are used: {error}; check the package ca-certificates"
                );
            }
            // The program ends.
            Err(_) => {}
        }
    }
}

impl ClientSettings {
    fn clients(&self) -> Result<AllClients, FetchError> {
        let Self { params, headers, guard } = self;
        let clients = |guard| {
            let resolver = Resolver::new(&params.resolve, guard);
            let client = |kept_per_host| build(params, headers, &resolver, kept_per_host);
            Ok(Clients { keeping: [client(1)?, client(1)?], closing: client(0)? })
        };
        Ok(AllClients { guarded: clients(Some(guard.clone()))?, open: clients(None)? })
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
