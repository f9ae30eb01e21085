//! The daemon with a million sources, measured from outside: `cargo run --release --example million`.
//!
//! Tests of parts do not show the cost of a million sources. This program writes a configuration into
//! its own folder, serves small feeds on loopback, and runs the built daemon as a child process. It
//! prints each measured value with its limit, and ends with an error if a limit is broken. All requests
//! stay on this machine; every wait has a deadline.

mod daemon;
mod folder;
mod logged;
mod parts;
mod report;
mod server;
mod service;
mod window;

use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{ArgAction, Parser, ValueEnum};
use tokio::signal::unix::{SignalKind, signal};

#[derive(Debug, Parser)]
#[command(about = "Measures the daemon with a million sources")]
struct Options {
    /// Sources in the configuration.
    #[arg(long, default_value_t = 1_000_000)]
    sources: usize,
    /// Probes that a step of one second may have. More are due.
    #[arg(long, default_value_t = 1_000)]
    per_step: u32,
    /// Ports that feeds are served on: each is a host of its own. If not given, 4,000 for a million sources, 200 for
    /// fewer.
    #[arg(long)]
    hosts: Option<usize>,
    /// Parts to run, in their usual order; all if none is given. Parts of one run need the same folder.
    #[arg(long = "part", value_enum, value_delimiter = ',')]
    parts: Vec<Part>,
    /// Whether the measured period begins when every source was probed and has a rate.
    #[arg(long, default_value_t = true, action = ArgAction::Set)]
    until_all_probed: bool,
    /// Length of the measured period.
    #[arg(long, default_value_t = 5.0)]
    minutes: f64,
    /// Length of the measured period after the restart.
    #[arg(long, default_value_t = 1.0)]
    again: f64,
    /// Sources that are planned during the refit; at most a tenth of all.
    #[arg(long, default_value_t = 100_000)]
    planned: usize,
    /// Probes that are added to the log before the restart.
    #[arg(long, default_value_t = 10_000_000)]
    logged: u64,
    /// All sources in one file, rather than 10,000 a file.
    #[arg(long)]
    one_file: bool,
    /// Where to work; a temporary folder if not given.
    #[arg(long)]
    folder: Option<PathBuf>,
}

/// A part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The same pace with 1,000 sources.
    Few,
    /// A start with an empty store, until every source was probed, and a measured period.
    Start,
    /// A refit of all sources, with plans for some.
    Refit,
    /// A reload of 1,000 changes.
    Reload,
    /// A start with a long log of probes.
    Restart,
}

impl Part {
    const ALL: [Self; 5] = [Self::Few, Self::Start, Self::Refit, Self::Reload, Self::Restart];

    fn title(self) -> &'static str {
        match self {
            Self::Few => "the same pace with few sources",
            Self::Start => "start with an empty store",
            Self::Refit => "refit of all sources",
            Self::Reload => "reload",
            Self::Restart => "restart with a long log",
        }
    }
}

impl Options {
    fn hosts(&self) -> usize {
        self.hosts.unwrap_or(if self.sources < 1_000_000 { 200 } else { 4_000 })
    }

    fn runs(&self, part: Part) -> bool {
        self.parts.is_empty() || self.parts.contains(&part)
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    let temporary = options.folder.is_none().then(tempfile::tempdir).transpose()?;
    let folder = match (&options.folder, &temporary) {
        (Some(folder), _) => folder.clone(),
        (None, Some(temporary)) => temporary.path().to_owned(),
        (None, None) => bail!("no folder"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let outcome = runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        // The child and the folder are removed after a signal too.
        tokio::select! {
            outcome = async { parts::Run::new(options, &folder).await?.run().await } => outcome,
            _ = tokio::signal::ctrl_c() => bail!("interrupted"),
            _ = terminated.recv() => bail!("terminated"),
        }
    });
    drop(temporary);
    outcome
}
