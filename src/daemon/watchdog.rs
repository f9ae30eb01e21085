//! The watchdog: a thread of its own that notifies systemd while the daemon makes progress.
//!
//! The scheduler marks its progress: each iteration, and since when it waits for a commit or for a step that is due.
//! The thread notifies as long as neither takes too long, or the store is known to be stalled, which the status line
//! says. Must not know what the scheduler does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use sd_notify::NotifyState;

use crate::clock::Stopwatch;

/// Nothing is awaited.
const NOTHING: u64 = u64::MAX;

/// What the scheduler has achieved, in milliseconds of one stopwatch. Atomic, because a thread reads it that must not
/// wait for any other.
#[derive(Debug)]
struct Mark {
    stopwatch: Stopwatch,
    iterated_at: AtomicU64,
    waits_since: AtomicU64,
    stalled: AtomicBool,
}

/// Marks the scheduler's progress. Clones mark the same.
#[derive(Debug, Clone)]
pub struct ProgressMark(Arc<Mark>);

impl Default for ProgressMark {
    fn default() -> Self {
        let stopwatch = Stopwatch::start();
        let (iterated_at, waits_since) = (AtomicU64::new(0), AtomicU64::new(NOTHING));
        Self(Arc::new(Mark { stopwatch, iterated_at, waits_since, stalled: AtomicBool::new(false) }))
    }
}

impl ProgressMark {
    /// The time of this stopwatch, in milliseconds.
    pub fn now(&self) -> u64 {
        u64::try_from(self.0.stopwatch.elapsed().as_millis()).unwrap_or(NOTHING - 1)
    }

    /// The scheduler's loop has begun another iteration. It waits for a commit or a step since then, if for any.
    pub fn iterated(&self, waits_since: Option<u64>, stalled: bool) {
        self.0.waits_since.store(waits_since.unwrap_or(NOTHING), Ordering::Relaxed);
        self.0.stalled.store(stalled, Ordering::Relaxed);
        self.0.iterated_at.store(self.now(), Ordering::Relaxed);
    }

    /// Whether there was progress within `bound` before `now`.
    fn is_alive(&self, now: u64, bound: Duration) -> bool {
        let bound = u64::try_from(bound.as_millis()).unwrap_or(NOTHING);
        let recent = |since: u64| now.saturating_sub(since) <= bound;
        let waits_since = self.0.waits_since.load(Ordering::Relaxed);
        let stalled = self.0.stalled.load(Ordering::Relaxed);
        recent(self.0.iterated_at.load(Ordering::Relaxed))
            && (stalled || waits_since == NOTHING || recent(waits_since))
    }
}

/// The running thread. It ends when this is dropped.
#[derive(Debug)]
pub struct Watchdog(#[expect(dead_code, reason = "held for its end")] Option<Sender<()>>);

impl Watchdog {
    /// Starts the thread, if systemd expects notifications.
    pub fn start(mark: ProgressMark) -> std::io::Result<Self> {
        let Some(limit) = sd_notify::watchdog_enabled() else { return Ok(Self(None)) };
        let (stop, stopped) = channel();
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || watch(&mark, limit, &stopped))?;
        Ok(Self(Some(stop)))
    }
}

fn watch(mark: &ProgressMark, limit: Duration, stopped: &Receiver<()>) {
    let mut alive = true;
    while stopped.recv_timeout(limit / 4) == Err(RecvTimeoutError::Timeout) {
        let was_alive = alive;
        alive = mark.is_alive(mark.now(), limit / 2);
        if alive {
            if let Err(error) = sd_notify::notify(&[NotifyState::Watchdog]) {
                tracing::debug!(%error, "the service manager cannot be notified");
            }
        } else if was_alive {
            tracing::error!(
                "no probe was started or stored for {} s though one was due: the watchdog is not notified until one is",
                (limit / 2).as_secs_f32()
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_alive_while_it_iterates_and_its_commits_return() {
        let mark = ProgressMark::default();
        let bound = Duration::from_secs(30);
        let alive_after = |secs: u64| mark.is_alive(mark.now() + 1_000 * secs, bound);
        mark.iterated(None, false);
        assert!(alive_after(29));
        assert!(!alive_after(31), "the loop is stuck");
        mark.iterated(Some(mark.now()), false);
        assert!(alive_after(29));
        // It iterates, but the commit does not return.
        let long_ago = ProgressMark::default();
        long_ago.iterated(Some(0), false);
        long_ago.0.iterated_at.store(40_000, Ordering::Relaxed);
        assert!(!long_ago.is_alive(40_000, bound));
        assert!(long_ago.is_alive(30_000, bound));
        // The store is known to be stalled.
        long_ago.0.stalled.store(true, Ordering::Relaxed);
        assert!(long_ago.is_alive(40_000, bound));
        assert!(!long_ago.is_alive(71_000, bound), "the loop is stuck");
    }
}
