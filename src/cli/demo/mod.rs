//! `tidewatch demo`: the real daemon against sources that it meets on loopback, a week in a minute.
//!
//! Exists so that anyone can see, on a fresh machine and without the internet, what the daemon does
//! and that it keeps its manners. Starts a web server whose sources have characters (`cast`) and
//! publish by a fixed calendar (`world`); runs the daemon on the same accelerated clock, with its
//! real client and a real store; a judge at the server's door counts breaches (`judge`). A second
//! daemon with a house and a store of its own meets the same week with `policy = "uniform"`, for
//! comparison. Knows how these are put together. Must not reach into the daemon: it is given a configuration and a
//! clock, and told to stop.
//!
//! # The report (`--json`)
//! | field | meaning |
//! |---|---|
//! | `fine` | no violation, nothing missed and no burst unnoticed, by either daemon: the exit code is 0 |
//! | `interrupted` | somebody ended the run early; it is judged up to there |
//! | `began`, `ended` | ISO 8601, on the run's clock |
//! | `speed`, `wall_s` | seconds of that clock in a real one; real seconds that it took |
//! | `store` | the SQLite file |
//! | `totals` | `probes`, `requests` (with robots.txt and redirects), `published`, `found`, `missed`, `updates_stored` (rows), `mean_delay_s`, `median_delay_s`, `violations` |
//! | `lateness` | how long after its due time a probe was sent, waits for a busy or resting host included: `median_s`, `p95_s`, `max_s` on the run's clock, `p95_real_ms` in real time |
//! | `sources[]` | `name`, `character`, `state`, `probes`, `published`, `found`, `missed`, `mean_delay_s`, `median_delay_s`, `violations`, and of the daemon that spreads evenly `uniform`: `probes`, `found`, `missed`, `mean_delay_s` |
//! | `comparison` | over the sources that were planned: `sources`, and for `plan` and `uniform` `probes`, `found`, `missed`, `mean_delay_s` |
//! | `bursts[]` | every burst that was noticed, in the order in which they began: `source`, `began`, `ended` (or null), `observed` and `expected` updates, `probes` in it, `by_ttl` of them, and `planned_again`: it is over and a plan asks again |
//! | `bursts_missed[]` | names of sources that had a burst which was not noticed while it was on, or never seen to end; empty where the run is too short or was too slow for its clock to ask that |
//! | `violations[]` | `source`, `at`, `rule`, `detail` |
//!
//! `published` counts what a source published during the run and after the first look at it,
//! `found` what of it is in the store; `missed` is what was published at least twelve hours before
//! the end of the run (or of the source) and is not in the store; the throttling source owes
//! nothing. Delays are from the true moment
//! of publication to the end of the probe that found it, in seconds of the run's clock.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use crate::clock::{Clock, Stopwatch};
use crate::config;
use crate::config::configuration::Config;
use crate::daemon::record::RecordTo;
use crate::daemon::run::{Command, Ended, Setup, run as run_daemon};
use crate::daemon::scheduler::Progress;
use crate::daemon::signals;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Timestamp;

use super::error::CliError;
use super::log;
use super::process::{colours, runtime};

mod bursts;
mod cast;
mod circumstances;
mod judge;
mod manners;
mod report;
mod screen;
mod server;
mod text;
mod world;

use circumstances::Circumstances;
use judge::Judge;
use report::Report;
use server::{House, Ports, Shared, enter};
use world::Calendar;

/// 2026-11-02, a Monday, 00:00 UTC: always the same, so that runs can be compared.
const ORIGIN: Timestamp = Timestamp::from_secs(1_793_577_600);

/// What `demo` is asked.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// How many days pass.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=366))]
    days: u32,
    /// How many times faster than real time.
    #[arg(long, default_value_t = 10_080.0, value_parser = speed)]
    speed: f64,
    /// The store to make; must not exist [default: a file in a new directory for temporary files].
    #[arg(long, value_name = "FILE")]
    store: Option<PathBuf>,
    /// Record what the scheduler is told and does into this file, for `simulate recorded`.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// One JSON document.
    #[arg(long)]
    json: bool,
}

/// Bytes that a recording of the demo may take.
const RECORDED: u64 = 256_000_000;

/// Above this a real millisecond is more than a virtual quarter of an hour, and no probe could
/// ever be in time.
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
/// [`CliError::Found`] when the report, which is printed all the same, is not fine.
pub fn run(arguments: &Args, out: &mut dyn Write) -> Result<(), CliError> {
    // The screen shows what goes on; only what should never happen may come between.
    log::start("error");
    let store = match &arguments.store {
        Some(path) if path.exists() => {
            let path = path.display();
            return Err(CliError::Refused(format!("{path} exists; the demo needs a file of its own")));
        }
        Some(path) => path.clone(),
        None => fresh_directory()?.join("demo.db"),
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

/// Two daemons side by side, each with a house of its own: the one that is shown, and one that spreads
/// the same budgets evenly over the same sources, so that the two can be compared.
async fn perform(arguments: &Args, store: PathBuf) -> Result<Report, CliError> {
    let calendar = Calendar { origin: ORIGIN, days: arguments.days };
    let cast = cast::cast(&calendar);
    let publishing = cast.iter().filter(|character| character.publishes()).cloned().collect();
    let speed = arguments.speed;
    let evenly = store.with_extension("uniform.db");
    let (shown, by_plan) = Stage::set(cast, Policy::Auto, store, speed).await?;
    let (other, spread) = Stage::set(publishing, Policy::Uniform, evenly, speed).await?;

    let (signals_in, mut signals) = mpsc::unbounded_channel();
    signals::listen(signals_in)?;
    let stopwatch = Stopwatch::start();
    let clock = Clock::accelerated(calendar.origin, speed);
    let showing =
        tokio::spawn(screen::show(calendar, clock.clone(), shown.house.clone(), shown.store.clone()));
    // A daemon that is gone says why below.
    let tell = |command| {
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
                tell(command);
            }
            () = &mut time_is_up, if !over => {
                over = true;
                tell(Command::Stop);
            }
        }
    };
    let now = clock.now();
    showing.abort();
    // So that the screen is cleared before anything is printed.
    let _ = showing.await;
    if ended.0? == Ended::Aborted || ended.1? == Ended::Aborted {
        return Err(CliError::Refused("aborted by a second signal".to_owned()));
    }
    let run = Circumstances {
        began: calendar.origin,
        ended: now.min(calendar.end()),
        speed,
        wall_s: stopwatch.elapsed().as_secs_f64(),
        interrupted: interrupted && !over,
    };
    let other = other.report(&run).await?;
    Ok(shown.report(&run).await?.beside(other))
}

/// A house, and what is left of the daemon that watches its sources.
struct Stage {
    store: PathBuf,
    house: Shared,
    commands: mpsc::UnboundedSender<Command>,
}

/// What is about to happen on a stage.
struct Act {
    config: Config,
    ports: Ports,
    house: Shared,
    orders: mpsc::UnboundedReceiver<Command>,
}

impl Act {
    /// Opens the house and runs the daemon until it ends.
    async fn perform(self, clock: &Clock, record: Option<RecordTo>) -> Result<Ended, CliError> {
        let serving = tokio::spawn(server::serve(self.ports, self.house, clock.clone()));
        let (progress, _) = watch::channel(Progress::default());
        let setup = Setup { config: self.config, path: None, clock: clock.clone(), progress, record };
        let ended = run_daemon(setup, self.orders).await;
        serving.abort();
        Ok(ended?)
    }
}

impl Stage {
    async fn set(
        cast: Vec<cast::Character>,
        policy: Policy,
        store: PathBuf,
        speed: f64,
    ) -> Result<(Self, Act), CliError> {
        let ports = Ports::take().await?;
        let text = cast::configuration(&cast, policy, &store, ports.open()?, ports.closed()?);
        // For whoever wants to look at the store with the other commands afterwards.
        std::fs::write(store.with_extension("toml"), &text)?;
        let config = configure(&text)?;
        let budgets = config.sources.iter().map(|source| source.budget).collect();
        let agent = format!("tidewatch/{} (+{})", env!("CARGO_PKG_VERSION"), cast::CONTACT);
        let judge = Judge::new(&cast, budgets, agent, speed);
        let house = Arc::new(Mutex::new(House::new(cast, judge)));
        let (commands, orders) = mpsc::unbounded_channel();
        let act = Act { config, ports, house: house.clone(), orders };
        Ok((Self { store, house, commands }, act))
    }

    async fn report(&self, run: &Circumstances) -> Result<Report, CliError> {
        // A copy, because the report waits for the store and the door may not be held that long.
        let (cast, judge) = {
            let house = enter(&self.house);
            (house.cast().to_vec(), house.judge.clone())
        };
        Ok(Report::draw_up(&cast, &judge, run, &self.store).await?)
    }
}

fn configure(text: &str) -> Result<Config, CliError> {
    let files = [(PathBuf::from("demo.toml"), text.to_owned())];
    config::valid::parse(&files).map_err(|faults| {
        let said: Vec<String> = faults.list().iter().map(|fault| faults.render(fault)).collect();
        CliError::Refused(said.join("\n"))
    })
}

/// A directory that nobody had before, kept after the run.
fn fresh_directory() -> Result<PathBuf, CliError> {
    let parent = std::env::temp_dir();
    let process = std::process::id();
    let name = |attempt| parent.join(format!("tidewatch-demo-{process}-{attempt}"));
    for path in (1..=1000).map(name) {
        match make_private(&path) {
            Ok(()) => return Ok(path),
            // Left by an earlier process of that number.
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(CliError::Refused(format!("{}: {error}", path.display())));
            }
        }
    }
    Err(CliError::Refused(format!("{}: full of earlier demos; use --store", parent.display())))
}

/// Ours alone: others may write to the parent.
fn make_private(path: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().mode(0o700).create(path)
}
