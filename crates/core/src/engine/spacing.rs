//! Spacing between requests to one host group.
//!
//! governor keeps it, one cell a host (burst 1), on a clock that shows what the fleet was told:
//! so it runs the same in the daemon, the simulator and the tests.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::clock::Clock;
use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::keyed::HashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::time::{Span, Timestamp};

use super::frontier::HostIx;

/// Nanoseconds since the fleet began, moved only by [`Spacing::allow`].
#[derive(Debug, Clone, Default)]
struct ToldTime(Arc<AtomicU64>);

impl Clock for ToldTime {
    type Instant = Nanos;

    fn now(&self) -> Nanos {
        Nanos::from(self.0.load(Ordering::Relaxed))
    }
}

type Limiter = RateLimiter<HostIx, HashMapStateStore<HostIx>, ToldTime, NoOpMiddleware<Nanos>>;

pub(super) struct Spacing {
    limiter: Option<Limiter>,
    told: ToldTime,
    began: Timestamp,
}

impl Spacing {
    /// A spacing of zero allows everything.
    pub fn new(spacing: Span, began: Timestamp) -> Self {
        let told = ToldTime::default();
        let limiter = Quota::with_period(spacing.to_duration())
            .map(|quota| RateLimiter::hashmap_with_clock(quota.allow_burst(NonZeroU32::MIN), told.clone()));
        Self { limiter, told, began }
    }

    /// Takes the host's cell, or says from when it can be taken.
    pub fn allow(&self, host: HostIx, now: Timestamp) -> Result<(), Timestamp> {
        let Some(limiter) = &self.limiter else { return Ok(()) };
        let millis = (now - self.began).as_millis().max(0).unsigned_abs();
        self.told.0.store(millis.saturating_mul(1_000_000), Ordering::Relaxed);
        limiter.check_key(&host).map_err(|not_until| {
            let nanos = not_until.earliest_possible().as_u64();
            self.began + Span::from_millis(i64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(i64::MAX))
        })
    }

    /// Forgets hosts whose cell has long been free.
    pub fn tidy(&self) {
        if let Some(limiter) = &self.limiter {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }

    /// Follows a clock that was set.
    pub fn shift(&mut self, by: Span) {
        self.began += by;
    }
}

impl std::fmt::Debug for Spacing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spacing").field("began", &self.began).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_request_a_spacing_a_host() {
        let start = Timestamp::from_secs(1_000);
        let spacing = Spacing::new(Span::from_secs(2), start);
        let host = HostIx(1);
        assert_eq!(spacing.allow(host, start), Ok(()));
        assert_eq!(spacing.allow(host, start + Span::from_secs(1)), Err(start + Span::from_secs(2)));
        assert_eq!(spacing.allow(HostIx(2), start + Span::from_secs(1)), Ok(()));
        assert_eq!(spacing.allow(host, start + Span::from_secs(2)), Ok(()));
        spacing.tidy();
        assert_eq!(spacing.allow(host, start + Span::from_secs(3)), Err(start + Span::from_secs(4)));
    }
}
