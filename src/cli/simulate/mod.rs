//! `tidewatch simulate`: schedules tried out in worlds that are made up, or on record.
//!
//! Exists so that a claim about a schedule can be checked by whoever reads it, with one command. Knows
//! which worlds there are. Must not simulate itself.

use std::ffi::OsString;
use std::io::Write;

use super::error::CliError;

pub(super) mod column;
pub mod fleet;
pub(super) mod progress;
mod rates;
pub mod recorded;
pub mod traces;

/// What is simulated.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Who is probed when more sources could be than may be: every allocator against what no schedule
    /// can undercut.
    Fleet(Box<fleet::Args>),
    /// Play a recording of a daemon (`run --record`) through the engine and compare everything that it asks
    /// for.
    Recorded(recorded::Args),
    /// Who is sooner for the same expense: policies and other pollers' rules, on recorded traces or in a
    /// made-up world.
    Traces(Box<traces::args::Args>),
}

/// Simulates and shows. `line` is what was typed after the program's name.
pub fn run(command: &Command, line: &[OsString], out: &mut dyn Write) -> Result<(), CliError> {
    match command {
        Command::Fleet(arguments) => fleet::run(arguments, out),
        Command::Recorded(arguments) => recorded::run(arguments, out),
        Command::Traces(arguments) => traces::run(arguments, line, out),
    }
}
