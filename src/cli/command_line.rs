//! The command line: options, and the dispatch to commands.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

use clap::{CommandFactory, Parser, Subcommand};

use tidewatch_core::time::Span;

use super::configured::load;
use super::error::CliError;
use super::files::read_input;
use super::{
    backup, calibrate, check, deliveries, demo, explain, export, garden, import, matches, measures, pardon,
    plan, probe, replay, restore, rhythm, run, simulate, status,
};

/// Text below the help and in the manual page.
const AFTER: &str = "\
Exit codes: 0 fine; 1 the command found faults; 2 wrong usage; 65 the store is damaged; 69 the \
store or the network is unavailable; 77 the store belongs to another user; 78 bad configuration.

$TIDEWATCH_LOG sets what is logged: error, warn, info (default) or debug. $NO_COLOR switches \
colours off.";

/// Watch many feeds and web pages politely, and log what changed when.
#[derive(Debug, Parser)]
#[command(name = "tidewatch", version, arg_required_else_help = true, max_term_width = 100, after_help = AFTER)]
pub struct Cli {
    /// Configuration file; by default ./tidewatch.toml, then /etc/tidewatch/tidewatch.toml.
    /// `sources.d/*.toml` beside it is read too.
    #[arg(long, short, global = true, env = "TIDEWATCH_CONFIG", value_name = "FILE")]
    config: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon in the foreground. SIGHUP reloads the configuration; SIGTERM finishes open probes
    /// and ends.
    Run(run::Args),
    /// Check the configuration; print every fault as file:line:col with the line.
    Check,
    /// Run the real daemon against local test sources: one week in about two minutes.
    Demo(demo::Args),
    /// Show every source: state, last and next probe, reason, budget left, last error.
    Status {
        /// Show how well the probes of the last DURATION (such as 7d) were spent: useful, useless,
        /// failed, delays.
        #[arg(long, value_name = "DURATION", value_parser = measures::length)]
        period: Option<Span>,
        /// Print one JSON document; --period adds to it.
        #[arg(long)]
        json: bool,
    },
    /// Explain the time of a source's next probe.
    Explain {
        /// Name of the source.
        source: String,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
    },
    /// Show a source's weekly rhythm as a heat map.
    Rhythm {
        /// Name of the source.
        source: String,
        /// Print one JSON document.
        #[arg(long)]
        json: bool,
        /// Draw the heat map into this SVG file.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Compare forecasts and stated probabilities with what came of them.
    Calibrate(calibrate::run::Args),
    /// Compute a schedule of probes for a source or for a rate file.
    Plan(Box<plan::args::Args>),
    /// Probe a source now, once, if the politeness rules allow it.
    Probe(probe::Args),
    /// Lift the Retry-After or backoff of a source, or the pause of a site.
    Pardon(pardon::Args),
    /// Show which stored updates would match the rules.
    Match(matches::Args),
    /// List deliveries: waiting, delivered and abandoned; `retry` sends them again.
    Deliveries(deliveries::Args),
    /// Simulate schedules, without configuration, network or store.
    #[command(subcommand)]
    Simulate(simulate::SimulateCommand),
    /// Show which capacity keeps every `max_gap`: lateness against work, as a Pareto front.
    Garden(Box<garden::ask::Args>),
    /// Replay the stored log with other policies and budgets, and estimate the probes for half the
    /// delay.
    Replay(replay::Args),
    /// Convert an OPML file to TOML sources on stdout.
    Import {
        /// OPML file; `-` reads standard input.
        file: PathBuf,
    },
    /// Write the configured sources to stdout as OPML.
    Export,
    /// Copy the store to a new file, consistent also beside a running daemon.
    Backup(backup::Args),
    /// Replace the store by a backup, while no daemon runs.
    Restore(restore::Args),
    /// Print the manual page, for `man -l -` or for installation.
    Man,
    /// Print completions for a shell.
    Completions {
        /// Name of the shell.
        shell: clap_complete::Shell,
    },
}

/// Parses and runs one command line.
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
        Command::Calibrate(arguments) => calibrate::run::run(&load(path)?, &arguments, &mut out),
        Command::Plan(arguments) => plan::run(&arguments, path, &mut out),
        Command::Probe(arguments) => probe::run(&load(path)?, &arguments, &mut out),
        Command::Pardon(arguments) => pardon::run(&load(path)?, &arguments, &mut out),
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
        Command::Backup(arguments) => backup::run(&load(path)?, &arguments, &mut out),
        Command::Restore(arguments) => restore::run(&load(path)?, &arguments, &mut out),
        Command::Man => Ok(clap_mangen::Man::new(Cli::command()).render(&mut out)?),
        Command::Completions { shell } => {
            clap_complete::generate(shell, &mut Cli::command(), "tidewatch", &mut out);
            Ok(())
        }
    }?;
    Ok(out.flush()?)
}
