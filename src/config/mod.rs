//! Text to validated parameters.
//!
//! Two stages: what the user wrote, with its place in the file, and what it means. A [`Config`]
//! cannot hold a bad value; every fault of all files is found in one go and shown where it is.
//! Must not know how parameters are used, nor open anything but configuration files.

use std::path::PathBuf;
use std::sync::Arc;

use jiff::tz::TimeZone;
use url::Url;

use tidewatch_core::engine::params::FleetParams;
use tidewatch_core::model::aggregate::Borrow;
use tidewatch_core::model::burst;
use tidewatch_core::model::importance::Importance;
use tidewatch_core::observe::Kind;
use tidewatch_core::observe::page::PageRules;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;

pub mod address;
mod allowance;
pub mod curves;
pub mod diff;
pub mod fault;
pub mod gather;
mod header;
pub mod load;
pub mod profile;
mod raw;
mod raw_profile;
mod reader;
mod rules;
mod source;
pub mod spelling;
pub mod target;
mod tell;
mod torn;
pub mod valid;
mod values;
pub mod week;

use gather::Origin;
use profile::Rules;
use target::Target;

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
    pub burst: burst::Params,
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

/// `[[source]]`.
#[derive(Debug, Clone)]
pub struct Source {
    /// Unique name.
    pub name: String,
    /// Where it is.
    pub url: Url,
    /// Feed or page.
    pub kind: Kind,
    /// Who decides when it is probed.
    pub policy: Policy,
    /// Whose aggregate history it may borrow.
    pub group: Option<Arc<str>>,
    /// Its budget, defaults filled in.
    pub budget: Budget,
    /// How long an update's wait a probe must spare to be worth sending; zero if the budget is to be spent
    /// whole.
    pub price: Span,
    /// Its section (or its group's) set a budget itself, so the cautious hourly start is waived.
    pub own_budget: bool,
    /// Extra request headers. Those of all sources that have none are the same.
    pub headers: Arc<Vec<(String, Secret)>>,
    /// It may live at, or redirect to, private addresses.
    pub allow_private: bool,
    /// Obey robots.txt. Pages: on unless said otherwise; feeds: off unless said otherwise.
    pub robots: bool,
    /// For pages: what is compared. Those of all sources that have none are the same.
    pub page: Arc<PageRules>,
    /// Importance across sources.
    pub weight: f64,
    /// It is to be looked at at least so often.
    pub max_gap: Option<Span>,
    /// What a probe of it costs beside a mean one; `None`: what its probes have shown.
    pub cost: Option<f64>,
    /// Whose week its rhythm follows; `None`: that of `[importance]`.
    pub time_zone: Option<TimeZone>,
}

/// A header's value, which may be a secret kept elsewhere. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub enum Secret {
    /// Written in the file.
    Literal(String),
    /// The content of a file, trimmed.
    File(PathBuf),
    /// A systemd credential: a file of that name in `$CREDENTIALS_DIRECTORY`.
    Credential(String),
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Literal(_) => f.write_str("Literal(…)"),
            Self::File(path) => write!(f, "File({})", path.display()),
            Self::Credential(name) => write!(f, "Credential({name})"),
        }
    }
}
