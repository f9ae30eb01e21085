//! A fast clock that never runs ahead of the work.
//!
//! An accelerated clock goes on while a busy machine is late, so times that tests assert would depend on
//! the machine. This one stops at every alarm until that alarm is set again, and stands still while work
//! is pending.
//!
//! Knows counts and times. Must not know what the work is.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use tidewatch_core::time::{Span, Timestamp};

/// The state of a paced clock, shared by its copies.
#[derive(Debug)]
pub(crate) struct Pace(Mutex<State>);

#[derive(Debug)]
struct State {
    shown: Timestamp,
    /// Its origin, moved as often as the clock is set.
    origin: Timestamp,
    /// When `shown` was last brought up to date, in real time.
    read: Instant,
    speed: f64,
    /// Times that the clock does not pass, by alarm.
    alarms: BTreeSet<(Timestamp, u64)>,
    alarms_made: u64,
    /// Work that is pending.
    pending: usize,
    /// Pending work that waits for time to pass.
    waiting: usize,
}

impl State {
    fn read(&mut self) -> Timestamp {
        let now = Instant::now();
        if self.pending > self.waiting {
            self.read = now;
            return self.shown;
        }
        let passed = Span::from_duration(now.duration_since(self.read).mul_f64(self.speed));
        // Parts of a millisecond are counted when they have become one.
        if passed > Span::ZERO {
            self.read = now;
            let goal = self.shown + passed;
            let bound = self.alarms.first().map_or(goal, |&(alarm, _)| goal.min(alarm));
            self.shown = self.shown.max(bound);
        }
        self.shown
    }
}

impl Pace {
    pub(crate) fn new(origin: Timestamp, speed: f64) -> Self {
        Self(Mutex::new(State {
            shown: origin,
            origin,
            read: Instant::now(),
            speed,
            alarms: BTreeSet::new(),
            alarms_made: 0,
            pending: 0,
            waiting: 0,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Time up to now passes under the state before the change.
        state.read();
        state
    }

    /// The current time, and the origin.
    pub(crate) fn read(&self) -> (Timestamp, Timestamp) {
        let state = self.state();
        (state.shown, state.origin)
    }

    pub(crate) fn speed(&self) -> f64 {
        self.state().speed
    }

    /// Sets the clock, as an operator does.
    pub(crate) fn set(&self, by: Span) {
        let mut state = self.state();
        state.shown += by;
        state.origin += by;
    }

    /// A number for a new alarm.
    pub(crate) fn new_alarm(&self) -> u64 {
        let mut state = self.state();
        state.alarms_made += 1;
        state.alarms_made
    }

    /// Moves an alarm from one time to another.
    pub(crate) fn move_alarm(&self, alarm: u64, from: Option<Timestamp>, to: Option<Timestamp>) {
        let mut state = self.state();
        if let Some(from) = from {
            state.alarms.remove(&(from, alarm));
        }
        if let Some(to) = to {
            state.alarms.insert((to, alarm));
        }
    }

    /// Changes how much work is pending.
    pub(crate) fn change_pending(&self, from: usize, to: usize) {
        let mut state = self.state();
        state.pending = state.pending + to - from;
    }

    /// A piece of pending work begins to wait for time to pass.
    pub(crate) fn begin_waiting(&self) {
        self.state().waiting += 1;
    }

    /// A piece of pending work waits no longer.
    pub(crate) fn end_waiting(&self) {
        self.state().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    #[tokio::test(start_paused = true)]
    async fn time_stops_at_alarms_and_while_work_is_pending() {
        let pace = Pace::new(at(0), 10.0);
        let real = |secs| tokio::time::advance(Duration::from_secs(secs));
        real(1).await;
        assert_eq!(pace.read().0, at(10));
        let alarm = pace.new_alarm();
        pace.move_alarm(alarm, None, Some(at(15)));
        real(9).await;
        assert_eq!(pace.read().0, at(15), "it does not pass the alarm");
        pace.change_pending(0, 2);
        pace.move_alarm(alarm, Some(at(15)), Some(at(100)));
        real(5).await;
        assert_eq!(pace.read().0, at(15), "two pieces of work are pending");
        pace.begin_waiting();
        real(5).await;
        assert_eq!(pace.read().0, at(15), "one of them does not wait for time");
        pace.begin_waiting();
        real(2).await;
        assert_eq!(pace.read().0, at(35), "both wait for time to pass");
        pace.end_waiting();
        real(1).await;
        assert_eq!(pace.read().0, at(35));
        pace.end_waiting();
        pace.change_pending(2, 0);
        pace.set(Span::from_secs(-20));
        assert_eq!(pace.read().0, at(15));
        real(100).await;
        assert_eq!(pace.read().0, at(100));
        pace.set(Span::from_secs(50));
        assert_eq!(pace.read().0, at(150), "a clock that is set passes an alarm");
        real(1).await;
        assert_eq!(pace.read().0, at(150), "and stops until that is set again");
    }
}
