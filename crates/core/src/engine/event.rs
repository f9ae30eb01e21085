//! The events of an engine: plain values without side effects.

use serde::{Deserialize, Serialize};

use crate::model::hourly_profile::HourlyProfile;
use crate::model::source_model::ModelUpdate;
use crate::observe::FeedHints;
use crate::planning::execution::Interval;
use crate::planning::plan::Revision;
use crate::planning::plan_input::PlannedTimes;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::params::{FleetParams, HostGroup, Terms};
use super::rule_counts::{RuleMatches, RuleSet};
use super::source_memory::SourceMemory;

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EngineEvent {
    /// The time of the last [`WakeAt`](super::action::Action::WakeAt) is reached.
    Tick,
    /// The store has committed data.
    Committed(Committed),
    /// A probe ended.
    ProbeEnded(Box<ProbeReport>),
    /// Results of plans that were requested.
    PlansReady(PlansReady),
    /// These sources have a new rate.
    RatesFitted(Vec<SourceId>),
    /// The configuration changed.
    Configured(Box<Configuration>),
    /// A probe is requested now.
    ProbeRequested {
        /// The source.
        source: SourceId,
        /// The request's number, repeated in the answer.
        request: i64,
    },
    /// The wall clock was set.
    ClockSet {
        /// The difference.
        by: Span,
    },
    /// The process died before, while the probes of these sources were in progress.
    Died(Vec<CrashSuspect>),
    /// No more probes may start.
    Stopping,
}

/// A source that may have ended the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashSuspect {
    /// The source.
    pub source: SourceId,
    /// How often the process died while its probe was in progress, since one of its probes ended.
    pub deaths: u32,
    /// No other probe was in progress at the last death, which has had no consequence yet.
    pub alone: bool,
}

/// The data that was committed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Committed {
    /// The start of these sources' probes.
    Started(Vec<SourceId>),
    /// The end of this source's probe.
    Ended(SourceId),
}

/// How a probe ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProbeReport {
    /// The source.
    pub source: SourceId,
    /// When the request was sent.
    pub started: Timestamp,
    /// When it ended; the budget counts from this time.
    pub finished: Timestamp,
    /// The host group that answered, if any: the source's own, or the one that redirects led to.
    pub answered_by: Option<HostGroup>,
    /// The crawl delay of robots.txt, when that was read.
    pub crawl_delay: Option<Span>,
    /// The outcome.
    pub result: Result<ProbeAnswer, Failure>,
}

/// An answer that could be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// Updates found.
    pub updates: u32,
    /// Dated items found at first contact: history, not updates.
    pub history: u32,
    /// Items may have been lost since the last probe.
    pub gap: bool,
    /// How many items the document holds, if it is a feed that was read whole.
    pub holds: Option<u32>,
    /// The feed's own hints; `None` if the answer had no body (not modified).
    pub hints: Option<FeedHints>,
    /// The answer stays fresh for this long.
    pub fresh_for: Option<Span>,
    /// The target of a permanent redirect.
    pub moved_to: Option<MovedTo>,
    /// Bytes of the body.
    pub bytes: u64,
    /// The update of the model.
    pub model: ModelUpdate,
    /// Rule matches, if rules concern the source.
    pub rules: Option<Box<RuleReading>>,
}

/// The target of a permanent redirect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedTo {
    /// The address.
    pub url: String,
    /// Its host group.
    pub host: HostGroup,
}

/// The matches of a probe for rules.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleReading {
    /// By rule.
    pub matches: Vec<RuleMatches>,
    /// Updates found, without edits of known items: those that the rate predicts.
    pub found: u32,
    /// Updates that the rate predicted since the probe before.
    pub expected: Option<f64>,
}

/// Why a probe failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// 410: permanent.
    Gone,
    /// The source or its host asks for a pause.
    Throttled {
        /// How long, if the answer says so.
        retry_after: Option<Span>,
    },
    /// Any other error status.
    Refused,
    /// No answer.
    Unreachable,
    /// An answer that could not be read, or that broke a limit.
    Unreadable,
    /// robots.txt disallows it.
    Forbidden,
    /// The probe was stopped before the answer was complete: not the source's fault.
    Interrupted,
}

/// Results of plans that were requested.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlansReady {
    /// How many requests this answers, including those without a result.
    pub requests: usize,
    /// Hourly rate profiles.
    pub profiles: Vec<SourceProfile>,
    /// Plans.
    pub plans: Vec<MadePlan>,
    /// Intervals in which updates are predicted, for rules.
    pub intervals: Vec<PredictedIntervals>,
}

/// A finished plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MadePlan {
    /// The source.
    pub source: SourceId,
    /// The revision of the source that it was built from.
    pub made_from: Revision,
    /// When it was built.
    pub at: Timestamp,
    /// The plan.
    pub ahead: PlannedTimes,
}

/// The rate of a source by hour of the week.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceProfile {
    /// The source.
    pub source: SourceId,
    /// Each hour relative to the mean.
    pub profile: HourlyProfile,
    /// The mean.
    pub per_hour: f64,
    /// How many updates it is estimated from.
    pub updates: u32,
    /// Variance over mean of its counts, at least 1.
    pub dispersion: f64,
}

/// Intervals with predicted updates that rules wait for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictedIntervals {
    /// The source.
    pub source: SourceId,
    /// The revision of the source that they were predicted from.
    pub made_from: Revision,
    /// The intervals that need a probe; `None` if updates cannot be predicted.
    pub intervals: Option<Vec<Interval>>,
}

/// The difference between two configurations.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Configuration {
    /// Limits for all sources.
    pub params: FleetParams,
    /// New sources.
    pub added: Vec<KnownSource>,
    /// Changed sources.
    pub changed: Vec<Changed>,
    /// Sources that are no longer listed.
    pub removed: Vec<SourceId>,
    /// All rules, if they changed.
    pub rules: Option<RuleSet>,
    /// An input of plans changed: plans are built again as probes end.
    pub replan: bool,
}

/// A source from the store and the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownSource {
    /// Its number.
    pub id: SourceId,
    /// The user's limits for it.
    pub terms: Terms,
    /// Its stored state.
    pub memory: SourceMemory,
    /// When its logged probes ended.
    pub probes: Vec<Timestamp>,
    /// The host group that answered last, if redirects led to another than its own.
    pub answered_by: Option<HostGroup>,
    /// Whether its address differs from that of a probe in progress.
    pub moved: Moved,
}

/// A source whose terms changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// The source.
    pub id: SourceId,
    /// The user's limits for it now.
    pub terms: Terms,
    /// Whether its address changed.
    pub moved: Moved,
    /// When its logged probes ended. Read again if the new budget has a longer period than the old one,
    /// else empty.
    pub probes: Vec<Timestamp>,
}

/// Whether a source's address changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moved {
    /// Unchanged.
    Same,
    /// Changed: validators, hints and errors of the old address do not apply to the new one.
    Elsewhere,
}
