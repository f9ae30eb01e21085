//! Planning in mid-flight: the next probes of a source that has been probed before.
//!
//! A budget of n per T holds in *any* window of length T, so what was spent within the last T is
//! still spent, and comes back probe by probe as it grows older than T. A plan therefore looks T
//! ahead: within that at most n probes are possible, and of any window that reaches back before now
//! the spent ones are subtracted (the [`Horizon`]'s allowance). A plan made anew after every few
//! probes, or a fit, so neither wastes budget nor spends it twice.
//!
//! Knows one source as it stands. Must not know where its rate came from, nor who carries the plan
//! out.

use crate::observe::FeedHints;
use crate::rate::steps::Steps;
use crate::time::{Span, Timestamp};

use super::budget::Budget;

/// A source as it stands when a plan is made.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// When.
    pub now: Timestamp,
    /// n, T, δ.
    pub budget: Budget,
    /// When its probes ended, ascending; those of the last T at least.
    pub spent: Vec<Timestamp>,
    /// Nothing is allowed before: backoff, `Retry-After`, a paused host.
    pub not_before: Timestamp,
    /// What every answer asks to keep until the next probe: `max-age`.
    pub fresh_for: Span,
    /// What its feed asks.
    pub hints: FeedHints,
    /// M: how many items its feed holds, where that is known.
    pub holds: Option<u32>,
    /// In [0, 1): where between two times of the grid this source's own grid lies, so that sources
    /// of one rhythm are not all probed on the minute.
    pub phase: f64,
}

/// A plan for the time ahead.
#[derive(Debug, Clone, PartialEq)]
pub struct Ahead {
    /// When to probe, ascending.
    pub times: Vec<Timestamp>,
    /// From when it was planned.
    pub starts: Timestamp,
    /// Until when.
    pub ends: Timestamp,
    /// C̄ over it, in update·hours times importance.
    pub expected_cost: f64,
    /// No allowed plan on its grid can cost less.
    pub lower_bound: f64,
    /// About what one probe more would save.
    pub price: f64,
    /// The largest probability that more items come between two probes than the feed holds.
    pub overflow: Option<f64>,
}

/// The best plan from now on under this rate, in updates per hour, and importance. `None` where
/// nothing can be planned: every time is closed for all of T.
pub fn plan(standing: &Standing, rate: &Steps, importance: &Steps) -> Option<Ahead> {
    let _ = (standing, rate, importance);
    None
}
