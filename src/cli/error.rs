//! Errors of commands, and their exit codes.

use crate::config::load::LoadError;
use crate::daemon::run::DaemonError;
use crate::store::StoreError;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The command completed and printed faults.
    #[error("")]
    Found,
    /// The command cannot be carried out, for this reason.
    #[error("{0}")]
    Refused(String),
    /// Wrong usage.
    #[error("{0}")]
    Usage(String),
    /// Bad configuration.
    #[error("{}", with_cause(.0))]
    Config(#[from] LoadError),
    /// Error of the store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Error of the daemon.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Error of stdout, stdin or a file.
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

fn with_cause(error: &LoadError) -> String {
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl CliError {
    /// The exit code.
    pub fn code(&self) -> u8 {
        match self {
            // The reader of our output has closed the pipe, which is not a failure.
            Self::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
            Self::Found | Self::Refused(_) => 1,
            Self::Usage(_) => 2,
            Self::Store(error) | Self::Daemon(DaemonError::Store(error)) if error.is_damaged() => 65,
            Self::Store(error) | Self::Daemon(DaemonError::Store(error)) if error.is_forbidden() => 77,
            Self::Store(_) | Self::Daemon(_) | Self::Io(_) => 69,
            Self::Config(_) => 78,
        }
    }
}
