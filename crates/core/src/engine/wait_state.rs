//! The scheduling condition of a source.

use serde::{Deserialize, Serialize};

use super::action::Attempt;
use super::hosts::HostIx;

/// The event that a source waits for.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) enum Condition {
    /// None: no probe is due until one is requested.
    #[default]
    Idle,
    /// Its due time, in the queue of its host.
    Queued,
    /// Its host, which was closed when the source was selected.
    Parked,
    /// A slot.
    WaitsForSlot(SlotClass),
    /// The end of its probe. Boxed: few sources are probed at once.
    InProgress(Box<InProgress>),
}

/// The class of slots that a source may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SlotClass {
    /// First: a rule or a deadline needs a probe by a certain time.
    Deadline,
    /// Second: its probe is due.
    Due,
    /// Last: the remaining slots.
    Sampled,
}

/// The host groups of a probe: the source's own, and the one that its redirects lead to.
pub(super) type ProbeHosts = (HostIx, Option<HostIx>);

/// A probe from its start until its end is committed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(super) struct InProgress {
    pub attempt: Attempt,
    /// Busy until the probe ends.
    pub hosts: ProbeHosts,
    /// The source's address changed after the probe was sent.
    pub moved: bool,
    /// A notification is to be delivered when the end is committed.
    pub deliver: bool,
}

impl Condition {
    /// Whether a probe is in progress.
    pub fn is_in_progress(&self) -> bool {
        matches!(self, Self::InProgress(_))
    }

    /// The probe in progress.
    pub fn in_progress(&self) -> Option<InProgress> {
        match self {
            Self::InProgress(probe) => Some(**probe),
            _ => None,
        }
    }

    /// Whether the source waits for a slot.
    pub fn waits_for_slot(&self) -> bool {
        matches!(self, Self::WaitsForSlot(_))
    }
}

/// What a source waits for. Its condition changes only when the source enters or leaves a queue, or its probe
/// begins.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct WaitState(Condition);

impl WaitState {
    /// In no queue; a probe that is in progress stays so.
    pub fn resumed(probe: Option<InProgress>) -> Self {
        Self(probe.map_or(Condition::Idle, |probe| Condition::InProgress(Box::new(probe))))
    }

    /// The condition.
    pub fn condition(&self) -> &Condition {
        &self.0
    }

    /// Enters a queue, or begins its probe.
    pub fn enter(&mut self, condition: Condition) {
        self.0 = condition;
    }

    /// Leaves the current condition and returns it.
    pub fn leave(&mut self) -> Condition {
        std::mem::take(&mut self.0)
    }

    /// The probe in progress, to be changed.
    pub fn probe_mut(&mut self) -> Option<&mut InProgress> {
        match &mut self.0 {
            Condition::InProgress(probe) => Some(probe),
            _ => None,
        }
    }
}
