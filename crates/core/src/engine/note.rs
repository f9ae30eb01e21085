//! What happened to a source that is worth an event in the store or a line in the log.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::burst::{self, BurstChange, BurstEvidence};
use crate::planning::execution::Obstacle;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::constraint::Constraint;
use super::reason::SourceState;

/// Something worth an event in the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Note {
    /// The source's new address was adopted after repeated proof.
    MoveAdopted {
        /// Where it is now.
        to: String,
    },
    /// The source rests.
    Rests {
        /// Why.
        why: StopReason,
    },
    /// A host group is paused.
    HostPaused {
        /// Its name.
        host: String,
        /// Until when.
        until: Timestamp,
    },
    /// Our own network is down.
    OutageBegan,
    /// It is up again.
    OutageEnded,
    /// The source went from one state to another.
    StateChanged {
        /// Before.
        from: SourceState,
        /// Now.
        to: SourceState,
    },
    /// A burst began, ended or passed.
    Burst(burst::BurstChange),
    /// A burst is no longer known to be on: nothing is known of the rhythm that it would break.
    BurstForgotten,
    /// A burst has become the rhythm: what was known before is forgotten.
    RhythmChanged,
    /// `auto` goes over to another policy.
    PolicySwitched {
        /// Before.
        from: Policy,
        /// Now.
        to: Policy,
        /// The reason.
        why: Why,
    },
    /// It should have updated and has not.
    WentQuiet {
        /// The last update known.
        since: Option<Timestamp>,
        /// How many were expected since.
        expected: f64,
    },
    /// It updated again.
    SpokeAgain,
    /// A span of a rule that no probe will serve.
    RuleUnmet {
        /// Whose.
        rule: Arc<str>,
        /// It ends then.
        until: Timestamp,
        /// What is in the way.
        why: Obstacle,
    },
    /// It has gone unseen for longer than it may.
    Tardy {
        /// It was to be looked at by then.
        by: Timestamp,
        /// What forbids it; nothing: there were no slots, or no capacity.
        why: Option<Constraint>,
    },
    /// It was looked at, too late.
    TardyEnded {
        /// By so much.
        late: Span,
    },
    /// A span of a rule was over when the probe came.
    RuleMissed {
        /// Whose.
        rule: Arc<str>,
        /// It ended then.
        until: Timestamp,
    },
    /// A plan was refused because the source has changed since the request. Not stored.
    PlanStale,
}

/// Why a source rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum StopReason {
    /// 410.
    Gone,
    /// robots.txt closes it to us.
    Robots,
}

impl StopReason {
    /// In the log.
    pub fn name(self) -> &'static str {
        match self {
            Self::Gone => "410 Gone",
            Self::Robots => "robots.txt",
        }
    }
}

/// Why `auto` goes over to another policy.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Why {
    /// Its group's rhythm is known, and it has little history of its own.
    Borrowed,
    /// Its rhythm is known.
    Known,
    /// A burst began, of which this was seen.
    BurstOf(BurstEvidence),
    /// A burst is on.
    Burst,
    /// The burst is over.
    BurstOver,
    /// The burst is what it does from now on.
    Changed,
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Borrowed => f.write_str("its own history is thin, and it borrows its group's rhythm"),
            Self::Known => f.write_str("its rhythm is known"),
            Self::BurstOf(evidence) => write!(f, "a burst: {}", InWords(evidence)),
            Self::Burst => f.write_str("a burst is on"),
            Self::BurstOver => f.write_str("the burst is over"),
            Self::Changed => f.write_str("bursts have gone on for a whole cycle: its rhythm has changed"),
        }
    }
}

/// Evidence of a burst, for people.
#[derive(Debug, Clone, Copy)]
pub struct InWords<'e>(pub &'e BurstEvidence);

impl std::fmt::Display for InWords<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let BurstEvidence { since, at, observed, expected } = *self.0;
        write!(f, "{observed} updates from {since} to {at}, {expected:.1} expected")
    }
}

/// A burst's part in the log: what it is called there, and what is known of it.
pub fn burst_event(change: &BurstChange) -> (&'static str, String) {
    let kind = match change {
        BurstChange::Began(_) => "burst_began",
        BurstChange::Ended(_) => "burst_ended",
        BurstChange::Passed(_) => "burst_passed",
    };
    (kind, InWords(&change.evidence()).to_string())
}
