//! The complete, valid configuration.

use std::path::PathBuf;
use std::sync::Arc;

use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::model::burst;
use tidewatch_core::model::importance::Importance;

use super::origin::ConfigOrigin;
use super::params::{DaemonParams, FetchParams, RateParams};
use super::profile::RulesConfig;
use super::source::SourceConfig;
use super::target::TargetConfig;

/// All settings after validation.
#[derive(Debug, Clone)]
pub struct Config {
    /// Every file that was read; the main file is first.
    pub files: Vec<PathBuf>,
    /// `[daemon]`
    pub daemon: DaemonParams,
    /// `[fleet]`
    pub fleet: FleetParams,
    /// `[fetch]`
    pub fetch: FetchParams,
    /// `[rate]`
    pub rate: RateParams,
    /// `[burst]`: burst detection. The response to bursts is in `fleet`.
    pub burst: burst::BurstParams,
    /// `[importance]`
    pub importance: Importance,
    /// `[[profile]]`
    pub rules: Arc<RulesConfig>,
    /// `[deliver.…]`
    pub targets: Vec<Arc<TargetConfig>>,
    /// `[[source]]`, in file order. Shared by reference count, because there may be a million.
    pub sources: Vec<Arc<SourceConfig>>,
    /// What is set without effect, for `check` and the log.
    pub without_effect: Option<&'static str>,
    /// Files and defaults that the sources came from; used by the next reload.
    pub origin: ConfigOrigin,
}
