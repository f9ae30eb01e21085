//! The folder of a daemon: its configuration, its store, and what earlier parts of the run left.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions, SqliteConnection};
use tidewatch::clock::Stopwatch;

use crate::daemon::DaemonProcess;

/// Sources in a file of `sources.d`.
const A_FILE: usize = 10_000;
/// Changes of a reload are in this many files.
const CHANGED_FILES: usize = 10;
const DAY_S: u64 = 24 * 3600;

/// What is configured besides the sources as they are at first.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Changed sources: four in ten have another budget, three are removed, three are new.
    pub changes: usize,
    /// Sources with the policy `plan`.
    pub planned: usize,
    /// The number of refits that were caused. Each changes `[rate] borrow`, which makes no difference to sources
    /// without a group, except that all are fitted again.
    pub refits: u32,
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
    /// Probes that a step of one second may have.
    pub per_step: u32,
    /// All sources in one file.
    pub one_file: bool,
}

impl DaemonFolder {
    /// The time in which every source can be probed once.
    pub fn round(&self) -> Duration {
        Duration::from_secs((self.sources as u64).div_ceil(u64::from(self.per_step)))
    }

    /// The file of the store.
    pub fn store(&self) -> PathBuf {
        self.path.join("tidewatch.db")
    }

    /// The configuration file.
    pub fn config(&self) -> PathBuf {
        self.path.join("tidewatch.toml")
    }

    /// Writes the configuration.
    pub fn write(&self, setting: Setting) -> Result<()> {
        let mut main = self.settings(setting);
        let beside = self.path.join("sources.d");
        std::fs::create_dir_all(&beside)?;
        for (index, first) in (0..self.sources).step_by(A_FILE).enumerate() {
            let numbers = first..(first + A_FILE).min(self.sources);
            let changed = if index < CHANGED_FILES { setting.changes.div_ceil(CHANGED_FILES) } else { 0 };
            let text = self.source_list(numbers, changed, setting.planned);
            if self.one_file {
                main.push_str(&text);
            } else {
                std::fs::write(beside.join(format!("{index:04}.toml")), text)?;
            }
        }
        Ok(std::fs::write(self.config(), main)?)
    }

    fn settings(&self, setting: Setting) -> String {
        // A quarter more probes are due than a step may have, so that every step is full.
        let due_a_day = u64::from(self.per_step) * DAY_S * 5 / 4;
        let budget = due_a_day.div_ceil(self.sources as u64).max(1);
        let borrow = if setting.refits.is_multiple_of(2) { "blend" } else { "never" };
        format!(
            "[daemon]\nstore = {:?}\ncontact = \"https://example.org/me\"\n\
             [fleet]\nstep = \"1s\"\nprobes_per_step = {}\nhost_spacing = \"0s\"\n\
             [budget]\nprobes = {budget}\nper = \"1d\"\nmin_spacing = \"0s\"\n\
             [rate]\nborrow = \"{borrow}\"\n",
            self.store(),
            self.per_step,
        )
    }

    /// These sources; the first of them are changed.
    fn source_list(&self, numbers: std::ops::Range<usize>, changed: usize, planned: usize) -> String {
        let mut text = String::with_capacity(numbers.len() * 130);
        let planned_every = self.sources.checked_div(planned).unwrap_or(usize::MAX);
        for (place, number) in numbers.enumerate() {
            let change = if place < changed { place % 10 } else { 10 };
            let extra = if change < 4 { "budget = { probes = 5, per = \"12h\" }\n" } else { "" };
            let policy = if number % planned_every == planned_every - 1 { "plan" } else { "uniform" };
            let kept = (!(4..7).contains(&change)).then_some("source");
            let added = (7..10).contains(&change).then_some("newcomer");
            let port = self.ports[number % self.ports.len()];
            for name in [kept, added].into_iter().flatten() {
                let _ = write!(
                    text,
                    "[[source]]\nname = \"{name}-{number}\"\nurl = \"http://127.0.0.1:{port}/{number}.xml\"\n\
                     allow_private = true\npolicy = \"{policy}\"\n{extra}"
                );
            }
        }
        text
    }

    /// A connection that reads the store.
    pub async fn connection(&self) -> Result<SqliteConnection> {
        Ok(SqliteConnectOptions::new().filename(self.store()).read_only(true).connect().await?)
    }

    /// A number from the store; the query has these parameters.
    pub async fn number(&self, query: &'static str, parameters: &[i64]) -> Result<i64> {
        let mut query = sqlx::query_scalar(query);
        for parameter in parameters {
            query = query.bind(parameter);
        }
        Ok(query.fetch_one(&mut self.connection().await?).await?)
    }

    /// Waits until a number in the store is at least this; returns the time that this takes.
    pub async fn reaches(
        &self,
        daemon: &mut DaemonProcess,
        (query, parameters): (&'static str, &[i64]),
        wanted: i64,
        deadline: Duration,
    ) -> Result<Duration> {
        let stopwatch = Stopwatch::start();
        loop {
            let reading = Stopwatch::start();
            let found = self.number(query, parameters).await?;
            if found >= wanted {
                return Ok(stopwatch.elapsed());
            }
            ensure!(
                stopwatch.elapsed() < deadline,
                "{found} instead of {wanted} after the deadline: {query}"
            );
            // Reading takes a hundredth of the time at most.
            let pause =
                (reading.elapsed() * 100).clamp(Duration::from_millis(200), Duration::from_secs(60));
            daemon.run_for(pause).await?;
        }
    }
}

/// What the parts of a run that were done leave for the others.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunState {
    /// The number of sources.
    pub sources: usize,
    /// Probes that a step may have.
    pub per_step: u32,
    /// All sources in one file.
    pub one_file: bool,
    /// The server's ports.
    pub ports: Vec<u16>,
    /// The configuration as it was last written.
    pub setting: Setting,
    /// Processor time per probe in µs, with all sources.
    pub cost_us: Option<f64>,
    /// The same with few sources.
    pub few_cost_us: Option<f64>,
}

const STATE_FILE: &str = "state.json";

impl RunState {
    /// The state of the parts that were run in this folder, if there were any.
    pub fn read(path: &Path) -> Result<Option<Self>> {
        let file = path.join(STATE_FILE);
        if !file.exists() {
            return Ok(None);
        }
        let text = std::fs::read_to_string(&file)?;
        Ok(Some(serde_json::from_str(&text).with_context(|| format!("{} cannot be read", file.display()))?))
    }

    /// Stores it.
    pub fn write(&self, path: &Path) -> Result<()> {
        Ok(std::fs::write(path.join(STATE_FILE), serde_json::to_string(self)?)?)
    }
}
