//! What the pilot is told and tells others to do: messages, and nothing that acts.

use std::sync::Arc;

use tokio::sync::oneshot;

use crate::config::profile::Rules;
use crate::fetch::client::Fetcher;
use crate::store::record::Flight;
use tidewatch_core::engine::{Changed, FleetParams, Known};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::Span;

use super::muster::{Learning, Spec};
use super::planner::{Beat, Foretold, Made};

/// What the pilot can be told.
#[derive(Debug)]
pub enum Control {
    /// Finish what is under way and end.
    Stop,
    /// The configuration changed.
    Apply(Box<Reconfiguration>),
    /// Someone asks for a probe by hand; the answer goes into the store.
    Request(crate::store::reader::Request),
    /// These have a new rate in the store.
    Refitted(Vec<SourceId>),
    /// Plans that were ordered.
    Planned(Vec<Made>),
    /// How busy sources are at which hour.
    Pulses(Vec<Beat>),
    /// When updates are foretold that rules wait for.
    Foretold(Vec<Foretold>),
}

/// A changed configuration, ready to be used.
#[derive(Debug)]
pub struct Reconfiguration {
    /// Limits for all.
    pub params: FleetParams,
    /// How long probes are kept.
    pub retain: Span,
    /// Who fetches from now on.
    pub fetcher: Option<Fetcher>,
    /// New sources.
    pub added: Vec<(Known, Arc<Spec>)>,
    /// Changed sources.
    pub changed: Vec<(Changed, Arc<Spec>)>,
    /// Gone sources.
    pub removed: Vec<SourceId>,
    /// How rhythms are learned and bursts recognised, if that changed.
    pub learning: Option<Arc<Learning>>,
    /// What is asked for, if that changed.
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
    /// Logged already.
    pub flight: Flight,
    /// Whom and how.
    pub spec: Arc<Spec>,
    /// By whom; `None` in tests without a network.
    pub fetcher: Option<Fetcher>,
    /// What the host wants between two requests, should the probe need more than one.
    pub host_spacing: Span,
    /// What is asked for.
    pub rules: Arc<Rules>,
}
