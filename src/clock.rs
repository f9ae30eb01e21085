//! The only module that reads wall time or sleeps.
//!
//! All other code receives `now` as a value or sleeps through this module, so tests need not wait. The
//! daemon uses wall time; the demo and tests use accelerated time with any origin and speed. Network
//! time-outs are real seconds on any clock ([`patience`]), since servers are not accelerated.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use tidewatch_core::time::{Span, Timestamp};

use crate::pace::Pace;

/// A wall clock, an accelerated clock, or a paced one.
#[derive(Debug, Clone)]
pub struct Clock(ClockKind);

#[derive(Debug, Clone)]
enum ClockKind {
    Wall,
    Accelerated { origin: Timestamp, started: Instant, speed: f64, set_by: Arc<AtomicI64> },
    Paced { pace: Arc<Pace>, set_by: Arc<AtomicI64> },
}

/// Longest part of a wall-clock sleep, so that suspend or a changed clock is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

impl Clock {
    /// The system's wall clock.
    pub fn wall() -> Self {
        Self(ClockKind::Wall)
    }

    /// A clock that starts at `origin` and runs `speed` times as fast as real time. It uses tokio's time,
    /// so tests can pause it.
    pub fn accelerated(origin: Timestamp, speed: f64) -> Self {
        Self(ClockKind::Accelerated { origin, started: Instant::now(), speed, set_by: Arc::default() })
    }

    /// An accelerated clock that stops at every alarm until that is set again, and while work is pending. A
    /// busy machine slows it down but delays no task.
    pub fn paced(origin: Timestamp, speed: f64) -> Self {
        Self(ClockKind::Paced { pace: Arc::new(Pace::new(origin, speed)), set_by: Arc::default() })
    }

    fn pace(&self) -> Option<&Arc<Pace>> {
        match &self.0 {
            ClockKind::Paced { pace, .. } => Some(pace),
            ClockKind::Wall | ClockKind::Accelerated { .. } => None,
        }
    }

    /// Total change of an accelerated or paced clock, in milliseconds.
    fn set_by(&self) -> Option<&AtomicI64> {
        match &self.0 {
            ClockKind::Wall => None,
            ClockKind::Accelerated { set_by, .. } | ClockKind::Paced { set_by, .. } => Some(set_by),
        }
    }

    /// An alarm on this clock.
    pub fn alarm(&self) -> Alarm {
        let number = self.pace().map_or(0, |pace| pace.new_alarm());
        Alarm { clock: self.clone(), number, at: None }
    }

    /// Work that a paced clock waits for.
    pub fn pending_work(&self) -> PendingWork {
        PendingWork { clock: self.clone(), count: 0 }
    }

    /// Marks one piece of pending work as waiting for time to pass, until the result is dropped.
    pub fn waiting(&self) -> WaitsForTime {
        if let Some(pace) = self.pace() {
            pace.begin_waiting();
        }
        WaitsForTime(self.clone())
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        match &self.0 {
            ClockKind::Wall => wall_now(),
            ClockKind::Accelerated { origin, started, speed, set_by } => {
                let passed = Span::from_duration(started.elapsed().mul_f64(*speed));
                *origin + passed + Span::from_millis(set_by.load(Ordering::Relaxed))
            }
            ClockKind::Paced { pace, .. } => pace.now(),
        }
    }

    /// When the machine was booted, by this clock. Another time means another boot, or a clock that was set since.
    pub fn booted_at(&self) -> Timestamp {
        self.now() - Span::from_duration(boot_time())
    }

    /// Moves an accelerated or paced clock and all its clones by `by`, like an operator who sets the system
    /// clock.
    pub fn set(&self, by: Span) {
        if let Some(set_by) = self.set_by() {
            set_by.fetch_add(by.as_millis(), Ordering::Relaxed);
        }
        if let Some(pace) = self.pace() {
            pace.set(by);
        }
    }

    /// Seconds of this clock per real second.
    pub fn speed(&self) -> f64 {
        match &self.0 {
            ClockKind::Wall => 1.0,
            ClockKind::Accelerated { speed, .. } => *speed,
            ClockKind::Paced { pace, .. } => pace.speed(),
        }
    }

    /// Sleeps until this clock shows `at` or later.
    pub async fn sleep_until(&self, at: Timestamp) {
        let mut alarm = self.alarm();
        alarm.set(Some(at));
        alarm.wait().await;
    }

    async fn shows(&self, at: Timestamp) {
        loop {
            let left = at - self.now();
            if left <= Span::ZERO {
                return;
            }
            match &self.0 {
                ClockKind::Wall => pause(left.to_duration().min(LONGEST_SLEEP)).await,
                ClockKind::Accelerated { .. } | ClockKind::Paced { .. } => {
                    // At least a millisecond, the resolution of tokio's timer; so rounding causes no busy
                    // loop.
                    let real = left.to_duration().div_f64(self.speed()).max(Duration::from_millis(1));
                    pause(real.min(Duration::from_secs(3600))).await;
                }
            }
        }
    }

    /// Sleeps for a span of this clock.
    pub async fn sleep(&self, span: Span) {
        self.sleep_until(self.now() + span).await;
    }

    /// Starts to detect changes of the clock.
    pub fn watch(&self) -> WatchedClock {
        let set_by = self.set_by().map_or(Span::ZERO, |by| Span::from_millis(by.load(Ordering::Relaxed)));
        WatchedClock { clock: self.clone(), last: (self.now(), boot_time()), set_by }
    }
}

/// Detects when the wall clock was set: its change differs from the elapsed real time, including suspend.
#[derive(Debug)]
pub struct WatchedClock {
    clock: Clock,
    last: (Timestamp, Duration),
    /// Total change of an accelerated or paced clock at the last call.
    set_by: Span,
}

/// Smallest change that counts; smaller differences are clock corrections such as NTP's.
const SET: Span = Span::from_secs(2);

impl WatchedClock {
    /// The change of the clock since the last call, if any.
    pub fn jumped(&mut self) -> Option<Span> {
        if let Some(set_by) = self.clock.set_by() {
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

/// A time at which a task acts. A paced clock does not pass it until it is set again.
#[derive(Debug)]
pub struct Alarm {
    clock: Clock,
    number: u64,
    at: Option<Timestamp>,
}

impl Alarm {
    /// Sets the alarm to another time, or to none.
    pub fn set(&mut self, at: Option<Timestamp>) {
        if let Some(pace) = self.clock.pace() {
            pace.move_alarm(self.number, self.at, at);
        }
        self.at = at;
    }

    /// Waits until the alarm's time; forever without one.
    pub async fn wait(&self) {
        match self.at {
            Some(at) => self.clock.shows(at).await,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Alarm {
    fn drop(&mut self) {
        self.set(None);
    }
}

/// Pending work that stops a paced clock; other clocks ignore it.
#[derive(Debug)]
pub struct PendingWork {
    clock: Clock,
    count: usize,
}

impl PendingWork {
    /// Sets the number of pending pieces of work.
    pub fn set(&mut self, count: usize) {
        if let Some(pace) = self.clock.pace() {
            pace.change_pending(self.count, count);
        }
        self.count = count;
    }
}

impl Drop for PendingWork {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// A piece of pending work that waits for time to pass.
#[derive(Debug)]
pub struct WaitsForTime(Clock);

impl Drop for WaitsForTime {
    fn drop(&mut self) {
        if let Some(pace) = self.0.pace() {
            pace.end_waiting();
        }
    }
}

fn jump_between(before: (Timestamp, Duration), after: (Timestamp, Duration)) -> Option<Span> {
    let real = Span::from_duration(after.1.saturating_sub(before.1));
    let jump = (after.0 - before.0) - real;
    (jump > SET || jump < -SET).then_some(jump)
}

/// Time since boot including suspend, which no clock of `std` includes.
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[expect(clippy::disallowed_methods, reason = "this module reads the clock and sleeps")]
fn wall_now() -> Timestamp {
    let since =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

#[expect(clippy::disallowed_methods, reason = "this module reads the clock and sleeps")]
async fn pause(real: Duration) {
    tokio::time::sleep(real).await;
}

/// A time limit in real time has passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time ran out")]
pub struct RanOut;

/// Limits a future to this much real time, on any clock.
#[expect(clippy::disallowed_methods, reason = "this module reads the clock and sleeps")]
pub async fn patience<T>(limit: Duration, future: impl Future<Output = T>) -> Result<T, RanOut> {
    tokio::time::timeout(limit, future).await.map_err(|_| RanOut)
}

/// Sleeps in real time: for retries of local operations, not for sources.
pub async fn real_pause(real: Duration) {
    pause(real).await;
}

/// Measures elapsed real time.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Instant);

impl Stopwatch {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }

    /// Time since the start.
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}

/// Measures the processor time that this thread takes.
#[derive(Debug, Clone, Copy)]
pub struct ThreadTime(Duration);

impl ThreadTime {
    /// Starts now.
    pub fn start() -> Self {
        Self(thread_time())
    }

    /// Processor time since the start, on the thread that started it.
    pub fn used(&self) -> Duration {
        thread_time().saturating_sub(self.0)
    }
}

fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
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
    fn a_set_clock_is_distinguished_from_suspend_and_drift() {
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
