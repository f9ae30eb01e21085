//! The sections that set up the process, its requests and its learning.

use std::path::PathBuf;

use tidewatch_core::model::aggregate::Borrow;
use tidewatch_core::time::Span;

/// `[daemon]`: the process.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonParams {
    /// The SQLite file; relative paths are taken from the working directory of the daemon.
    pub store: PathBuf,
    /// Goes into the User-Agent, so that a publisher can reach whoever runs this.
    pub contact: Option<String>,
    /// How long probes are kept in the log.
    pub retain_probes: Span,
}

/// `[fetch]`: requests.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchParams {
    /// Largest body after decompression, in bytes.
    pub max_body: usize,
    /// To connect.
    pub connect_timeout: Span,
    /// Between two pieces of an answer.
    pub read_timeout: Span,
    /// For the whole exchange.
    pub total_timeout: Span,
    /// Fixed addresses for names, before the resolver is asked (like /etc/hosts).
    pub resolve: Vec<(String, std::net::IpAddr)>,
}

/// `[rate]`: learning.
#[derive(Debug, Clone, PartialEq)]
pub struct RateParams {
    /// The cycle that the rhythm repeats in.
    pub cycle: Span,
    /// Finest segment.
    pub resolution: Span,
    /// How often rates are fitted anew.
    pub refit_every: Span,
    /// How fast old evidence fades.
    pub half_life: Span,
    /// What a source with little history takes from its group.
    pub borrow: Borrow,
    /// θ: how many updates are expected when histories ask for a probe.
    pub freshness_threshold: f64,
    /// Whether an update is taken to bring others, where that pays.
    pub echoes: bool,
}
