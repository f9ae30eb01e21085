//! What a peer is shown, and the rule by which it waits.

use tidewatch_core::time::{Span, Timestamp};

/// What a peer's probe showed it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shown<'s> {
    /// When it looked.
    pub now: Timestamp,
    /// When it looked before, if it did.
    pub last: Option<Timestamp>,
    /// How many of the items it had not seen before; all of them at the first look.
    pub new: usize,
    /// The dates of what the feed shows, ascending.
    pub items: &'s [Timestamp],
}

/// How long a peer waits after a look.
pub(super) trait Rule {
    /// The wait until the next probe, from what this one showed.
    fn wait(&mut self, shown: &Shown<'_>) -> Span;
}

/// The same wait always. Miniflux's round robin is no other: the interval's upper limit of 24 hours is
/// there for what servers ask for.
pub(super) struct Every(pub Span);

impl Rule for Every {
    fn wait(&mut self, _: &Shown<'_>) -> Span {
        self.0
    }
}
