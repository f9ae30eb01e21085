//! The daemon with a million sources, measured from outside:
//! `cargo run --release --example million -- --sources 1000000 --minutes 5`.
//!
//! Tests of parts do not show the cost of a million sources. This program writes a configuration into
//! its own folder, serves small feeds on loopback, and runs the built daemon as a child process. It
//! measures the time until the daemon is ready with an empty and with a full store, its memory, the
//! lateness of its steps, and a reload of a thousand changes. It ends with an error if a limit is
//! broken. All requests stay on this machine; every wait has a deadline.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::clock::{Clock, Stopwatch, patience, real_pause};
use tidewatch_core::time::{Span, Timestamp};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

#[derive(Debug, Parser)]
struct Options {
    /// Sources in the configuration.
    #[arg(long, default_value_t = 1_000_000)]
    sources: usize,
    /// How long the first run is watched.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// How long the run after the restart is watched.
    #[arg(long, default_value_t = 1.0)]
    again: f64,
    /// Probes a step of one second may hold.
    #[arg(long, default_value_t = 200)]
    per_step: u32,
    /// Ports that feeds are served on: each is a host of its own.
    #[arg(long, default_value_t = 1_000)]
    hosts: usize,
    /// All sources in one file, rather than 10,000 a file.
    #[arg(long)]
    one_file: bool,
    /// Where to work; a temporary folder if not given.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// Sources in a file of `sources.d`.
const A_FILE: usize = 10_000;
/// The number of changes of a reload.
const CHANGES: usize = 1_000;
/// A wait that takes longer fails the run.
const DEADLINE: Duration = Duration::from_secs(900);

/// The limits for a million sources.
const READY_WITHIN: Duration = Duration::from_secs(60);
const LARGEST_KB: u64 = 1_500_000;
const LATEST_MS: i64 = 1_000;
const RELOAD_WITHIN: Duration = Duration::from_secs(10);

fn main() -> Result<()> {
    let options = Options::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(measure(options))
}

async fn measure(options: Options) -> Result<()> {
    let program = program()?;
    let temporary = tempfile::tempdir()?;
    let folder = options.folder.clone().unwrap_or_else(|| temporary.path().to_owned());
    std::fs::create_dir_all(&folder)?;
    let asked = Arc::new(AtomicU64::new(0));
    let ports = serve(options.hosts, &asked).await?;
    let world = World { folder, ports, options };
    world.write(None)?;
    let mut report = Report::default();
    report.line(format!("{} sources, {} hosts", world.options.sources, world.ports.len()));

    let mut daemon = Daemon::start(&program, &world)?;
    let ready = daemon.says("watching", DEADLINE).await?;
    report.limit("ready, empty store", ready, READY_WITHIN);
    report.memory("ready", &daemon)?;
    let window = watch(&world, &asked, world.options.minutes).await?;
    report.memory("first run", &daemon)?;
    report.steps("first run", &window, world.options.per_step);

    let began = now();
    world.write(Some(CHANGES))?;
    let stopwatch = Stopwatch::start();
    daemon.signal("HUP")?;
    daemon.says("reloaded", DEADLINE).await?;
    let taken = stopwatch.elapsed();
    report.limit(&format!("reload of {CHANGES} changes"), taken, RELOAD_WITHIN);
    real_pause(Duration::from_secs(3)).await;
    let window = Window::read(&world, began, now(), None).await?;
    report.memory("reload", &daemon)?;
    report.steps("reload", &window, world.options.per_step);
    let summary = world.text("SELECT detail FROM events WHERE kind = 'reloaded' ORDER BY id DESC LIMIT 1");
    report.line(format!("the store says of it: {}", summary.await?));

    let stopwatch = Stopwatch::start();
    daemon.stop().await?;
    report.line(format!("stopped in {:.1} s", stopwatch.elapsed().as_secs_f64()));
    let size = std::fs::metadata(world.store())?.len();
    report.line(format!("store: {} MB", size / 1_000_000));

    let mut daemon = Daemon::start(&program, &world)?;
    let ready = daemon.says("watching", DEADLINE).await?;
    report.limit("ready, from the store", ready, READY_WITHIN);
    report.memory("ready again", &daemon)?;
    let window = watch(&world, &asked, world.options.again).await?;
    report.memory("second run", &daemon)?;
    report.steps("second run", &window, world.options.per_step);
    daemon.stop().await?;
    ensure!(report.broken.is_empty(), "beyond the limit: {}", report.broken.join("; "));
    Ok(())
}

/// The program beside this example, built if it is not there.
fn program() -> Result<PathBuf> {
    let example = std::env::current_exe()?;
    let beside = example.parent().and_then(Path::parent).context("an example stands in a target folder")?;
    let program = beside.join("tidewatch");
    if !program.exists() {
        say(&format!("{} is not built yet: building it", program.display()));
        let built = Command::new("cargo").args(["build", "--release", "--bin", "tidewatch"]).status()?;
        ensure!(built.success() && program.exists(), "build it first: cargo build --release");
    }
    Ok(program)
}

fn now() -> Timestamp {
    Clock::wall().now()
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // A closed output is ignored.
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// The folder that the daemon works in.
struct World {
    folder: PathBuf,
    ports: Vec<u16>,
    options: Options,
}

impl World {
    fn store(&self) -> PathBuf {
        self.folder.join("tidewatch.db")
    }

    fn config(&self) -> PathBuf {
        self.folder.join("tidewatch.toml")
    }

    /// Writes the configuration, with this number of changed sources: four in ten with another budget,
    /// three removed, three new. They are at the head of the first ten files.
    fn write(&self, changes: Option<usize>) -> Result<()> {
        let Options { sources, per_step, one_file, .. } = self.options;
        // All sources are due within `min_spacing`, which is short enough that every step is full.
        let full = u64::from(per_step) * 2;
        let spacing = (sources as u64 / full).clamp(1, 900);
        let mut main = format!(
            "[daemon]\nstore = {:?}\ncontact = \"https://example.org/me\"\n\
             [fleet]\nstep = \"1s\"\nprobes_per_step = {per_step}\nhost_spacing = \"0s\"\n\
             [budget]\nmin_spacing = \"{spacing}s\"\n",
            self.store()
        );
        let beside = self.folder.join("sources.d");
        std::fs::create_dir_all(&beside)?;
        let changes = changes.map(|changes| changes.min(sources / 2));
        for (index, first) in (0..sources).step_by(A_FILE).enumerate() {
            let these = first..(first + A_FILE).min(sources);
            let changed = changes.map_or(0, |changes| changes.div_ceil(10).min(these.len()));
            let changed = if index < 10 { changed } else { 0 };
            let mut text = String::with_capacity(these.len() * 110);
            for (place, number) in these.enumerate() {
                let change = if place < changed { place % 10 } else { 10 };
                let extra = if change < 4 { "budget = { probes = 5, per = \"12h\" }\n" } else { "" };
                let kept = (!(4..7).contains(&change)).then_some("source");
                let added = (7..10).contains(&change).then_some("newcomer");
                let port = self.ports[number % self.ports.len()];
                for name in [kept, added].into_iter().flatten() {
                    let _ = write!(
                        text,
                        "[[source]]\nname = \"{name}-{number}\"\n\
                         url = \"http://127.0.0.1:{port}/{number}.xml\"\nallow_private = true\n{extra}\n"
                    );
                }
            }
            if one_file {
                main.push_str(&text);
            } else {
                std::fs::write(beside.join(format!("{index:04}.toml")), text)?;
            }
        }
        std::fs::write(self.config(), main)?;
        Ok(())
    }

    async fn connection(&self) -> Result<SqliteConnection> {
        Ok(SqliteConnectOptions::new().filename(self.store()).read_only(true).connect().await?)
    }

    async fn text(&self, query: &'static str) -> Result<String> {
        Ok(sqlx::query_scalar(query).fetch_one(&mut self.connection().await?).await?)
    }
}

/// The child process. Killed when dropped.
struct Daemon {
    child: Child,
    started: Stopwatch,
    log_lines: Arc<Mutex<Vec<(String, Duration)>>>,
}

impl Daemon {
    fn start(program: &Path, world: &World) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("run").arg("--config").arg(world.config()).current_dir(&world.folder);
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM"] {
            command.env_remove(name);
        }
        let started = Stopwatch::start();
        let mut child = command.stdin(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let log_lines: Arc<Mutex<Vec<(String, Duration)>>> = Arc::default();
        let lines = BufReader::new(child.stderr.take().context("a pipe was asked for")?).lines();
        let collected = Arc::clone(&log_lines);
        // Ends with the child's standard error.
        std::thread::spawn(move || {
            for line in lines.map_while(std::result::Result::ok) {
                let words = ["watching", "reloaded", "ERROR", "panicked", "WARN"];
                if words.iter().any(|word| line.contains(word)) {
                    collected
                        .lock()
                        .unwrap_or_else(std::sync::PoisonError::into_inner)
                        .push((line, started.elapsed()));
                }
            }
        });
        Ok(Self { child, started, log_lines })
    }

    /// Waits for a line with this word; returns its time since the start.
    async fn says(&mut self, word: &str, deadline: Duration) -> Result<Duration> {
        let stopwatch = Stopwatch::start();
        loop {
            {
                let mut log_lines =
                    self.log_lines.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                let found = log_lines.iter().find(|(line, _)| line.contains(word)).map(|(_, at)| *at);
                for (line, _) in log_lines.drain(..).filter(|(line, _)| line.contains("ERROR")) {
                    say(&format!("the daemon says: {line}"));
                }
                if let Some(at) = found {
                    return Ok(at);
                }
            }
            if let Some(status) = self.child.try_wait()? {
                bail!("the daemon ended ({status}) before it printed `{word}`");
            }
            ensure!(stopwatch.elapsed() < deadline, "the daemon never printed `{word}`");
            real_pause(Duration::from_millis(5)).await;
        }
    }

    fn signal(&self, name: &str) -> Result<()> {
        let pid = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -s \"$0\" \"$1\"", name, &pid]).status()?;
        ensure!(sent.success(), "{name} could not be sent");
        Ok(())
    }

    async fn stop(&mut self) -> Result<()> {
        self.signal("TERM")?;
        let stopwatch = Stopwatch::start();
        while self.child.try_wait()?.is_none() {
            ensure!(stopwatch.elapsed() < Duration::from_secs(60), "the daemon does not stop");
            real_pause(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Resident now and at most, in kB, and seconds of processor time so far.
    fn memory(&self) -> Result<(u64, u64, f64)> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.and_then(|rest| rest.trim_end_matches("kB").trim().parse().ok()).context("no such field")
        };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let ticks: u64 = after_name.split(' ').skip(12).take(2).filter_map(|n| n.parse::<u64>().ok()).sum();
        Ok((field("VmRSS:")?, field("VmHWM:")?, ticks as f64 / 100.0))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = self.started;
    }
}

/// The log of probes in a period.
struct Window {
    /// Its length in seconds.
    steps: usize,
    /// From each step's beginning to the first start at or after it, sorted.
    first: Vec<i64>,
    /// From each step's beginning to the last start in it, sorted.
    last: Vec<i64>,
    /// Steps in which nothing started.
    missed: usize,
    /// Steps with fewer starts than permitted.
    short: usize,
    probes: usize,
    failed: i64,
    /// Requests a second, as the server saw them, where they were counted.
    asked: Option<f64>,
}

/// Lets the daemon run and reads the log of that time.
async fn watch(world: &World, asked: &AtomicU64, minutes: f64) -> Result<Window> {
    let (began, before, stopwatch) = (now(), asked.load(Ordering::Relaxed), Stopwatch::start());
    real_pause(Duration::from_secs_f64(minutes * 60.0)).await;
    let rate = (asked.load(Ordering::Relaxed) - before) as f64 / stopwatch.elapsed().as_secs_f64();
    let ended = now();
    // Probes that have started may not be in the log yet.
    real_pause(Duration::from_secs(2)).await;
    Window::read(world, began, ended, Some(rate)).await
}

impl Window {
    async fn read(world: &World, began: Timestamp, ended: Timestamp, asked: Option<f64>) -> Result<Self> {
        // Whole seconds, with one more after them to find the start that comes next.
        let (from, until) = (began.as_millis() / 1000 + 1, ended.as_millis() / 1000);
        let most = world.options.per_step as usize;
        let mut connection = world.connection().await?;
        let starts: Vec<i64> = sqlx::query_scalar(
            "SELECT started_at FROM probes WHERE started_at >= ? AND started_at < ? ORDER BY started_at",
        )
        .bind(from * 1000)
        .bind((until + 30) * 1000)
        .fetch_all(&mut connection)
        .await?;
        let failed =
            sqlx::query_scalar("SELECT count(*) FROM probes WHERE started_at >= ? AND outcome = 'failed'")
                .bind(from * 1000)
                .fetch_one(&mut connection)
                .await?;
        let mut window = Self {
            steps: usize::try_from((until - from).max(0))?,
            first: Vec::new(),
            last: Vec::new(),
            missed: 0,
            short: 0,
            probes: 0,
            failed,
            asked,
        };
        for step in (from..until).map(|second| second * 1000) {
            let at = starts.partition_point(|&start| start < step);
            let end = starts.partition_point(|&start| start < step + 1000);
            window.probes += end - at;
            window.missed += usize::from(end == at);
            window.short += usize::from(end - at < most);
            window.first.push(starts.get(at).map_or(i64::MAX, |start| start - step));
            if end > at {
                window.last.push(starts[end - 1] - step);
            }
        }
        window.first.sort_unstable();
        window.last.sort_unstable();
        Ok(window)
    }
}

/// The quantile at this share.
fn quantile(sorted: &[i64], share: f64) -> i64 {
    let index = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(index.clamp(1, sorted.len().max(1)) - 1).copied().unwrap_or(-1)
}

/// Prints lines, and collects the broken limits.
#[derive(Default)]
struct Report {
    broken: Vec<String>,
}

impl Report {
    fn line(&self, line: String) {
        say(&line);
    }

    fn limit(&mut self, what: &str, taken: Duration, limit: Duration) {
        say(&format!("{what}: {:.2} s", taken.as_secs_f64()));
        if taken > limit {
            self.broken.push(format!("{what} took {:.1} s", taken.as_secs_f64()));
        }
    }

    fn memory(&mut self, what: &str, daemon: &Daemon) -> Result<()> {
        let (resident, most, seconds) = daemon.memory()?;
        say(&format!(
            "{what}: {} MB resident, {} MB at most; {seconds:.1} s of processor time",
            resident / 1000,
            most / 1000
        ));
        if most > LARGEST_KB {
            self.broken.push(format!("{what}: {} MB resident at most", most / 1000));
        }
        Ok(())
    }

    fn steps(&mut self, what: &str, window: &Window, per_step: u32) {
        let Window { steps, first, last, missed, short, probes, failed, asked } = window;
        let late = |list: &[i64]| {
            format!("{} / {} / {}", quantile(list, 0.5), quantile(list, 0.99), quantile(list, 1.0))
        };
        let at_server =
            asked.map_or_else(String::new, |asked| format!(", {asked:.1} requests/s at the server"));
        say(&format!(
            "{what}: {steps} steps, {:.1} probes/s in the log{at_server}, {failed} failed",
            *probes as f64 / (*steps).max(1) as f64
        ));
        say(&format!(
            "{what}: a step's first start comes {} ms late (p50 / p99 / max), its last {}; {missed} steps without \
             a probe, {short} with less than {per_step}",
            late(first),
            late(last)
        ));
        if quantile(first, 0.99) > LATEST_MS || *missed > 0 {
            let p99 = quantile(first, 0.99);
            self.broken.push(format!("{what}: steps {p99} ms late (p99), {missed} missed"));
        }
    }
}

/// Serves a feed at every path of this number of ports.
async fn serve(hosts: usize, asked: &Arc<AtomicU64>) -> Result<Vec<u16>> {
    let answers = Arc::new(Answers::new());
    let mut ports = Vec::with_capacity(hosts);
    for _ in 0..hosts {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        ports.push(listener.local_addr()?.port());
        let (asked, answers) = (Arc::clone(asked), Arc::clone(&answers));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer_requests(stream, Arc::clone(&asked), Arc::clone(&answers)));
            }
        });
    }
    // A folder that is used again should get the same configuration.
    ports.sort_unstable();
    Ok(ports)
}

/// The two answers of the server.
struct Answers {
    feed: Vec<u8>,
    unchanged: Vec<u8>,
}

const ETAG: &str = "\"one\"";

impl Answers {
    fn new() -> Self {
        let now = now();
        let mut body = "<?xml version=\"1.0\"?><rss version=\"2.0\"><channel><title>A feed</title>\
             <link>http://feed.example/</link>"
            .to_owned();
        for item in 1..=10 {
            let at = now - Span::from_hours(5 * item);
            let date = httpdate::fmt_http_date(
                std::time::UNIX_EPOCH + Duration::from_millis(at.as_millis().unsigned_abs()),
            );
            let _ = write!(
                body,
                "<item><guid isPermaLink=\"false\">item-{item}</guid><title>Number {item}</title>\
                 <link>http://feed.example/{item}</link><pubDate>{date}</pubDate></item>"
            );
        }
        body.push_str("</channel></rss>");
        let feed = format!(
            "HTTP/1.1 200 OK\r\ncontent-type: application/rss+xml\r\netag: {ETAG}\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let unchanged = format!("HTTP/1.1 304 Not Modified\r\netag: {ETAG}\r\n\r\n");
        Self { feed: feed.into_bytes(), unchanged: unchanged.into_bytes() }
    }
}

/// Answers requests until the client closes the connection.
async fn answer_requests(mut stream: TcpStream, asked: Arc<AtomicU64>, answers: Arc<Answers>) {
    let mut request = Vec::with_capacity(1024);
    let idle = Duration::from_secs(120);
    loop {
        let Ok(Ok(read)) = patience(idle, stream.read_buf(&mut request)).await else { return };
        if read == 0 || request.len() > 64 * 1024 {
            return;
        }
        if !request.ends_with(b"\r\n\r\n") {
            continue;
        }
        asked.fetch_add(1, Ordering::Relaxed);
        let conditional = request.windows(14).any(|part| part.eq_ignore_ascii_case(b"if-none-match:"));
        request.clear();
        let answer = if conditional { &answers.unchanged } else { &answers.feed };
        if stream.write_all(answer).await.is_err() {
            return;
        }
    }
}
