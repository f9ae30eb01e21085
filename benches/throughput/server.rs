//! The web server of the bench, in a process of its own, so that its processor time is not counted.
//!
//! One port per host, one thread, kept connections, no compression. Its standard input takes the modes by
//! name; every line is answered with the number of requests so far. It ends with its input.

use std::io::{BufRead, Write as _};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use tidewatch::clock::Clock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::documents::{Documents, FeedState};

/// What the server answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerMode {
    /// 304 to every conditional request.
    NotModified,
    /// 200 with the same feed.
    Unchanged,
    /// 200 with one more new item at each request.
    NewItem,
}

impl AnswerMode {
    const ALL: [Self; 3] = [Self::NotModified, Self::Unchanged, Self::NewItem];

    /// The command that selects it.
    pub fn command(self) -> &'static str {
        match self {
            Self::NotModified => "not-modified",
            Self::Unchanged => "unchanged",
            Self::NewItem => "new-item",
        }
    }
}

/// The number of requests so far.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct RequestCounts {
    /// All requests.
    pub requests: u64,
    /// Those answered with 304.
    pub not_modified: u64,
}

struct SharedState {
    mode: AtomicU8,
    requests: AtomicU64,
    not_modified: AtomicU64,
    documents: Documents,
    feeds: Vec<Mutex<FeedState>>,
}

/// Serves until standard input ends. The first line of its output is the list of ports.
pub fn run(hosts: usize, paths: usize) -> Result<()> {
    let now = seconds();
    let state = Arc::new(SharedState {
        mode: AtomicU8::new(0),
        requests: AtomicU64::new(0),
        not_modified: AtomicU64::new(0),
        documents: Documents::new(),
        feeds: (0..paths).map(|_| Mutex::new(FeedState::new(now))).collect(),
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut ports = Vec::with_capacity(hosts);
        for _ in 0..hosts {
            let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
            ports.push(listener.local_addr()?.port());
            tokio::spawn(accept(listener, Arc::clone(&state)));
        }
        print_line(&serde_json::to_string(&ports)?)?;
        let (ended, end) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || ended.send(obey(&state)));
        end.await.context("the thread that reads commands ended")?
    })
}

fn obey(state: &SharedState) -> Result<()> {
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        if let Some(mode) = AnswerMode::ALL.iter().position(|mode| mode.command() == line) {
            state.mode.store(mode as u8, Ordering::Relaxed);
        }
        print_line(&serde_json::to_string(&RequestCounts {
            requests: state.requests.load(Ordering::Relaxed),
            not_modified: state.not_modified.load(Ordering::Relaxed),
        })?)?;
    }
    Ok(())
}

fn print_line(line: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    Ok(out.flush()?)
}

fn seconds() -> u64 {
    Clock::wall().now().as_millis().unsigned_abs() / 1000
}

async fn accept(listener: TcpListener, state: Arc<SharedState>) {
    while let Ok((stream, _)) = listener.accept().await {
        let _ = stream.set_nodelay(true);
        tokio::spawn(answer_requests(stream, Arc::clone(&state)));
    }
}

/// Answers requests until the client closes the connection.
async fn answer_requests(mut stream: TcpStream, state: Arc<SharedState>) {
    let mut request = Vec::with_capacity(1024);
    let mut answer = Vec::with_capacity(12_000);
    loop {
        match stream.read_buf(&mut request).await {
            Ok(read) if read > 0 && request.len() < 64 * 1024 => {}
            _ => return,
        }
        // Clients wait for the answer before the next request.
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        answer.clear();
        state.answer(&request, &mut answer);
        request.clear();
        if stream.write_all(&answer).await.is_err() {
            return;
        }
    }
}

impl SharedState {
    fn answer(&self, request: &[u8], answer: &mut Vec<u8>) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let path = path(request);
        let Some(feed) = path.and_then(|path| self.feeds.get(path)) else {
            answer.extend_from_slice(b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n");
            return;
        };
        let mut feed = feed.lock().unwrap_or_else(PoisonError::into_inner);
        let mode = AnswerMode::ALL[usize::from(self.mode.load(Ordering::Relaxed))];
        let name = b"if-none-match:";
        let conditional = request.windows(name.len()).any(|part| part.eq_ignore_ascii_case(name));
        match mode {
            AnswerMode::NotModified if conditional => {
                self.not_modified.fetch_add(1, Ordering::Relaxed);
                let head = format!("HTTP/1.1 304 Not Modified\r\netag: {}\r\n\r\n", Documents::etag(&feed));
                answer.extend_from_slice(head.as_bytes());
                return;
            }
            AnswerMode::NewItem => feed.add_item(seconds()),
            AnswerMode::NotModified | AnswerMode::Unchanged => {}
        }
        self.documents.write_answer(answer, path.unwrap_or_default(), &feed);
    }
}

/// The number in `GET /123.xml`.
fn path(request: &[u8]) -> Option<usize> {
    let rest = request.strip_prefix(b"GET /")?;
    let end = rest.iter().position(|byte| !byte.is_ascii_digit())?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}
