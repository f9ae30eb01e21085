//! Log output: stderr, or the journal with structured fields if systemd started the process.
//!
//! A line is formatted where it is logged and written by a thread of its own. So a reader of the log that is slow or
//! stuck delays nothing.

mod journal;
mod line;
mod queue;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, filter};

use crate::clock::Clock;

use journal::JournalSocket;
use line::{LineFields, LogLine};
use queue::{LogOutput, LogQueue};

/// Longest wait at the end for a reader of the log that is slow.
const LAST_LINES: Duration = Duration::from_secs(1);

/// The running log. Dropping it writes what is queued.
#[derive(Debug)]
pub struct RunningLog(Arc<LogQueue>);

impl Drop for RunningLog {
    fn drop(&mut self) {
        self.0.flush(LAST_LINES);
    }
}

/// Starts logging at the level in `$TIDEWATCH_LOG`, else at `level`.
pub fn start(level: &str) -> RunningLog {
    let wanted = EnvFilter::try_from_env("TIDEWATCH_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let queue = Arc::new(LogQueue::default());
    if queue::write_in_background(Arc::clone(&queue), output()).is_ok() {
        let layer = QueueLayer { queue: Arc::clone(&queue), clock: Clock::wall() };
        let known = filter::filter_fn(shows_no_request);
        let _ = tracing_subscriber::registry().with(wanted).with(layer.with_filter(known)).try_init();
    }
    RunningLog(queue)
}

/// Libraries below a request log addresses and headers, which may contain secrets. Their warnings do not.
fn shows_no_request(metadata: &Metadata<'_>) -> bool {
    let ours = ["tidewatch", "sqlx"].iter().any(|start| metadata.target().starts_with(start));
    ours || *metadata.level() <= Level::WARN
}

fn output() -> LogOutput {
    let terminal = std::io::stderr().is_terminal();
    // systemd sets this variable if stderr is the journal.
    if std::env::var_os("JOURNAL_STREAM").is_some()
        && !terminal
        && let Ok(journal) = JournalSocket::open()
    {
        return LogOutput::Journal(journal);
    }
    LogOutput::Stderr { colours: terminal && std::env::var_os("NO_COLOR").is_none() }
}

/// Passes events to the queue.
struct QueueLayer {
    queue: Arc<LogQueue>,
    clock: Clock,
}

impl<S: Subscriber> Layer<S> for QueueLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = LineFields::default();
        event.record(&mut fields);
        self.queue.push(LogLine::new(self.clock.now(), event.metadata(), fields));
    }
}
