//! Events of a source for the store and the log.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::burst::{self, BurstChange, BurstEvidence};
use crate::model::rhythm_change::RhythmChange;
use crate::planning::execution::Obstacle;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::constraint::Constraint;
use super::reason::SourceState;

/// An event worth storing or logging.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// A new address was adopted after repeated redirects.
    MoveAdopted {
        /// The new address.
        to: String,
    },
    /// The source is gone, or disallowed by robots.txt.
    Rests {
        /// The reason.
        why: StopReason,
    },
    /// A host group is paused.
    HostPaused {
        /// Its name.
        host: String,
        /// Until when.
        until: Timestamp,
    },
    /// The server asks for a pause of more than a day.
    LongPause {
        /// Until when.
        until: Timestamp,
    },
    /// Our own network is down.
    OutageBegan {
        /// How many hosts that answered before cannot be reached.
        hosts: u32,
    },
    /// Our own network is up again.
    OutageEnded {
        /// How long the outage lasted.
        lasted: Span,
        /// How many probes failed meanwhile.
        failed: u32,
    },
    /// This process has no file descriptor left.
    NoDescriptors,
    /// The source's state changed.
    StateChanged {
        /// Before.
        from: SourceState,
        /// Now.
        to: SourceState,
    },
    /// A burst began, ended or passed.
    Burst(burst::BurstChange),
    /// A burst is dropped without an end: the model no longer knows the pattern that it deviates from.
    BurstForgotten,
    /// A burst became the normal pattern: the old pattern is dropped.
    RhythmChanged,
    /// The level fell or the hours changed: the rate is learned again.
    RhythmRelearned(RhythmChange),
    /// `auto` or an adaptive policy switches to another policy.
    PolicySwitched {
        /// Before.
        from: Policy,
        /// Now.
        to: Policy,
        /// The reason.
        why: Why,
    },
    /// An expected update is missing.
    WentQuiet {
        /// The last known update.
        since: Option<Timestamp>,
        /// The expected number of updates since.
        expected: f64,
    },
    /// It updated again.
    SpokeAgain,
    /// No probe can satisfy this interval of a rule.
    RuleUnmet {
        /// The rule.
        rule: Arc<str>,
        /// The end of the interval.
        until: Timestamp,
        /// The obstacle.
        why: Obstacle,
    },
    /// The source missed its deadline.
    Tardy {
        /// The deadline.
        by: Timestamp,
        /// The constraint that forbids the probe; `None`: no slot, or no capacity.
        why: Option<Constraint>,
    },
    /// The source was probed after its deadline.
    TardyEnded {
        /// The lateness.
        late: Span,
    },
    /// The probe came after the end of a rule's interval.
    RuleMissed {
        /// The rule.
        rule: Arc<str>,
        /// The end of the interval.
        until: Timestamp,
    },
    /// The process died while this source alone was in progress; it is not probed for a while.
    DiedAlone {
        /// How often the process died while it was in progress.
        deaths: u32,
        /// When it is probed next.
        until: Timestamp,
    },
    /// A plan was rejected because the source changed since the request. Not stored.
    PlanStale,
}

/// Why a source is not probed at its usual pace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// 410.
    Gone,
    /// robots.txt disallows it.
    Robots,
}

impl StopReason {
    /// The name in the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gone => "410 Gone",
            Self::Robots => "robots.txt",
        }
    }
}

/// Why the policy in use changes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Why {
    /// The group's pattern is known, and the source has little history of its own.
    Borrowed,
    /// Its pattern is known.
    Known,
    /// A burst began, with this evidence.
    BurstOf(BurstEvidence),
    /// A burst is active.
    Burst,
    /// The burst is over.
    BurstOver,
    /// The burst became the normal pattern.
    Changed,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Borrowed => {
                f.write_str("its own history is short, so it uses the update pattern of its group")
            }
            Self::Known => f.write_str("its rhythm is known"),
            Self::BurstOf(evidence) => write!(f, "a burst: {}", InWords(evidence)),
            Self::Burst => f.write_str("a burst is on"),
            Self::BurstOver => f.write_str("the burst is over"),
            Self::Changed => f.write_str("bursts have gone on for a whole cycle: its rhythm has changed"),
        }
    }
}

/// Evidence of a burst, as text.
#[derive(Debug, Clone, Copy)]
pub struct InWords<'e>(pub &'e BurstEvidence);

impl std::fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BurstEvidence { since, at, observed, expected } = *self.0;
        write!(f, "{observed} updates from {since} to {at}, {expected:.1} expected")
    }
}

/// The name and the text of a burst event in the log.
pub fn burst_event(change: &BurstChange) -> (&'static str, String) {
    let kind = match change {
        BurstChange::Began(_) => "burst_began",
        BurstChange::Ended(_) => "burst_ended",
        BurstChange::Passed(_) => "burst_passed",
    };
    (kind, InWords(&change.evidence()).to_string())
}
