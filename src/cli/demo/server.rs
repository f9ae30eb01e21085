//! The local web server of all demo sources.
//!
//! One listener; the `Host` header selects the source. Takes the time when the head of a request is
//! read, has the request checked, sends the response, and reports when it is sent. Knows sockets and
//! headers. Must not know the behaviour of sources or the politeness rules.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::HeaderMap;
use http::{HeaderName, HeaderValue, Request, Response, StatusCode};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinSet;

use crate::clock::Clock;

use super::demo_sources::{Character, Quirk};
use super::judge::{Bearing, Judge, UNWANTED};
use super::server_behaviour::{DemoReply, DemoRequest, Habit, answer};
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

/// All sources behind the server, with the checks.
#[derive(Debug)]
pub struct DemoServer {
    cast: Vec<Character>,
    habits: Vec<Habit>,
    /// Checks every request.
    pub judge: Judge,
}

impl DemoServer {
    /// A server state for these sources.
    pub fn new(cast: Vec<Character>, judge: Judge) -> Self {
        let habits = vec![Habit::default(); cast.len()];
        Self { cast, habits, judge }
    }

    /// All sources.
    pub fn cast(&self) -> &[Character] {
        &self.cast
    }

    /// The source at an address, also after its move to another host.
    fn owner(&self, asked: &DemoRequest) -> Option<usize> {
        self.cast.iter().position(|character| match character.quirk {
            Quirk::Moved { host, .. } if asked.host == host => asked.path == character.path,
            Quirk::Carousel => {
                asked.host == character.host && ["/a", "/b", character.path].contains(&asked.path.as_str())
            }
            _ => asked.host == character.host && asked.path == character.path,
        })
    }
}

/// Server state shared by connections. A blocking mutex is enough, because it is never held across an
/// await.
pub type Shared = Arc<Mutex<DemoServer>>;

/// Locks the state. If another holder panicked, the recorded data is still used.
pub fn enter(house: &Shared) -> MutexGuard<'_, DemoServer> {
    house.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until dropped.
pub async fn serve(ports: Ports, house: Shared, clock: Clock) -> io::Result<()> {
    let port = ports.open()?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = ports.open.accept().await?;
        // Sends small responses at once, without waiting for acknowledgements.
        stream.set_nodelay(true)?;
        let (house, clock) = (house.clone(), clock.clone());
        connections.spawn(async move {
            let service = service_fn(|request| {
                let response = respond(&house, &clock, port, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            // Broken connections are expected here.
            let _ = http1::Builder::new()
                .auto_date_header(false)
                .header_read_timeout(None)
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
        while connections.try_join_next().is_some() {}
    }
}

fn respond(house: &Shared, clock: &Clock, port: u16, request: &Request<Incoming>) -> Response<Delivery> {
    let at = clock.now();
    let (asked, bearing) = read(request);
    let robots = asked.path == "/robots.txt";
    let reply = {
        let mut house = enter(house);
        let house = &mut *house;
        let owner = house.owner(&asked);
        house.judge.arrives(owner, &asked, &bearing, at);
        let reply = match owner {
            _ if robots => {
                let pages = house.cast.iter().any(|c| c.quirk == Quirk::Closed && c.host == asked.host);
                DemoReply::robots(pages)
            }
            Some(owner) => answer(&house.cast[owner], &mut house.habits[owner], &asked, at, port)
                .unwrap_or_else(|_| DemoReply { status: 500, ..DemoReply::default() }),
            None => DemoReply::not_found(),
        };
        house.judge.answers(owner, &asked, reply.status, &reply.told, clock.now());
        reply
    };
    let receipt = Receipt { house: house.clone(), clock: clock.clone(), host: asked.host, robots };
    let mut headers = HeaderMap::new();
    for (name, value) in &reply.headers {
        if let Ok(value) = HeaderValue::from_str(value) {
            headers.insert(HeaderName::from_static(name), value);
        }
    }
    if let Ok(date) = HeaderValue::from_str(&http_date(at)) {
        headers.insert(http::header::DATE, date);
    }
    let mut response = Response::new(Delivery {
        bytes: Some(Bytes::from(reply.body)).filter(|bytes| !bytes.is_empty()),
        breach: if reply.breaks_off { Breach::Ahead } else { Breach::None },
        receipt: Some(receipt),
    });
    *response.status_mut() =
        StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

fn read(request: &Request<Incoming>) -> (DemoRequest, Bearing) {
    let bytes = |name: HeaderName| request.headers().get(name).map(|value| value.as_bytes().to_vec());
    let text =
        |name| bytes(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let host = text(http::header::HOST);
    let asked = DemoRequest {
        host: host.rsplit_once(':').map_or(host.as_str(), |(name, _)| name).to_owned(),
        path: request.uri().path_and_query().map(ToString::to_string).unwrap_or_default(),
        etag: bytes(http::header::IF_NONE_MATCH),
        last_modified: bytes(http::header::IF_MODIFIED_SINCE),
    };
    let unwanted = UNWANTED.iter().filter(|name| request.headers().contains_key(**name));
    let bearing = Bearing {
        method: request.method().to_string(),
        agent: text(http::header::USER_AGENT),
        unwanted: unwanted.map(|name| (*name).to_owned()).collect(),
    };
    (asked, bearing)
}

#[derive(Debug)]
struct Receipt {
    house: Shared,
    clock: Clock,
    host: String,
    robots: bool,
}

/// How far a response that must break off has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breach {
    None,
    /// The bytes are not yet sent.
    Ahead,
    /// The bytes are being sent.
    Now,
}

/// A response body that reports when it is sent.
#[derive(Debug)]
struct Delivery {
    bytes: Option<Bytes>,
    breach: Breach,
    receipt: Option<Receipt>,
}

impl Delivery {
    /// Reports the end when the last piece is handed over. That is before the client can receive it, so
    /// a response that was read is always reported.
    fn sign(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            let at = receipt.clock.now();
            enter(&receipt.house).judge.leaves(&receipt.host, receipt.robots, at);
        }
    }
}

impl Drop for Delivery {
    fn drop(&mut self) {
        self.sign();
    }
}

impl Body for Delivery {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        let next = match (self.bytes.take(), self.breach) {
            (Some(bytes), breach) => {
                if breach == Breach::None {
                    self.sign();
                }
                return Poll::Ready(Some(Ok(Frame::data(bytes))));
            }
            (None, Breach::Ahead) => {
                // Flushes the bytes first; otherwise the client would get no response instead of half
                // of one.
                self.breach = Breach::Now;
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            (None, Breach::Now) => Some(Err(io::ErrorKind::BrokenPipe.into())),
            (None, Breach::None) => None,
        };
        self.breach = Breach::None;
        self.sign();
        Poll::Ready(next)
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_none() && self.breach == Breach::None
    }

    fn size_hint(&self) -> SizeHint {
        match self.breach {
            Breach::Ahead | Breach::Now => SizeHint::default(),
            Breach::None => SizeHint::with_exact(self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)),
        }
    }
}
