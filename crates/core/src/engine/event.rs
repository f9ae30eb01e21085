//! What an engine is told: plain values, and nothing that acts.

use serde::{Deserialize, Serialize};

use crate::model::beliefs::ModelUpdate;
use crate::model::pulse::HourlyProfile;
use crate::observe::FeedHints;
use crate::planning::execution::Interval;
use crate::planning::plan::Revision;
use crate::planning::rolling::Ahead;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::book::{RuleMatches, RuleSet};
use super::memory::SourceMemory;
use super::params::{FleetParams, HostGroup, Terms};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum EngineEvent {
    /// The time asked for by [`WakeAt`](super::action::Action::WakeAt) has come.
    Tick,
    /// The store has committed what it was told to persist.
    Committed(Committed),
    /// A probe ended.
    ProbeEnded(Box<ProbeReport>),
    /// Results of plans that were requested.
    PlansReady(PlansReady),
    /// These sources have a new rate.
    RatesFitted(Vec<SourceId>),
    /// The configuration changed.
    Configured(Box<Configuration>),
    /// Someone requests a probe now.
    ProbeRequested {
        /// Of which source.
        source: SourceId,
        /// The number that the answer names.
        request: i64,
    },
    /// The wall clock was found to have been set.
    ClockSet {
        /// By so much.
        by: Span,
    },
    /// No more probes are to be started.
    Stopping,
}

/// What was committed.
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
    /// Of which source.
    pub source: SourceId,
    /// When the request was sent.
    pub started: Timestamp,
    /// When it ended; the budget counts from here.
    pub finished: Timestamp,
    /// The host group that answered, if any did: the source's own, or the one that redirects led to.
    pub answered_by: Option<HostGroup>,
    /// What robots.txt asks to keep between requests, when it was read.
    pub crawl_delay: Option<Span>,
    /// What came of it.
    pub result: Result<ProbeAnswer, Failure>,
}

/// The source answered, and the answer could be read.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ProbeAnswer {
    /// Updates found.
    pub updates: u32,
    /// Dated items found at first contact: history, not news.
    pub history: u32,
    /// Items may have been lost since the last probe.
    pub gap: bool,
    /// How many items the document holds, when a feed was read whole.
    pub holds: Option<u32>,
    /// What the feed asks of us; `None` when the answer said nothing (not modified).
    pub hints: Option<FeedHints>,
    /// Not before this long.
    pub fresh_for: Option<Span>,
    /// Permanently redirected to.
    pub moved_to: Option<MovedTo>,
    /// Bytes of the body.
    pub bytes: u64,
    /// What the model learned from it.
    pub heard: ModelUpdate,
    /// What it means to rules, where they concern the source.
    pub asked: Option<Box<RuleReading>>,
}

/// Where a permanent redirect leads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovedTo {
    /// The address.
    pub url: String,
    /// Its host group.
    pub host: HostGroup,
}

/// What a probe means to rules.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleReading {
    /// To each.
    pub told: Vec<RuleMatches>,
    /// How many updates it found, edits of known items apart: those that the rate predicts.
    pub found: u32,
    /// How many updates its rate predicted since the probe before.
    pub expected: Option<f64>,
}

/// The probe failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failure {
    /// 410: for good.
    Gone,
    /// It, or its host, asks for a pause.
    Throttled {
        /// For how long, if it said so.
        retry_after: Option<Span>,
    },
    /// Any other answer that is none.
    Refused,
    /// No answer.
    Unreachable,
    /// An answer that could not be read, or that broke a limit.
    Unreadable,
    /// robots.txt closes it to us.
    Forbidden,
    /// We were stopped before the answer was in: no fault of the source.
    Interrupted,
}

/// Results of plans that were requested.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct PlansReady {
    /// How many requests this answers, those without a result included.
    pub requests: usize,
    /// Rates by the hour.
    pub profiles: Vec<SourceProfile>,
    /// Plans.
    pub plans: Vec<MadePlan>,
    /// Intervals in which updates are predicted, for rules.
    pub intervals: Vec<PredictedIntervals>,
}

/// A plan that was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MadePlan {
    /// For which source.
    pub source: SourceId,
    /// From what state.
    pub made_from: Revision,
    /// When.
    pub at: Timestamp,
    /// The plan.
    pub ahead: Ahead,
}

/// How busy a source is at each hour of the week.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SourceProfile {
    /// Which source.
    pub source: SourceId,
    /// Each hour beside the mean.
    pub pulse: HourlyProfile,
    /// The mean.
    pub per_hour: f64,
    /// How many updates that rests on.
    pub updates: u32,
}

/// Intervals in which updates are predicted that rules wait for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PredictedIntervals {
    /// Of which source.
    pub source: SourceId,
    /// From what state.
    pub made_from: Revision,
    /// The intervals that want a probe; `None` where updates cannot be predicted.
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
    /// What plans follow has changed: they are made anew as probes end.
    pub replan: bool,
}

/// A source as it comes from the store and the configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct KnownSource {
    /// Its number.
    pub id: SourceId,
    /// What the user grants it.
    pub terms: Terms,
    /// What is remembered of it.
    pub memory: SourceMemory,
    /// When its logged probes ended.
    pub probes: Vec<Timestamp>,
    /// The host group that answered last, where redirects led to another than its own.
    pub answered_by: Option<HostGroup>,
    /// Whether its address is the one that a probe still in progress asks.
    pub moved: Moved,
}

/// A source whose terms changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Changed {
    /// Which.
    pub id: SourceId,
    /// What the user grants it now.
    pub terms: Terms,
    /// Whether it is still at the same address.
    pub moved: Moved,
    /// When its logged probes ended, read again from the store because the new budget looks
    /// further back than the old one; empty where it does not.
    pub probes: Vec<Timestamp>,
}

/// Whether a changed source is still at the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Moved {
    /// Yes.
    Same,
    /// No: validators, hints and errors of the old one say nothing of the new.
    Elsewhere,
}
