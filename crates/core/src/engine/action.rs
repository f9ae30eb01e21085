//! What an engine tells its shell to do, in this order: plain values, and nothing that acts.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::planning::build::PlanOrder;
use crate::planning::policy::Policy;
use crate::planning::rolling::Ahead;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::book::RuleEffects;
use super::constraint::Constraint;
use super::load::SlotStats;
use super::memory::{Due, SourceMemory};
use super::note::Note;
use super::params::HostGroup;
use super::reason::Reason;

/// Something to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Store this.
    Persist(Persist),
    /// Send this probe now. Its start is committed.
    Send(Attempt),
    /// Make a plan. Every request is answered by a [`PlansReady`](super::event::PlansReady).
    BuildPlan(Box<PlanOrder>),
    /// Something to be delivered is committed.
    Deliver,
    /// Say this to people.
    Log {
        /// The source that it is about.
        source: SourceId,
        /// What.
        note: Note,
    },
    /// Ask the source at this address from now on.
    AdoptAddress {
        /// Which source.
        source: SourceId,
        /// Where.
        url: String,
    },
    /// Forget what is held for this source: it is no longer listed, and no probe of it is in progress.
    Forget(SourceId),
    /// The answer to a requested probe.
    Answer {
        /// Which request.
        request: i64,
        /// Whether the probe will be sent.
        answer: Result<(), Refusal>,
    },
    /// Send one [`Tick`](super::event::Event::Tick) at this time, and none at the time named before; `None`: at no
    /// time. After a tick none is pending until this is asked for again.
    WakeAt(Option<Timestamp>),
}

/// What is to be stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Persist {
    /// Probes about to be sent. To be answered by [`Committed::Started`](super::event::Committed::Started).
    Started(Vec<Attempt>),
    /// A probe whose start was committed is not sent after all.
    Cancelled(SourceId),
    /// The end of the probe that was reported last. To be answered by
    /// [`Committed::Ended`](super::event::Committed::Ended).
    Ended(Box<ProbeResult>),
    /// When sources are due since.
    Due(Vec<DueChange>),
    /// When sources that were never probed are due.
    FirstDue(Vec<(SourceId, Timestamp)>),
    /// Plans that were adopted, at most one for each source.
    Plans(Vec<AdoptedPlan>),
    /// Something worth an event that goes with no probe.
    Note {
        /// When.
        at: Timestamp,
        /// The source that it is about.
        source: SourceId,
        /// What.
        note: Note,
    },
    /// What the slots were used for.
    Load(SlotStats),
    /// The clock was set: what was promised in real time moves with it.
    ClockSet {
        /// By so much.
        by: Span,
        /// When.
        at: Timestamp,
        /// What is older, by the clock as it was, no longer binds any budget.
        since: Timestamp,
    },
}

/// A probe about to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Of which source.
    pub source: SourceId,
    /// When it was due.
    pub due: Timestamp,
    /// When it is sent.
    pub started: Timestamp,
    /// The policy that asked for it.
    pub policy: Policy,
    /// Why then.
    pub reason: Reason,
}

/// What follows from a probe that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// Of which source.
    pub source: SourceId,
    /// The source moved while the probe was in progress: what it saw says nothing about the new address.
    pub discarded: bool,
    /// What must survive a restart.
    pub memory: SourceMemory,
    /// What a host group asks, when that changed.
    pub host: Option<HostAsks>,
    /// What is worth an event.
    pub notes: Vec<Note>,
    /// How late the probe was, where the source has a deadline.
    pub tardy: Option<Span>,
    /// By when the next probe must start, where that is bound.
    pub look_by: Option<Timestamp>,
    /// What rules matched, and their counts.
    pub follows: RuleEffects,
}

/// What a host group asks of us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAsks {
    /// Which.
    pub host: HostGroup,
    /// Not before.
    pub paused_until: Option<Timestamp>,
    /// Between requests.
    pub crawl_delay: Span,
}

/// A source that is due at another time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DueChange {
    /// Which.
    pub source: SourceId,
    /// When.
    pub due: Due,
    /// Why then.
    pub reason: Reason,
    /// The policy that asks.
    pub asked_by: Policy,
    /// The rule behind it, if one is.
    pub rule: Option<Arc<str>>,
}

/// A plan that was adopted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdoptedPlan {
    /// When it was made.
    pub made_at: Timestamp,
    /// The plan.
    pub plan: Ahead,
    /// The next one comes with the next probe, so that this one is seldom worth remembering.
    pub passing: bool,
    /// When the source is due since.
    pub due: DueChange,
    /// The policy that `auto` follows since.
    pub follows: Policy,
}

/// A requested probe that is not allowed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// No such source.
    #[error("no such source")]
    Unknown,
    /// One is in progress.
    #[error("a probe is under way")]
    InFlight,
    /// Not before this time.
    #[error("{} forbids it until {until}", .constraint.name())]
    Until {
        /// What forbids it.
        constraint: Constraint,
        /// Until when.
        until: Timestamp,
    },
}
