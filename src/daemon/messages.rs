//! The commands to a daemon, and the messages between its scheduler and its other tasks. Data only, no behaviour.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::clock::SteadyClock;
use crate::config::profile::RulesConfig;
use crate::fetch::client::Fetcher;
use crate::store::attempts::RequestInputs;
use tidewatch_core::engine::action::{Attempt, Refusal};
use tidewatch_core::engine::event::{Changed, EngineEvent, KnownSource};
use tidewatch_core::engine::params::{FleetParams, HostGroup};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::startup::{Learning, Spec};

/// A command to a running daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DaemonCommand {
    /// Reload the configuration.
    Reload,
    /// Finish the probes in progress, then end.
    Stop,
    /// End now.
    Abort,
}

/// A message to the scheduler.
#[derive(Debug)]
pub enum Control {
    /// Finish the probes in progress, then end.
    Stop,
    /// The configuration changed.
    Apply(Box<Reconfiguration>),
    /// A reload was refused, for this reason.
    ReloadRefused(String),
    /// A probe was requested by hand.
    Request(ProbeRequest),
    /// An answer redirects to another site.
    Redirected(Redirection),
    /// An event for the engine.
    Event(EngineEvent),
}

/// A probe whose answer redirects to another site.
#[derive(Debug)]
pub struct Redirection {
    /// The source.
    pub source: SourceId,
    /// The other site.
    pub to: HostGroup,
    /// Receives whether the probe may go on; else, when to ask again.
    pub answer: oneshot::Sender<Result<(), Timestamp>>,
}

/// A requested probe.
#[derive(Debug)]
pub struct ProbeRequest {
    /// The request's number.
    pub number: i64,
    /// The source to probe.
    pub source: SourceId,
    /// Channel for the answer; `None`: the answer is stored.
    pub answer: Option<oneshot::Sender<Result<(), Refusal>>>,
}

/// A changed configuration, ready to be applied.
#[derive(Debug)]
pub struct Reconfiguration {
    /// Limits for all sources together.
    pub params: FleetParams,
    /// The HTTP client for later probes.
    pub fetcher: Option<Fetcher>,
    /// New sources.
    pub added: Vec<(KnownSource, Spec)>,
    /// Changed sources.
    pub changed: Vec<(Changed, Spec)>,
    /// Sources that are no longer listed.
    pub removed: Vec<SourceId>,
    /// The corrections of the clock that their times include.
    pub corrected: Span,
    /// New parameters of learning and burst detection, if they changed.
    pub learning: Option<Arc<Learning>>,
    /// All rules, if they changed.
    pub rules: Option<Arc<RulesConfig>>,
    /// Plan parameters changed: all plans are rebuilt.
    pub replan: bool,
    /// The change in one line.
    pub summary: String,
    /// Signalled when the change is applied.
    pub applied: oneshot::Sender<()>,
}

/// A probe to be sent now.
#[derive(Debug, Clone)]
pub struct Launch {
    /// The probe; its start is committed to the store.
    pub attempt: Attempt,
    /// The clock of its times.
    pub clock: SteadyClock,
    /// The corrections that this clock includes.
    pub corrected: Span,
    /// What the store knows for its request.
    pub inputs: RequestInputs,
    /// The source and its request settings.
    pub spec: Spec,
    /// The HTTP client; `None` in tests without a network.
    pub fetcher: Option<Fetcher>,
    /// Minimum time between two requests to the host, if the probe needs more than one.
    pub host_spacing: Span,
    /// The rules that its updates are matched with.
    pub rules: Arc<RulesConfig>,
}
