//! The records that the writer stores. Data only, no behaviour.

use std::sync::Arc;

use serde_json::{Map, Value};

use crate::fetch::body_memory::BodyRoom;
use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::rule_counts::{RuleOutcomes, RuleState};
use tidewatch_core::engine::source_memory::SourceMemory;
use tidewatch_core::model::burst::{BurstChange, BurstEvidence};
use tidewatch_core::model::probe_forecast::ProbeForecast;
use tidewatch_core::model::silence::LearnedUntil;
use tidewatch_core::observe::{Observation, UpdateKind};
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

/// The outcome of a probe in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// An update was found.
    Updated,
    /// The document has no update.
    Unchanged,
    /// HTTP 304.
    NotModified,
    /// No answer, or none that could be read.
    Failed,
}

impl ProbeOutcome {
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

/// A change to the stored validators.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ValidatorsChange {
    /// No change, after a failure.
    Keep,
    /// After a 200: both are replaced; a missing one is deleted.
    Replace {
        /// The URL that gave them.
        url: String,
        /// `ETag`.
        etag: Option<Vec<u8>>,
        /// `Last-Modified`.
        last_modified: Option<Vec<u8>>,
    },
    /// After a 200 whose document our own limits refused: as long as it does not change, it is not sent again.
    Unread {
        /// The URL that gave them.
        url: String,
        /// `ETag`.
        etag: Option<Vec<u8>>,
        /// `Last-Modified`.
        last_modified: Option<Vec<u8>>,
        /// The refusal.
        unread: UnreadDocument,
    },
    /// After a 304: the given ones are replaced.
    Refresh {
        /// `ETag`.
        etag: Option<Vec<u8>>,
        /// `Last-Modified`.
        last_modified: Option<Vec<u8>>,
    },
}

/// A document that was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadDocument {
    /// Why.
    pub error: String,
    /// The limits that refused it. Within others it may be readable.
    pub within: String,
}

/// A finished probe, with all resulting changes. Committed in one transaction.
#[derive(Debug, Clone)]
pub struct ProbeRecord {
    /// The probe.
    pub attempt: Attempt,
    /// End of the probe.
    pub finished: Timestamp,
    /// The outcome.
    pub outcome: ProbeOutcome,
    /// Status of the last answer, if there was one.
    pub http_status: Option<u16>,
    /// Bytes of the body on the wire.
    pub bytes: u64,
    /// The error message.
    pub error: Option<String>,
    /// It does not count against the budget.
    pub uncharged: bool,
    /// The change to the validators.
    pub validators: ValidatorsChange,
    /// How late the probe was, if the source has a deadline.
    pub tardy: Option<Span>,
    /// Deadline of the next probe, if there is one.
    pub deadline: Option<Timestamp>,
    /// What is known of the document, if the model learned from it.
    pub document: Option<DocumentRecord>,
    /// The observation; `None` if no document was read (not modified, failed).
    pub observation: Option<Observation>,
    /// The engine's new state of the source.
    pub memory: SourceMemory,
    /// What the store had of the source when the probe was started.
    pub stored: StoredColumns,
    /// The updated model, if the probe was answered.
    pub beliefs: Option<BeliefsRecord>,
    /// A burst that began, ended, or did both since the last probe.
    pub burst: Option<BurstChange>,
    /// The burst in progress.
    pub burst_so_far: Option<BurstEvidence>,
    /// The host group's new state, if it changed.
    pub host: Option<HostRecord>,
    /// Events of this probe.
    pub events: Vec<EventRecord>,
    /// Rule matches.
    pub matches: Vec<MatchRecord>,
    /// Changed states of rules.
    pub rules: Vec<RuleState>,
    /// The forecast of the probe against its answer, if there are both.
    pub compared: Option<ComparedProbe>,
    /// The memory that the document takes, given back when this is stored.
    pub room: Option<Arc<BodyRoom>>,
}

/// What the store has of a source, so that equal values are not written again.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StoredColumns {
    /// The hash of the columns that a probe seldom changes.
    pub hash: Option<i64>,
    /// The rate of the estimate.
    pub found_per_hour: Option<f64>,
    /// Whether a burst is in progress.
    pub in_burst: bool,
    /// The number of its items, if they were counted.
    pub known_items: Option<i64>,
}

/// What is known of a document that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentRecord {
    /// The hash of its bytes before decoding; `None`: unchanged.
    pub body_hash: Option<u64>,
    /// How far the model has learned, and until when it need not learn from an answer without updates.
    pub learned: LearnedUntil,
    /// The rate for which that is true, by the time of its fit.
    pub fitted_at: Option<Timestamp>,
    /// The hash of the settings of the model for which that is true.
    pub review_settings: u64,
    /// The maximum number of items that are read of a document.
    pub max_items: usize,
    /// The address and the rules by which a page was read.
    pub page_read_as: Option<u64>,
}

/// What was stated on a probe before its answer, and what came of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ComparedProbe {
    /// The forecast that was stored with the start.
    pub forecast: ProbeForecast,
    /// Updates found, without edits.
    pub found: u32,
    /// No item of the answer before was left.
    pub overflowed: bool,
    /// The stated probability, per update, of a false burst and of a false silence; 0 if the test has none.
    pub false_alarms: f64,
    /// A burst was called.
    pub burst: bool,
    /// A silence was called.
    pub went_quiet: bool,
    /// An update ended a silence that was called.
    pub quiet_ended: bool,
    /// Updates that rules waited for.
    pub rules: RuleOutcomes,
}

/// The matches of one rule in one probe.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchRecord {
    /// The full name: `profile/rule`.
    pub name: Arc<str>,
    /// The profile.
    pub profile: Arc<str>,
    /// The rule.
    pub rule: Arc<str>,
    /// The targets of deliveries.
    pub targets: Vec<Arc<str>>,
    /// The document to deliver, without its items.
    pub document: Map<String, Value>,
    /// The matched updates.
    pub items: Vec<MatchedItem>,
    /// The number of further matches, which are counted only.
    pub more: u64,
    /// Whether to deliver now, together with held matches; otherwise these are held too.
    pub deliver_now: bool,
}

/// An update that a rule matched.
#[derive(Debug, Clone, PartialEq)]
pub struct MatchedItem {
    /// Its kind.
    pub kind: UpdateKind,
    /// The key of the item, or the fingerprint of the page's text.
    pub id: String,
    /// The hash of its content, if it is an edit.
    pub content: Option<u64>,
    /// The fields to deliver, without its `key`.
    pub fields: Map<String, Value>,
}

/// The encoded model of a source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BeliefsRecord {
    /// The corrections of the clock that its times include.
    pub corrected: Span,
    /// Evidence; see `model::history`.
    pub history: Vec<u8>,
    /// State of the burst detector; see `model::burst::detector`.
    pub watch: Option<Vec<u8>>,
    /// Evidence since the last burst began; used if that becomes the rhythm.
    pub post_burst: Option<Vec<u8>>,
    /// Update times, see `model::habits::update_times`; `None` if empty.
    pub update_times: Option<Vec<u8>>,
    /// State of the test for changes of rhythm; see `model::rhythm_change`.
    pub rhythm_test: Option<Vec<u8>>,
    /// Start of the bursts that became the rhythm with this probe; earlier rates become invalid.
    pub burst_became_rhythm: Option<Timestamp>,
    /// Start of a lower level or other hours that this probe found; earlier rates become invalid.
    pub relearned_since: Option<Timestamp>,
}

/// The limits that a host group has sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostRecord {
    /// The group's name.
    pub key: String,
    /// Whether the name is a registrable domain.
    pub public: bool,
    /// End of the pause, if the host is paused.
    pub paused_until: Option<Timestamp>,
    /// Minimum time between requests.
    pub crawl_delay: Span,
}

/// An event of the daemon or of a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventRecord {
    /// Time of the event.
    pub at: Timestamp,
    /// The kind: `started`, `stopped`, `reloaded`, `reload_refused`, `redirect_adopted`, …
    pub kind: &'static str,
    /// The source, if it concerns one.
    pub source: Option<SourceId>,
    /// A text for display.
    pub detail: Option<String>,
}

/// A fitted rate.
#[derive(Debug, Clone, PartialEq)]
pub struct RateRecord {
    /// The source.
    pub source: SourceId,
    /// Time of the fit.
    pub fitted_at: Timestamp,
    /// `individual`, `aggregate` or `blend`.
    pub origin: &'static str,
    /// Name of the fitted cycle.
    pub cycle: &'static str,
    /// Time zone of the segments.
    pub time_zone: String,
    /// (start, end) in seconds into the week, updates per hour.
    pub segments: Vec<(u32, u32, f64)>,
    /// Updates per week.
    pub per_week: f64,
    /// Dispersion of the counts relative to the fitted rate.
    pub dispersion: Option<f64>,
    /// Updates in the evidence.
    pub updates: u32,
    /// Start of the evidence.
    pub since: Option<Timestamp>,
    /// Weights of the predictors, see `model::habits`; `None`: unchanged.
    pub habits: Option<Vec<u8>>,
}

/// Evidence that was learned again with other settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RelearnedRecord {
    /// The source.
    pub source: SourceId,
    /// The old evidence, and that since the last burst began. If the store holds another, nothing changes.
    pub read: (Vec<u8>, Option<Vec<u8>>),
    /// The corrections of the clock that the new evidence includes.
    pub corrected: Span,
    /// Evidence; see `model::history`.
    pub history: Vec<u8>,
    /// Evidence since the last burst began.
    pub post_burst: Option<Vec<u8>>,
}

/// The result of an attempt to deliver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeliveryRecord {
    /// The row's number.
    pub id: i64,
    /// Start of the attempt.
    pub tried_at: Timestamp,
    /// End of the attempt.
    pub at: Timestamp,
    /// The resulting state.
    pub settled: Settled,
    /// An event of this attempt.
    pub event: Option<EventRecord>,
}

/// The state of a delivery after an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// The target accepted it.
    Delivered,
    /// It failed and will be retried.
    Failed {
        /// Earliest time of the next attempt.
        next_at: Timestamp,
        /// Whether the receiver asked for the pause. Then it holds for all deliveries to the target.
        pauses_target: bool,
        /// The error message.
        error: String,
    },
    /// It failed and will not be retried.
    Dead {
        /// The error message.
        error: String,
    },
}

impl Settled {
    /// The same after the clock was set by `by`.
    pub fn after(mut self, by: Span) -> Self {
        if let Self::Failed { next_at, .. } = &mut self {
            *next_at += by;
        }
        self
    }
}

/// Limits that the user lifted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PardonRecord {
    /// The request's number in `pardons`.
    pub request: i64,
    /// When they were lifted.
    pub at: Timestamp,
    /// The source whose limits are lifted, if any was in force.
    pub source: Option<SourceId>,
    /// The host group whose pause is lifted.
    pub host: Option<String>,
    /// The source's new state.
    pub state: Option<&'static str>,
    /// The answer to the request.
    pub answer: String,
}

/// What is known of a robots.txt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotsRecord {
    /// Scheme, host and port.
    pub origin: String,
    /// Time of the request that was answered.
    pub fetched_at: Timestamp,
    /// HTTP status; 0 without an answer.
    pub http_status: u16,
    /// The content.
    pub body: Vec<u8>,
    /// The crawl delay that it asks for.
    pub crawl_delay: Option<Span>,
    /// Requests that failed since.
    pub failed: Option<RobotsFailures>,
    /// Its site, if it was read because a redirect led there. `None`: a source has this origin.
    pub redirect_site: Option<String>,
}

/// Requests for a robots.txt that failed in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RobotsFailures {
    /// The last one.
    pub at: Timestamp,
    /// How many.
    pub times: u32,
}
