//! The commands as a user calls them, and the manual that describes them.

mod check;
mod demo;
mod docs;
mod garden;
mod hostile_documents;
mod plan;
mod replay;
mod simulate;
mod traces;

use tidewatch_fixtures::command::CommandFolder;

/// A folder in which `tidewatch` runs with these first arguments.
fn command_folder(first: &[&str]) -> CommandFolder {
    CommandFolder::new(env!("CARGO_BIN_EXE_tidewatch"), first)
}
