//! The whole of what the user configured.

use std::path::PathBuf;
use std::sync::Arc;

use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::model::burst;
use tidewatch_core::model::importance::Importance;

use super::origin::Origin;
use super::params::{DaemonParams, FetchParams, RateParams};
use super::profile::Rules;
use super::source::Source;
use super::target::Target;

/// Everything the user configured, valid.
#[derive(Debug, Clone)]
pub struct Config {
    /// Every file that was read, the main one first.
    pub files: Vec<PathBuf>,
    /// `[daemon]`
    pub daemon: DaemonParams,
    /// `[fleet]`
    pub fleet: FleetParams,
    /// `[fetch]`
    pub fetch: FetchParams,
    /// `[rate]`
    pub rate: RateParams,
    /// `[burst]`: how bursts are recognised. What is done about them is among `fleet`.
    pub burst: burst::BurstParams,
    /// `[importance]`
    pub importance: Importance,
    /// `[[profile]]`
    pub rules: Arc<Rules>,
    /// `[deliver.…]`
    pub targets: Vec<Arc<Target>>,
    /// `[[source]]`, in the order of the files. Shared with whoever works on one: a million of them
    /// are kept once.
    pub sources: Vec<Arc<Source>>,
    /// How they came about, for whoever reads them again.
    pub origin: Origin,
}
