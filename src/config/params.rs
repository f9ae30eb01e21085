//! Parameters of the process, its requests and its rate estimation.

use std::path::PathBuf;

use tidewatch_core::model::aggregate::Borrow;
use tidewatch_core::time::Span;

/// `[daemon]`: the process.
#[derive(Debug, Clone, PartialEq)]
pub struct DaemonParams {
    /// The SQLite file. A relative path starts in the daemon's working directory.
    pub store: PathBuf,
    /// Contact address, sent in the User-Agent so that publishers can reach the operator.
    pub contact: Option<String>,
    /// How long the log keeps probes.
    pub retain_probes: Span,
    /// How long updates, gaps and bursts are kept; `None`: for ever.
    pub retain_updates: Option<Span>,
    /// How long events are kept.
    pub retain_events: Span,
}

/// `[fetch]`: requests.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchParams {
    /// Largest body after decompression, in bytes.
    pub max_body: usize,
    /// Maximum number of items that are read of a feed.
    pub max_items: usize,
    /// Limit for connecting.
    pub connect_timeout: Span,
    /// Limit between two parts of a response.
    pub read_timeout: Span,
    /// Limit for the whole request.
    pub total_timeout: Span,
    /// Fixed addresses for host names, used before the resolver (like /etc/hosts).
    pub resolve: Vec<(String, std::net::IpAddr)>,
}

impl FetchParams {
    /// The limits within which documents are read, as text. One that they refuse may be readable within others, also by
    /// another version.
    pub fn reading_limits(&self) -> String {
        let Self { max_body, max_items, .. } = self;
        format!("tidewatch {}, max_body {max_body}, max_items {max_items}", env!("CARGO_PKG_VERSION"))
    }
}

/// `[rate]`: rate estimation.
#[derive(Debug, Clone, PartialEq)]
pub struct RateParams {
    /// Period of the rhythm.
    pub cycle: Span,
    /// Length of the shortest segment.
    pub resolution: Span,
    /// Time between two fits of the rates.
    pub refit_every: Span,
    /// Half-life of evidence.
    pub half_life: Span,
    /// How a source with little history uses the rate of its group.
    pub borrow: Borrow,
    /// T_ind: the threshold of the switch between the group's history and the source's own.
    pub individual_threshold: f64,
    /// θ: the policies by history send a probe when this many updates are expected.
    pub freshness_threshold: f64,
    /// Whether the model may have a self-exciting term; it is used only where it improves predictions.
    pub echoes: bool,
}
