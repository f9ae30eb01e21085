//! The input of a peer's rule, and the rule that sets its next interval.

use tidewatch_core::time::{Span, Timestamp};

/// The result of a peer's probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shown<'s> {
    /// Time of the probe.
    pub now: Timestamp,
    /// Time of the probe before, if any.
    pub last: Option<Timestamp>,
    /// Number of items that are new; all of them at the first probe.
    pub new: usize,
    /// The dates of the feed's items, ascending.
    pub items: &'s [Timestamp],
}

/// The rule for the interval after a probe.
pub(super) trait PeerRule {
    /// The interval until the next probe, from the result of this one.
    fn wait(&mut self, shown: &Shown<'_>) -> Span;
}

/// A constant interval. Miniflux's round robin is the same: its upper limit of 24 hours only applies to
/// server hints.
pub(super) struct Every(pub Span);

impl PeerRule for Every {
    fn wait(&mut self, _: &Shown<'_>) -> Span {
        self.0
    }
}
