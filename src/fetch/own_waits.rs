//! The time for which an exchange waited for this process, which counts against no source.
//!
//! While a body waits for memory, its server cannot send. Must not know what is waited for.

use std::pin::pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::{RanOut, Stopwatch, patience};

/// A time-out that expires during a wait is checked again after this time, or after what the wait took.
const AGAIN: Duration = Duration::from_millis(50);

/// The waits of one exchange.
#[derive(Debug, Default)]
pub(super) struct OwnWaits(Mutex<Waited>);

#[derive(Debug, Default, Clone, Copy)]
struct Waited {
    ended: Duration,
    current: Option<Stopwatch>,
}

impl OwnWaits {
    /// Waits, at most for `limit`.
    pub(super) async fn wait<T>(
        &self,
        limit: Duration,
        wait: impl Future<Output = T>,
    ) -> Result<T, RanOut> {
        self.change(|waited| waited.current = Some(Stopwatch::start()));
        let done = patience(limit, wait).await;
        self.change(|waited| *waited = Waited { ended: waited.total(), current: None });
        done
    }

    /// The time of all waits so far.
    pub(super) fn total(&self) -> Duration {
        self.change(|waited| waited.total())
    }

    /// Limits a future to this much real time, without its waits.
    pub(super) async fn patience<T>(
        &self,
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, RanOut> {
        let stopwatch = Stopwatch::start();
        let mut future = pin!(future);
        let mut left = limit;
        loop {
            let ran_out = match patience(left, &mut future).await {
                Ok(done) => return Ok(done),
                Err(ran_out) => ran_out,
            };
            left = (limit + self.total()).saturating_sub(stopwatch.elapsed());
            if left.is_zero() && !self.change(|waited| waited.current.is_some()) {
                return Err(ran_out);
            }
            left = left.max(AGAIN);
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Waited) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Waited {
    fn total(self) -> Duration {
        self.ended + self.current.map_or(Duration::ZERO, |current| current.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::real_pause;

    const SECOND: Duration = Duration::from_secs(1);

    /// Waits for this long for us, then takes as many seconds for itself.
    async fn after_waiting(waits: &OwnWaits, wait: u32, work: u32) -> bool {
        let all = async {
            let in_time = waits.wait(20 * SECOND, real_pause(wait * SECOND)).await.is_ok();
            real_pause(work * SECOND).await;
            in_time
        };
        waits.patience(10 * SECOND, all).await.unwrap_or(false)
    }

    #[tokio::test(start_paused = true)]
    async fn a_time_out_does_not_count_waits_which_are_bounded_too() {
        for (wait, work, in_time) in
            [(0, 9, true), (0, 11, false), (9, 9, true), (19, 9, true), (19, 11, false), (21, 0, false)]
        {
            let waits = OwnWaits::default();
            assert_eq!(after_waiting(&waits, wait, work).await, in_time, "{wait} s and {work} s");
            assert!(waits.total().abs_diff(wait.min(20) * SECOND) < SECOND / 10);
        }
    }
}
