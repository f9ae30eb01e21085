//! The loopback web server behind all sources of the demo.
//!
//! One listener; the `Host` header tells the characters apart. Takes the time when a request's
//! head is in, lets the judge look at it, answers in character, and tells the judge when the
//! answer is out. Knows sockets and headers. Must not know manners or rules.

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

use super::cast::{Character, Quirk};
use super::judge::{Bearing, Judge, UNWANTED};
use super::manners::{Asked, Habit, Reply, answer};
use super::text::http_date;

/// A port that answers and one that never will.
#[derive(Debug)]
pub struct Ports {
    open: TcpListener,
    /// Bound and never listened on: connections are refused, and nobody else can take the port.
    closed: TcpSocket,
}

impl Ports {
    /// Takes both, on loopback.
    pub async fn take() -> io::Result<Self> {
        let closed = TcpSocket::new_v4()?;
        closed.bind(([127, 0, 0, 1], 0).into())?;
        Ok(Self { open: TcpListener::bind(("127.0.0.1", 0)).await?, closed })
    }

    /// The one that answers.
    pub fn open(&self) -> io::Result<u16> {
        Ok(self.open.local_addr()?.port())
    }

    /// The one that refuses.
    pub fn closed(&self) -> io::Result<u16> {
        Ok(self.closed.local_addr()?.port())
    }
}

/// Everyone who lives behind the door, and the judge at it.
#[derive(Debug)]
pub struct House {
    cast: Vec<Character>,
    habits: Vec<Habit>,
    /// The judge.
    pub judge: Judge,
}

impl House {
    /// A house for this cast.
    pub fn new(cast: Vec<Character>, judge: Judge) -> Self {
        let habits = vec![Habit::default(); cast.len()];
        Self { cast, habits, judge }
    }

    /// Who lives here.
    pub fn cast(&self) -> &[Character] {
        &self.cast
    }

    /// Whom an address belongs to, the one that a mover has moved to included.
    fn owner(&self, asked: &Asked) -> Option<usize> {
        self.cast.iter().position(|character| match character.quirk {
            Quirk::Moved { host, .. } if asked.host == host => asked.path == character.path,
            Quirk::Carousel => {
                asked.host == character.host && ["/a", "/b", character.path].contains(&asked.path.as_str())
            }
            _ => asked.host == character.host && asked.path == character.path,
        })
    }
}

/// A house that several connections knock at. A plain mutex, because it is held only to compute.
pub type Shared = Arc<Mutex<House>>;

/// Opens the house for a moment. A panic of another holder is no reason to hide what was seen.
pub fn enter(house: &Shared) -> MutexGuard<'_, House> {
    house.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves until it is dropped.
pub async fn serve(ports: Ports, house: Shared, clock: Clock) -> io::Result<()> {
    let port = ports.open()?;
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = ports.open.accept().await?;
        // Many small answers: none may wait for the other side's acknowledgement.
        stream.set_nodelay(true)?;
        let (house, clock) = (house.clone(), clock.clone());
        connections.spawn(async move {
            let service = service_fn(|request| {
                let response = respond(&house, &clock, port, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            // What breaks off, by plan or because the visitor left, is no news.
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
                Reply::robots(pages)
            }
            Some(owner) => answer(&house.cast[owner], &mut house.habits[owner], &asked, at, port)
                .unwrap_or_else(|_| Reply { status: 500, ..Reply::default() }),
            None => Reply::not_found(),
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

fn read(request: &Request<Incoming>) -> (Asked, Bearing) {
    let bytes = |name: HeaderName| request.headers().get(name).map(|value| value.as_bytes().to_vec());
    let text =
        |name| bytes(name).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let host = text(http::header::HOST);
    let asked = Asked {
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

/// Whether, and how far on, a body is about to break off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Breach {
    None,
    /// What there is has yet to be sent.
    Ahead,
    /// It is being sent.
    Now,
}

/// A body that tells when it is out.
#[derive(Debug)]
struct Delivery {
    bytes: Option<Bytes>,
    breach: Breach,
    receipt: Option<Receipt>,
}

impl Delivery {
    /// Signed when the last piece is handed over, which is before it can reach the visitor: an
    /// answer that has been read has left.
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
                // Lets what was handed over go out first: else the visitor would see no answer at
                // all instead of half a one.
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
