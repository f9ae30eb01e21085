//! What the scheduler is told and tells others to do: messages, and nothing that acts.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::config::profile::Rules;
use crate::fetch::client::Fetcher;
use tidewatch_core::engine::action::{Attempt, Refusal};
use tidewatch_core::engine::event::{Changed, EngineEvent, KnownSource};
use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Span;

use super::startup::{Learning, Spec};

/// What the scheduler can be told.
#[derive(Debug)]
pub enum Control {
    /// Finish what is in progress and end.
    Stop,
    /// The configuration changed.
    Apply(Box<Reconfiguration>),
    /// Someone requests a probe.
    Request(ProbeRequest),
    /// Something that the engine is to know.
    Tell(EngineEvent),
}

/// A requested probe.
#[derive(Debug)]
pub struct ProbeRequest {
    /// The number of the request.
    pub number: i64,
    /// Of which source.
    pub source: SourceId,
    /// Where the answer goes; into the store if to nobody.
    pub answer: Option<oneshot::Sender<Result<(), Refusal>>>,
}

/// A changed configuration, ready to be used.
#[derive(Debug)]
pub struct Reconfiguration {
    /// Limits for all.
    pub params: FleetParams,
    /// How probes are sent from now on.
    pub fetcher: Option<Fetcher>,
    /// New sources.
    pub added: Vec<(KnownSource, Arc<Spec>)>,
    /// Changed sources.
    pub changed: Vec<(Changed, Arc<Spec>)>,
    /// Sources that are no longer listed.
    pub removed: Vec<SourceId>,
    /// How rates are learned and bursts recognised, if that changed.
    pub learning: Option<Arc<Learning>>,
    /// All rules, if they changed.
    pub rules: Option<Arc<Rules>>,
    /// What plans follow has changed: they are to be made anew.
    pub replan: bool,
    /// In one line.
    pub summary: String,
    /// Told when it is done.
    pub applied: oneshot::Sender<()>,
}

/// A probe to be sent now.
#[derive(Debug, Clone)]
pub struct Launch {
    /// Its start is committed.
    pub attempt: Attempt,
    /// Which source, and how it is asked.
    pub spec: Arc<Spec>,
    /// What sends it; `None` in tests without a network.
    pub fetcher: Option<Fetcher>,
    /// What the host wants between two requests, should the probe need more than one.
    pub host_spacing: Span,
    /// What its updates are matched with.
    pub rules: Arc<Rules>,
}
