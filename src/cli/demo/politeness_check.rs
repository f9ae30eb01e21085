//! Checks politeness at the server, because the log of a poller cannot prove it.
//!
//! Knows the budgets and the responses ([`AnswerMeaning`]). Must not know the state of the daemon, nor
//! share its arithmetic. A request counts when its head is read, a response when it is sent. The daemon counts
//! from the end of a probe, after the response is sent. So budget, spacing, `max-age`, `ttl` and `Retry-After`
//! hold here exactly. Only skipped hours have a tolerance, [`GRACE`]: a request scheduled before such an hour
//! may arrive in it.

use std::collections::HashMap;
use std::time::Duration;

use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::{Span, Timestamp};

use super::demo_sources::{CLOSED, DemoSource};
use super::server_behaviour::{AnswerMeaning, DemoRequest};

/// Longest real time between scheduling a request and its arrival: a commit, a connection, and a busy
/// machine.
pub const GRACE: Duration = Duration::from_millis(100);

/// Permanent redirects before the daemon may adopt the new address …
const MOVE_PROOFS: u32 = 5;
/// … and the least time they must span.
const MOVE_PROVEN_OVER: Span = Span::from_days(3);

/// A violation of a politeness rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Name of the source, or the host if the request belongs to no source.
    pub source: String,
    /// Time of the request.
    pub at: Timestamp,
    /// The violated rule.
    pub rule: &'static str,
    /// Details.
    pub detail: String,
}

/// Parts of a request that are checked but do not affect the response.
#[derive(Debug, Clone, Default)]
pub struct CheckedHeaders {
    /// HTTP method.
    pub method: String,
    /// `User-Agent` header.
    pub agent: String,
    /// Names of headers that a poller must not send.
    pub unwanted: Vec<String>,
}

/// Headers that a poller must not send.
pub const UNWANTED: [&str; 6] = ["cookie", "referer", "authorization", "range", "if-match", "if-range"];

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Given {
    etag: Option<Vec<u8>>,
    last_modified: Option<Vec<u8>>,
}

/// The requests to one source, and the limits that its responses set.
#[derive(Debug, Clone, Default)]
pub struct SourceRequests {
    /// Probes: requests that do not follow a redirect.
    pub arrivals: Vec<Timestamp>,
    /// Time of the first readable response.
    pub first_answer: Option<Timestamp>,
    /// Last status sent.
    pub last_status: Option<u16>,
    /// Target of a redirect that is not yet followed.
    hop: Option<(String, String)>,
    not_before: HashMap<&'static str, Timestamp>,
    ttl: Option<Span>,
    skip_hours: u32,
    gone: bool,
    /// Number of permanent redirects sent, and the time of the first.
    moves: (u32, Option<Timestamp>),
    /// Address of the first request.
    home: Option<(String, String)>,
    /// Whether another address was requested directly.
    adopted: bool,
    /// Address and validators of the last readable response. They may be sent to that address only. A
    /// response that broke off gives none, because its content was not received.
    given: Option<((String, String), Given)>,
}

/// Checks all requests to the server.
#[derive(Debug, Clone)]
pub struct PolitenessCheck {
    agent: String,
    /// [`GRACE`] in time of the run's clock.
    grace: Span,
    budgets: Vec<Budget>,
    names: Vec<&'static str>,
    by_source: Vec<SourceRequests>,
    in_flight: HashMap<String, u32>,
    robots: HashMap<String, Timestamp>,
    crawl_delays: HashMap<String, Span>,
    /// Time before which no request may come, by host group.
    paused: HashMap<String, Timestamp>,
    last_end: HashMap<String, Timestamp>,
    violations: Vec<Violation>,
    requests: u64,
}

impl PolitenessCheck {
    /// Checks requests with the User-Agent `agent`, on a clock of that speed.
    pub fn new(sources: &[DemoSource], budgets: Vec<Budget>, agent: String, speed: f64) -> Self {
        Self {
            agent,
            grace: Span::from_duration(GRACE.mul_f64(speed)),
            budgets,
            names: sources.iter().map(|source| source.name).collect(),
            by_source: vec![SourceRequests::default(); sources.len()],
            in_flight: HashMap::new(),
            robots: HashMap::new(),
            crawl_delays: HashMap::new(),
            paused: HashMap::new(),
            last_end: HashMap::new(),
            violations: Vec::new(),
            requests: 0,
        }
    }

    /// All violations so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The record of a source.
    pub fn source(&self, source: usize) -> &SourceRequests {
        &self.by_source[source]
    }

    /// Number of all requests, with redirects and robots.txt.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    fn record(&mut self, name: &str, at: Timestamp, rule: &'static str, detail: impl Into<String>) {
        self.violations.push(Violation { source: name.to_owned(), at, rule, detail: detail.into() });
    }

    /// Checks an incoming request. `source` is the requested source, if any.
    pub fn request_arrived(
        &mut self,
        source: Option<usize>,
        request: &DemoRequest,
        headers_to_check: &CheckedHeaders,
        at: Timestamp,
    ) {
        self.requests += 1;
        let group = DemoSource::group_of(&request.host).to_owned();
        let name = source.map_or_else(|| request.host.clone(), |source| self.names[source].to_owned());
        if headers_to_check.method != "GET" {
            self.record(&name, at, "GET only", headers_to_check.method.clone());
        }
        if headers_to_check.agent != self.agent {
            self.record(&name, at, "User-Agent", headers_to_check.agent.clone());
        }
        if !headers_to_check.unwanted.is_empty() {
            self.record(&name, at, "no cookies, no Referer", headers_to_check.unwanted.join(", "));
        }
        let in_flight = self.in_flight.entry(group.clone()).or_default();
        *in_flight += 1;
        if *in_flight > 1 {
            self.record(&name, at, "one request in flight per host group", group.clone());
        }
        if let Some(&until) = self.paused.get(&group).filter(|&&until| at < until) {
            self.record(&name, at, "Retry-After of the host group", format!("until {until}"));
        }
        if request.is_for_robots() {
            self.check_robots_request(request, at);
            return;
        }
        if request.path.starts_with(CLOSED) {
            self.record(&name, at, "Disallow", request.path.clone());
        }
        match source {
            Some(source) => self.check_probe(source, request, &group, at),
            None => self.record(&name, at, "no guessed URLs", request.path.clone()),
        }
    }

    fn check_robots_request(&mut self, request: &DemoRequest, at: Timestamp) {
        let before = self.robots.insert(request.host.clone(), at);
        if let Some(before) = before.filter(|&before| at - before < Span::from_days(1)) {
            self.record(
                &request.host,
                at,
                "robots.txt at most daily",
                format!("{} after the last", at - before),
            );
        }
        if request.etag.is_some() || request.last_modified.is_some() {
            self.record(&request.host, at, "validators", "sent for a robots.txt that gave none");
        }
    }

    fn check_probe(&mut self, source: usize, request: &DemoRequest, group: &str, at: Timestamp) {
        let name = self.names[source];
        let mut found: Vec<(&'static str, String)> = Vec::new();
        let budget = self.budgets[source];
        let grace = self.grace;
        let requests = &mut self.by_source[source];
        let address = (request.host.clone(), request.path.clone());
        if let Some(fault) = requests.wrong_validators(&address, request) {
            found.push(("validators", fault));
        }
        if requests.hop.take_if(|hop| *hop == address).is_none() {
            let delay = self.crawl_delays.get(&request.host).copied().unwrap_or(Span::ZERO);
            if let Some(&left) = self.last_end.get(group).filter(|&&left| at - left < delay) {
                found.push(("Crawl-delay", format!("{} after the last", at - left)));
            }
            found.extend(requests.too_early(&budget, grace, at));
            found.extend(requests.at_wrong_address(&address, at));
            requests.arrivals.push(at);
        }
        for (rule, detail) in found {
            self.record(name, at, rule, detail);
        }
    }

    /// Records the response to a request before it is sent.
    pub fn response_prepared(
        &mut self,
        source: Option<usize>,
        request: &DemoRequest,
        status: u16,
        meaning: &AnswerMeaning,
        at: Timestamp,
    ) {
        if let Some(delay) = meaning.crawl_delay {
            self.crawl_delays.insert(request.host.clone(), delay);
        }
        let Some(source) = source else { return };
        let group = DemoSource::group_of(&request.host);
        if let Some(retry_after) = meaning.retry_after.filter(|_| group != request.host) {
            self.paused.insert(group.to_owned(), at + retry_after);
        }
        self.by_source[source].response_prepared(request, status, meaning, at);
    }

    /// Records that the response is sent, or that the client has disconnected.
    pub fn response_sent(&mut self, host: &str, robots: bool, at: Timestamp) {
        let group = DemoSource::group_of(host);
        if let Some(in_flight) = self.in_flight.get_mut(group) {
            *in_flight = in_flight.saturating_sub(1);
        }
        if !robots {
            self.last_end.insert(group.to_owned(), at);
        }
    }
}

impl SourceRequests {
    /// Checks the validators: unchanged, only at the address that gave them, and always there.
    fn wrong_validators(&self, address: &(String, String), request: &DemoRequest) -> Option<String> {
        let shown = |sent: &Option<Vec<u8>>| {
            sent.as_ref().map_or("none".into(), |sent| String::from_utf8_lossy(sent).into_owned())
        };
        let sent = Given { etag: request.etag.clone(), last_modified: request.last_modified.clone() };
        let fine = match &self.given {
            Some((by, given)) if by == address => sent == *given,
            _ => sent == Given::default(),
        };
        (!fine).then(|| format!("sent {} and {}", shown(&sent.etag), shown(&sent.last_modified)))
    }

    fn too_early(&self, budget: &Budget, grace: Span, at: Timestamp) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if self.gone {
            found.push(("410 is for good", "request again".to_owned()));
        }
        if let Some(&last) = self.arrivals.last().filter(|&&last| at - last < budget.min_spacing) {
            found.push(("min_spacing", format!("{} after the last", at - last)));
        }
        let nth = self.arrivals.len().checked_sub(budget.probes as usize);
        if let Some(first) = nth.map(|nth| self.arrivals[nth]).filter(|&first| at - first < budget.per) {
            found.push(("budget", format!("{} probes in {}", budget.probes + 1, at - first)));
        }
        for (rule, &until) in self.not_before.iter().filter(|&(_, &until)| at < until) {
            found.push((rule, format!("{} too early", until - at)));
        }
        let skipped = |at: Timestamp| self.skip_hours >> at.utc_hour() & 1 == 1;
        if skipped(at) && skipped(at - grace) {
            found.push(("skipHours", format!("in hour {}", at.utc_hour())));
        }
        found
    }

    /// Checks the address: a new one needs enough redirects first; after that the old one must not be
    /// used.
    fn at_wrong_address(
        &mut self,
        address: &(String, String),
        at: Timestamp,
    ) -> Option<(&'static str, String)> {
        let (proofs, since) = self.moves;
        if self.home.get_or_insert_with(|| address.clone()) == address {
            return self
                .adopted
                .then(|| ("an adopted address is kept", format!("request at {}", address.0)));
        }
        let proven = proofs >= MOVE_PROOFS && since.is_some_and(|since| at - since >= MOVE_PROVEN_OVER);
        self.adopted = true;
        (!proven).then(|| ("redirects are adopted after proof", format!("after {proofs} answers")))
    }

    fn response_prepared(
        &mut self,
        request: &DemoRequest,
        status: u16,
        meaning: &AnswerMeaning,
        at: Timestamp,
    ) {
        self.last_status = Some(status);
        self.gone |= meaning.gone;
        self.hop.clone_from(&meaning.redirect_to);
        if meaning.permanent {
            self.moves = (self.moves.0 + 1, self.moves.1.or(Some(at)));
        }
        if meaning.sound {
            self.first_answer.get_or_insert(at);
        }
        if status == 200 && meaning.sound {
            let given = Given { etag: meaning.etag.clone(), last_modified: meaning.last_modified.clone() };
            self.given = Some(((request.host.clone(), request.path.clone()), given));
        }
        self.skip_hours = meaning.skip_hours.unwrap_or(self.skip_hours);
        self.ttl = meaning.ttl.or(self.ttl);
        for (rule, span) in
            [("max-age", meaning.fresh_for), ("Retry-After", meaning.retry_after), ("ttl", self.ttl)]
        {
            if let Some(span) = span {
                self.not_before.insert(rule, at + span);
            }
        }
    }
}

#[cfg(test)]
#[path = "politeness_check_tests.rs"]
mod tests;
