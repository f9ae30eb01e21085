//! What a source waits for at the moment.

use serde::{Deserialize, Serialize};

use super::action::Attempt;
use super::hosts::HostIx;

/// What a source waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) enum Condition {
    /// For nothing: no probe of it is due until someone requests one.
    #[default]
    Idle,
    /// For its due time, in the queue of its host.
    Queued,
    /// For its host, which was closed when its turn came.
    Parked,
    /// For a slot.
    WaitsForSlot(SlotClass),
    /// For the end of its probe.
    InProgress(InProgress),
}

/// Which slots a source may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SlotClass {
    /// The first ones: a rule or a deadline wants a probe by a certain time.
    Deadline,
    /// The next ones: its probe is due.
    Due,
    /// Those that are left.
    Sampled,
}

/// The host groups that a probe asks: the source's own, and the one that its redirects lead to.
pub(super) type ProbeHosts = (HostIx, Option<HostIx>);

/// A probe from its start until its end is committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InProgress {
    pub attempt: Attempt,
    /// Busy until it ends.
    pub hosts: ProbeHosts,
    /// The source's address was changed since it was sent.
    pub moved: bool,
    /// Something is to be delivered when its end is committed.
    pub deliver: bool,
}

impl Condition {
    /// Whether a probe is in progress.
    pub fn is_in_progress(self) -> bool {
        matches!(self, Self::InProgress(_))
    }

    /// The probe in progress.
    pub fn in_progress(self) -> Option<InProgress> {
        match self {
            Self::InProgress(probe) => Some(probe),
            _ => None,
        }
    }

    /// Whether it waits for a slot.
    pub fn waits_for_slot(self) -> bool {
        matches!(self, Self::WaitsForSlot(_))
    }
}
