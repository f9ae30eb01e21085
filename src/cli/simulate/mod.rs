//! `tidewatch simulate`: schedules tried out in worlds that are made up.
//!
//! Exists so that a claim about a schedule can be checked by whoever reads it, with one command. Knows
//! which worlds there are. Must not simulate itself.

use std::io::Write;

use super::CliError;

pub mod fleet;
mod rates;
mod show;

/// What is simulated.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Who is probed when more sources could be than may be: every allocator against what no schedule
    /// can undercut.
    Fleet(Box<fleet::Args>),
}

/// Simulates and shows.
pub fn run(command: &Command, out: &mut dyn Write) -> Result<(), CliError> {
    match command {
        Command::Fleet(arguments) => fleet::run(arguments, out),
    }
}
