//! What makes the next probe of a source more urgent than its policy does.
//!
//! Kept from when it is known until that probe ends, whatever defers the probe meanwhile.

use serde::{Deserialize, Serialize};

use super::reason::Reason;

/// Why the next probe is urgent, if it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Urgency {
    /// It is not: its policy, a rule or a deadline asks for it.
    #[default]
    Usual,
    /// The source was never seen.
    FirstContact,
    /// Items may have been lost, so it comes sooner than its policy wants.
    ItemsLost,
    /// Someone requested it.
    Requested {
        /// The source was stopped then, and is again if this probe fails.
        was_stopped: bool,
    },
}

impl Urgency {
    /// The source is due for that reason.
    pub fn due_for(self, because: Reason) -> Self {
        match (because, self) {
            (Reason::FirstContact, _) => Self::FirstContact,
            (Reason::Gap, _) => Self::ItemsLost,
            (_, Self::FirstContact) => Self::Usual,
            _ => self,
        }
    }

    /// Someone requests a probe of the source.
    pub fn requested(self, is_stopped: bool) -> Self {
        Self::Requested { was_stopped: is_stopped || self.was_stopped() }
    }

    /// Whether the source was stopped when someone requested the probe.
    pub fn was_stopped(self) -> bool {
        self == Self::Requested { was_stopped: true }
    }

    /// Whether it is left to sampling like any other.
    pub fn may_be_sampled(self) -> bool {
        self == Self::Usual
    }

    /// Whether no plan and no rule makes it later.
    pub fn keeps_its_time(self) -> bool {
        matches!(self, Self::ItemsLost | Self::Requested { .. })
    }
}
