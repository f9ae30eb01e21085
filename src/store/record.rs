//! What is written: plain values that others fill in.

use std::sync::Arc;

use serde_json::{Map, Value};

use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::book::RuleState;
use tidewatch_core::engine::memory::SourceMemory;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};
use tidewatch_core::observe::Observation;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

/// How a probe ended, for the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Something was new.
    Updated,
    /// Nothing was new.
    Unchanged,
    /// 304.
    NotModified,
    /// No answer, or none that could be read.
    Failed,
}

impl Outcome {
    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Updated => "updated",
            Self::Unchanged => "unchanged",
            Self::NotModified => "not_modified",
            Self::Failed => "failed",
        }
    }
}

/// What becomes of the validators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidatorsChange {
    /// Nothing: an error, or an answer that said nothing.
    Keep,
    /// A 200 gives a new pair; what it does not carry is dropped.
    Replace {
        /// The URL that gave it.
        url: String,
        /// `ETag`.
        etag: Option<Vec<u8>>,
        /// `Last-Modified`.
        last_modified: Option<Vec<u8>>,
    },
    /// A 304 overwrites what it carries.
    Refresh {
        /// `ETag`.
        etag: Option<Vec<u8>>,
        /// `Last-Modified`.
        last_modified: Option<Vec<u8>>,
    },
}

/// A probe that ended, with everything that follows from it. Committed whole or not at all.
#[derive(Debug, Clone)]
pub struct Landing {
    /// The probe that it ends.
    pub attempt: Attempt,
    /// When it ended.
    pub finished: Timestamp,
    /// How.
    pub outcome: Outcome,
    /// Status of the last answer, if there was one.
    pub http_status: Option<u16>,
    /// Bytes of the body on the wire.
    pub bytes: u64,
    /// What went wrong.
    pub error: Option<String>,
    /// What the source said about itself.
    pub validators: ValidatorsChange,
    /// How late it came, where it has a deadline.
    pub tardy: Option<Span>,
    /// By when it must be seen next, where that is bound.
    pub look_by: Option<Timestamp>,
    /// What was seen; `None` when the document was not read (not modified, failed).
    pub observation: Option<Observation>,
    /// The source's new state.
    pub memory: SourceMemory,
    /// What is believed of its rhythm, when this added to it.
    pub beliefs: Option<BeliefsRecord>,
    /// A burst that began, ended or passed.
    pub burst: Option<BurstChange>,
    /// The burst that is on.
    pub burst_so_far: Option<BurstEvidence>,
    /// The host group's new state, if it changed.
    pub host: Option<HostRecord>,
    /// Events that go with it.
    pub events: Vec<Event>,
    /// What rules caught.
    pub caught: Vec<CaughtRecord>,
    /// How far rules are since.
    pub rules: Vec<RuleState>,
}

/// What a rule caught.
#[derive(Debug, Clone, PartialEq)]
pub struct CaughtRecord {
    /// As people know it: `profile/rule`.
    pub name: Arc<str>,
    /// The profile.
    pub profile: Arc<str>,
    /// The rule.
    pub rule: Arc<str>,
    /// Who is told.
    pub targets: Vec<Arc<str>>,
    /// What they are told, but for the items.
    pub document: Map<String, Value>,
    /// The items.
    pub items: Vec<Value>,
    /// They are told now, with all that waits to be told; else it waits too.
    pub tells: bool,
}

/// What is believed of a source's rhythm, as bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BeliefsRecord {
    /// See `model::history`.
    pub history: Vec<u8>,
    /// See `model::burst::watch`.
    pub watch: Option<Vec<u8>>,
    /// What is to be learned if the rhythm is another since the last burst began.
    pub aside: Option<Vec<u8>>,
    /// See `model::habits::diary`; `None`: nothing stands in it.
    pub diary: Option<Vec<u8>>,
    /// The rhythm is another, since then: rates fitted before now are void.
    pub changed: Option<Timestamp>,
}

/// What a host group asked of us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// Its name.
    pub key: String,
    /// Registrable domain of a public name.
    pub public: bool,
    /// Not before.
    pub paused_until: Option<Timestamp>,
    /// Between requests.
    pub crawl_delay: Span,
}

/// Something that happened to the daemon or to a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// What: `started`, `stopped`, `reloaded`, `reload_refused`, `redirect_adopted`, …
    pub kind: &'static str,
    /// To whom.
    pub source: Option<SourceId>,
    /// In words.
    pub detail: Option<String>,
}

/// A rate as it was fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct RateRecord {
    /// Whose.
    pub source: SourceId,
    /// When.
    pub fitted_at: Timestamp,
    /// `individual`, `aggregate` or `blend`.
    pub origin: &'static str,
    /// What repeats.
    pub cycle: &'static str,
    /// Whose week the segments are of.
    pub time_zone: String,
    /// (start, end) in seconds into the week, updates per hour.
    pub segments: Vec<(u32, u32, f64)>,
    /// Updates per week.
    pub per_week: f64,
    /// How much more than foretold it scatters.
    pub dispersion: Option<f64>,
    /// Updates in evidence.
    pub updates: u32,
    /// Evidence since.
    pub since: Option<Timestamp>,
    /// What is believed of its habits, see `model::habits`; `None`: as before.
    pub habits: Option<Vec<u8>>,
}

/// An attempt to deliver that ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The row.
    pub id: i64,
    /// When it began.
    pub tried_at: Timestamp,
    /// When it ended.
    pub at: Timestamp,
    /// How.
    pub settled: Settled,
    /// What else is to be noted with it.
    pub event: Option<Event>,
}

/// What becomes of a delivery after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// It was taken.
    Delivered,
    /// It waits.
    Failed {
        /// Not before.
        next_at: Timestamp,
        /// Why it was not taken.
        error: String,
    },
    /// It is given up.
    Dead {
        /// Why it was not taken.
        error: String,
    },
}

/// A robots.txt as it was fetched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotsRecord {
    /// Scheme, host and port.
    pub origin: String,
    /// When.
    pub fetched_at: Timestamp,
    /// 0: no answer.
    pub http_status: u16,
    /// What it said.
    pub body: Vec<u8>,
}
