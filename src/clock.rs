//! The only module that reads wall time or sleeps.
//!
//! All other code receives `now` as a value or sleeps through this module, so tests need not wait. The
//! daemon uses wall time; the demo and tests use accelerated time with any origin and speed. Network
//! time-outs are real seconds on any clock ([`patience`]), since servers are not accelerated.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
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
    Accelerated { boot: u64, origin: Timestamp, started: Instant, speed: f64, set_by: Arc<AtomicI64> },
    Paced { boot: u64, pace: Arc<Pace> },
}

/// The clock, and the time since boot at the same moment. Only the former can be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// What the clock shows.
    pub now: Timestamp,
    /// The time of the boot by this clock. It changes only if the clock is set.
    pub booted_at: Timestamp,
}

/// Accelerated and paced clocks made by this process: each is a boot of its own.
static BOOTS: AtomicU64 = AtomicU64::new(0);

/// Longest part of a wall-clock sleep, so that suspend or a changed clock is noticed within this time.
const LONGEST_SLEEP: Duration = Duration::from_secs(5);

/// The variable by which a service unit passes the name of the boot. The file that has it is hidden by `ProcSubset=pid`.
const BOOT_ID: &str = "TIDEWATCH_BOOT_ID";

impl Clock {
    /// The system's wall clock.
    pub fn wall() -> Self {
        Self(ClockKind::Wall)
    }

    /// A clock that starts at `origin` and runs `speed` times as fast as real time. It uses tokio's time,
    /// so tests can pause it.
    pub fn accelerated(origin: Timestamp, speed: f64) -> Self {
        let boot = BOOTS.fetch_add(1, Ordering::Relaxed);
        Self(ClockKind::Accelerated {
            boot,
            origin,
            started: Instant::now(),
            speed,
            set_by: Arc::default(),
        })
    }

    /// An accelerated clock that stops at every alarm until that is set again, and while work is pending. A
    /// busy machine slows it down but delays no task.
    pub fn paced(origin: Timestamp, speed: f64) -> Self {
        let boot = BOOTS.fetch_add(1, Ordering::Relaxed);
        Self(ClockKind::Paced { boot, pace: Arc::new(Pace::new(origin, speed)) })
    }

    fn pace(&self) -> Option<&Arc<Pace>> {
        match &self.0 {
            ClockKind::Paced { pace, .. } => Some(pace),
            ClockKind::Wall | ClockKind::Accelerated { .. } => None,
        }
    }

    /// An alarm on this clock.
    pub fn alarm(&self) -> Alarm {
        let number = self.pace().map_or(0, |pace| pace.new_alarm());
        Alarm { clock: self.clone(), number, at: None, booted_at: self.read().booted_at }
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
            ClockKind::Accelerated { .. } | ClockKind::Paced { .. } => self.read().now,
        }
    }

    /// The current time, and the time of the boot by this clock.
    pub fn read(&self) -> ClockReading {
        match &self.0 {
            ClockKind::Wall => wall_reading(),
            ClockKind::Accelerated { origin, started, speed, set_by, .. } => {
                let booted_at = *origin + Span::from_millis(set_by.load(Ordering::Relaxed));
                let passed = Span::from_duration(started.elapsed().mul_f64(*speed));
                ClockReading { now: booted_at + passed, booted_at }
            }
            ClockKind::Paced { pace, .. } => {
                let (now, booted_at) = pace.read();
                ClockReading { now, booted_at }
            }
        }
    }

    /// The name of this boot of the machine, if it has one. An accelerated or paced clock is a boot of its own.
    pub fn boot(&self) -> Option<String> {
        match &self.0 {
            ClockKind::Wall => {
                let name = std::env::var(BOOT_ID)
                    .or_else(|_| std::fs::read_to_string("/proc/sys/kernel/random/boot_id"))
                    .ok()?;
                // systemd writes it without hyphens.
                Some(name.trim().replace('-', "")).filter(|name| !name.is_empty())
            }
            ClockKind::Accelerated { boot, .. } | ClockKind::Paced { boot, .. } => {
                Some(format!("clock {boot} of process {}", std::process::id()))
            }
        }
    }

    /// Moves an accelerated or paced clock and all its clones by `by`, like an operator who sets the system
    /// clock.
    pub fn set(&self, by: Span) {
        match &self.0 {
            ClockKind::Wall => {}
            ClockKind::Accelerated { set_by, .. } => {
                let _ = set_by.fetch_add(by.as_millis(), Ordering::Relaxed);
            }
            ClockKind::Paced { pace, .. } => pace.set(by),
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

    /// Sleeps until this clock shows `at` or later, or is set: the time is then another one.
    pub async fn sleep_until(&self, at: Timestamp) {
        let mut alarm = self.alarm();
        alarm.set(Some(at));
        alarm.wait().await;
    }

    /// Waits until this clock shows `at`, or is set. By `booted_at` it shows that.
    async fn shows(&self, at: Timestamp, booted_at: Timestamp) {
        loop {
            let reading = self.read();
            let left = at - reading.now;
            if left <= Span::ZERO || is_set(reading.booted_at - booted_at) {
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

    /// Sleeps for a span of this clock, also if it is set meanwhile.
    pub async fn sleep(&self, span: Span) {
        let steady = SteadyClock::of(self);
        let end = steady.now() + span;
        loop {
            let left = end - steady.now();
            if left <= Span::ZERO {
                return;
            }
            self.sleep_until(self.now() + left).await;
        }
    }

    /// Detects changes of the clock since it showed this time of the boot, or from now on.
    pub fn watch(&self, booted_at: Option<Timestamp>) -> WatchedClock {
        let booted_at = booted_at.unwrap_or_else(|| self.read().booted_at);
        WatchedClock { clock: self.clone(), booted_at }
    }
}

/// Detects when the clock was set: the time of the boot changes with it. Suspend does not change that.
#[derive(Debug)]
pub struct WatchedClock {
    clock: Clock,
    booted_at: Timestamp,
}

/// Smallest change that counts; smaller differences are clock corrections such as NTP's.
const SET: Span = Span::from_millis(500);

fn is_set(by: Span) -> bool {
    by >= SET || by <= -SET
}

impl WatchedClock {
    /// The current time, and the change of the clock since the last call, if any.
    pub fn read(&mut self) -> (Timestamp, Option<Span>) {
        let ClockReading { now, booted_at } = self.clock.read();
        let by = booted_at - std::mem::replace(&mut self.booted_at, booted_at);
        (now, is_set(by).then_some(by))
    }

    /// A clock that shows the same as this one at its last reading, and cannot be set.
    pub fn steady(&self) -> SteadyClock {
        SteadyClock { clock: self.clock.clone(), booted_at: self.booted_at }
    }
}

/// A clock that cannot be set, for the times of one probe or delivery.
#[derive(Debug, Clone)]
pub struct SteadyClock {
    clock: Clock,
    booted_at: Timestamp,
}

impl SteadyClock {
    /// This clock from now on, without later changes.
    pub fn of(clock: &Clock) -> Self {
        Self { clock: clock.clone(), booted_at: clock.read().booted_at }
    }

    /// The current time.
    pub fn now(&self) -> Timestamp {
        let ClockReading { now, booted_at } = self.clock.read();
        now + (self.booted_at - booted_at)
    }

    /// By how much the clock was set since.
    pub fn set_since(&self) -> Span {
        self.clock.read().booted_at - self.booted_at
    }
}

/// A time at which a task acts. A paced clock does not pass it until it is set again.
#[derive(Debug)]
pub struct Alarm {
    clock: Clock,
    number: u64,
    at: Option<Timestamp>,
    /// The time of the boot by the clock that `at` is of.
    booted_at: Timestamp,
}

impl Alarm {
    /// Sets the alarm to another time, or to none.
    pub fn set(&mut self, at: Option<Timestamp>) {
        self.booted_at = self.clock.read().booted_at;
        if let Some(pace) = self.clock.pace() {
            pace.move_alarm(self.number, self.at, at);
        }
        self.at = at;
    }

    /// Waits until the alarm's time, or until the clock is set; forever without a time.
    pub async fn wait(&self) {
        match self.at {
            Some(at) => self.clock.shows(at, self.booted_at).await,
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

/// Time since boot including suspend, which no clock of `std` includes.
fn boot_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// A reading of both clocks at one moment. It is repeated while the task was interrupted between them.
fn wall_reading() -> ClockReading {
    let mut reading = None;
    for _ in 0..10 {
        let (before, now, after) = (boot_time(), wall_now(), boot_time());
        reading = Some(ClockReading { now, booted_at: now - Span::from_duration(after) });
        if after.saturating_sub(before) < Duration::from_millis(50) {
            break;
        }
    }
    reading.unwrap_or(ClockReading { now: wall_now(), booted_at: Timestamp::MIN })
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
    async fn a_sleep_is_as_long_when_the_clock_is_set_meanwhile() {
        for by in [Span::from_hours(-9), Span::from_hours(9)] {
            let clock = Clock::accelerated(Timestamp::from_secs(1_800_000_000), 1.0);
            let stopwatch = Stopwatch::start();
            let setting = async {
                pause(Duration::from_secs(5)).await;
                clock.set(by);
            };
            tokio::join!(clock.sleep(Span::from_secs(20)), setting);
            let taken = stopwatch.elapsed();
            assert!(taken >= Duration::from_secs(20) && taken < Duration::from_secs(21), "{by}: {taken:?}");
        }
    }

    #[test]
    fn a_clock_that_was_set_since_a_reading_is_noticed() {
        let clock = Clock::accelerated(Timestamp::from_secs(1_800_000_000), 1.0);
        let before = clock.read().booted_at;
        clock.set(Span::from_hours(2));
        assert_eq!(clock.watch(Some(before)).read().1, Some(Span::from_hours(2)));
        assert_eq!(clock.watch(None).read().1, None);
    }

    #[tokio::test(start_paused = true)]
    async fn an_accelerated_week_takes_a_minute() {
        let clock = Clock::accelerated(Timestamp::from_millis(0), 10_080.0);
        let stopwatch = Stopwatch::start();
        clock.sleep_until(Timestamp::from_millis(0) + Span::from_days(7)).await;
        let taken = stopwatch.elapsed();
        assert!(taken >= Duration::from_secs(60) && taken < Duration::from_millis(60_100), "{taken:?}");
    }

    #[test]
    fn a_set_clock_is_distinguished_from_passing_time() {
        for clock in [
            Clock::accelerated(Timestamp::from_secs(1_000_000), 3600.0),
            Clock::paced(Timestamp::from_secs(1_000_000), 3600.0),
        ] {
            let mut watched = clock.watch(None);
            let before = clock.now();
            assert_eq!(watched.read().1, None, "time passed");
            let (steady, before_set) = (watched.steady(), clock.read().booted_at);
            for by in [Span::from_hours(2), Span::from_days(-20_000), Span::from_secs(1)] {
                clock.set(by);
                assert_eq!(watched.read().1, Some(by));
                assert_eq!(watched.read().1, None, "it was set once");
            }
            assert!((before..before + Span::from_hours(10)).contains(&steady.now()));
            let set = clock.read().booted_at - before_set;
            assert_eq!(set, steady.set_since());
            assert_eq!(set, Span::from_hours(2) + Span::from_days(-20_000) + Span::from_secs(1));
            assert_eq!(clock.boot(), clock.clone().boot());
            assert_ne!(clock.boot(), Clock::accelerated(Timestamp::from_secs(0), 1.0).boot());
        }
    }

    #[test]
    fn the_wall_clock_was_booted_once() {
        let clock = Clock::wall();
        let first = clock.read();
        let second = clock.read();
        assert!(first.now > first.booted_at);
        let apart = second.booted_at - first.booted_at;
        assert!(apart < SET && apart > -SET, "{first:?} {second:?}");
    }
}
