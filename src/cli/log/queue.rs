//! The queue of log lines, and the thread that writes them.
//!
//! A line that finds the queue full is dropped and counted. The thread alone waits for the reader of the log. Must not
//! know what is logged.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use tracing::Level;

use crate::clock::Clock;

use super::journal::JournalSocket;
use super::line::LogLine;

/// Capacity of the queue.
const MOST_LINES: usize = 4_096;

/// Where lines are written.
#[derive(Debug)]
pub(super) enum LogOutput {
    Journal(JournalSocket),
    Stderr { colours: bool },
}

/// Lines that are not yet written.
#[derive(Debug, Default)]
pub(super) struct LogQueue {
    waiting: Mutex<WaitingLines>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct WaitingLines {
    lines: VecDeque<LogLine>,
    dropped: u64,
    /// Whether the thread is writing lines that it has taken.
    writing: bool,
}

impl LogQueue {
    /// Queues a line, or counts it as dropped. Never waits for the reader of the log.
    pub(super) fn push(&self, line: LogLine) {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.lines.len() >= MOST_LINES {
            waiting.dropped += 1;
            return;
        }
        waiting.lines.push_back(line);
        drop(waiting);
        self.changed.notify_all();
    }

    /// Waits until all lines are written, at most this long.
    pub(super) fn flush(&self, limit: Duration) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let unwritten = |waiting: &mut WaitingLines| waiting.writing || !waiting.lines.is_empty();
        drop(self.changed.wait_timeout_while(waiting, limit, unwritten));
    }

    /// Waits for lines and takes them, with the number of those dropped since the last call.
    fn take(&self) -> (VecDeque<LogLine>, u64) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let mut waiting = self
            .changed
            .wait_while(waiting, |waiting| waiting.lines.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        waiting.writing = true;
        (std::mem::take(&mut waiting.lines), std::mem::take(&mut waiting.dropped))
    }

    fn written(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).writing = false;
        self.changed.notify_all();
    }
}

/// Starts the thread that writes the lines of the queue.
pub(super) fn write_in_background(queue: Arc<LogQueue>, mut output: LogOutput) -> io::Result<()> {
    let clock = Clock::wall();
    std::thread::Builder::new().name("log".to_owned()).spawn(move || {
        loop {
            let (lines, dropped) = queue.take();
            for line in &lines {
                output.write(line);
            }
            if dropped > 0 {
                let text = format!("{dropped} log lines were dropped: the reader of the log is too slow");
                output.write(&LogLine::of_log(clock.now(), text));
            }
            queue.written();
        }
    })?;
    Ok(())
}

impl LogOutput {
    /// Writes a line. An error is ignored: there is no place to report it.
    fn write(&mut self, line: &LogLine) {
        match self {
            Self::Journal(journal) => journal.write(line),
            Self::Stderr { colours } => {
                let _ = io::stderr().write_all(for_stderr(line, *colours).as_bytes());
            }
        }
    }
}

/// The line as text: time, level and text.
fn for_stderr(line: &LogLine, colours: bool) -> String {
    let (level, code) = match line.level {
        Level::ERROR => ("ERROR", 31),
        Level::WARN => ("WARN", 33),
        Level::INFO => ("INFO", 32),
        Level::DEBUG => ("DEBUG", 34),
        Level::TRACE => ("TRACE", 35),
    };
    let (at, text) = (line.at.iso(), &line.text);
    match colours {
        true => format!("\x1b[2m{at}\x1b[0m \x1b[{code}m{level:>5}\x1b[0m {text}\n"),
        false => format!("{at} {level:>5} {text}\n"),
    }
}

#[cfg(test)]
mod tests {
    use tidewatch_core::time::Timestamp;

    use super::*;

    fn line(text: &str) -> LogLine {
        LogLine::of_log(Timestamp::from_secs(0), text.to_owned())
    }

    #[test]
    fn lines_are_time_level_and_text() {
        assert_eq!(for_stderr(&line("x: y"), false), "1970-01-01T00:00:00.000Z  WARN x: y\n");
        assert!(for_stderr(&line("x"), true).contains("\x1b[33m WARN\x1b[0m x\n"));
    }

    #[test]
    fn a_full_queue_counts_what_it_drops() {
        let queue = LogQueue::default();
        for n in 0..MOST_LINES + 7 {
            queue.push(line(&n.to_string()));
        }
        let (lines, dropped) = queue.take();
        assert_eq!((lines.len(), dropped), (MOST_LINES, 7));
        assert_eq!(lines.back().map(|line| line.text.as_str()), Some("4095"), "the oldest are kept");
        queue.written();
        queue.flush(Duration::from_secs(300));
    }
}
