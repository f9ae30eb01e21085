//! The daemon as a child process: its configuration, its log, its store.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::clock::{Stopwatch, real_pause};

use crate::service;

/// Sources in a file of `sources.d`.
const A_FILE: usize = 10_000;

/// How the sources are probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pace {
    /// All at once, and then not for half an hour.
    FirstContact,
    /// At the beginning of each second as many as there are slots. More sources are due than have slots.
    PerSecond {
        /// The slots of a second.
        slots: u32,
        /// The slots at the fastest pace of the run, to which budgets fit. They stay the same, because
        /// sources whose budget is changed are not due for a while.
        most: u32,
    },
}

/// The folder of a daemon, and what it watches.
#[derive(Debug)]
pub struct DaemonFolder {
    /// The folder.
    pub path: PathBuf,
    /// The server's ports, each a host of its own.
    pub ports: Vec<u16>,
    /// The number of sources.
    pub sources: usize,
}

impl DaemonFolder {
    fn store(&self) -> PathBuf {
        self.path.join("tidewatch.db")
    }

    fn config(&self) -> PathBuf {
        self.path.join("tidewatch.toml")
    }

    /// Writes the source list.
    pub fn write_sources(&self) -> Result<()> {
        let beside = self.path.join("sources.d");
        std::fs::create_dir_all(&beside)?;
        for (index, first) in (0..self.sources).step_by(A_FILE).enumerate() {
            let mut text = String::new();
            for number in first..(first + A_FILE).min(self.sources) {
                let port = self.ports[number % self.ports.len()];
                let _ = write!(
                    text,
                    "[[source]]\nname = \"source-{number}\"\nurl = \"http://127.0.0.1:{port}/{number}.xml\"\n\
                     allow_private = true\npolicy = \"uniform\"\n"
                );
            }
            std::fs::write(beside.join(format!("{index:04}.toml")), text)?;
        }
        Ok(())
    }

    /// Writes the settings.
    pub fn write_settings(&self, pace: Pace) -> Result<()> {
        let (slots, an_hour) = match pace {
            Pace::FirstContact => (self.sources, 2),
            // A quarter more are due than have slots.
            Pace::PerSecond { slots, most } => (slots as usize, 4500 * most as usize / self.sources),
        };
        let text = format!(
            "[daemon]\nstore = {:?}\ncontact = \"https://example.org/me\"\n\
             [fleet]\nstep = \"1s\"\nprobes_per_step = {slots}\nhost_spacing = \"0s\"\n\
             [budget]\nprobes = {}\nper = \"1h\"\nmin_spacing = \"0s\"\n",
            self.store(),
            an_hour.max(1)
        );
        Ok(std::fs::write(self.config(), text)?)
    }

    /// A number from the store.
    pub async fn number(&self, query: &'static str) -> Result<i64> {
        let options = SqliteConnectOptions::new().filename(self.store()).read_only(true);
        let mut connection: SqliteConnection = options.connect().await?;
        Ok(sqlx::query_scalar(query).fetch_one(&mut connection).await?)
    }

    /// Waits until nearly each source was probed after this row. As there are fewer slots than sources are due, some
    /// without updates may wait for long.
    pub async fn probed_after(
        &self,
        daemon: &mut DaemonProcess,
        last: i64,
        deadline: Duration,
    ) -> Result<()> {
        let stopwatch = Stopwatch::start();
        let options = SqliteConnectOptions::new().filename(self.store()).read_only(true);
        loop {
            let mut connection: SqliteConnection = options.connect().await?;
            let probed: i64 =
                sqlx::query_scalar("SELECT count(DISTINCT source_id) FROM probes WHERE id > ?")
                    .bind(last)
                    .fetch_one(&mut connection)
                    .await?;
            if 100 * probed >= 99 * i64::try_from(self.sources)? {
                return Ok(());
            }
            daemon.check()?;
            ensure!(stopwatch.elapsed() < deadline, "{probed} sources were probed before the deadline");
            real_pause(Duration::from_millis(500)).await;
        }
    }

    /// The outcomes of the probes after this row.
    pub async fn outcomes_after(&self, last: i64) -> Result<BTreeMap<String, i64>> {
        let options = SqliteConnectOptions::new().filename(self.store()).read_only(true);
        let mut connection: SqliteConnection = options.connect().await?;
        let rows: Vec<(String, i64)> =
            sqlx::query_as("SELECT outcome, count(*) FROM probes WHERE id > ? GROUP BY outcome")
                .bind(last)
                .fetch_all(&mut connection)
                .await?;
        Ok(rows.into_iter().collect())
    }
}

/// What the daemon printed.
#[derive(Debug, Default)]
struct LogSummary {
    /// Statements by their first words.
    statements: BTreeMap<String, u64>,
    /// Errors, and whether it is ready.
    errors: Vec<String>,
    ready: bool,
}

/// A running daemon. Killed when dropped.
#[derive(Debug)]
pub struct DaemonProcess {
    child: Child,
    log: Arc<Mutex<LogSummary>>,
}

impl DaemonProcess {
    /// Starts it with this filter for its log and the environment of the systemd unit, for a first contact with all
    /// sources.
    pub fn start(folder: &DaemonFolder, log_filter: &str) -> Result<Self> {
        folder.write_settings(Pace::FirstContact)?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidewatch"));
        command.arg("run").arg("--config").arg(folder.config()).current_dir(&folder.path);
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM"] {
            command.env_remove(name);
        }
        command.env("TIDEWATCH_LOG", log_filter).env("NO_COLOR", "1").envs(service::environment());
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let lines = BufReader::with_capacity(1 << 16, child.stderr.take().context("a pipe was asked for")?);
        let log: Arc<Mutex<LogSummary>> = Arc::default();
        let collected = Arc::clone(&log);
        // Ends with the child's standard error.
        std::thread::spawn(move || {
            lines.lines().map_while(std::result::Result::ok).for_each(|line| locked(&collected).add(&line));
        });
        Ok(Self { child, log })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The statements logged so far, by their first words.
    pub fn statements(&self) -> BTreeMap<String, u64> {
        locked(&self.log).statements.clone()
    }

    /// Waits until the daemon is ready.
    pub async fn ready(&mut self, deadline: Duration) -> Result<()> {
        let stopwatch = Stopwatch::start();
        while !locked(&self.log).ready {
            self.check()?;
            ensure!(stopwatch.elapsed() < deadline, "the daemon is not ready in time");
            real_pause(Duration::from_millis(2)).await;
        }
        Ok(())
    }

    /// An error if the daemon ended or logged one.
    pub fn check(&mut self) -> Result<()> {
        if let Some(error) = locked(&self.log).errors.first() {
            bail!("the daemon says: {error}");
        }
        match self.child.try_wait()? {
            Some(status) => bail!("the daemon ended: {status}"),
            None => Ok(()),
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("a process has a number")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Stops it in order.
    pub async fn stop(mut self) -> Result<()> {
        self.signal(Signal::TERM)?;
        let stopwatch = Stopwatch::start();
        while self.child.try_wait()?.is_none() {
            ensure!(stopwatch.elapsed() < Duration::from_secs(60), "the daemon does not stop");
            real_pause(Duration::from_millis(20)).await;
        }
        Ok(())
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn locked(log: &Mutex<LogSummary>) -> MutexGuard<'_, LogSummary> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl LogSummary {
    fn add(&mut self, line: &str) {
        if line.contains(" rows_affected=") {
            let words = line.split("summary=\"").nth(1).and_then(|rest| rest.split('"').next());
            *self.statements.entry(words.unwrap_or_default().to_owned()).or_default() += 1;
        } else if line.contains(" ERROR ") || line.contains("panicked") {
            self.errors.push(line.to_owned());
        }
        self.ready |= line.contains("watching");
    }
}

/// Waits until a number in the store is at least this.
pub async fn reaches(
    folder: &DaemonFolder,
    daemon: &mut DaemonProcess,
    query: &'static str,
    wanted: i64,
    deadline: Duration,
) -> Result<()> {
    let stopwatch = Stopwatch::start();
    loop {
        let found = folder.number(query).await?;
        if found >= wanted {
            return Ok(());
        }
        daemon.check()?;
        ensure!(stopwatch.elapsed() < deadline, "{found} instead of {wanted} after the deadline: {query}");
        real_pause(Duration::from_millis(50)).await;
    }
}

/// A new folder inside this one.
pub fn folder(inside: &Path, name: &str, ports: &[u16], sources: usize) -> Result<DaemonFolder> {
    let path = inside.join(name);
    std::fs::create_dir_all(&path)?;
    let folder = DaemonFolder { path, ports: ports.to_vec(), sources };
    folder.write_sources()?;
    Ok(folder)
}
