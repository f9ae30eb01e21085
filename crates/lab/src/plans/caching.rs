//! The caching problem: a copy is asked for; may it be served, or must the source be asked first?
//!
//! The other side of the policies (Bright, Gal, Raschid, §3.2 and §6: problem 1, where scheduling
//! is problem 2). A copy may be served until the policy would refresh it: while the updates expected
//! since the last refresh have not reached θ (§6.2, §6.3), or the time to live has not run out (§6.1).
//!
//! The paper validates above θ and prefetches at θ, so that a copy might be served at the moment of its
//! refresh; here it is not. For TTL it compares (request − last modified)/(TTL − last modified) with
//! θ, "i.e. the TTL has expired", which is that for θ = 1 only, and for θ < 1/(1 + α) would have a copy
//! expire before it came; here a copy expires when its time is over.
//!
//! Knows one copy. Must not know who asks for it, nor whether the source may be asked now.

use tidewatch_core::time::Timestamp;

use tidewatch_core::planning::ask::{Knowledge, NextProbe, next};
use tidewatch_core::planning::policy::Policy;

/// Whether a copy of `last_refresh` may be served at `now` without asking the source. One whose refresh
/// is left to chance may not: nothing says how old it gets.
///
/// ```
/// # use tidewatch_core::model::steps::Steps;
/// # use tidewatch_core::planning::{ask::Knowledge, budget::Budget, policy::Policy};
/// # use tidewatch_core::time::{Span, Timestamp};
/// # use tidewatch_lab::plans::caching::may_serve;
/// let (two_an_hour, even) = (Steps::constant(2.0).unwrap(), Steps::constant(1.0).unwrap());
/// let known = Knowledge { rate: Some(&two_an_hour), ..Knowledge::nothing(Budget::default(), &even) };
/// let copied = Timestamp::from_secs(0);
/// assert!(may_serve(Policy::IndHist, &known, copied, copied + Span::from_mins(29)));
/// assert!(!may_serve(Policy::IndHist, &known, copied, copied + Span::from_mins(30)));
/// ```
pub fn may_serve(policy: Policy, known: &Knowledge<'_>, last_refresh: Timestamp, now: Timestamp) -> bool {
    // No time needs to be found for what the histories expect by now.
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
