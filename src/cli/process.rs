//! What the process gives a command: a runtime, and a terminal or none.

use std::io::IsTerminal;

use super::error::CliError;

/// A runtime for one command.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Whether stdout is looked at by a person, who then may see colours.
pub(super) fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
