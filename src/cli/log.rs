//! Log output: stderr, or the journal with structured fields if systemd started the process.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Starts logging at the level in `$TIDEWATCH_LOG`, else at `level`.
pub fn start(level: &str) {
    let filter = EnvFilter::try_from_env("TIDEWATCH_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let registry = tracing_subscriber::registry().with(filter);
    // systemd sets this variable if stderr is the journal.
    if std::env::var_os("JOURNAL_STREAM").is_some()
        && !std::io::stderr().is_terminal()
        && let Ok(journal) = tracing_journald::layer()
    {
        let _ = registry.with(journal).try_init();
        return;
    }
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let _ = registry.with(lines).try_init();
}
