//! A period of a run: the lateness of its steps by the log of probes, and what a probe costs.

use std::time::Duration;

use anyhow::Result;
use tidewatch::clock::Clock;
use tidewatch_core::time::Timestamp;

use crate::daemon::DaemonProcess;
use crate::folder::DaemonFolder;
use crate::server::Server;

/// The log of probes in a period.
#[derive(Debug)]
pub struct Window {
    /// Its length in seconds.
    pub steps: usize,
    /// From each step's begin to the first start at or after it in ms, sorted.
    pub first: Vec<i64>,
    /// From each step's begin to the last start in it in ms, sorted.
    pub last: Vec<i64>,
    /// Steps in which nothing started.
    pub missed: usize,
    /// Probes that started.
    pub probes: usize,
    /// Probes that failed.
    pub failed: i64,
    /// Processor time of the daemon per request in µs.
    pub cost_us: Option<f64>,
}

/// The time after which the probes of a period are in the log.
const LOGGED_AFTER: Duration = Duration::from_secs(2);

/// The begin of a period.
#[derive(Debug, Clone, Copy)]
pub struct WindowStart {
    /// When it began.
    pub at: Timestamp,
    cpu_seconds: f64,
    requests: u64,
}

impl WindowStart {
    /// Begins a period now.
    pub fn new(daemon: &DaemonProcess, server: &Server) -> Result<Self> {
        let (requests, at) = (server.requests(), Clock::wall().now());
        Ok(Self { at, cpu_seconds: daemon.usage()?.cpu_seconds, requests })
    }

    /// Ends the period, and reads its log.
    pub async fn finish(
        self,
        folder: &DaemonFolder,
        daemon: &mut DaemonProcess,
        server: &Server,
    ) -> Result<Window> {
        let (ended, requests) = (Clock::wall().now(), server.requests() - self.requests);
        let cpu_seconds = daemon.usage()?.cpu_seconds - self.cpu_seconds;
        daemon.run_for(LOGGED_AFTER).await?;
        let window = Window::read(folder, self.at, ended).await?;
        let cost_us = (requests > 0).then(|| cpu_seconds * 1e6 / requests as f64);
        Ok(Window { cost_us, ..window })
    }
}

impl Window {
    /// Reads the log of a period.
    pub async fn read(folder: &DaemonFolder, began: Timestamp, ended: Timestamp) -> Result<Self> {
        // Whole seconds, with some after them to find the start that comes next.
        let (from, until) = (began.as_millis() / 1000 + 1, ended.as_millis() / 1000);
        let mut connection = folder.connection().await?;
        let starts: Vec<i64> = sqlx::query_scalar(
            "SELECT started_at FROM probes WHERE started_at >= ? AND started_at < ? ORDER BY started_at",
        )
        .bind(from * 1000)
        .bind((until + 30) * 1000)
        .fetch_all(&mut connection)
        .await?;
        let failed = sqlx::query_scalar(
            "SELECT count(*) FROM probes WHERE started_at >= ? AND started_at < ? AND outcome = 'failed'",
        )
        .bind(from * 1000)
        .bind(until * 1000)
        .fetch_one(&mut connection)
        .await?;
        let mut window = Self {
            steps: usize::try_from((until - from).max(0))?,
            first: Vec::new(),
            last: Vec::new(),
            missed: 0,
            probes: 0,
            failed,
            cost_us: None,
        };
        for step in (from..until).map(|second| second * 1000) {
            let at = starts.partition_point(|&start| start < step);
            let end = starts.partition_point(|&start| start < step + 1000);
            window.probes += end - at;
            window.missed += usize::from(end == at);
            window.first.push(starts.get(at).map_or(i64::MAX, |start| start - step));
            if end > at {
                window.last.push(starts[end - 1] - step);
            }
        }
        window.first.sort_unstable();
        window.last.sort_unstable();
        Ok(window)
    }

    /// Probes that started, by the log.
    pub fn per_second(&self) -> f64 {
        self.probes as f64 / self.steps.max(1) as f64
    }
}

/// The quantile at this share; of nothing it is NaN.
pub fn quantile(sorted: &[i64], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share).ceil() as usize;
    sorted.get(index.clamp(1, sorted.len().max(1)) - 1).map_or(f64::NAN, |&value| value as f64)
}
