//! Breaks each rule once and keeps it once, because a check that never fails proves nothing.

use super::*;
use crate::cli::demo::calendar::DemoCalendar;
use crate::cli::demo::demo_sources::demo_sources;

const AGENT: &str = "tidewatch/test";

struct CheckedServer {
    check: PolitenessCheck,
    sources: Vec<DemoSource>,
}

fn t(minutes: i64) -> Timestamp {
    // Monday, midnight.
    Timestamp::from_secs(1_793_577_600) + Span::from_mins(minutes)
}

impl CheckedServer {
    fn new() -> Self {
        let sources = demo_sources(&DemoCalendar { origin: t(0), days: 7 });
        let budget = Budget { probes: 4, per: Span::from_hours(2), min_spacing: Span::from_mins(10) };
        let check = PolitenessCheck::new(&sources, vec![budget; sources.len()], AGENT.to_owned(), 10_000.0);
        Self { check, sources }
    }

    fn request(&self, name: &str) -> (Option<usize>, DemoRequest) {
        let index = self.sources.iter().position(|c| c.name == name).unwrap();
        let DemoSource { host, path, .. } = &self.sources[index];
        (
            Some(index),
            DemoRequest { host: (*host).to_owned(), path: (*path).to_owned(), ..DemoRequest::default() },
        )
    }

    fn headers_to_check() -> CheckedHeaders {
        CheckedHeaders { method: "GET".to_owned(), agent: AGENT.to_owned(), unwanted: Vec::new() }
    }

    /// A request and its response within one minute.
    fn exchange(
        &mut self,
        source: Option<usize>,
        request: &DemoRequest,
        at: Timestamp,
        status: u16,
        meaning: &AnswerMeaning,
    ) {
        self.check.request_arrived(source, request, &Self::headers_to_check(), at);
        self.check.response_prepared(source, request, status, meaning, at);
        self.check.response_sent(&request.host, request.is_for_robots(), at);
    }

    fn plain(&mut self, name: &str, minutes: i64, meaning: &AnswerMeaning) {
        let (source, request) = self.request(name);
        self.exchange(source, &request, t(minutes), 200, meaning);
    }

    fn rules(&self) -> Vec<&'static str> {
        self.check.violations().iter().map(|violation| violation.rule).collect()
    }
}

fn sound() -> AnswerMeaning {
    AnswerMeaning { sound: true, ..AnswerMeaning::default() }
}

#[test]
fn spacing_and_budget_hold_to_the_minute() {
    let mut server = CheckedServer::new();
    for at in [0, 10, 20, 30, 120, 130] {
        server.plain("office-blog", at, &sound());
    }
    assert_eq!(server.rules(), Vec::<&str>::new());
    server.plain("office-blog", 139, &sound());
    assert_eq!(server.rules(), ["min_spacing", "budget"]);
}

#[test]
fn limits_in_responses_are_enforced() {
    for (rule, meaning) in [
        ("max-age", AnswerMeaning { fresh_for: Some(Span::from_hours(1)), ..sound() }),
        (
            "Retry-After",
            AnswerMeaning { retry_after: Some(Span::from_hours(1)), ..AnswerMeaning::default() },
        ),
        ("ttl", AnswerMeaning { ttl: Some(Span::from_hours(1)), ..sound() }),
    ] {
        let mut server = CheckedServer::new();
        server.plain("office-blog", 0, &meaning);
        server.plain("office-blog", 60, &meaning);
        assert_eq!(server.rules(), Vec::<&str>::new(), "{rule}");
        server.plain("office-blog", 119, &meaning);
        assert_eq!(server.rules(), [rule]);
    }
    let mut server = CheckedServer::new();
    server.plain("gone", 0, &AnswerMeaning { gone: true, ..AnswerMeaning::default() });
    server.plain("gone", 60, &AnswerMeaning::default());
    assert_eq!(server.rules(), ["410 is for good"]);
}

#[test]
fn only_skipped_hours_have_a_tolerance() {
    let meaning = AnswerMeaning { skip_hours: Some(1 << 2), ..sound() };
    let mut server = CheckedServer::new();
    server.plain("sleeper", 0, &meaning);
    // 100 ms are 16 minutes and 40 seconds at this speed.
    server.plain("sleeper", 120 + 16, &meaning);
    assert_eq!(server.rules(), Vec::<&str>::new());
    server.plain("sleeper", 120 + 27, &meaning);
    assert_eq!(server.rules(), ["skipHours"]);
}

#[test]
fn hosts_of_one_domain_share_limits() {
    let mut server = CheckedServer::new();
    let (a, at_a) = server.request("shared-a");
    server.check.request_arrived(a, &at_a, &CheckedServer::headers_to_check(), t(0));
    server.plain("shared-b", 0, &sound());
    assert_eq!(server.rules(), ["one request in flight per host group"]);
    server.check.response_sent(&at_a.host, false, t(1));
    server.plain(
        "shared-b",
        20,
        &AnswerMeaning { retry_after: Some(Span::from_hours(1)), ..AnswerMeaning::default() },
    );
    server.plain("shared-a", 60, &sound());
    assert_eq!(server.rules()[1..], ["Retry-After of the host group"]);
}

#[test]
fn validators_are_neither_lost_nor_invented() {
    let meaning = AnswerMeaning { etag: Some(b"W/\"1\"".to_vec()), ..sound() };
    let mut server = CheckedServer::new();
    let (source, mut request) = server.request("zipped");
    server.exchange(source, &request, t(0), 200, &meaning);
    request.etag = Some(b"W/\"1\"".to_vec());
    server.exchange(source, &request, t(20), 304, &meaning);
    // A response that broke off gives no validators.
    server.exchange(
        source,
        &request,
        t(40),
        200,
        &AnswerMeaning { etag: Some(b"\"2\"".to_vec()), ..AnswerMeaning::default() },
    );
    server.exchange(source, &request, t(120), 304, &meaning);
    assert_eq!(server.rules(), Vec::<&str>::new());
    for etag in [None, Some(b"\"1\"".to_vec()), Some(b"\"2\"".to_vec())] {
        let mut again = CheckedServer { check: server.check.clone(), sources: server.sources.clone() };
        again.exchange(source, &DemoRequest { etag, ..request.clone() }, t(140), 200, &meaning);
        assert_eq!(again.rules(), ["validators"]);
    }
    let (other, mut request) = server.request("flaky");
    request.last_modified = Some(b"Mon, 02 Nov 2026 00:00:00 GMT".to_vec());
    server.exchange(other, &request, t(0), 200, &sound());
    assert_eq!(server.rules(), ["validators"]);
}

#[test]
fn robots_txt_is_fetched_daily_and_obeyed() {
    let mut server = CheckedServer::new();
    let robots = DemoRequest {
        host: "pages.localhost".into(),
        path: "/robots.txt".into(),
        ..DemoRequest::default()
    };
    let meaning = AnswerMeaning { crawl_delay: Some(Span::from_mins(30)), ..AnswerMeaning::default() };
    server.exchange(None, &robots, t(0), 200, &meaning);
    server.plain("quiet-page", 1, &sound());
    server.plain("quiet-page", 31, &sound());
    server.exchange(None, &robots, t(24 * 60), 200, &meaning);
    assert_eq!(server.rules(), Vec::<&str>::new());
    server.plain("quiet-page", 24 * 60 + 1, &sound());
    server.plain("quiet-page", 24 * 60 + 20, &sound());
    server.exchange(None, &robots, t(47 * 60), 200, &meaning);
    server.plain("closed-page", 48 * 60, &sound());
    let guess = DemoRequest { path: "/favicon.ico".into(), ..robots };
    server.exchange(None, &guess, t(50 * 60), 404, &AnswerMeaning::default());
    assert_eq!(server.rules(), ["Crawl-delay", "robots.txt at most daily", "Disallow", "no guessed URLs"]);
}

#[test]
fn a_move_is_proven_before_it_is_adopted() {
    let hop = ("new-home.localhost".to_owned(), "/feed".to_owned());
    let moved =
        AnswerMeaning { redirect_to: Some(hop.clone()), permanent: true, ..AnswerMeaning::default() };
    let mut server = CheckedServer::new();
    let (source, old) = server.request("mover");
    let new = DemoRequest { host: hop.0, path: hop.1, ..DemoRequest::default() };
    for day in 0..5 {
        server.exchange(source, &old, t(day * 1440), 301, &moved);
        server.exchange(source, &new, t(day * 1440), 200, &sound());
        if day == 3 {
            let mut early = CheckedServer { check: server.check.clone(), sources: server.sources.clone() };
            early.exchange(source, &new, t(day * 1440 + 60), 200, &sound());
            assert_eq!(early.rules(), ["redirects are adopted after proof"]);
        }
    }
    server.exchange(source, &new, t(6 * 1440), 200, &sound());
    assert_eq!(server.rules(), Vec::<&str>::new());
    assert_eq!(
        server.check.source(source.unwrap()).arrivals.len(),
        6,
        "a request that follows a redirect is not a probe"
    );
    server.exchange(source, &old, t(7 * 1440), 301, &moved);
    assert_eq!(server.rules(), ["an adopted address is kept"]);
}

#[test]
fn method_agent_and_headers_are_checked() {
    let mut server = CheckedServer::new();
    let (source, request) = server.request("office-blog");
    let rude =
        CheckedHeaders { method: "HEAD".into(), agent: "curl".into(), unwanted: vec!["cookie".into()] };
    server.check.request_arrived(source, &request, &rude, t(0));
    assert_eq!(server.rules(), ["GET only", "User-Agent", "no cookies, no Referer"]);
}
