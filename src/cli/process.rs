//! Process resources for commands: an async runtime, and terminal detection.

use std::io::IsTerminal;

use super::error::CliError;

/// An async runtime for one command.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, CliError> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Whether stdout is a terminal and colours are not switched off.
pub(super) fn colours() -> bool {
    std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}
