//! One probe, from the stored inputs of its source to the observation.
//!
//! Reads the inputs, checks robots.txt if the source obeys it, sends one conditional GET, and parses the
//! answer on a blocking thread. Every failure is a result of the probe and never ends the daemon. Must not
//! decide anything about schedules.

use std::sync::Arc;

use http::HeaderMap;
use tokio::sync::mpsc;

use crate::clock::Clock;
use crate::config::profile::RulesConfig;
use crate::fetch::answer::HttpAnswer;
use crate::fetch::client::Fetcher;
use crate::fetch::host_group::host_group;
use crate::fetch::request::{FetchRequest, Validators};
use crate::fetch::robots::{Robots, robots_url};
use crate::fetch::secret;
use crate::store::reader::{ProbeInputs, Reader};
use crate::store::record::{BeliefsRecord, ProbeOutcome, RobotsRecord, ValidatorsChange};
use crate::store::writer::Write;
use tidewatch_core::engine::action::Attempt;
use tidewatch_core::engine::event::{Failure, MovedTo, ProbeAnswer, ProbeReport, RuleReading};
use tidewatch_core::engine::params::HostGroup;
use tidewatch_core::engine::rule_counts::RuleMatches;
use tidewatch_core::model::learn::ProbedUpdates;
use tidewatch_core::model::source_model::ModelUpdate;
use tidewatch_core::observe::{
    self, FetchedDocument, Observation, SourceKind, StoredView, Unreadable, UpdateKind,
};
use tidewatch_core::planning::expected::since_last_probe;
use tidewatch_core::time::{Span, Timestamp};

use super::messages::Launch;
use super::rule_checks;
use super::startup::Spec;
use super::stored_model::StoredModel;

/// A finished probe.
#[derive(Debug, Clone)]
pub struct Finished {
    /// The probe as scheduled, with the time at which it was really sent.
    pub attempt: Attempt,
    /// End of the probe.
    pub finished: Timestamp,
    /// The host group that answered, if any.
    pub answered_by: Option<HostGroup>,
    /// The crawl delay of robots.txt, if that was read.
    pub crawl_delay: Option<Span>,
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
    /// The updated model, if the probe was answered.
    pub beliefs: Option<BeliefsRecord>,
    /// The stated probability, per update, of a false burst and of a false silence; 0 if the test has none.
    pub false_alarms: f64,
    /// The rules in force.
    pub rules: Arc<RulesConfig>,
    /// The source's name, for deliveries.
    pub name: String,
    /// The configured URL without its query, which may contain tokens.
    pub url: String,
}

impl Finished {
    /// The report for the engine.
    pub fn report(&self) -> ProbeReport {
        ProbeReport {
            source: self.attempt.source,
            started: self.attempt.started,
            finished: self.finished,
            answered_by: self.answered_by.clone(),
            crawl_delay: self.crawl_delay,
            result: self.result.clone(),
        }
    }

    /// The same probe as a failure without an observation: the source's URL changed while it was in
    /// progress.
    pub fn discarded(self) -> Self {
        let error = "its address was changed while the answer was under way".to_owned();
        let failed = Self::failed(self.attempt, self.finished, Failure::Interrupted, error);
        Self { http_status: self.http_status, ..failed }
    }

    /// Creates a probe that failed without an answer.
    pub fn failed(attempt: Attempt, finished: Timestamp, failure: Failure, error: String) -> Self {
        Self {
            attempt,
            finished,
            answered_by: None,
            crawl_delay: None,
            result: Err(failure),
            outcome: ProbeOutcome::Failed,
            http_status: None,
            bytes: 0,
            error: Some(error),
            validators: ValidatorsChange::Keep,
            observation: None,
            beliefs: None,
            false_alarms: 0.0,
            rules: Arc::default(),
            name: String::new(),
            url: String::new(),
        }
    }
}

/// Shared context of all probes.
#[derive(Debug, Clone)]
pub struct ProbeContext {
    /// Reads the inputs of a probe.
    pub reader: Reader,
    /// Stores fetched robots.txt files.
    pub writes: mpsc::UnboundedSender<Write>,
    /// The clock.
    pub clock: Clock,
}

/// The error of a probe without a readable answer.
struct Stopped {
    failure: Failure,
    error: String,
    http_status: Option<u16>,
    answered_by: Option<HostGroup>,
}

impl Stopped {
    fn new(failure: Failure, error: impl Into<String>) -> Self {
        Self { failure, error: error.into(), http_status: None, answered_by: None }
    }
}

/// Runs one probe to its end.
pub async fn probe(context: &ProbeContext, launch: Launch) -> Finished {
    let mut attempt = launch.attempt;
    attempt.started = context.clock.now();
    let mut crawl_delay = None;
    match run_probe(context, &launch, attempt, &mut crawl_delay).await {
        Ok(finished) => finished,
        Err(stopped) => {
            let mut finished =
                Finished::failed(attempt, context.clock.now(), stopped.failure, stopped.error);
            finished.http_status = stopped.http_status;
            finished.answered_by = stopped.answered_by;
            finished.crawl_delay = crawl_delay;
            finished
        }
    }
}

/// Sets `crawl_delay` as soon as robots.txt is parsed: it applies whether or not the page can be read.
async fn run_probe(
    context: &ProbeContext,
    launch: &Launch,
    attempt: Attempt,
    crawl_delay: &mut Option<Span>,
) -> Result<Finished, Stopped> {
    let source = &launch.spec.source;
    let Some(fetcher) = &launch.fetcher else {
        return Err(Stopped::new(Failure::Interrupted, "no HTTP client is configured"));
    };
    let unreadable_store =
        |error: crate::store::StoreError| Stopped::new(Failure::Interrupted, error.to_string());
    let inputs = context.reader.probe_inputs(attempt.source).await.map_err(unreadable_store)?;
    let headers = headers(&launch.spec).await.map_err(|error| Stopped::new(Failure::Interrupted, error))?;
    let request = request(&launch.spec, headers, &inputs);
    if source.robots {
        ask_robots(context, fetcher, launch, &request, crawl_delay).await?;
    }
    let crawl_delay = *crawl_delay;
    let mut model = StoredModel::read(&launch.spec.learning, &inputs, attempt.started);
    let conditional = request.validators.is_some();
    let has_rules = !launch.rules.is_empty() && !launch.rules.of(source).is_empty();
    let expected = expected(&inputs, attempt.started).filter(|_| has_rules);
    let mut answer = fetcher.get(&request, &context.clock).await.map_err(|error| {
        Stopped::new(if error.reached { Failure::Unreadable } else { Failure::Unreachable }, error.message)
    })?;
    let finished = context.clock.now();
    let mut answered = answered(&answer);
    let (status, wire_bytes) = (answer.status, answer.wire_bytes);
    let answered_by = Some(host_group(&answer.final_url));
    let done = |outcome, answered, validators, observation, beliefs: BeliefsRecord| Finished {
        attempt,
        finished,
        answered_by: answered_by.clone(),
        crawl_delay,
        result: Ok(answered),
        outcome,
        http_status: Some(status),
        bytes: wire_bytes,
        error: None,
        validators,
        observation,
        beliefs: Some(beliefs),
        false_alarms: launch.spec.learning.bursts.stated_false_alarms(),
        rules: Arc::clone(&launch.rules),
        name: source.name.clone(),
        url: source.url[..url::Position::AfterPath].to_owned(),
    };
    if answer.status == 304 && conditional {
        let validators = ValidatorsChange::Refresh {
            etag: answer.etag.clone(),
            last_modified: answer.last_modified.clone(),
        };
        let (kind, last) = (source.kind, inputs.seen.last_success);
        let probed = ProbedUpdates { kind, last, now: attempt.started, seen: None, except: None };
        answered.model = model.learn(&probed, answer.modified_at);
        let beliefs = model.record(&answered.model);
        answered.rules =
            has_rules.then(|| Box::new(RuleReading { matches: Vec::new(), found: 0, expected }));
        return Ok(done(ProbeOutcome::NotModified, answered, validators, None, beliefs));
    }
    if answer.status != 200 {
        return Err(refused(&answer));
    }
    let times = (attempt.started, finished);
    let read = read(launch, &mut answer, inputs.seen, times, model).await;
    let Read { observation, model_update, beliefs, matches } = read.map_err(|error| Stopped {
        http_status: Some(status),
        answered_by: answered_by.clone(),
        ..Stopped::new(Failure::Unreadable, error)
    })?;
    // An edit is no update of which a rate could be learned.
    let new = observation.updates.iter().filter(|update| update.kind != UpdateKind::Edited).count();
    answered.updates = u32::try_from(new).unwrap_or(u32::MAX);
    answered.model = model_update;
    answered.rules =
        has_rules.then(|| Box::new(RuleReading { matches, found: answered.updates, expected }));
    answered.gap = observation.gap;
    answered.hints = Some(observation.hints);
    if source.kind == SourceKind::Feed {
        // An empty feed gives no evidence of its capacity.
        answered.holds = u32::try_from(observation.present.len()).ok().filter(|&items| items > 0);
    }
    if observation.first_contact {
        let dated = observation.present.iter().filter(|item| item.dated.is_some()).count();
        answered.history = u32::try_from(dated).unwrap_or(u32::MAX);
    }
    let validators = ValidatorsChange::Replace {
        url: answer.final_url.to_string(),
        etag: answer.etag.clone(),
        last_modified: answer.last_modified.clone(),
    };
    let outcome =
        if observation.updates.is_empty() { ProbeOutcome::Unchanged } else { ProbeOutcome::Updated };
    Ok(done(outcome, answered, validators, Some(observation), beliefs))
}

/// The parts of a report that every answer has.
fn answered(answer: &HttpAnswer) -> ProbeAnswer {
    let moved_to = answer.moved_to.as_ref();
    ProbeAnswer {
        fresh_for: answer.fresh_for,
        bytes: answer.wire_bytes,
        moved_to: moved_to.map(|url| MovedTo { url: url.to_string(), host: host_group(url) }),
        ..ProbeAnswer::default()
    }
}

/// The request for a source, with its stored validators, if any.
pub fn request(spec: &Spec, headers: HeaderMap, inputs: &ProbeInputs) -> FetchRequest {
    let validators = inputs.validators_url.clone().and_then(|url| {
        let (etag, last_modified) = (inputs.etag.clone(), inputs.last_modified.clone());
        (etag.is_some() || last_modified.is_some()).then_some(Validators { url, etag, last_modified })
    });
    FetchRequest { url: spec.url().clone(), validators, headers, allow_private: spec.source.allow_private }
}

/// The source's configured headers. Secrets are read just before the request, on a blocking thread. The
/// headers go only to the configured origin, never to an adopted URL of another origin.
async fn headers(spec: &Spec) -> Result<HeaderMap, String> {
    if spec.source.headers.is_empty() || spec.url().origin() != spec.source.url.origin() {
        return Ok(HeaderMap::new());
    }
    let wanted = Arc::clone(&spec.source.headers);
    let reading = tokio::task::spawn_blocking(move || {
        let credentials = std::env::var_os("CREDENTIALS_DIRECTORY").map(std::path::PathBuf::from);
        secret::read_headers(&wanted, credentials.as_deref()).map_err(|error| error.to_string())
    });
    reading.await.unwrap_or_else(|_| Err("reading the headers panicked; please report it".to_owned()))
}

fn refused(answer: &HttpAnswer) -> Stopped {
    let failure = match answer.status {
        410 => Failure::Gone,
        _ if answer.throttled => Failure::Throttled { retry_after: answer.retry_after },
        204 | 205 | 304 => Failure::Unreadable,
        _ => Failure::Refused,
    };
    let reason =
        http::StatusCode::from_u16(answer.status).ok().and_then(|status| status.canonical_reason());
    let mut error = format!("HTTP {} {}", answer.status, reason.unwrap_or_default()).trim_end().to_owned();
    match (failure, answer.retry_after) {
        (Failure::Gone, _) => error.push_str(": gone for good; it rests until its URL changes"),
        (Failure::Throttled { .. }, Some(pause)) => {
            error.push_str(&format!(": asked to come back in {pause}"))
        }
        (Failure::Unreadable, _) => error.push_str(": not an answer to what was asked"),
        _ => {}
    }
    let answered_by = Some(host_group(&answer.final_url));
    Stopped { failure, error, http_status: Some(answer.status), answered_by }
}

/// The number of updates that the source's rate predicts since its last probe.
fn expected(inputs: &ProbeInputs, now: Timestamp) -> Option<f64> {
    let known = inputs.rate.as_ref()?;
    since_last_probe((&known.rate, known.updates), inputs.seen.last_success, now)
}

/// A parsed answer.
struct Read {
    observation: Observation,
    model_update: ModelUpdate,
    beliefs: BeliefsRecord,
    matches: Vec<RuleMatches>,
}

/// Parses an answer on a blocking thread, where a panic fails only this probe.
async fn read(
    launch: &Launch,
    answer: &mut HttpAnswer,
    seen: StoredView,
    (started, now): (Timestamp, Timestamp),
    mut model: StoredModel,
) -> Result<Read, String> {
    let rules = Arc::clone(&launch.rules);
    let source = Arc::clone(&launch.spec.source);
    let (body, content_type) = (std::mem::take(&mut answer.body), answer.content_type.take());
    let (url, modified_at) = (answer.final_url.to_string(), answer.modified_at);
    let reading = tokio::task::spawn_blocking(move || -> Result<Read, Unreadable> {
        let document = FetchedDocument { bytes: &body, content_type: content_type.as_deref(), url: &url };
        let mut observation = match source.kind {
            SourceKind::Feed => observe::compare::feed(observe::feed::read(&document, &seen)?, &seen, now)?,
            SourceKind::Page => {
                let page = observe::page::read(&document, &source.page)?;
                observe::compare::page(page, modified_at, &seen, now, &url)
            }
        };
        let (kind, last) = (source.kind, seen.last_success);
        let probed = ProbedUpdates { kind, last, now: started, seen: Some(&observation), except: None };
        let model_update = model.learn(&probed, modified_at);
        let beliefs = model.record(&model_update);
        let matches = rule_checks::matches(&rules, &source, &mut observation);
        Ok(Read { observation, model_update, beliefs, matches })
    });
    match reading.await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(unreadable)) => Err(unreadable.to_string()),
        Err(_) => Err("the document made the reader panic; please report it".to_owned()),
    }
}

/// A robots.txt is fetched at most once in this time.
const ROBOTS_LAST: Span = Span::from_days(1);

/// Longest wait of a probe between robots.txt and its page.
const LONGEST_WAIT: Span = Span::from_mins(1);

/// Checks that robots.txt allows the page. Sets `crawl_delay` whether or not it does.
async fn ask_robots(
    context: &ProbeContext,
    fetcher: &Fetcher,
    launch: &Launch,
    request: &FetchRequest,
    crawl_delay: &mut Option<Span>,
) -> Result<(), Stopped> {
    let address = robots_url(&request.url);
    let origin = request.url.origin().ascii_serialization();
    let stored = context
        .reader
        .robots(&origin)
        .await
        .map_err(|error| Stopped::new(Failure::Interrupted, error.to_string()))?;
    let now = context.clock.now();
    let record = match stored {
        Some(record) if record.fetched_at + ROBOTS_LAST > now && record.fetched_at <= now => record,
        stored => {
            let ask = FetchRequest {
                url: address,
                validators: None,
                headers: HeaderMap::new(),
                ..request.clone()
            };
            let answer = fetcher.get(&ask, &context.clock).await;
            let throttled = answer.as_ref().ok().filter(|answer| answer.throttled).map(refused);
            let (http_status, body) = answer.map_or((0, Vec::new()), |answer| (answer.status, answer.body));
            let mut record = RobotsRecord { origin, fetched_at: context.clock.now(), http_status, body };
            let reachable = (200..500).contains(&http_status) && http_status != 429;
            // If robots.txt cannot be fetched, the last successful copy stays valid.
            if let (false, Some(old)) =
                (reachable, stored.filter(|old| (200..300).contains(&old.http_status)))
            {
                record = RobotsRecord { fetched_at: record.fetched_at, ..old };
            }
            // The task that joins the writer notices its end.
            let _ = context.writes.send(Write::Robots(record.clone()));
            if let Some(stopped) = throttled {
                // The throttling applies to the whole host, so the page is not requested either.
                return Err(Stopped { error: format!("robots.txt: {}", stopped.error), ..stopped });
            }
            // The page request keeps the same distance from this one as any two requests to the host.
            let asked = Robots::parse(record.http_status, &record.body).crawl_delay();
            *crawl_delay = Some(asked.unwrap_or(Span::ZERO));
            let apart = launch.host_spacing.max(asked.unwrap_or(Span::ZERO));
            if apart > LONGEST_WAIT {
                // Too long to wait here: the next probe finds robots.txt in the store.
                let error = "robots.txt was read; the page waits for its crawl delay";
                return Err(Stopped::new(Failure::Interrupted, error));
            }
            let waits = context.clock.waiting();
            context.clock.sleep(apart).await;
            drop(waits);
            record
        }
    };
    if record.http_status == 0 {
        return Err(Stopped::new(
            Failure::Unreachable,
            "robots.txt cannot be fetched, so neither is the page",
        ));
    }
    if record.http_status >= 500 || record.http_status == 429 {
        let error =
            format!("robots.txt answers HTTP {}, so the page is left alone for now", record.http_status);
        return Err(Stopped::new(Failure::Refused, error));
    }
    let robots = Robots::parse(record.http_status, &record.body);
    *crawl_delay = Some(robots.crawl_delay().unwrap_or(Span::ZERO));
    if !robots.allows(&request.url) {
        let error = "robots.txt closes this page to us; set robots = false for it if you may ignore that";
        return Err(Stopped::new(Failure::Forbidden, error));
    }
    Ok(())
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
