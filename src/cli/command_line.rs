//! The command line: options, and which command they lead to.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use tidewatch_core::time::Span;

use super::configured::load;
use super::error::CliError;
use super::files::read_input;
use super::{
    check, deliveries, demo, explain, export, garden, import, matches, measures, plan, probe, replay,
    rhythm, run, simulate, status,
};

/// What every command has in common, shown below the help and in the manual page.
const AFTER: &str = "\
Exit codes: 0 fine; 1 the command found faults; 2 wrong usage; 69 the store or the network is \
unavailable; 78 bad configuration.

$TIDEWATCH_LOG sets what is logged: error, warn, info (default) or debug. $NO_COLOR switches \
colours off.";

/// Watches many feeds and web pages, politely, and logs what changed when.
#[derive(Debug, Parser)]
#[command(name = "tidewatch", version, arg_required_else_help = true, max_term_width = 100, after_help = AFTER)]
pub struct Cli {
    /// The configuration; else ./tidewatch.toml, else /etc/tidewatch/tidewatch.toml.
    /// `sources.d/*.toml` beside it is read too.
    #[arg(long, short, global = true, env = "TIDEWATCH_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon in the foreground. SIGHUP re-reads the configuration, SIGTERM drains and ends.
    Run(run::Args),
    /// Check the configuration; print every fault as file:line:col with the line.
    Check,
    /// Show the real daemon at work: a week of loopback sources in about a minute.
    Demo(demo::Args),
    /// Show every source: state, last and next probe, why then, budget left, error.
    Status {
        /// Show how well probes were spent over the time up to now, such as 7d: how many found
        /// something, how many were in vain or failed, how long updates went unseen.
        #[arg(long, value_name = "DURATION", value_parser = measures::length)]
        period: Option<Span>,
        /// One JSON document; --period adds to it.
        #[arg(long)]
        json: bool,
    },
    /// Say why the next probe of a source is when it is.
    Explain {
        /// The source's name.
        source: String,
        /// One JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show a source's weekly rhythm as a heat map.
    Rhythm {
        /// The source's name.
        source: String,
        /// One JSON document.
        #[arg(long)]
        json: bool,
        /// Draw it into this file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Compute a schedule of probes: for a source, or from a rate file.
    Plan(Box<plan::args::Args>),
    /// Probe a source now, once and politely, if the gate allows.
    Probe(probe::Args),
    /// Show what rules would catch among the updates that are stored.
    Match(matches::Args),
    /// Show what was told to whom, what waits and what was given up; `retry` tries again.
    Deliveries(deliveries::Args),
    /// Try out schedules in a simulated world, without configuration, network or store.
    #[command(subcommand)]
    Simulate(simulate::Command),
    /// Show what a capacity costs: every source in time against the least work, as a Pareto front.
    Garden(Box<garden::ask::Args>),
    /// Play the store's log again: other policies with as many probes, other budgets, and what half the
    /// delay would take.
    Replay(replay::Args),
    /// Turn an OPML file into source TOML on stdout.
    Import {
        /// The OPML file; `-` reads standard input.
        file: PathBuf,
    },
    /// Write the configured sources as OPML to stdout.
    Export,
    /// Print the manual page, for `man -l -` or for installing.
    Man,
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
}

/// Runs one command line.
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Result<(), CliError> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let cli = match Cli::try_parse_from(&arguments) {
        Ok(cli) => cli,
        Err(error) => {
            error.print()?;
            return if error.use_stderr() { Err(CliError::Usage(String::new())) } else { Ok(()) };
        }
    };
    let mut out = std::io::stdout().lock();
    let path = cli.config.as_deref();
    match cli.command {
        Command::Run(arguments) => run::run(path, &arguments),
        Command::Check => match check::run(path, &mut out) {
            Ok(true) => Ok(()),
            Ok(false) => Err(CliError::Found),
            Err(error) => Err(match error.downcast::<std::io::Error>() {
                Ok(error) => CliError::Io(error),
                Err(error) => CliError::Refused(format!("{error:#}")),
            }),
        },
        Command::Demo(arguments) => demo::run(&arguments, &mut out),
        Command::Status { period, json } => status::run(&load(path)?, json, period, &mut out),
        Command::Explain { source, json } => explain::run(&load(path)?, &source, json, &mut out),
        Command::Rhythm { source, json, svg } => {
            rhythm::run::run(&load(path)?, &source, json, svg.as_deref(), &mut out)
        }
        Command::Plan(arguments) => plan::run(&arguments, path, &mut out),
        Command::Probe(arguments) => probe::run(&load(path)?, &arguments, &mut out),
        Command::Match(arguments) => matches::run(&load(path)?, &arguments, &mut out),
        Command::Deliveries(arguments) => deliveries::run(&load(path)?, &arguments, &mut out),
        Command::Simulate(command) => {
            simulate::run(&command, arguments.get(1..).unwrap_or_default(), &mut out)
        }
        Command::Garden(arguments) => garden::run(&arguments, path, &mut out),
        Command::Replay(arguments) => replay::run(&load(path)?, &arguments, &mut out),
        Command::Import { file } => {
            let opml = read_input(&file)?;
            import::run(&opml, &mut out, &mut std::io::stderr()).map_err(|error| match error {
                import::ImportError::Write(error) => CliError::Io(error),
                error => CliError::Refused(error.to_string()),
            })
        }
        Command::Export => Ok(export::run(&load(path)?, &mut out)?),
        Command::Man => Ok(clap_mangen::Man::new(Cli::command()).render(&mut out)?),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "tidewatch", &mut out);
            Ok(())
        }
    }?;
    Ok(out.flush()?)
}
