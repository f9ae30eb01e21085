//! A web server on loopback that does as it is told, also what no decent server does.
//!
//! Written on bare sockets so that requests can be compared byte for byte and answers can break
//! every rule. It answers one request per connection and closes it, unless told to hang on.

#![allow(dead_code, reason = "each test binary uses its own part of this")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tidewatch::clock::{Clock, Stopwatch, real_pause};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use url::Url;

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its place in the order of arrival, from 0.
    pub order: usize,
    /// `GET`
    pub method: String,
    /// Path and query as in the request line.
    pub path: String,
    /// Everything up to and with the empty line.
    pub head: Vec<u8>,
    /// As many bytes after it as its `Content-Length` says.
    pub body: Vec<u8>,
    /// When it had arrived whole, counted from the server's start.
    pub at: Duration,
}

impl Seen {
    /// A header's value, byte for byte; the first if there are several.
    pub fn header(&self, name: &str) -> Option<Vec<u8>> {
        self.head.split(|byte| *byte == b'\n').skip(1).find_map(|line| {
            let colon = line.iter().position(|byte| *byte == b':')?;
            let matches = line[..colon].eq_ignore_ascii_case(name.as_bytes());
            matches.then(|| line[colon + 1..].trim_ascii().to_vec())
        })
    }

    /// The same as text, for headers that are.
    pub fn text(&self, name: &str) -> Option<String> {
        self.header(name).map(|value| String::from_utf8_lossy(&value).into_owned())
    }
}

/// One thing that a server does on a connection.
#[derive(Debug, Clone)]
pub enum Step {
    /// Sends these bytes.
    Send(Vec<u8>),
    /// Sends these bytes one by one with a pause after each.
    Drip(Vec<u8>, Duration),
    /// Sends these bytes over and over until the other side has had enough.
    Forever(Vec<u8>),
    /// Says nothing more, until the other side leaves.
    Stall,
    /// Waits until the test gives the sign.
    Await(Arc<Notify>),
    /// Takes its time.
    Pause(Duration),
}

/// What a server does about one request. The connection is closed after the last step.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    status: u16,
    headers: Vec<u8>,
    body: Vec<u8>,
    steps: Option<Vec<Step>>,
    before: Option<Arc<Notify>>,
    pause: Option<Duration>,
}

impl Reply {
    /// An answer with this status, no body.
    pub fn new(status: u16) -> Self {
        Self { status, ..Self::default() }
    }

    /// 200 with this body.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::new(200).body(body)
    }

    /// A redirect.
    pub fn redirect(status: u16, location: impl AsRef<str>) -> Self {
        Self::new(status).header("Location", location.as_ref())
    }

    /// With one more header, byte for byte.
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        self.headers.extend_from_slice(name.as_bytes());
        self.headers.extend_from_slice(b": ");
        self.headers.extend_from_slice(value.as_ref());
        self.headers.extend_from_slice(b"\r\n");
        self
    }

    /// With this body and its true length.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Answers only once the test gives the sign.
    pub fn after(mut self, sign: Arc<Notify>) -> Self {
        self.before = Some(sign);
        self
    }

    /// Answers only after this long.
    pub fn slowly(mut self, pause: Duration) -> Self {
        self.pause = Some(pause);
        self
    }

    /// No answer that was ever meant to be one: just these steps.
    pub fn raw(steps: Vec<Step>) -> Self {
        Self { steps: Some(steps), ..Self::default() }
    }

    fn into_steps(self) -> Vec<Step> {
        let mut steps: Vec<Step> = self.before.map(Step::Await).into_iter().collect();
        steps.extend(self.pause.map(Step::Pause));
        match self.steps {
            Some(raw) => steps.extend(raw),
            None => {
                let mut bytes = format!("HTTP/1.1 {} Scripted\r\n", self.status).into_bytes();
                bytes.extend_from_slice(&self.headers);
                // A 304 that names a length names that of the document, not its own.
                if self.status != 304 {
                    bytes.extend(format!("Content-Length: {}\r\n", self.body.len()).into_bytes());
                }
                bytes.extend_from_slice(b"Connection: close\r\n\r\n");
                bytes.extend_from_slice(&self.body);
                steps.push(Step::Send(bytes));
            }
        }
        steps
    }
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Seen>,
    connections: usize,
    in_flight: usize,
    high_water: usize,
    /// Orders of requests whose answers were handed over whole.
    answered: Vec<usize>,
    open: usize,
}

type Script = dyn Fn(&Seen) -> Reply + Send + Sync;

struct Shared {
    log: Mutex<Log>,
    arrived: Notify,
    stopwatch: Stopwatch,
    script: Box<Script>,
    /// The clock of the client: it runs while an answer is held back on purpose.
    clock: Option<Clock>,
}

impl Shared {
    fn log(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap()
    }
}

/// A running server. Stops when dropped.
pub struct Web {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: tokio::task::JoinHandle<()>,
}

impl Web {
    /// Starts on 127.0.0.1.
    pub async fn start(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_on(Ipv4Addr::LOCALHOST.into(), script).await
    }

    /// Starts on this address, any free port.
    pub async fn start_on(ip: IpAddr, script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_for(None, ip, script).await
    }

    /// Starts for a client that runs on this clock.
    pub async fn start_for(
        clock: Option<Clock>,
        ip: IpAddr,
        script: impl Fn(&Seen) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            log: Mutex::default(),
            arrived: Notify::new(),
            stopwatch: Stopwatch::start(),
            script: Box::new(script),
            clock,
        });
        let task = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, task }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A URL on this server by its address.
    pub fn url(&self, path: &str) -> Url {
        Url::parse(&format!("http://{}", self.address)).unwrap().join(path).unwrap()
    }

    /// A URL on this server by a name, which somebody has to resolve.
    pub fn url_as(&self, name: &str, path: &str) -> Url {
        Url::parse(&format!("http://{name}:{}", self.address.port())).unwrap().join(path).unwrap()
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Seen> {
        self.shared.log().requests.clone()
    }

    /// How often somebody connected, whether or not a request followed.
    pub fn connections(&self) -> usize {
        self.shared.log().connections
    }

    /// The most requests that were in flight at once.
    pub fn high_water(&self) -> usize {
        self.shared.log().high_water
    }

    /// The orders of the requests whose answers were handed over whole.
    pub fn answered(&self) -> Vec<usize> {
        self.shared.log().answered.clone()
    }

    /// How many requests are in flight.
    pub fn in_flight(&self) -> usize {
        self.shared.log().in_flight
    }

    /// Waits until whatever was sent before has been taken notice of, and nobody is connected.
    pub async fn settled(&self) {
        // Connections are accepted in turn: once this one is served, so are all before it.
        let mut own = TcpStream::connect(self.address).await.unwrap();
        own.write_all(b"GET /.settled HTTP/1.1\r\n\r\n").await.unwrap();
        let _ = own.read_to_end(&mut Vec::new()).await;
        drop(own);
        while self.shared.log().open > 0 {
            real_pause(Duration::from_millis(1)).await;
        }
    }

    /// Stops, and returns when nobody listens any more.
    pub async fn stop(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }

    /// Forgets what was counted so far.
    pub fn forget(&self) {
        let mut log = self.shared.log();
        *log = Log { in_flight: log.in_flight, open: log.open, ..Log::default() };
    }

    /// Waits until this many requests have arrived.
    pub async fn arrived(&self, count: usize) {
        loop {
            let arrived = self.shared.arrived.notified();
            if self.shared.log().requests.len() >= count {
                return;
            }
            arrived.await;
        }
    }
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and the connections with it.
    let mut connections = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { continue };
        {
            let mut log = shared.log();
            log.connections += 1;
            log.open += 1;
        }
        connections.spawn(serve(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// Counts a request as in flight for as long as it lives, also when its task is aborted.
struct InFlight(Arc<Shared>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.log().in_flight -= 1;
    }
}

/// Counts a connection as open for as long as it lives.
struct Open(Arc<Shared>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.log().open -= 1;
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let _open = Open(Arc::clone(&shared));
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\r').next().unwrap()).into_owned();
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if path == "/.settled" {
        return;
    }
    let mut seen = Seen { order: 0, method, path, head, body: Vec::new(), at: Duration::ZERO };
    let length = seen.text("content-length").map_or(0, |length| length.parse().unwrap());
    seen.body.resize(length, 0);
    if stream.read_exact(&mut seen.body).await.is_err() {
        return;
    }
    let seen = {
        let mut log = shared.log();
        seen.at = shared.stopwatch.elapsed();
        seen.order = log.requests.len();
        log.requests.push(seen.clone());
        log.in_flight += 1;
        log.high_water = log.high_water.max(log.in_flight);
        seen
    };
    let in_flight = InFlight(Arc::clone(&shared));
    shared.arrived.notify_waiters();
    let steps = (shared.script)(&seen).into_steps();
    if act(&mut stream, steps, in_flight, shared.clock.as_ref()).await.is_ok() {
        shared.log().answered.push(seen.order);
    }
}

async fn act(
    stream: &mut TcpStream,
    steps: Vec<Step>,
    in_flight: InFlight,
    clock: Option<&Clock>,
) -> std::io::Result<()> {
    let last = steps.len().saturating_sub(1);
    let mut in_flight = Some(in_flight);
    for (at, step) in steps.into_iter().enumerate() {
        let _waits = clock.filter(|_| !matches!(step, Step::Send(_))).map(Clock::waiting);
        match step {
            Step::Send(bytes) => {
                // Over before the client can have read it all: its next request may come at once.
                if at == last {
                    in_flight = None;
                }
                stream.write_all(&bytes).await?;
            }
            Step::Drip(bytes, pause) => {
                for byte in bytes {
                    stream.write_all(&[byte]).await?;
                    real_pause(pause).await;
                }
            }
            Step::Forever(bytes) => loop {
                stream.write_all(&bytes).await?;
            },
            Step::Stall => while stream.read_u8().await.is_ok() {},
            Step::Await(sign) => sign.notified().await,
            Step::Pause(pause) => real_pause(pause).await,
        }
    }
    drop(in_flight);
    stream.shutdown().await
}
