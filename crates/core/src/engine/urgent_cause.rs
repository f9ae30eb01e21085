//! Why the next probe of a source is more urgent than by its policy.
//!
//! Kept until that probe ends, whatever defers the probe.

use serde::{Deserialize, Serialize};

use super::reason::Reason;

/// Why the next probe is urgent, if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Urgency {
    /// Not urgent: requested by its policy, a rule or a deadline.
    #[default]
    Usual,
    /// The source was never probed.
    FirstContact,
    /// Items may have been lost: it comes sooner than by its policy.
    ItemsLost,
    /// It was requested by hand.
    Requested {
        /// The source was stopped then. It is stopped again if this probe fails.
        was_stopped: bool,
    },
}

impl Urgency {
    /// The urgency after the due time was set for this reason.
    pub fn due_for(self, because: Reason) -> Self {
        match (because, self) {
            (Reason::FirstContact, _) => Self::FirstContact,
            (Reason::Gap, _) => Self::ItemsLost,
            (_, Self::FirstContact) => Self::Usual,
            _ => self,
        }
    }

    /// The urgency after a request by hand.
    pub fn requested(self, is_stopped: bool) -> Self {
        Self::Requested { was_stopped: is_stopped || self.was_stopped() }
    }

    /// Whether the source was stopped when the probe was requested.
    pub fn was_stopped(self) -> bool {
        self == Self::Requested { was_stopped: true }
    }

    /// Whether it may be sampled.
    pub fn may_be_sampled(self) -> bool {
        self == Self::Usual
    }

    /// Whether plans and rules may not delay it.
    pub fn keeps_its_time(self) -> bool {
        matches!(self, Self::ItemsLost | Self::Requested { .. })
    }
}
