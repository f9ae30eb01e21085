//! Checks politeness at the server, because the log of a poller cannot prove it.
//!
//! Knows the budgets and the responses ([`DemoAnswerHeaders`]). Must not know the state of the daemon, nor
//! share its arithmetic. A request counts when its head is read, a response when it is sent. The daemon counts
//! from the end of a probe, after the response is sent. So budget, spacing, `max-age`, `ttl` and `Retry-After`
//! hold here exactly. Only skipped hours have a tolerance, [`GRACE`]: a request scheduled before such an hour
//! may arrive in it.

use std::collections::HashMap;
use std::time::Duration;

use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::{Span, Timestamp};

use super::demo_sources::{CLOSED, Character};
use super::server_behaviour::{DemoAnswerHeaders, DemoRequest};

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
pub struct Bearing {
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
pub struct SourceAccount {
    /// Probes: requests that do not follow a redirect.
    pub arrivals: Vec<Timestamp>,
    /// Time of the first readable response.
    pub first_look: Option<Timestamp>,
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
pub struct Judge {
    agent: String,
    /// [`GRACE`] in time of the run's clock.
    grace: Span,
    budgets: Vec<Budget>,
    names: Vec<&'static str>,
    accounts: Vec<SourceAccount>,
    inside: HashMap<String, u32>,
    robots: HashMap<String, Timestamp>,
    crawl_delays: HashMap<String, Span>,
    /// Time before which no request may come, by host group.
    paused: HashMap<String, Timestamp>,
    left: HashMap<String, Timestamp>,
    violations: Vec<Violation>,
    requests: u64,
}

impl Judge {
    /// Checks requests with the User-Agent `agent`, on a clock of that speed.
    pub fn new(cast: &[Character], budgets: Vec<Budget>, agent: String, speed: f64) -> Self {
        Self {
            agent,
            grace: Span::from_duration(GRACE.mul_f64(speed)),
            budgets,
            names: cast.iter().map(|character| character.name).collect(),
            accounts: vec![SourceAccount::default(); cast.len()],
            inside: HashMap::new(),
            robots: HashMap::new(),
            crawl_delays: HashMap::new(),
            paused: HashMap::new(),
            left: HashMap::new(),
            violations: Vec::new(),
            requests: 0,
        }
    }

    /// All violations so far.
    pub fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// The record of a source.
    pub fn account(&self, source: usize) -> &SourceAccount {
        &self.accounts[source]
    }

    /// Number of all requests, with redirects and robots.txt.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    fn blame(&mut self, who: &str, at: Timestamp, rule: &'static str, detail: impl Into<String>) {
        self.violations.push(Violation { source: who.to_owned(), at, rule, detail: detail.into() });
    }

    /// Checks an incoming request. `source` is the requested source, if any.
    pub fn arrives(
        &mut self,
        source: Option<usize>,
        asked: &DemoRequest,
        bearing: &Bearing,
        at: Timestamp,
    ) {
        self.requests += 1;
        let group = Character::group_of(&asked.host).to_owned();
        let who = source.map_or_else(|| asked.host.clone(), |source| self.names[source].to_owned());
        if bearing.method != "GET" {
            self.blame(&who, at, "GET only", bearing.method.clone());
        }
        if bearing.agent != self.agent {
            self.blame(&who, at, "User-Agent", bearing.agent.clone());
        }
        if !bearing.unwanted.is_empty() {
            self.blame(&who, at, "no cookies, no Referer", bearing.unwanted.join(", "));
        }
        let inside = self.inside.entry(group.clone()).or_default();
        *inside += 1;
        if *inside > 1 {
            self.blame(&who, at, "one request in flight per host group", group.clone());
        }
        if let Some(&until) = self.paused.get(&group).filter(|&&until| at < until) {
            self.blame(&who, at, "Retry-After of the host group", format!("until {until}"));
        }
        if asked.path == "/robots.txt" {
            self.asks_robots(asked, at);
            return;
        }
        if asked.path.starts_with(CLOSED) {
            self.blame(&who, at, "Disallow", asked.path.clone());
        }
        match source {
            Some(source) => self.visits(source, asked, &group, at),
            None => self.blame(&who, at, "no guessed URLs", asked.path.clone()),
        }
    }

    fn asks_robots(&mut self, asked: &DemoRequest, at: Timestamp) {
        let before = self.robots.insert(asked.host.clone(), at);
        if let Some(before) = before.filter(|&before| at - before < Span::from_days(1)) {
            self.blame(
                &asked.host,
                at,
                "robots.txt at most daily",
                format!("{} after the last", at - before),
            );
        }
        if asked.etag.is_some() || asked.last_modified.is_some() {
            self.blame(&asked.host, at, "validators", "sent for a robots.txt that gave none");
        }
    }

    fn visits(&mut self, source: usize, asked: &DemoRequest, group: &str, at: Timestamp) {
        let who = self.names[source];
        let mut found: Vec<(&'static str, String)> = Vec::new();
        let budget = self.budgets[source];
        let grace = self.grace;
        let account = &mut self.accounts[source];
        let address = (asked.host.clone(), asked.path.clone());
        if let Some(fault) = account.validators_at_fault(&address, asked) {
            found.push(("validators", fault));
        }
        if account.hop.take_if(|hop| *hop == address).is_none() {
            let delay = self.crawl_delays.get(&asked.host).copied().unwrap_or(Span::ZERO);
            if let Some(&left) = self.left.get(group).filter(|&&left| at - left < delay) {
                found.push(("Crawl-delay", format!("{} after the last", at - left)));
            }
            found.extend(account.too_early(&budget, grace, at));
            found.extend(account.at_wrong_address(&address, at));
            account.arrivals.push(at);
        }
        for (rule, detail) in found {
            self.blame(who, at, rule, detail);
        }
    }

    /// Records the response to a request before it is sent.
    pub fn answers(
        &mut self,
        source: Option<usize>,
        asked: &DemoRequest,
        status: u16,
        told: &DemoAnswerHeaders,
        at: Timestamp,
    ) {
        if let Some(delay) = told.crawl_delay {
            self.crawl_delays.insert(asked.host.clone(), delay);
        }
        let Some(source) = source else { return };
        let group = Character::group_of(&asked.host);
        if let Some(rest) = told.rest.filter(|_| group != asked.host) {
            self.paused.insert(group.to_owned(), at + rest);
        }
        self.accounts[source].told(asked, status, told, at);
    }

    /// Records that the response is sent, or that the client has disconnected.
    pub fn leaves(&mut self, host: &str, robots: bool, at: Timestamp) {
        let group = Character::group_of(host);
        if let Some(inside) = self.inside.get_mut(group) {
            *inside = inside.saturating_sub(1);
        }
        if !robots {
            self.left.insert(group.to_owned(), at);
        }
    }
}

impl SourceAccount {
    /// Checks the validators: unchanged, only at the address that gave them, and always there.
    fn validators_at_fault(&self, address: &(String, String), asked: &DemoRequest) -> Option<String> {
        let shown = |sent: &Option<Vec<u8>>| {
            sent.as_ref().map_or("none".into(), |sent| String::from_utf8_lossy(sent).into_owned())
        };
        let sent = Given { etag: asked.etag.clone(), last_modified: asked.last_modified.clone() };
        let fine = match &self.given {
            Some((by, given)) if by == address => sent == *given,
            _ => sent == Given::default(),
        };
        (!fine).then(|| format!("sent {} and {}", shown(&sent.etag), shown(&sent.last_modified)))
    }

    fn too_early(&self, budget: &Budget, grace: Span, at: Timestamp) -> Vec<(&'static str, String)> {
        let mut found = Vec::new();
        if self.gone {
            found.push(("410 is for good", "asked again".to_owned()));
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
            return self.adopted.then(|| ("an adopted address is kept", format!("asked at {}", address.0)));
        }
        let proven = proofs >= MOVE_PROOFS && since.is_some_and(|since| at - since >= MOVE_PROVEN_OVER);
        self.adopted = true;
        (!proven).then(|| ("redirects are adopted after proof", format!("after {proofs} answers")))
    }

    fn told(&mut self, asked: &DemoRequest, status: u16, told: &DemoAnswerHeaders, at: Timestamp) {
        self.last_status = Some(status);
        self.gone |= told.gone;
        self.hop.clone_from(&told.elsewhere);
        if told.for_good {
            self.moves = (self.moves.0 + 1, self.moves.1.or(Some(at)));
        }
        if told.sound {
            self.first_look.get_or_insert(at);
        }
        if status == 200 && told.sound {
            let given = Given { etag: told.etag.clone(), last_modified: told.last_modified.clone() };
            self.given = Some(((asked.host.clone(), asked.path.clone()), given));
        }
        self.skip_hours = told.skip_hours.unwrap_or(self.skip_hours);
        self.ttl = told.ttl.or(self.ttl);
        for (rule, span) in [("max-age", told.fresh_for), ("Retry-After", told.rest), ("ttl", self.ttl)] {
            if let Some(span) = span {
                self.not_before.insert(rule, at + span);
            }
        }
    }
}

#[cfg(test)]
#[path = "judge_tests.rs"]
mod tests;
