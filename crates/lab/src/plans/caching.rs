//! The caching problem: may a copy be served, or must the source be probed first?
//!
//! It is problem 1 of Bright, Gal, Raschid (§3.2 and §6), where scheduling is problem 2. A copy may be served
//! until the policy would refresh it. That is while the updates expected since the last refresh are below θ
//! (§6.2, §6.3), or until the time to live expires (§6.1). Must not know which client requests the copy,
//! nor whether the source may be probed now.
//!
//! The paper validates above θ and prefetches at θ, so a copy could be served at the moment of its refresh;
//! here it is not. For TTL the paper compares (request − last modified)/(TTL − last modified) with θ, "i.e.
//! the TTL has expired". That is true for θ = 1 only; for θ < 1/(1 + α) a copy would expire before it is
//! made. Here a copy expires at the end of its time to live.

use tidewatch_core::time::Timestamp;

use tidewatch_core::planning::next_probe::{Knowledge, NextProbe, next};
use tidewatch_core::planning::policy::Policy;

/// Whether a copy of `last_refresh` may be served at `now` without a probe. A copy with a sampled refresh may
/// not, because its age has no bound.
///
/// ```
/// # use tidewatch_core::model::steps::Steps;
/// # use tidewatch_core::planning::{next_probe::Knowledge, budget::Budget, policy::Policy};
/// # use tidewatch_core::time::{Span, Timestamp};
/// # use tidewatch_lab::plans::caching::may_serve;
/// let (two_an_hour, even) = (Steps::constant(2.0).unwrap(), Steps::constant(1.0).unwrap());
/// let known = Knowledge { rate: Some(&two_an_hour), ..Knowledge::nothing(Budget::default(), &even) };
/// let copied = Timestamp::from_secs(0);
/// assert!(may_serve(Policy::IndHist, &known, copied, copied + Span::from_mins(29)));
/// assert!(!may_serve(Policy::IndHist, &known, copied, copied + Span::from_mins(30)));
/// ```
pub fn may_serve(policy: Policy, known: &Knowledge<'_>, last_refresh: Timestamp, now: Timestamp) -> bool {
    // For a forecast, the expected updates until now suffice; no refresh time is computed.
    if known.plan.is_none()
        && let Some(forecast) = known.forecast(policy)
    {
        return now < known.latest(last_refresh)
            && !forecast.has_reached(known.freshness_threshold, last_refresh, now);
    }
    match next(policy, known, last_refresh, last_refresh) {
        NextProbe::At { at, .. } => now < at,
        NextProbe::Sampled { .. } => false,
    }
}
