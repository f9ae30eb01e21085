//! The daemon over real sockets, files and signals.

mod changed_settings;
mod deliver;
mod fetch;
mod list_changes;
mod politeness;
mod process;
mod relearning;
mod same_actions;
mod scheduler_ends;
mod store;
mod tls;
mod waiting;

use tidewatch_fixtures::command::CommandFolder;

/// A folder in which `tidewatch` runs with these first arguments.
fn command_folder(first: &[&str]) -> CommandFolder {
    CommandFolder::new(env!("CARGO_BIN_EXE_tidewatch"), first)
}
