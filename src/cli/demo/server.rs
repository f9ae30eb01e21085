//! The answers of the local web server of all demo sources.
//!
//! One listener; the `Host` header selects the source. Has every request checked, answers it, and reports
//! when the answer is sent. Must not know the behaviour of sources or the politeness rules.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidewatch_fixtures::loopback::{LoopbackServer, Reply, SeenRequest};
use tokio::net::{TcpListener, TcpSocket};

use crate::clock::Clock;

use super::demo_sources::{DemoSource, SpecialBehaviour};
use super::politeness_check::{CheckedHeaders, PolitenessCheck, UNWANTED};
use super::server_behaviour::{AnswerCounts, DemoReply, DemoRequest, answer};
use super::text::http_date;

/// A port that accepts connections and one that refuses them.
#[derive(Debug)]
pub struct Ports {
    open: TcpListener,
    /// Bound but never listened on, so connections are refused and the port stays reserved.
    closed: TcpSocket,
}

impl Ports {
    /// Binds both on loopback.
    pub async fn take() -> io::Result<Self> {
        let closed = TcpSocket::new_v4()?;
        closed.bind(([127, 0, 0, 1], 0).into())?;
        Ok(Self { open: TcpListener::bind(("127.0.0.1", 0)).await?, closed })
    }

    /// The port that accepts.
    pub fn open(&self) -> io::Result<u16> {
        Ok(self.open.local_addr()?.port())
    }

    /// The port that refuses.
    pub fn closed(&self) -> io::Result<u16> {
        Ok(self.closed.local_addr()?.port())
    }
}

/// The sources behind the server, with the checks.
#[derive(Debug)]
pub struct DemoServer {
    sources: Vec<DemoSource>,
    answer_counts: Vec<AnswerCounts>,
    /// Checks every request.
    pub check: PolitenessCheck,
}

impl DemoServer {
    /// A server state for these sources.
    pub fn new(sources: Vec<DemoSource>, check: PolitenessCheck) -> Self {
        let answer_counts = vec![AnswerCounts::default(); sources.len()];
        Self { sources, answer_counts, check }
    }

    /// All sources.
    pub fn sources(&self) -> &[DemoSource] {
        &self.sources
    }

    /// The source at an address, also after its move to another host.
    fn owner(&self, request: &DemoRequest) -> Option<usize> {
        self.sources.iter().position(|source| match source.behaviour {
            SpecialBehaviour::Moved { host, .. } if request.host == host => request.path == source.path,
            SpecialBehaviour::Carousel => {
                request.host == source.host && ["/a", "/b", source.path].contains(&request.path.as_str())
            }
            _ => request.host == source.host && request.path == source.path,
        })
    }

    fn reply(
        &mut self,
        request: &DemoRequest,
        headers: &CheckedHeaders,
        clock: &Clock,
        port: u16,
    ) -> DemoReply {
        let at = clock.now();
        let owner = self.owner(request);
        self.check.request_arrived(owner, request, headers, at);
        let reply = match owner {
            _ if request.is_for_robots() => {
                let closed = |source: &DemoSource| source.behaviour == SpecialBehaviour::Closed;
                let pages = self.sources.iter().any(|source| closed(source) && source.host == request.host);
                DemoReply::robots(pages)
            }
            Some(owner) => answer(&self.sources[owner], &mut self.answer_counts[owner], request, at, port)
                .unwrap_or_else(|_| DemoReply { status: 500, ..DemoReply::default() }),
            None => DemoReply::not_found(),
        };
        self.check.response_prepared(owner, request, reply.status, &reply.meaning, clock.now());
        reply.with("date", http_date(at))
    }
}

/// Server state shared by connections. A blocking mutex is enough, because it is never held across an
/// await.
pub type SharedServer = Arc<Mutex<DemoServer>>;

/// Locks the state. If another holder panicked, the recorded data is still used.
pub fn lock(server: &SharedServer) -> MutexGuard<'_, DemoServer> {
    server.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Answers until dropped.
pub fn start(ports: Ports, server: SharedServer, clock: Clock) -> io::Result<LoopbackServer> {
    let port = ports.open()?;
    // Kept for as long as the server, so that no other program takes the port.
    let closed = ports.closed;
    LoopbackServer::start_unlogged(ports.open, move |seen| {
        let _reserved = &closed;
        let (request, headers) = read(seen);
        let reply = lock(&server).reply(&request, &headers, &clock, port);
        let sent = SentReport { server: server.clone(), clock: clock.clone(), request };
        let mut scripted = Reply::new(reply.status).until_sent(sent);
        for (name, value) in &reply.headers {
            scripted = scripted.header(name, value);
        }
        if let Some(length) = reply.announced_length {
            scripted = scripted.announced_length(length);
        }
        scripted.body(reply.body)
    })
}

fn read(seen: &SeenRequest) -> (DemoRequest, CheckedHeaders) {
    let host = seen.text("host").unwrap_or_default();
    let request = DemoRequest {
        host: host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name).to_owned(),
        path: seen.path.clone(),
        etag: seen.header("if-none-match"),
        last_modified: seen.header("if-modified-since"),
    };
    let unwanted = UNWANTED.iter().filter(|name| seen.header(name).is_some());
    let headers = CheckedHeaders {
        method: seen.method.clone(),
        agent: seen.text("user-agent").unwrap_or_default(),
        unwanted: unwanted.map(|name| (*name).to_owned()).collect(),
    };
    (request, headers)
}

/// Reports, when dropped, that a response is sent or that the client has disconnected.
#[derive(Debug)]
struct SentReport {
    server: SharedServer,
    clock: Clock,
    request: DemoRequest,
}

impl Drop for SentReport {
    fn drop(&mut self) {
        let at = self.clock.now();
        lock(&self.server).check.response_sent(&self.request.host, self.request.is_for_robots(), at);
    }
}
