//! The actions of an engine, to be executed in order: plain values without side effects.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::probe_forecast::ProbeForecast;
use crate::planning::build::PlanOrder;
use crate::planning::plan_input::PlannedTimes;
use crate::planning::policy::Policy;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::constraint::Constraint;
use super::event::Pardon;
use super::fleet_price::FleetPrice;
use super::note::Note;
use super::params::HostGroup;
use super::reason::{Reason, SourceState};
use super::rule_counts::RuleEffects;
use super::slot_stats::SlotStats;
use super::source_memory::{Due, SourceMemory};

/// Something to execute.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Action {
    /// Store this.
    Persist(Persist),
    /// Send this probe now. Its start is committed.
    Send(Attempt),
    /// Build a plan. Every request is answered by a [`PlansReady`](super::event::PlansReady).
    BuildPlan(Box<PlanOrder>),
    /// Whether a probe may follow its redirect to another site now; else, when to ask again.
    Redirect {
        /// The source.
        source: SourceId,
        /// The answer.
        answer: Result<(), Timestamp>,
    },
    /// A notification is committed and can be delivered.
    Deliver,
    /// Write this to the log.
    Log {
        /// The source concerned.
        source: SourceId,
        /// The message.
        note: Note,
    },
    /// Probe the source at this address from now on.
    AdoptAddress {
        /// The source.
        source: SourceId,
        /// The new address.
        url: String,
    },
    /// Release all data about this source: it is no longer listed and has no probe in progress.
    Forget(SourceId),
    /// The answer to a requested probe.
    Answer {
        /// The request's number.
        request: i64,
        /// Whether the probe will be sent.
        answer: Result<(), Refusal>,
    },
    /// Send one [`Tick`](super::event::EngineEvent::Tick) at this time instead of the time named before;
    /// `None` cancels it. After a tick none is pending until the next action of this kind.
    WakeAt(Option<Timestamp>),
}

/// Data to store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Persist {
    /// Probes about to be sent. Answered by [`Committed::Started`](super::event::Committed::Started).
    Started(Vec<Attempt>),
    /// A probe whose start was committed is not sent.
    Cancelled(SourceId),
    /// The result of the probe that was reported last. Answered by
    /// [`Committed::Ended`](super::event::Committed::Ended).
    Ended(Box<ProbeResult>),
    /// Changed due times.
    Due(Vec<DueChange>),
    /// Due times of sources that were never probed.
    FirstDue(Vec<(SourceId, Timestamp)>),
    /// A source is not probed for a while: the process died while only its probe was in progress.
    Backoff(Box<BackoffChange>),
    /// A probe of this source ended, so it did not end the process.
    SuspicionOver(SourceId),
    /// Adopted plans, at most one per source.
    Plans(Vec<AdoptedPlan>),
    /// An event that belongs to no probe.
    Note {
        /// When it happened.
        at: Timestamp,
        /// The source concerned.
        source: SourceId,
        /// The event.
        note: Note,
    },
    /// Limits that the user lifted.
    Pardoned(PardonResult),
    /// How the slots were used.
    Load(SlotStats),
    /// The price that sources share.
    Price(FleetPrice),
    /// The wall clock was set: what was stored before was stored by the old clock.
    ClockSet {
        /// The difference.
        by: Span,
        /// When it was noticed.
        at: Timestamp,
    },
}

/// A probe about to be sent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Attempt {
    /// The source.
    pub source: SourceId,
    /// When it was due.
    pub due: Timestamp,
    /// When it is sent.
    pub started: Timestamp,
    /// The policy that requested it.
    pub policy: Policy,
    /// The reason for its due time.
    pub reason: Reason,
    /// What it is expected to find, if the source has a well-founded rate.
    pub forecast: Option<ProbeForecast>,
}

/// The result of a probe that ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeResult {
    /// The source.
    pub source: SourceId,
    /// The address changed while the probe was in progress: the answer does not apply to the new one.
    pub discarded: bool,
    /// The failure is our own: of our network, or of our descriptors.
    pub own_failure: bool,
    /// The probe does not count against the budget: an own failure prevented its request.
    pub uncharged: bool,
    /// State that survives a restart.
    pub memory: SourceMemory,
    /// Pause and crawl delay of a host group, if they changed.
    pub host: Option<HostAsks>,
    /// Events to store.
    pub notes: Vec<Note>,
    /// How late the probe started, if the source has a deadline.
    pub tardy: Option<Span>,
    /// The deadline of the next probe, if there is one.
    pub deadline: Option<Timestamp>,
    /// Rule matches and rule counts.
    pub rule_effects: RuleEffects,
}

/// What a pardon lifted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PardonResult {
    /// The request's number.
    pub request: i64,
    /// When it was lifted.
    pub at: Timestamp,
    /// Whose limits.
    pub whom: Pardon,
    /// The limits, and when they would have ended; empty: there was none.
    pub lifted: Vec<(Constraint, Timestamp)>,
    /// The state of the source, if it is one.
    pub state: Option<SourceState>,
}

/// The limits that a host group set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostAsks {
    /// The host group.
    pub host: HostGroup,
    /// No request before this time.
    pub paused_until: Option<Timestamp>,
    /// The least time between requests.
    pub crawl_delay: Span,
}

/// A changed due time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DueChange {
    /// The source.
    pub source: SourceId,
    /// The new due time.
    pub due: Due,
    /// The reason for it.
    pub reason: Reason,
    /// The policy that requested it.
    pub asked_by: Policy,
    /// The rule that needs the probe, if any.
    pub rule: Option<Arc<str>>,
}

/// A backoff without a probe.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BackoffChange {
    /// The source's state.
    pub state: SourceState,
    /// Failures in a row.
    pub error_streak: u32,
    /// No probe before this time.
    pub until: Option<Timestamp>,
    /// The source, and its next due time.
    pub due: DueChange,
}

/// A plan that was adopted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct AdoptedPlan {
    /// When it was built.
    pub made_at: Timestamp,
    /// The plan.
    pub plan: PlannedTimes,
    /// The plan is replaced after the next probe, so it is rarely worth storing.
    pub passing: bool,
    /// The due time that follows from it.
    pub due: DueChange,
    /// The policy that `auto` now follows.
    pub follows: Policy,
}

/// Why a requested probe is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Refusal {
    /// No such source.
    #[error("no such source")]
    Unknown,
    /// A probe is in progress.
    #[error("a probe is under way")]
    InFlight,
    /// Not allowed before this time.
    #[error("{} forbids it until {until}", .constraint.name())]
    Until {
        /// The constraint.
        constraint: Constraint,
        /// When it ends.
        until: Timestamp,
    },
}
