//! The one door through which time comes in.
//!
//! Exists so that everything else can be tested without waiting: the rest of the crate is handed
//! `now`, and whoever must wait, waits here. Wall time for the daemon; accelerated time, anchored
//! anywhere and running at any speed, for the demo and for tests. Time-outs of the network are
//! real seconds on any clock ([`patience`]): a server is not faster because our week is short.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use tidewatch_core::time::{Span, Timestamp};

/// Where `now` comes from.
#[derive(Debug, Clone)]
pub struct Clock(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Wall,
    Accelerated { origin: Timestamp, started: Instant, speed: f64, set_by: Arc<AtomicI64> },
}

/// A wall-clock sleep is cut into naps, so that time which passed in suspend, or a clock that was
/// set, is noticed within this long.
const NAP: Duration = Duration::from_secs(5);

impl Clock {
    /// The system's wall clock.
    pub fn wall() -> Self {
        Self(Kind::Wall)
    }

    /// A clock that shows `origin` now and runs `speed` times as fast as real time. It stands on
    /// tokio's time, so it can be paused in tests.
    pub fn accelerated(origin: Timestamp, speed: f64) -> Self {
        Self(Kind::Accelerated { origin, started: Instant::now(), speed, set_by: Arc::default() })
    }

    /// What time it is.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            Kind::Wall => wall_now(),
            Kind::Accelerated { origin, started, speed, set_by } => {
                let passed = Span::from_duration(started.elapsed().mul_f64(*speed));
                *origin + passed + Span::from_millis(set_by.load(Ordering::Relaxed))
            }
        }
    }

    /// Sets an accelerated clock, and all that were cloned from it, by so much: as an operator sets a machine's.
    pub fn set(&self, by: Span) {
        if let Kind::Accelerated { set_by, .. } = &self.0 {
            set_by.fetch_add(by.as_millis(), Ordering::Relaxed);
        }
    }

    /// How many seconds of this clock pass in a real one.
    pub fn speed(&self) -> f64 {
        match &self.0 {
            Kind::Wall => 1.0,
            Kind::Accelerated { speed, .. } => *speed,
        }
    }

    /// Waits until this clock shows `at` or later.
    pub async fn sleep_until(&self, at: Timestamp) {
        loop {
            let left = at - self.now();
            if left <= Span::ZERO {
                return;
            }
            match &self.0 {
                Kind::Wall => pause(left.to_duration().min(NAP)).await,
                Kind::Accelerated { speed, .. } => {
                    // At least a millisecond: tokio's timer is no finer, and a rounding must not spin.
                    let real = left.to_duration().div_f64(*speed).max(Duration::from_millis(1));
                    pause(real.min(Duration::from_secs(3600))).await;
                }
            }
        }
    }

    /// Waits for a span of this clock.
    pub async fn sleep(&self, span: Span) {
        self.sleep_until(self.now() + span).await;
    }

    /// Starts to watch for a clock that is set while we run.
    pub fn watch(&self) -> Watch {
        let set_by = match &self.0 {
            Kind::Wall => Span::ZERO,
            Kind::Accelerated { set_by, .. } => Span::from_millis(set_by.load(Ordering::Relaxed)),
        };
        Watch { clock: self.clone(), last: (self.now(), boot_time()), set_by }
    }
}

/// Notices when the wall clock was set: it moved by another amount than real time, suspend
/// included, did.
#[derive(Debug)]
pub struct Watch {
    clock: Clock,
    last: (Timestamp, Duration),
    /// By how much an accelerated clock was set.
    set_by: Span,
}

/// Below this the difference is the clock being disciplined, not set.
const SET: Span = Span::from_secs(2);

impl Watch {
    /// By how much the clock was set since the last call, if it was.
    pub fn jumped(&mut self) -> Option<Span> {
        if let Kind::Accelerated { set_by, .. } = &self.clock.0 {
            let set_by = Span::from_millis(set_by.load(Ordering::Relaxed));
            let before = std::mem::replace(&mut self.set_by, set_by);
            return (before != set_by).then(|| set_by - before);
        }
        let seen = (self.clock.now(), boot_time());
        let jump = jump_between(self.last, seen);
        self.last = seen;
        jump
    }
}

fn jump_between(before: (Timestamp, Duration), after: (Timestamp, Duration)) -> Option<Span> {
    let real = Span::from_duration(after.1.saturating_sub(before.1));
    let jump = (after.0 - before.0) - real;
    (jump > SET || jump < -SET).then_some(jump)
}

/// Time since boot with the time in suspend, which no clock of `std` counts.
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[expect(clippy::disallowed_methods, reason = "this is the door")]
fn wall_now() -> Timestamp {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "this is the door")]
async fn pause(real: Duration) {
    tokio::time::sleep(real).await;
}

/// Real time ran out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time ran out")]
pub struct RanOut;

/// Gives a future that many *real* seconds, whatever clock the daemon runs on.
#[expect(clippy::disallowed_methods, reason = "this is the door")]
pub async fn patience<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, RanOut> {
    tokio::time::timeout(limit, future).await.map_err(|_| RanOut)
}

/// Waits for real time to pass: for retries against the machine, not against sources.
pub async fn real_pause(real: Duration) {
    pause(real).await;
}

/// Measures real time: for reports on ourselves.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// How long it has run.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_accelerated_week_takes_a_minute() {
        let clock = Clock::accelerated(Timestamp::from_millis(0), 10_080.0);
        let stopwatch = Stopwatch::start();
        clock.sleep_until(Timestamp::from_millis(0) + Span::from_days(7)).await;
        let taken = stopwatch.elapsed();
        assert!(taken >= Duration::from_secs(60) && taken < Duration::from_millis(60_100), "{taken:?}");
    }

    #[test]
    fn a_set_clock_is_told_from_suspend_and_from_drift() {
        let at = Timestamp::from_secs(1_000_000);
        let boot = Duration::from_secs(500);
        let hour = Span::from_hours(1);
        // Suspended for an hour: both moved.
        assert_eq!(jump_between((at, boot), (at + hour, boot + Duration::from_secs(3600))), None);
        // Set forward and back by an hour while a second passed.
        let second = Duration::from_secs(1);
        assert_eq!(jump_between((at, boot), (at + Span::from_secs(3601), boot + second)), Some(hour));
        assert_eq!(jump_between((at, boot), (at - Span::from_secs(3599), boot + second)), Some(-hour));
        // Slewed by NTP.
        assert_eq!(jump_between((at, boot), (at + Span::from_millis(1_400), boot + second)), None);
    }
}
