//! The daemon as a child process: its log, its memory, its processor time.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tidewatch::clock::{Stopwatch, real_pause};

use crate::folder::DaemonFolder;
use crate::report::say;
use crate::service;

/// A wait for a start or a reload that takes longer fails the run.
const DEADLINE: Duration = Duration::from_secs(900);

/// The same for a stop.
const STOP_DEADLINE: Duration = Duration::from_secs(60);

/// What the daemon logged.
#[derive(Debug, Default)]
struct LogSummary {
    /// Time from the start until it was ready.
    ready: Option<Duration>,
    /// The number of reloads that were applied.
    reloads: usize,
    /// The first error.
    error: Option<String>,
}

/// A running daemon. Killed when dropped.
#[derive(Debug)]
pub struct DaemonProcess {
    child: Child,
    log: Arc<Mutex<LogSummary>>,
}

/// Memory and processor time of a process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessUsage {
    /// Resident now, in MB.
    pub resident_mb: f64,
    /// Resident at most since the start, in MB.
    pub peak_mb: f64,
    /// User and system time of all threads so far, in seconds.
    pub cpu_seconds: f64,
}

/// Ticks of the kernel's accounts in a second, on every Linux that runs on servers.
const TICKS: f64 = 100.0;

impl DaemonProcess {
    /// Starts it in this folder, with the environment of the systemd unit.
    pub fn start(program: &Path, folder: &DaemonFolder) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg("run").arg("--config").arg(folder.config()).current_dir(&folder.path);
        for name in ["NOTIFY_SOCKET", "WATCHDOG_USEC", "JOURNAL_STREAM"] {
            command.env_remove(name);
        }
        command.env("TIDEWATCH_LOG", "info").env("NO_COLOR", "1").envs(service::environment());
        let stopwatch = Stopwatch::start();
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stderr.take().context("a pipe was asked for")?).lines();
        let log: Arc<Mutex<LogSummary>> = Arc::default();
        let collected = Arc::clone(&log);
        // Ends with the child's standard error.
        std::thread::spawn(move || {
            for line in lines.map_while(std::result::Result::ok) {
                locked(&collected).add(line, stopwatch.elapsed());
            }
        });
        Ok(Self { child, log })
    }

    /// Waits until it is ready; returns the time since its start.
    pub async fn ready(&mut self) -> Result<Duration> {
        self.wait_for("that it is ready", |log| log.ready).await
    }

    /// Reloads the configuration; returns the time until the reload is applied.
    pub async fn reload(&mut self) -> Result<Duration> {
        let (stopwatch, before) = (Stopwatch::start(), locked(&self.log).reloads);
        self.signal(Signal::HUP)?;
        self.wait_for("a reload", |log| (log.reloads > before).then(|| stopwatch.elapsed())).await
    }

    async fn wait_for<T>(&mut self, what: &str, found: impl Fn(&LogSummary) -> Option<T>) -> Result<T> {
        let stopwatch = Stopwatch::start();
        loop {
            if let Some(found) = found(&locked(&self.log)) {
                return Ok(found);
            }
            self.check()?;
            ensure!(stopwatch.elapsed() < DEADLINE, "the daemon did not log {what} within the deadline");
            real_pause(Duration::from_millis(5)).await;
        }
    }

    /// An error if the daemon ended or logged one.
    pub fn check(&mut self) -> Result<()> {
        if let Some(error) = &locked(&self.log).error {
            bail!("the daemon logged an error: {error}");
        }
        match self.child.try_wait()? {
            Some(status) => bail!("the daemon ended: {status}"),
            None => Ok(()),
        }
    }

    /// Lets it run for this time, and checks that it does.
    pub async fn run_for(&mut self, time: Duration) -> Result<()> {
        let stopwatch = Stopwatch::start();
        while let Some(left) = time.checked_sub(stopwatch.elapsed()).filter(|left| !left.is_zero()) {
            self.check()?;
            real_pause(left.min(Duration::from_secs(1))).await;
        }
        self.check()
    }

    fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.child.id())?).context("a process has a number")?;
        Ok(kill_process(pid, signal)?)
    }

    /// Stops it in order; returns the time that this takes.
    pub async fn stop(mut self) -> Result<Duration> {
        self.signal(Signal::TERM)?;
        let stopwatch = Stopwatch::start();
        while self.child.try_wait()?.is_none() {
            ensure!(stopwatch.elapsed() < STOP_DEADLINE, "the daemon does not stop");
            real_pause(Duration::from_millis(20)).await;
        }
        Ok(stopwatch.elapsed())
    }

    /// Its memory and processor time.
    pub fn usage(&self) -> Result<ProcessUsage> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let megabytes = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kb: Option<f64> = line.and_then(|rest| rest.trim_end_matches("kB").trim().parse().ok());
            kb.map(|kb| kb / 1000.0).with_context(|| format!("no {name}"))
        };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        // utime and stime; the state is the first field after the name.
        let times = after_name.split_ascii_whitespace().skip(11).take(2);
        let ticks: f64 = times.filter_map(|text| text.parse::<f64>().ok()).sum();
        let (resident_mb, peak_mb) = (megabytes("VmRSS:")?, megabytes("VmHWM:")?);
        Ok(ProcessUsage { resident_mb, peak_mb, cpu_seconds: ticks / TICKS })
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
    fn add(&mut self, line: String, at: Duration) {
        if line.contains(" WARN ") {
            say(&format!("the daemon logs: {line}"));
        } else if line.contains(" ERROR ") || line.contains("panicked") {
            self.error.get_or_insert(line);
        } else if line.contains("watching") {
            self.ready.get_or_insert(at);
        } else if line.contains("reloaded") {
            self.reloads += 1;
        }
    }
}

/// The program beside this example, built if it is not there.
pub fn program() -> Result<PathBuf> {
    let example = std::env::current_exe()?;
    let beside = example.parent().and_then(Path::parent).context("an example is in a target folder")?;
    let program = beside.join("tidewatch");
    if !program.exists() {
        say(&format!("{} is not built yet: building it", program.display()));
        let built = Command::new("cargo").args(["build", "--release", "--bin", "tidewatch"]).status()?;
        ensure!(built.success() && program.exists(), "build it first: cargo build --release");
    }
    Ok(program)
}
