//! `tidewatch demo`: runs the real daemon against local sources, a week in about two minutes.
//!
//! Shows, without the internet, what the daemon does and that it is polite. A local web server has sources
//! with special behaviour (`demo_sources`) and a fixed publication calendar (`calendar`). The daemon runs on the
//! same accelerated clock, with its real client and a real store. Every request is checked at the server
//! (`politeness_check`). A second daemon with its own server and store runs the same week with `policy = "uniform"`, for
//! comparison. Must not use the internals of the daemon: it gets a configuration, a clock and a stop command.
//!
//! # The report (`--json`)
//! | field | meaning |
//! |---|---|
//! | `fine` | both daemons: no violation, no update missed, no burst undetected; the exit code is then 0 |
//! | `interrupted` | a signal ended the run early; the report covers the time up to then |
//! | `began`, `ended` | ISO 8601, on the run's clock |
//! | `speed`, `wall_s` | seconds of that clock per real second; duration in real seconds |
//! | `store` | the SQLite file |
//! | `totals` | `probes`, `requests` (with robots.txt and redirects), `published`, `found`, `missed`, `updates_stored` (rows), `mean_delay_s`, `median_delay_s`, `violations` |
//! | `lateness` | time from the due time of a probe to its start, delays by a busy or closed host included: `median_s`, `p95_s`, `max_s` on the run's clock, `p95_real_ms` in real time |
//! | `sources[]` | `name`, `character`, `state`, `probes`, `published`, `found`, `missed`, `mean_delay_s`, `median_delay_s`, `violations`; `uniform` has `probes`, `found`, `missed`, `mean_delay_s` of the second daemon |
//! | `comparison` | sums over the sources with a plan: `sources`; `probes`, `found`, `missed`, `mean_delay_s` for `plan` and `uniform` |
//! | `bursts[]` | every detected burst, by start: `source`, `began`, `ended` (or null), `observed` and `expected` updates, `probes` in it, `by_ttl` of them, and `planned_again`: it has ended and a plan is in use again |
//! | `bursts_missed[]` | sources with a burst that was not detected in time or whose end was not detected; empty if the run is too short, or too slow for its clock |
//! | `violations[]` | `source`, `at`, `rule`, `detail` |
//!
//! `published` counts updates during the run and after the first probe of the source. `found` counts those of
//! them in the store. `missed` counts those that are not in the store although they were published at least
//! twelve hours before the end of the run (or of the source). The source that sends 429 is exempt. Delays run
//! from publication to the end of the probe that found the update, in seconds of the run's clock.

use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock::{Clock, Stopwatch};
use crate::config;
use crate::config::configuration::Config;
use crate::daemon::messages::DaemonCommand;
use crate::daemon::record::RecordTo;
use crate::daemon::run::{DaemonSetup, Ended, run as run_daemon};
use crate::daemon::scheduler::Progress;
use crate::daemon::signals;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Timestamp;
use tidewatch_fixtures::command::lasting_folder;

use super::error::CliError;
use super::log;
use super::process::{colours, runtime};

mod bursts;
mod calendar;
mod demo_sources;
mod politeness_check;
mod report;
mod run_facts;
mod screen;
mod server;
mod server_behaviour;
mod text;

use calendar::DemoCalendar;
use politeness_check::PolitenessCheck;
use report::DemoReport;
use run_facts::RunFacts;
use server::{DemoServer, Ports, SharedServer, lock};

/// 2026-11-02, a Monday, 00:00 UTC. Fixed, so that runs are comparable.
const ORIGIN: Timestamp = Timestamp::from_secs(1_793_577_600);

/// Options of `demo`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Number of simulated days.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=366))]
    days: u32,
    /// Speed relative to real time.
    #[arg(long, default_value_t = 10_080.0, value_parser = speed)]
    speed: f64,
    /// Store to create; must not exist [default: a file in a new temporary directory].
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Record the scheduler's events and actions into this file, for `simulate recorded`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Print one JSON document.
    #[arg(long)]
    json: bool,
}

/// Largest size of a recording, in bytes.
const RECORDED: u64 = 256_000_000;

/// At a higher speed a real millisecond exceeds a quarter of an hour of the run, too long for any probe
/// to be on time.
const FASTEST: f64 = 1_000_000.0;

fn speed(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(speed) if (1.0..=FASTEST).contains(&speed) => Ok(speed),
        _ => Err(format!("expected a number from 1 to {FASTEST}")),
    }
}

/// Runs the demo and prints its report.
///
/// # Errors
/// [`CliError::Found`] if the report is not fine; the report is printed anyway.
pub fn run(arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    // The progress display uses the terminal, so only errors are logged.
    let _log = log::start("error");
    let store = match &arguments.store {
        Some(path) if path.exists() => {
            let path = path.display();
            return Err(CliError::Refused(format!("{path} exists; the demo needs a file of its own")));
        }
        Some(path) => path.clone(),
        None => lasting_folder("tidewatch-demo-")?.join("demo.db"),
    };
    let runtime = runtime()?;
    let report = runtime.block_on(perform(arguments, store));
    runtime.shutdown_timeout(Duration::from_millis(100));
    let report = report?;
    if arguments.json {
        report.print_json(out)?;
    } else {
        report.print(out, colours())?;
    }
    out.flush()?;
    if report.is_fine() { Ok(()) } else { Err(CliError::Found) }
}

/// Runs two daemons side by side, each with its own server: the displayed one, and one that spreads the
/// same budgets evenly.
async fn perform(arguments: &Args, store: PathBuf) -> Result<DemoReport, CliError> {
    let calendar = DemoCalendar { origin: ORIGIN, days: arguments.days };
    let sources = demo_sources::demo_sources(&calendar);
    let publishing = sources.iter().filter(|source| source.publishes()).cloned().collect();
    let speed = arguments.speed;
    let evenly = store.with_extension("uniform.db");
    let (shown, by_plan) = DemoSetup::new(sources, Policy::Auto, store, speed).await?;
    let (other, spread) = DemoSetup::new(publishing, Policy::Uniform, evenly, speed).await?;

    let (signals_in, mut signals) = mpsc::unbounded_channel();
    signals::listen(signals_in)?;
    let stopwatch = Stopwatch::start();
    // Paced, so that a busy machine prolongs the run and changes no result.
    let clock = Clock::paced(calendar.origin, speed);
    let showing =
        tokio::spawn(screen::show(calendar, clock.clone(), shown.server.clone(), shown.store.clone()));
    // If a daemon has ended, its result below has the reason.
    let send = |command| {
        for stage in [&shown, &other] {
            let _ = stage.commands.send(command);
        }
    };
    let record = arguments.record.clone().map(|path| RecordTo { path, limit: RECORDED });
    let mut both = std::pin::pin!(async {
        tokio::join!(by_plan.perform(&clock, record), spread.perform(&clock, None))
    });
    let mut interrupted = false;
    let mut time_is_up = std::pin::pin!(clock.sleep_until(calendar.end()));
    let mut over = false;
    let ended = loop {
        tokio::select! {
            ended = &mut both => break ended,
            Some(command) = signals.recv() => {
                interrupted = true;
                send(command);
            }
            () = &mut time_is_up, if !over => {
                over = true;
                send(DaemonCommand::Stop);
            }
        }
    };
    let now = clock.now();
    showing.abort();
    // Waits until the display is cleared, before anything is printed.
    let _ = showing.await;
    if ended.0? == Ended::Aborted || ended.1? == Ended::Aborted {
        return Err(CliError::Refused("aborted by a second signal".to_owned()));
    }
    let run = RunFacts {
        began: calendar.origin,
        ended: now.min(calendar.end()),
        speed,
        wall_s: stopwatch.elapsed().as_secs_f64(),
        interrupted: interrupted && !over,
    };
    let other = other.report(&run).await?;
    Ok(shown.report(&run).await?.beside(other))
}

/// A server and store, and the command channel of the daemon that probes it.
struct DemoSetup {
    store: PathBuf,
    server: SharedServer,
    commands: mpsc::UnboundedSender<DaemonCommand>,
}

/// Everything needed to run one daemon and its server.
struct DemoRun {
    config: Config,
    ports: Ports,
    server: SharedServer,
    commands: mpsc::UnboundedReceiver<DaemonCommand>,
}

impl DemoRun {
    /// Starts the server and runs the daemon until it ends.
    async fn perform(self, clock: &Clock, record: Option<RecordTo>) -> Result<Ended, CliError> {
        let _answering = server::start(self.ports, self.server, clock.clone())?;
        let (progress, _) = watch::channel(Progress::default());
        let setup = DaemonSetup { config: self.config, path: None, clock: clock.clone(), progress, record };
        Ok(run_daemon(setup, self.commands).await?)
    }
}

impl DemoSetup {
    async fn new(
        sources: Vec<demo_sources::DemoSource>,
        policy: Policy,
        store: PathBuf,
        speed: f64,
    ) -> Result<(Self, DemoRun), CliError> {
        let ports = Ports::take().await?;
        let text = demo_sources::configuration(&sources, policy, &store, ports.open()?, ports.closed()?);
        // Kept for other commands on the store.
        std::fs::write(store.with_extension("toml"), &text)?;
        let config = configure(&text)?;
        let budgets = config.sources.iter().map(|source| source.budget).collect();
        let agent = format!("tidewatch/{} (+{})", env!("CARGO_PKG_VERSION"), demo_sources::CONTACT);
        let check = PolitenessCheck::new(&sources, budgets, agent, speed);
        let server = Arc::new(Mutex::new(DemoServer::new(sources, check)));
        let (commands, received) = mpsc::unbounded_channel();
        let run = DemoRun { config, ports, server: server.clone(), commands: received };
        Ok((Self { store, server, commands }, run))
    }

    async fn report(&self, run: &RunFacts) -> Result<DemoReport, CliError> {
        // Copied, because the report reads the store and the lock must not be held that long.
        let (sources, check) = {
            let server = lock(&self.server);
            (server.sources().to_vec(), server.check.clone())
        };
        Ok(DemoReport::build(&sources, &check, run, &self.store).await?)
    }
}

fn configure(text: &str) -> Result<Config, CliError> {
    let files = [(PathBuf::from("demo.toml"), text.to_owned())];
    config::valid::parse(&files).map_err(|faults| {
        let lines: Vec<String> = faults.list().iter().map(|fault| faults.render(fault)).collect();
        CliError::Refused(lines.join("\n"))
    })
}
