//! `tidewatch simulate`: schedules in generated or recorded worlds.
//!
//! One command checks a claim about a schedule. Knows the kinds of worlds. Must not simulate itself.

use std::ffi::OsString;
use std::io::Write;

use super::error::CliError;

pub(super) mod column;
pub mod fleet;
pub(super) mod progress;
mod rates;
pub mod recorded;
pub mod traces;

/// Kinds of simulation.
#[derive(Debug, clap::Subcommand)]
pub enum SimulateCommand {
    /// Compare allocators when slots are scarce, each against a lower bound for every schedule.
    Fleet(Box<fleet::Args>),
    /// Replay a recording of the daemon (`run --record`) through the engine and compare every action.
    Recorded(recorded::Args),
    /// Compare delays of policies and of other pollers' rules at equal cost, on recorded traces or in a
    /// generated world.
    Traces(Box<traces::args::Args>),
}

/// Runs a simulation. `line` has the arguments after the program name.
pub fn run(command: &SimulateCommand, line: &[OsString], out: &mut dyn Write) -> Result<(), CliError> {
    match command {
        SimulateCommand::Fleet(arguments) => fleet::run(arguments, out),
        SimulateCommand::Recorded(arguments) => recorded::run(arguments, out),
        SimulateCommand::Traces(arguments) => traces::run(arguments, line, out),
    }
}
