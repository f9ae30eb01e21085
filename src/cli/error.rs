//! Why a command failed, and the exit code for it.

use crate::config::load::LoadError;
use crate::daemon::run::DaemonError;
use crate::store::StoreError;

/// Why a command did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// It did its work and found faults, which it has shown.
    #[error("")]
    Found,
    /// It found that it cannot be done: why.
    #[error("{0}")]
    Refused(String),
    /// Wrong usage.
    #[error("{0}")]
    Usage(String),
    /// Bad configuration.
    #[error("{}", with_cause(.0))]
    Config(#[from] LoadError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The daemon.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    /// Stdout, stdin or a file.
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
            // Whoever read our output has read enough.
            Self::Io(error) if error.kind() == std::io::ErrorKind::BrokenPipe => 0,
            Self::Found | Self::Refused(_) => 1,
            Self::Usage(_) => 2,
            Self::Store(_) | Self::Daemon(_) | Self::Io(_) => 69,
            Self::Config(_) => 78,
        }
    }
}
