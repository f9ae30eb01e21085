//! The events of an engine: plain values without side effects.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

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
    /// The answer to a probe redirects to another site, whose gate decides when the probe goes on.
    ProbeRedirected {
        /// The source.
        source: SourceId,
        /// The other site.
        to: HostGroup,
    },
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
    /// The user lifts what a server asked for, or a backoff.
    Pardoned {
        /// Whose.
        whom: Pardon,
        /// The request's number, repeated in the result.
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

/// Whose limits the user lifts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pardon {
    /// `Retry-After` and backoff of a source.
    Source(SourceId),
    /// The pause of a host group.
    Host(Arc<str>),
}

/// A source whose probe was in progress when the process died.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrashSuspect {
    /// The source.
    pub source: SourceId,
    /// How often the process died in a row while its probe was in progress.
    pub deaths: u32,
    /// What the last of these deaths says about it.
    pub evidence: CrashEvidence,
}

/// What a death of the process says about a source that was in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CrashEvidence {
    /// Other probes were in progress too.
    Beside,
    /// No other probe was in progress. It has had no consequence yet.
    Alone,
    /// No other probe was in progress, and the source was backed off for that.
    BackedOff,
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
    /// The crawl delays of every robots.txt that was read.
    pub crawl_delays: Vec<CrawlDelay>,
    /// The outcome.
    pub result: Result<ProbeAnswer, Failure>,
}

impl ProbeReport {
    /// Whether no request was sent. A request to the site that redirects was.
    pub fn is_before_request(&self) -> bool {
        self.answered_by.is_none() && self.result.as_ref().is_err_and(|failure| failure.is_before_request())
    }
}

/// What robots.txt of an origin asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrawlDelay {
    /// The host group of the origin.
    pub host: HostGroup,
    /// Scheme, host and port.
    pub origin: String,
    /// The least time between two requests; zero: none is asked for.
    pub delay: Span,
}

impl ProbeReport {
    /// Moves its times after the clock was set by `by` to `now`.
    pub fn shift(&mut self, by: Span, now: Timestamp) {
        (self.started, self.finished) = (self.started + by, self.finished + by);
        if let Ok(answer) = &mut self.result {
            answer.model.shift(by, now);
        }
    }
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
    /// The name does not exist.
    NameUnknown,
    /// The resolver did not answer, or failed.
    ResolverFailed,
    /// A private address for a public name, or a redirect to one: the answer of a broken resolver or of a portal.
    PrivateAddress,
    /// No connection: refused, timed out, or no route.
    Unreachable,
    /// The certificate is not valid.
    BadCertificate,
    /// The connection was lost before the answer.
    Unanswered,
    /// An answer that could not be read, or that broke a limit.
    Unreadable,
    /// robots.txt disallows it.
    Forbidden,
    /// The probe was stopped before the answer was complete: not the source's fault.
    Interrupted,
    /// This process has no file descriptor left: not the source's fault.
    NoDescriptors,
}

impl Failure {
    /// Whether an outage of our own network may be the cause.
    pub fn may_be_outage(self) -> bool {
        match self {
            Self::NameUnknown
            | Self::ResolverFailed
            | Self::PrivateAddress
            | Self::Unreachable
            | Self::BadCertificate
            | Self::Unanswered => true,
            Self::Gone
            | Self::Throttled { .. }
            | Self::Refused
            | Self::Unreadable
            | Self::Forbidden
            | Self::Interrupted
            | Self::NoDescriptors => false,
        }
    }

    /// Whether no request was sent.
    pub fn is_before_request(self) -> bool {
        match self {
            Self::NameUnknown
            | Self::ResolverFailed
            | Self::Unreachable
            | Self::BadCertificate
            | Self::NoDescriptors => true,
            // A portal may have got it.
            Self::PrivateAddress
            | Self::Unanswered
            | Self::Gone
            | Self::Throttled { .. }
            | Self::Refused
            | Self::Unreadable
            | Self::Forbidden
            | Self::Interrupted => false,
        }
    }
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
