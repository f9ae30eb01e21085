//! The web server: a small feed at every path of every port. Each port is a host of its own.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tidewatch::clock::{Clock, patience};
use tidewatch_core::time::Span;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Ports below those that the system gives to outgoing connections.
const PORTS: std::ops::Range<u16> = 10_000..32_000;

/// A connection without a request is closed after this time. The daemon closes its own sooner.
const IDLE: Duration = Duration::from_secs(120);

/// The feed's version.
const ETAG: &str = "\"one\"";

/// A running server. It ends with the process.
#[derive(Debug)]
pub struct Server {
    /// Its ports, ascending.
    pub ports: Vec<u16>,
    state: Arc<ServerState>,
}

#[derive(Debug)]
struct ServerState {
    /// The number of requests so far.
    requests: AtomicU64,
    /// `max-age` of a feed in seconds; 0 for none. An answer with 304 has none.
    max_age_s: AtomicU64,
    /// The text of the feed.
    feed: String,
    /// The answer to a conditional request.
    unchanged: String,
}

impl Server {
    /// Serves on the ports of an earlier run, or on this number of free ones.
    pub async fn start(earlier: Option<&[u16]>, hosts: usize) -> Result<Self> {
        let state = Arc::new(ServerState::new());
        let mut ports = Vec::with_capacity(hosts);
        for port in earlier.map_or_else(|| PORTS.collect(), <[u16]>::to_vec) {
            if earlier.is_none() && ports.len() == hosts {
                break;
            }
            let listener = match TcpListener::bind(("127.0.0.1", port)).await {
                Ok(listener) => listener,
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse && earlier.is_none() => {
                    continue;
                }
                Err(error) => bail!("port {port} cannot be served: {error}"),
            };
            ports.push(port);
            let state = Arc::clone(&state);
            tokio::spawn(async move {
                // An error here ends the run: the daemon's probes of this host fail.
                while let Ok((stream, _)) = listener.accept().await {
                    tokio::spawn(answer_requests(stream, Arc::clone(&state)));
                }
            });
        }
        ensure!(ports.len() >= hosts.min(1), "no port is free");
        ensure!(earlier.is_some() || ports.len() == hosts, "only {} ports are free", ports.len());
        Ok(Self { ports, state })
    }

    /// The number of requests so far.
    pub fn requests(&self) -> u64 {
        self.state.requests.load(Ordering::Relaxed)
    }

    /// Sets how long a feed may not be requested again after it was answered as a whole.
    pub fn set_max_age(&self, max_age: Duration) {
        self.state.max_age_s.store(max_age.as_secs(), Ordering::Relaxed);
    }
}

/// Raises the soft limit of open files to the hard one: a connection is a socket here and one in the daemon.
pub fn raise_descriptor_limit(hosts: usize) -> Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
        .context("the limit of open files cannot be raised")?;
    // A port, an idle connection, and one that replaces it.
    let needed = 3 * hosts as u64 + 1_000;
    if let Some(maximum) = maximum {
        ensure!(maximum >= needed, "{hosts} hosts need {needed} open files; the limit is {maximum}");
    }
    Ok(())
}

impl ServerState {
    fn new() -> Self {
        let now = Clock::wall().now();
        let mut feed = "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>A feed</title>\
             <link>http://feed.example/</link>"
            .to_owned();
        for item in 1..=10 {
            let at = now - Span::from_hours(5 * item);
            let date = httpdate::fmt_http_date(
                std::time::UNIX_EPOCH + Duration::from_millis(at.as_millis().unsigned_abs()),
            );
            let _ = write!(
                feed,
                "<item><guid isPermaLink=\"false\">item-{item}</guid><title>Number {item}</title>\
                 <link>http://feed.example/{item}</link><pubDate>{date}</pubDate></item>"
            );
        }
        feed.push_str("</channel></rss>");
        let unchanged = format!("HTTP/1.1 304 Not Modified\r\netag: {ETAG}\r\n\r\n");
        Self { requests: AtomicU64::new(0), max_age_s: AtomicU64::new(0), feed, unchanged }
    }

    fn answer(&self, request: &[u8]) -> Cow<'_, str> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        if request.windows(14).any(|part| part.eq_ignore_ascii_case(b"if-none-match:")) {
            return Cow::Borrowed(&self.unchanged);
        }
        let freshness = match self.max_age_s.load(Ordering::Relaxed) {
            0 => String::new(),
            seconds => format!("cache-control: max-age={seconds}\r\n"),
        };
        Cow::Owned(format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/rss+xml\r\netag: {ETAG}\r\n{freshness}\
             content-length: {}\r\n\r\n{}",
            self.feed.len(),
            self.feed
        ))
    }
}

/// Answers requests until the client closes the connection.
async fn answer_requests(mut stream: TcpStream, state: Arc<ServerState>) {
    let mut request = Vec::with_capacity(1024);
    loop {
        let Ok(Ok(read)) = patience(IDLE, stream.read_buf(&mut request)).await else { return };
        if read == 0 || request.len() > 64 * 1024 {
            return;
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        if stream.write_all(state.answer(&request).as_bytes()).await.is_err() {
            return;
        }
        request.clear();
    }
}
