//! The daemon against a bare loop over the same libraries: `cargo bench --bench throughput`.
//!
//! Three processes on loopback: a server, the bare loop (reqwest, feed-rs, SQLite), and the built daemon.
//! For each case it prints the probes per second of processor time of both, their ratio, and the context
//! switches and SQL statements of the daemon. The server's time is not counted. All requests stay on this
//! machine; every wait has a deadline.

mod bare;
mod daemon;
mod documents;
mod process;
mod report;
mod runs;
mod server;
#[path = "../../examples/million/service.rs"]
mod service;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Parser, ValueEnum};

use daemon::Pace;
use report::Report;
use server::AnswerMode;

#[derive(Debug, Parser)]
#[command(about = "Compares the daemon with a bare loop over the same libraries")]
struct Options {
    /// Sources in the configuration.
    #[arg(long, default_value_t = 10_000)]
    sources: usize,
    /// Ports that feeds are served on: each is a host of its own.
    #[arg(long, default_value_t = 200)]
    hosts: usize,
    /// Cases to run; all if none is given.
    #[arg(long = "case", value_enum)]
    cases: Vec<Case>,
    /// Length of each measurement.
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Probes of the daemon per second if they are answered with 304.
    #[arg(long, default_value_t = 2_000)]
    rate_304: u32,
    /// Probes of the daemon per second if they are answered with 200.
    #[arg(long, default_value_t = 1_000)]
    rate_200: u32,
    /// Sources in the run that counts SQL statements; 0 leaves it out.
    #[arg(long, default_value_t = 2_000)]
    statement_sources: usize,
    /// Numbers of sources at which memory is measured, besides `--sources`.
    #[arg(long, value_delimiter = ',', default_value = "1000,100000")]
    memory: Vec<usize>,
    /// What the measured daemon logs, as `TIDEWATCH_LOG`.
    #[arg(long, default_value = "info")]
    log: String,
    /// Run the bare loop in one thread. Without it, it has as many as the daemon: one per core.
    #[arg(long)]
    bare_in_one_thread: bool,
    /// Do not run the bare loop.
    #[arg(long)]
    no_bare: bool,
    /// Do not run the daemon.
    #[arg(long)]
    no_daemon: bool,
    /// Print a JSON document.
    #[arg(long)]
    json: bool,
    /// Where to work; a temporary folder if not given.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Given by `cargo bench`.
    #[arg(long, hide = true)]
    bench: bool,
    /// What this process is; used by the bench itself.
    #[arg(long, hide = true, value_enum)]
    role: Option<Role>,
    #[arg(long, hide = true, value_delimiter = ',')]
    ports: Vec<u16>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Role {
    Server,
    Bare,
}

/// What the server answers, and what was seen before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
enum Case {
    /// An empty store, and all sources due at once.
    FirstContact,
    /// Every answer is 304.
    #[value(name = "304")]
    NotModified,
    /// Every answer is 200 with the same feed.
    Unchanged,
    /// Every answer is 200 with one new item.
    NewItem,
}

impl Case {
    /// Those after the first contact.
    const REPEATED: [Self; 3] = [Self::NotModified, Self::Unchanged, Self::NewItem];

    fn title(self) -> &'static str {
        match self {
            Self::FirstContact => "first contact",
            Self::NotModified => "304",
            Self::Unchanged => "200 unchanged",
            Self::NewItem => "200 with a new item",
        }
    }

    fn mode(self) -> AnswerMode {
        match self {
            Self::FirstContact | Self::NotModified => AnswerMode::NotModified,
            Self::Unchanged => AnswerMode::Unchanged,
            Self::NewItem => AnswerMode::NewItem,
        }
    }

    /// The outcome of these probes in the store.
    fn outcome(self) -> &'static str {
        match self {
            Self::NotModified => "not_modified",
            Self::Unchanged => "unchanged",
            // The items of a first contact are no updates.
            Self::FirstContact => "unchanged",
            Self::NewItem => "updated",
        }
    }
}

impl Options {
    fn runs(&self, case: Case) -> bool {
        self.cases.is_empty() || self.cases.contains(&case)
    }

    fn rate(&self, case: Case) -> u32 {
        if case == Case::NotModified { self.rate_304 } else { self.rate_200 }
    }

    fn pace(&self, case: Case) -> Pace {
        Pace::PerSecond { slots: self.rate(case), most: self.rate_304.max(self.rate_200) }
    }
}

fn main() -> Result<()> {
    let options = Options::parse();
    ensure!(options.hosts > 0 && options.sources >= options.hosts, "as many sources as hosts, at least");
    match options.role {
        Some(Role::Server) => return server::run(options.hosts, options.sources),
        Some(Role::Bare) => {
            let store = options.folder.unwrap_or_default();
            return bare::run(&options.ports, options.sources, &store, options.bare_in_one_thread);
        }
        None => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report: Report = runtime.block_on(runs::all(&options))?;
    report.print(options.json)
}
