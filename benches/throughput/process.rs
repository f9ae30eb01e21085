//! Child processes, and what `/proc` says of them: processor time, memory, context switches.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tidewatch::clock::Stopwatch;

/// A role of this program in a process of its own, which answers each line with a line. Killed when dropped.
#[derive(Debug)]
pub struct RoleProcess {
    child: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl RoleProcess {
    /// Starts this program with these arguments.
    pub fn start(arguments: &[String]) -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let input = child.stdin.take().context("a pipe was asked for")?;
        let output = BufReader::new(child.stdout.take().context("a pipe was asked for")?);
        let (lines, answers) = channel();
        // Ends with the child's output.
        std::thread::spawn(move || {
            output.lines().map_while(std::result::Result::ok).all(|line| lines.send(line).is_ok())
        });
        Ok(Self { child, input, answers })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line.
    pub fn answer<T: DeserializeOwned>(&self, deadline: Duration) -> Result<T> {
        let line = self.answers.recv_timeout(deadline).context("a child process gives no answer")?;
        Ok(serde_json::from_str(&line)?)
    }

    /// Sends a line and waits for the answer.
    pub fn ask<T: DeserializeOwned>(&mut self, command: &str, deadline: Duration) -> Result<T> {
        writeln!(self.input, "{command}")?;
        self.input.flush()?;
        self.answer(deadline)
    }
}

impl Drop for RoleProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processor time of a process so far, and its memory now.
#[derive(Debug, Clone, Copy)]
pub struct ProcessUsage {
    /// User and system time of all threads, also of those that ended.
    pub cpu: Duration,
    /// Resident memory in kB.
    pub resident_kb: u64,
}

/// Ticks of the kernel's accounts in a second, on every Linux that runs on servers.
const TICKS: f64 = 100.0;

impl ProcessUsage {
    /// Reads it.
    pub fn of(pid: u32) -> Result<Self> {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        // utime and stime; the state is the first field after the name.
        let times = after_name.split_ascii_whitespace().skip(11).take(2);
        let ticks: u64 = times.filter_map(|text| text.parse::<u64>().ok()).sum();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status"))?;
        let resident_kb = field(&status, "VmRSS:").context("no VmRSS")?;
        Ok(Self { cpu: Duration::from_secs_f64(ticks as f64 / TICKS), resident_kb })
    }
}

fn field(status: &str, name: &str) -> Option<u64> {
    let rest = status.lines().find_map(|line| line.strip_prefix(name))?;
    rest.trim_end_matches("kB").trim().parse().ok()
}

/// What a process did in a period.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Measurement {
    /// Probes.
    pub probes: u64,
    /// Length of the period.
    pub seconds: f64,
    /// Processor time, user and system.
    pub cpu_seconds: f64,
    /// Voluntary context switches of all threads.
    pub switches: u64,
}

impl Measurement {
    /// Probes per second of processor time.
    pub fn per_cpu_second(&self) -> f64 {
        self.probes as f64 / self.cpu_seconds
    }

    /// Both periods together.
    pub fn and(&self, other: &Self) -> Self {
        Self {
            probes: self.probes + other.probes,
            seconds: self.seconds + other.seconds,
            cpu_seconds: self.cpu_seconds + other.cpu_seconds,
            switches: self.switches + other.switches,
        }
    }
}

/// Measures a process from its start until it is finished.
#[derive(Debug)]
pub struct Meter {
    pid: u32,
    before: ProcessUsage,
    stopwatch: Stopwatch,
    /// Closed to end the thread that samples.
    stop: Sender<()>,
    switches: JoinHandle<Result<u64>>,
}

/// Time between two samples of a process's threads.
const SAMPLED_EVERY: Duration = Duration::from_millis(200);

impl Meter {
    /// Begins to measure.
    pub fn start(pid: u32) -> Result<Self> {
        let mut counter = SwitchCounter::start(pid)?;
        let (stop, stopped) = channel::<()>();
        let switches = std::thread::spawn(move || {
            while stopped.recv_timeout(SAMPLED_EVERY) == Err(RecvTimeoutError::Timeout) {
                counter.sample()?;
            }
            counter.sample()
        });
        Ok(Self { pid, before: ProcessUsage::of(pid)?, stopwatch: Stopwatch::start(), stop, switches })
    }

    /// Ends the period, in which the process did this number of probes.
    pub fn finish(self, probes: u64) -> Result<Measurement> {
        let seconds = self.stopwatch.elapsed().as_secs_f64();
        let cpu = ProcessUsage::of(self.pid)?.cpu.saturating_sub(self.before.cpu);
        drop(self.stop);
        let switches = self.switches.join().map_err(|_| anyhow!("the thread that samples panicked"))??;
        Ok(Measurement { probes, seconds, cpu_seconds: cpu.as_secs_f64(), switches })
    }
}

/// Counts voluntary context switches of all threads. A thread's count is lost when it ends, so it must be
/// sampled often; switches after the last sample of an ended thread are missing.
struct SwitchCounter {
    pid: u32,
    /// By thread: the count at the beginning, and at the last sample.
    threads: BTreeMap<u32, (u64, u64)>,
}

impl SwitchCounter {
    fn start(pid: u32) -> Result<Self> {
        let threads = counts(pid)?.map(|(thread, count)| (thread, (count, count))).collect();
        Ok(Self { pid, threads })
    }

    /// Reads all threads; returns the switches since the beginning.
    fn sample(&mut self) -> Result<u64> {
        for (thread, count) in counts(self.pid)? {
            // New threads began with zero.
            self.threads.entry(thread).or_default().1 = count;
        }
        Ok(self.threads.values().map(|(first, last)| last.saturating_sub(*first)).sum())
    }
}

fn counts(pid: u32) -> Result<impl Iterator<Item = (u32, u64)>> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(threads.filter_map(|thread| {
        let path = thread.ok()?.path();
        let number = path.file_name()?.to_str()?.parse().ok()?;
        // A thread may have ended since it was listed.
        let status = std::fs::read_to_string(path.join("status")).ok()?;
        Some((number, field(&status, "voluntary_ctxt_switches:")?))
    }))
}
