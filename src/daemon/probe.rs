//! One probe, from the stored inputs of its source to the observation.
//!
//! Checks robots.txt if the source obeys it, sends one conditional GET, and parses a changed document. Items
//! and model are read from the store only then, or if an answer without updates may have a consequence. Every
//! failure is a result of the probe and never ends the daemon. Must not decide anything about schedules.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;

use crate::clock::ThreadTime;
use crate::config::params::FetchParams;
use crate::config::profile::RulesConfig;
use crate::config::source::SourceConfig;
use crate::fetch::answer::HttpAnswer;
use crate::fetch::body::{UnreadBody, WireBody};
use crate::fetch::body_memory::BodyRoom;
use crate::fetch::client::{FetchStep, Fetcher};
use crate::fetch::decode::DecodeError;
use crate::fetch::host_group::host_group;
use crate::fetch::request::{FetchRequest, Validators};
use crate::fetch::secret;
use crate::store::StoreError;
use crate::store::attempts::{RequestInputs, moved};
use crate::store::probe_inputs::ProbeInputs;
use crate::store::reader::Reader;
use crate::store::record::{
    BeliefsRecord, DocumentRecord, ProbeOutcome, StoredColumns, UnreadDocument, ValidatorsChange,
};
use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{CrawlDelay, Failure, MovedTo, ProbeAnswer, ProbeReport, RuleReading};
use tidewatch_core::engine::params::HostGroup;
use tidewatch_core::engine::rule_counts::RuleMatches;
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::silence::{LearnedProbe, LearnedUntil};
use tidewatch_core::model::source_model::ModelUpdate;
use tidewatch_core::observe::limits::ReadingLimits;
use tidewatch_core::observe::{
    self, FeedItem, FetchedDocument, Fingerprints, Observation, Occurred, PageText, ParsedFeed, SourceKind,
    StoredView, Unreadable, UpdateKind, compare,
};
use tidewatch_core::planning::expected::since_last_probe;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::document_readers::{LONGEST_READING, SMALL_BODY, SMALL_ENCODED};
use super::messages::Launch;
use super::probe_context::ProbeContext;
use super::redirects;
use super::robots_check::ask_robots;
use super::rule_checks;
use super::startup::Spec;
use super::stopped_probe::{Stopped, refused};
use super::stored_model::StoredModel;

const READER_PANICKED: &str = "the document made the reader panic; please report it";

/// A finished probe.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The probe as scheduled, with the time at which it was really sent.
    pub attempt: Attempt,
    /// End of the probe.
    pub finished: Timestamp,
    /// The corrections of the clock that its times include.
    pub corrected: Span,
    /// The host group that answered, if any.
    pub answered_by: Option<HostGroup>,
    /// The crawl delays of every robots.txt that was read.
    pub crawl_delays: Vec<CrawlDelay>,
    /// The result for the engine.
    pub result: Result<ProbeAnswer, Failure>,
    /// The result for the log of probes.
    pub outcome: ProbeOutcome,
    /// Status of the last answer.
    pub http_status: Option<u16>,
    /// Bytes on the wire.
    pub bytes: u64,
    /// The error message.
    pub error: Option<String>,
    /// The change to the stored validators.
    pub validators: ValidatorsChange,
    /// The parsed document, compared with the last one.
    pub observation: Option<Observation>,
    /// The updated model, if the probe taught it something.
    pub beliefs: Option<BeliefsRecord>,
    /// What is known of the document, with the model.
    pub document: Option<DocumentRecord>,
    /// What need not be stored again.
    pub stored: StoredColumns,
    /// The stated probability, per update, of a false burst and of a false silence; 0 if the test has none.
    pub false_alarms: f64,
    /// The rules in force.
    pub rules: Arc<RulesConfig>,
    /// The source as deliveries describe it; `None` if the probe failed.
    pub described: Option<Arc<SourceConfig>>,
    /// What says that items were left out, if the document before had all its items read.
    pub left_out: Option<String>,
    /// The memory that the document takes.
    pub room: Option<Arc<BodyRoom>>,
}

impl Finished {
    /// The report for the engine.
    pub fn report(&self) -> ProbeReport {
        ProbeReport {
            source: self.attempt.source,
            started: self.attempt.started,
            finished: self.finished,
            answered_by: self.answered_by.clone(),
            crawl_delays: self.crawl_delays.clone(),
            result: self.result.clone(),
        }
    }

    /// Moves its times after the clock was set by `by` to `now`. Publishers' dates stay.
    pub fn shift(&mut self, by: Span, now: Timestamp) {
        if by == Span::ZERO {
            return;
        }
        let attempt = &mut self.attempt;
        (attempt.due, attempt.started) = (attempt.due + by, attempt.started + by);
        self.finished += by;
        self.corrected = self.corrected + by;
        for update in self.observation.iter_mut().flat_map(|seen| &mut seen.updates) {
            if let Occurred::Between(from, to) = &mut update.occurred {
                (*from, *to) = (*from + by, *to + by);
            }
        }
        if let Some(document) = &mut self.document {
            document.learned = moved(document.learned, by);
        }
        if let Ok(answer) = &mut self.result {
            answer.model.shift(by, now);
        }
    }

    /// The same probe as a failure without an observation: the source's URL changed while it was in
    /// progress.
    pub fn discarded(self) -> Self {
        let error = "its address was changed while the answer was under way".to_owned();
        let failed = Self::failed(self.attempt, self.finished, Failure::Interrupted, error);
        Self { http_status: self.http_status, corrected: self.corrected, ..failed }
    }

    fn with_bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        if let Ok(answered) = &mut self.result {
            answered.bytes = bytes;
        }
        self
    }

    /// Creates a probe that failed without an answer.
    pub fn failed(attempt: Attempt, finished: Timestamp, failure: Failure, error: String) -> Self {
        Self {
            attempt,
            finished,
            corrected: Span::ZERO,
            answered_by: None,
            crawl_delays: Vec::new(),
            result: Err(failure),
            outcome: ProbeOutcome::Failed,
            http_status: None,
            bytes: 0,
            error: Some(error),
            validators: ValidatorsChange::Keep,
            observation: None,
            beliefs: None,
            document: None,
            stored: StoredColumns::default(),
            false_alarms: 0.0,
            rules: Arc::default(),
            described: None,
            left_out: None,
            room: None,
        }
    }
}

/// Runs one probe to its end.
pub async fn probe(context: &ProbeContext, launch: Launch) -> Finished {
    let mut attempt = launch.attempt;
    attempt.started = launch.clock.now();
    let mut crawl_delays = Vec::new();
    let finished = match run_probe(context, &launch, attempt, &mut crawl_delays).await {
        Ok(finished) => finished,
        Err(stopped) => {
            let mut finished =
                Finished::failed(attempt, launch.clock.now(), stopped.failure, stopped.error);
            finished.http_status = stopped.http_status;
            finished.answered_by = stopped.answered_by;
            finished.validators = stopped.validators;
            finished.crawl_delays = crawl_delays;
            finished
        }
    };
    Finished { stored: launch.inputs.stored, corrected: launch.corrected, ..finished }
}

/// Adds to `crawl_delays` as soon as robots.txt is parsed: it applies whether or not the page can be read.
async fn run_probe(
    context: &ProbeContext,
    launch: &Launch,
    attempt: Attempt,
    crawl_delays: &mut Vec<CrawlDelay>,
) -> Result<Finished, Stopped> {
    let source = &launch.spec.source;
    let Some(fetcher) = &launch.fetcher else {
        return Err(Stopped::new(Failure::Interrupted, "no HTTP client is configured"));
    };
    let headers = headers(&launch.spec).await.map_err(|error| Stopped::new(Failure::Interrupted, error))?;
    let request = request(&launch.spec, headers, &launch.inputs, fetcher.params());
    if source.robots {
        ask_robots(context, fetcher, launch, &request, crawl_delays).await?;
    }
    let conditional = request.validators.is_some();
    let answer = get(context, fetcher, launch, &request, crawl_delays).await?;
    let probe = ProbeExchange {
        launch,
        attempt,
        finished: launch.clock.now(),
        crawl_delays: crawl_delays.clone(),
        has_rules: !launch.rules.is_empty() && !launch.rules.of(source).is_empty(),
        answered_by: host_group(&answer.final_url),
    };
    match answer.status {
        304 if conditional => match &launch.inputs.unread {
            None => probe.unchanged(context, &answer, ProbeOutcome::NotModified).await,
            Some(unread) => {
                let error =
                    format!("HTTP 304: the document that was not read is unchanged: {}", unread.error);
                Err(probe.unreadable(&answer, error))
            }
        },
        200 => probe.document(context, answer).await,
        _ => Err(refused(&answer)),
    }
}

/// Sends the request and follows its redirects. A page is read at each further origin only if its robots.txt allows it.
async fn get(
    context: &ProbeContext,
    fetcher: &Fetcher,
    launch: &Launch,
    request: &FetchRequest,
    crawl_delays: &mut Vec<CrawlDelay>,
) -> Result<HttpAnswer, Stopped> {
    let mut progress = fetcher.begin(request);
    loop {
        match redirects::go_on(context, fetcher, launch, request, progress).await? {
            FetchStep::Answered(answer) => return Ok(*answer),
            FetchStep::Redirected(next) => progress = next,
        }
        if launch.spec.source.robots {
            let page = FetchRequest { url: progress.url().clone(), validators: None, ..request.clone() };
            let asked = ask_robots(context, fetcher, launch, &page, crawl_delays).await;
            asked.map_err(|stopped| at_redirect(stopped, host_group(&page.url)))?;
        }
    }
}

/// A robots.txt that cannot be read after a redirect to this site. The site that redirects has answered, so the network works.
fn at_redirect(stopped: Stopped, site: HostGroup) -> Stopped {
    let failure = match stopped.failure {
        failure if failure.may_be_outage() && failure != Failure::PrivateAddress => Failure::Unreadable,
        failure => failure,
    };
    Stopped { failure, answered_by: stopped.answered_by.or(Some(site)), ..stopped }
}

/// A probe with an answer.
struct ProbeExchange<'l> {
    launch: &'l Launch,
    attempt: Attempt,
    finished: Timestamp,
    crawl_delays: Vec<CrawlDelay>,
    has_rules: bool,
    answered_by: HostGroup,
}

/// What a probe learned.
#[derive(Default)]
struct Learned {
    update: ModelUpdate,
    beliefs: Option<BeliefsRecord>,
    document: Option<DocumentRecord>,
    /// The number of updates that the source's rate predicts since its last probe.
    expected: Option<f64>,
}

impl ProbeExchange<'_> {
    /// An answer without anything new. Unless it is time to review the model, nothing is read from the store.
    async fn unchanged(
        &self,
        context: &ProbeContext,
        answer: &HttpAnswer,
        outcome: ProbeOutcome,
    ) -> Result<Finished, Stopped> {
        let learned = match self.skip(answer) {
            Some(update) => Learned { update, ..Learned::default() },
            None => {
                let inputs = self.probe_inputs(context).await?;
                let mut model =
                    StoredModel::read(&self.launch.spec.learning, &inputs, self.attempt.started);
                let probed = self.probed(inputs.seen.last_success, None);
                let LearnedProbe { update, learned, changed } = model.learn(&probed, answer.modified_at);
                Learned {
                    beliefs: changed.then(|| model.record(&update)),
                    update,
                    document: Some(self.document_record(None, learned, inputs.fitted_at)),
                    expected: self.expected(&inputs),
                }
            }
        };
        let rules = self
            .has_rules
            .then(|| Box::new(RuleReading { matches: Vec::new(), found: 0, expected: learned.expected }));
        let answered = ProbeAnswer { model: learned.update, rules, ..answered(answer) };
        Ok(Finished {
            outcome,
            validators: self.validators(answer),
            beliefs: learned.beliefs,
            document: learned.document,
            ..self.done(answer, answered)
        })
    }

    /// The result of an answer without updates, if the model need not be read for it. Rules need the rate.
    fn skip(&self, answer: &HttpAnswer) -> Option<ModelUpdate> {
        let (known, now) = (&self.launch.inputs, self.attempt.started);
        let current = known.review_settings == Some(self.launch.spec.learning.settings_hash());
        let learned = known.learned.filter(|_| current && !self.has_rules)?;
        // Not after now: the clock may have been set back.
        learned.skip((known.last_answer?, now), known.newest.map(|at| at.min(now)), answer.modified_at)
    }

    fn document_record(
        &self,
        body_hash: Option<u64>,
        learned: LearnedUntil,
        fitted_at: Option<Timestamp>,
    ) -> DocumentRecord {
        let review_settings = self.launch.spec.learning.settings_hash();
        let page_read_as = self.launch.spec.source.page_read_as();
        let max_items = self.max_items();
        DocumentRecord { body_hash, learned, fitted_at, review_settings, max_items, page_read_as }
    }

    /// An answer with a document. An unchanged one is not parsed.
    async fn document(&self, context: &ProbeContext, mut answer: HttpAnswer) -> Result<Finished, Stopped> {
        let body = match std::mem::replace(&mut answer.body, Ok(WireBody::default())) {
            Ok(body) => body,
            Err(error @ UnreadBody::NoRoom(_)) => {
                return Err(Stopped::new(Failure::Interrupted, error.to_string()));
            }
            Err(error @ UnreadBody::TooLarge(_)) => return Err(self.not_read(&answer, error.to_string())),
        };
        let large = body.wire_bytes() > SMALL_BODY;
        let read_as = self.read_as(&answer);
        let hashing = move || {
            let time = ThreadTime::start();
            let parts: Vec<&[u8]> = read_as.iter().map(String::as_bytes).collect();
            let hash = body.hash(&parts, &|| time.used() > LONGEST_READING);
            (hash, time.used(), body)
        };
        let hashed = context.readers.run(large, hashing).await;
        let (hash, used, body) =
            hashed.ok_or_else(|| self.unreadable(&answer, READER_PANICKED.to_owned()))?;
        let hash =
            hash.ok_or_else(|| self.not_read(&answer, "the body takes too long to hash".to_owned()))?;
        let bytes = body.wire_bytes() as u64;
        let otherwise = reads_otherwise(&self.launch.spec.source, &self.launch.inputs);
        if self.launch.inputs.body_hash == Some(hash) && !otherwise {
            let finished = self.unchanged(context, &answer, ProbeOutcome::Unchanged).await?;
            return Ok(finished.with_bytes(bytes));
        }
        let mut inputs = self.probe_inputs(context).await?;
        if otherwise {
            inputs.seen.page = None;
        }
        let (expected, fitted_at) = (self.expected(&inputs), inputs.fitted_at);
        let Read { observation, learned, beliefs, matches, room } =
            self.read(context, &answer, (body, used), inputs).await?;
        // An edit is no update of which a rate could be learned.
        let new = observation.updates.iter().filter(|update| update.kind != UpdateKind::Edited).count();
        let mut answered = answered(&answer);
        answered.updates = u32::try_from(new).unwrap_or(u32::MAX);
        answered.model = learned.update;
        answered.rules =
            self.has_rules.then(|| Box::new(RuleReading { matches, found: answered.updates, expected }));
        answered.gap = observation.gap;
        answered.hints = Some(observation.hints);
        if self.launch.spec.source.kind == SourceKind::Feed {
            // An empty feed gives no evidence of its capacity.
            answered.holds = u32::try_from(observation.present.len()).ok().filter(|&items| items > 0);
        }
        if observation.first_contact {
            let dated = observation.present.iter().filter(|item| item.dated.is_some()).count();
            answered.history = u32::try_from(dated).unwrap_or(u32::MAX);
        }
        let outcome =
            if observation.updates.is_empty() { ProbeOutcome::Unchanged } else { ProbeOutcome::Updated };
        let left_out =
            observation.note.clone().filter(|_| observation.cut && self.launch.inputs.cut_at.is_none());
        let finished = Finished {
            outcome,
            left_out,
            validators: self.validators(&answer),
            observation: Some(observation),
            beliefs,
            document: Some(self.document_record(Some(hash), learned.learned, fitted_at)),
            room: Some(Arc::new(room)),
            ..self.done(&answer, answered)
        };
        Ok(finished.with_bytes(bytes))
    }

    /// What decides, besides the bytes of a body, how it is read.
    fn read_as(&self, answer: &HttpAnswer) -> [String; 4] {
        let source = &self.launch.spec.source;
        let options = match source.kind {
            SourceKind::Feed => self.max_items().to_string(),
            SourceKind::Page => format!("{:?}", source.page),
        };
        let content_type = answer.content_type.clone().unwrap_or_default();
        [env!("CARGO_PKG_VERSION").to_owned(), options, content_type, answer.final_url.to_string()]
    }

    fn max_items(&self) -> usize {
        self.launch
            .fetcher
            .as_ref()
            .map_or(ReadingLimits::USUAL.items, |fetcher| fetcher.params().max_items)
    }

    async fn probe_inputs(&self, context: &ProbeContext) -> Result<ProbeInputs, Stopped> {
        let inputs = context.inputs.get(self.attempt.source).await;
        // The clock may have been set since the probe was launched.
        let inputs = inputs.map(|inputs| inputs.by_clock(self.launch.corrected));
        inputs.map_err(|error| Stopped::new(Failure::Interrupted, error))
    }

    fn expected(&self, inputs: &ProbeInputs) -> Option<f64> {
        let known = inputs.rate.as_ref().filter(|_| self.has_rules)?;
        since_last_probe((&known.rate, known.updates), inputs.seen.last_success, self.attempt.started)
    }

    fn probed<'s>(&self, last: Option<Timestamp>, seen: Option<&'s Observation>) -> ProbedUpdates<'s> {
        let kind = self.launch.spec.source.kind;
        ProbedUpdates { kind, last, now: self.attempt.started, seen, except: None }
    }

    /// Parses a document, and learns from what differs from earlier ones. Some time was `used` for it already.
    async fn read(
        &self,
        context: &ProbeContext,
        answer: &HttpAnswer,
        (mut body, used): (WireBody, Duration),
        inputs: ProbeInputs,
    ) -> Result<Read, Stopped> {
        let large = body.wire_bytes() > if body.is_encoded() { SMALL_ENCODED } else { SMALL_BODY };
        body.make_room().await;
        let (parsed, inputs, room) = self.parse(context, answer, (large, body, used), inputs).await?;
        let older = match &parsed {
            ParsedDocument::Feed(feed) => self.older(context, feed, &inputs.seen).await?,
            ParsedDocument::Page(_) => Fingerprints::new(),
        };
        let (started, now) = (self.attempt.started, self.finished);
        let rules = Arc::clone(&self.launch.rules);
        let spec = self.launch.spec.clone();
        let (url, modified_at) = (self.shown_url(answer), answer.modified_at);
        let comparing = move || -> Result<Read, String> {
            let seen = &inputs.seen;
            let mut observation = match parsed {
                ParsedDocument::Feed(feed) => {
                    compare::feed(feed, seen, &older, now).map_err(|error| error.to_string())?
                }
                ParsedDocument::Page(page) => compare::page(page, modified_at, seen, now, &url),
            };
            let (kind, last) = (spec.source.kind, seen.last_success);
            let mut model = StoredModel::read(&spec.learning, &inputs, started);
            let probed = ProbedUpdates { kind, last, now: started, seen: Some(&observation), except: None };
            let learned = model.learn(&probed, modified_at);
            let beliefs = learned.changed.then(|| model.record(&learned.update));
            let matches = rule_checks::matches(&rules, &spec.source, &mut observation);
            Ok(Read { observation, learned, beliefs, matches, room })
        };
        let read = context.readers.run(large, comparing).await;
        read.unwrap_or_else(|| Err(READER_PANICKED.to_owned()))
            .map_err(|error| self.unreadable(answer, error))
    }

    /// Parses a document as far as the comparison with the last one needs it.
    async fn parse(
        &self,
        context: &ProbeContext,
        answer: &HttpAnswer,
        (large, body, used): (bool, WireBody, Duration),
        inputs: ProbeInputs,
    ) -> Result<(ParsedDocument, ProbeInputs, BodyRoom), Stopped> {
        let source = Arc::clone(&self.launch.spec.source);
        let (url, content_type) = (self.shown_url(answer), answer.content_type.clone());
        let items = self.max_items();
        let parsing = move || -> Result<(ParsedDocument, ProbeInputs, BodyRoom), UnreadReason> {
            let time = ThreadTime::start();
            let out_of_time = || used + time.used() > LONGEST_READING;
            let (bytes, room) = body.decoded(&out_of_time).map_err(UnreadReason::from)?;
            let limits = ReadingLimits { items, out_of_time: &out_of_time };
            let content_type = content_type.as_deref();
            let document = FetchedDocument { bytes: &bytes, content_type, url: &url, limits };
            let parsed = match source.kind {
                SourceKind::Feed => observe::feed::read(&document, &inputs.seen).map(ParsedDocument::Feed),
                SourceKind::Page => observe::page::read(&document, &source.page).map(ParsedDocument::Page),
            };
            Ok((parsed.map_err(UnreadReason::from)?, inputs, room))
        };
        let parsed = context.readers.run(large, parsing).await;
        parsed.unwrap_or_else(|| Err(UnreadReason::Otherwise(READER_PANICKED.to_owned()))).map_err(
            |refused| match refused {
                UnreadReason::ByOurLimits(error) => self.not_read(answer, error),
                UnreadReason::Otherwise(error) => self.unreadable(answer, error),
            },
        )
    }

    /// The address of the document as updates show it. Relative links need no query.
    fn shown_url(&self, answer: &HttpAnswer) -> String {
        self.launch.spec.source.shown(answer.final_url.as_str())
    }

    /// Those of these items that the source had before its last document.
    async fn older(
        &self,
        context: &ProbeContext,
        feed: &ParsedFeed,
        seen: &StoredView,
    ) -> Result<Fingerprints, Stopped> {
        let source = self.attempt.source;
        let failed = |error| Stopped::new(Failure::Interrupted, error);
        let keys = compare::unknown(feed, seen);
        if keys.is_empty() {
            return Ok(Fingerprints::new());
        }
        let mut older = context.inputs.known_items(source, keys).await.map_err(failed)?;
        let (inputs, items) = (&self.launch.inputs, self.max_items());
        let recalled = recall(&context.reader, source, inputs, items, (feed, seen), &mut older).await;
        recalled.map_err(|error| failed(error.to_string()))?;
        Ok(older)
    }

    fn unreadable(&self, answer: &HttpAnswer, error: String) -> Stopped {
        Stopped {
            http_status: Some(answer.status),
            answered_by: Some(self.answered_by.clone()),
            ..Stopped::new(Failure::Unreadable, error)
        }
    }

    /// A document that our own limits refused. Its validators are kept: the same bytes would be refused again.
    fn not_read(&self, answer: &HttpAnswer, error: String) -> Stopped {
        let (etag, last_modified) = (answer.etag.clone(), answer.last_modified.clone());
        let within = self.launch.fetcher.as_ref().map(|fetcher| fetcher.params().reading_limits());
        let validators = match within {
            Some(within) if etag.is_some() || last_modified.is_some() => {
                let unread = UnreadDocument { error: error.clone(), within };
                ValidatorsChange::Unread { url: answer.final_url.to_string(), etag, last_modified, unread }
            }
            _ => ValidatorsChange::Keep,
        };
        Stopped { validators, ..self.unreadable(answer, error) }
    }

    /// The change to the stored validators. Those of a 304 replace only what it carries.
    fn validators(&self, answer: &HttpAnswer) -> ValidatorsChange {
        let known = &self.launch.inputs;
        let (etag, last_modified) = (answer.etag.clone(), answer.last_modified.clone());
        if answer.status == 304 {
            let same = |new: &Option<Vec<u8>>, old| new.is_none() || new == old;
            return match same(&etag, &known.etag) && same(&last_modified, &known.last_modified) {
                true => ValidatorsChange::Keep,
                false => ValidatorsChange::Refresh { etag, last_modified },
            };
        }
        let url = answer.final_url.as_str();
        let same = known.unread.is_none()
            && known.validators_url.as_deref() == Some(url)
            && (&etag, &last_modified) == (&known.etag, &known.last_modified);
        match same {
            true => ValidatorsChange::Keep,
            false => ValidatorsChange::Replace { url: url.to_owned(), etag, last_modified },
        }
    }

    fn done(&self, answer: &HttpAnswer, answered: ProbeAnswer) -> Finished {
        let spec = &self.launch.spec;
        Finished {
            answered_by: Some(self.answered_by.clone()),
            crawl_delays: self.crawl_delays.clone(),
            result: Ok(answered),
            http_status: Some(answer.status),
            error: None,
            false_alarms: spec.learning.bursts.stated_false_alarms(),
            rules: Arc::clone(&self.launch.rules),
            described: Some(Arc::clone(&spec.source)),
            ..Finished::failed(self.attempt, self.finished, Failure::Interrupted, String::new())
        }
    }
}

/// The parts of a report that every answer has.
fn answered(answer: &HttpAnswer) -> ProbeAnswer {
    let moved_to = answer.moved_to.as_ref();
    ProbeAnswer {
        fresh_for: answer.fresh_for,
        moved_to: moved_to.map(|url| MovedTo { url: url.to_string(), host: host_group(url) }),
        ..ProbeAnswer::default()
    }
}

/// Adds to the older items of a source those that it had although the store has no row of them.
pub async fn recall(
    reader: &Reader,
    source: SourceId,
    inputs: &RequestInputs,
    max_items: usize,
    (feed, seen): (&ParsedFeed, &StoredView),
    older: &mut Fingerprints,
) -> Result<(), StoreError> {
    if inputs.cut_at.is_some_and(|items| items != max_items) {
        let behind = compare::after_known(feed, seen).iter().map(FeedItem::identity);
        behind.for_each(|(key, fingerprint)| _ = older.entry(key).or_insert(fingerprint));
    }
    if inputs.items_forgotten {
        let unknown = compare::unknown_besides(feed, seen, older);
        let keys: Vec<&str> = unknown.iter().map(|item| item.key.as_str()).collect();
        let reported = reader.reported_items(source, &keys).await?;
        older.extend(
            unknown.into_iter().filter(|item| reported.contains(&item.key)).map(FeedItem::identity),
        );
    }
    Ok(())
}

/// Whether the stored text of a page was read at another address or by other rules: then the page is compared with
/// nothing, so that the change of the settings makes no update.
pub fn reads_otherwise(source: &SourceConfig, inputs: &RequestInputs) -> bool {
    let now = source.page_read_as();
    now.is_some() && inputs.page_read_as.is_some() && inputs.page_read_as != now
}

/// The request for a source, with its stored validators, if any. Not if other limits cut or refused the last document,
/// or if other parts of a page are read now: a 304 would hide what there is to read.
pub fn request(
    spec: &Spec,
    headers: HeaderMap,
    inputs: &RequestInputs,
    params: &FetchParams,
) -> FetchRequest {
    let as_now = !reads_otherwise(&spec.source, inputs)
        && inputs.cut_at.is_none_or(|items| items == params.max_items)
        && inputs.unread.as_ref().is_none_or(|unread| unread.within == params.reading_limits());
    let validators = inputs.validators_url.clone().filter(|_| as_now).and_then(|url| {
        let (etag, last_modified) = (inputs.etag.clone(), inputs.last_modified.clone());
        (etag.is_some() || last_modified.is_some()).then_some(Validators { url, etag, last_modified })
    });
    FetchRequest { url: spec.url(), validators, headers, allow_private: spec.source.allow_private }
}

/// The source's configured headers. Secrets are read just before the request, on a blocking thread. The
/// headers go only to the configured origin, never to an adopted URL of another origin.
async fn headers(spec: &Spec) -> Result<HeaderMap, String> {
    if spec.source.headers.is_empty() || spec.url().origin() != spec.source.url.parsed().origin() {
        return Ok(HeaderMap::new());
    }
    let settings = Arc::clone(&spec.source.settings);
    let reading = tokio::task::spawn_blocking(move || {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(std::path::PathBuf::from);
        secret::read_headers(&settings.headers, credentials.as_deref()).map_err(|error| error.to_string())
    });
    reading.await.unwrap_or_else(|_| Err("reading the headers panicked; please report it".to_owned()))
}

/// A parsed document.
enum ParsedDocument {
    Feed(ParsedFeed),
    Page(PageText),
}

/// A parsed answer, compared with earlier ones.
struct Read {
    observation: Observation,
    learned: LearnedProbe,
    beliefs: Option<BeliefsRecord>,
    matches: Vec<RuleMatches>,
    room: BodyRoom,
}

/// Why a document was not read.
enum UnreadReason {
    /// The same bytes would be refused again.
    ByOurLimits(String),
    /// Another document was sent than the publisher meant, or its reader is wrong.
    Otherwise(String),
}

impl From<DecodeError> for UnreadReason {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Truncated(_) | DecodeError::Corrupt(_) => Self::Otherwise(error.to_string()),
            DecodeError::Unknown(_)
            | DecodeError::TooMany(_)
            | DecodeError::TooLarge(_)
            | DecodeError::TooManyMembers(_)
            | DecodeError::TooSlow(_)
            | DecodeError::Bomb => Self::ByOurLimits(error.to_string()),
        }
    }
}

impl From<Unreadable> for UnreadReason {
    fn from(error: Unreadable) -> Self {
        match error {
            Unreadable::TooComplex(_) => Self::ByOurLimits(error.to_string()),
            Unreadable::NotAFeed(_) | Unreadable::NothingSelected(_) | Unreadable::SuddenlyEmpty => {
                Self::Otherwise(error.to_string())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn configured_headers_stay_with_the_configured_origin() {
        let text =
            "[[source]]\nname = 'x'\nurl = 'https://a.example/feed'\nheaders = { X-Token = 'hush' }\n";
        let config = crate::config::valid::parse(&[("t.toml".into(), text.to_owned())]).expect("valid");
        let source = &config.sources[0];
        let sent = async |adopted| {
            headers(&super::super::startup::spec(&config, source, adopted)).await.expect("literal").len()
        };
        assert_eq!(sent(None).await, 1);
        assert_eq!(sent(Some("https://a.example/moved")).await, 1);
        assert_eq!(sent(Some("https://b.example/feed")).await, 0, "another host gets no headers");
        assert_eq!(sent(Some("http://a.example/feed")).await, 0, "no headers without TLS");
    }
}
