//! Breaks each rule once and keeps it once, because a check that never fails proves nothing.

use super::*;
use crate::cli::demo::demo_sources::cast;
use crate::cli::demo::world::DemoCalendar;

const AGENT: &str = "tidewatch/test";

struct Door {
    judge: Judge,
    cast: Vec<Character>,
}

fn t(minutes: i64) -> Timestamp {
    // Monday, midnight.
    Timestamp::from_secs(1_793_577_600) + Span::from_mins(minutes)
}

impl Door {
    fn new() -> Self {
        let cast = cast(&DemoCalendar { origin: t(0), days: 7 });
        let budget = Budget { probes: 4, per: Span::from_hours(2), min_spacing: Span::from_mins(10) };
        let judge = Judge::new(&cast, vec![budget; cast.len()], AGENT.to_owned(), 10_000.0);
        Self { judge, cast }
    }

    fn asked(&self, name: &str) -> (Option<usize>, DemoRequest) {
        let index = self.cast.iter().position(|c| c.name == name).unwrap();
        let Character { host, path, .. } = &self.cast[index];
        (
            Some(index),
            DemoRequest { host: (*host).to_owned(), path: (*path).to_owned(), ..DemoRequest::default() },
        )
    }

    fn bearing() -> Bearing {
        Bearing { method: "GET".to_owned(), agent: AGENT.to_owned(), unwanted: Vec::new() }
    }

    /// A request and its response within one minute.
    fn visit(
        &mut self,
        source: Option<usize>,
        asked: &DemoRequest,
        at: Timestamp,
        status: u16,
        told: &DemoAnswerHeaders,
    ) {
        self.judge.arrives(source, asked, &Self::bearing(), at);
        self.judge.answers(source, asked, status, told, at);
        self.judge.leaves(&asked.host, asked.path == "/robots.txt", at);
    }

    fn plain(&mut self, name: &str, minutes: i64, told: &DemoAnswerHeaders) {
        let (source, asked) = self.asked(name);
        self.visit(source, &asked, t(minutes), 200, told);
    }

    fn rules(&self) -> Vec<&'static str> {
        self.judge.violations().iter().map(|violation| violation.rule).collect()
    }
}

fn sound() -> DemoAnswerHeaders {
    DemoAnswerHeaders { sound: true, ..DemoAnswerHeaders::default() }
}

#[test]
fn spacing_and_budget_hold_to_the_minute() {
    let mut door = Door::new();
    for at in [0, 10, 20, 30, 120, 130] {
        door.plain("office-blog", at, &sound());
    }
    assert_eq!(door.rules(), Vec::<&str>::new());
    door.plain("office-blog", 139, &sound());
    assert_eq!(door.rules(), ["min_spacing", "budget"]);
}

#[test]
fn limits_in_responses_are_enforced() {
    for (rule, told) in [
        ("max-age", DemoAnswerHeaders { fresh_for: Some(Span::from_hours(1)), ..sound() }),
        (
            "Retry-After",
            DemoAnswerHeaders { rest: Some(Span::from_hours(1)), ..DemoAnswerHeaders::default() },
        ),
        ("ttl", DemoAnswerHeaders { ttl: Some(Span::from_hours(1)), ..sound() }),
    ] {
        let mut door = Door::new();
        door.plain("office-blog", 0, &told);
        door.plain("office-blog", 60, &told);
        assert_eq!(door.rules(), Vec::<&str>::new(), "{rule}");
        door.plain("office-blog", 119, &told);
        assert_eq!(door.rules(), [rule]);
    }
    let mut door = Door::new();
    door.plain("gone", 0, &DemoAnswerHeaders { gone: true, ..DemoAnswerHeaders::default() });
    door.plain("gone", 60, &DemoAnswerHeaders::default());
    assert_eq!(door.rules(), ["410 is for good"]);
}

#[test]
fn only_skipped_hours_have_a_tolerance() {
    let told = DemoAnswerHeaders { skip_hours: Some(1 << 2), ..sound() };
    let mut door = Door::new();
    door.plain("sleeper", 0, &told);
    // 100 ms are 16 minutes and 40 seconds at this speed.
    door.plain("sleeper", 120 + 16, &told);
    assert_eq!(door.rules(), Vec::<&str>::new());
    door.plain("sleeper", 120 + 27, &told);
    assert_eq!(door.rules(), ["skipHours"]);
}

#[test]
fn hosts_of_one_domain_share_limits() {
    let mut door = Door::new();
    let (a, at_a) = door.asked("shared-a");
    door.judge.arrives(a, &at_a, &Door::bearing(), t(0));
    door.plain("shared-b", 0, &sound());
    assert_eq!(door.rules(), ["one request in flight per host group"]);
    door.judge.leaves(&at_a.host, false, t(1));
    door.plain(
        "shared-b",
        20,
        &DemoAnswerHeaders { rest: Some(Span::from_hours(1)), ..DemoAnswerHeaders::default() },
    );
    door.plain("shared-a", 60, &sound());
    assert_eq!(door.rules()[1..], ["Retry-After of the host group"]);
}

#[test]
fn validators_are_neither_lost_nor_invented() {
    let told = DemoAnswerHeaders { etag: Some(b"W/\"1\"".to_vec()), ..sound() };
    let mut door = Door::new();
    let (source, mut asked) = door.asked("zipped");
    door.visit(source, &asked, t(0), 200, &told);
    asked.etag = Some(b"W/\"1\"".to_vec());
    door.visit(source, &asked, t(20), 304, &told);
    // A response that broke off gives no validators.
    door.visit(
        source,
        &asked,
        t(40),
        200,
        &DemoAnswerHeaders { etag: Some(b"\"2\"".to_vec()), ..DemoAnswerHeaders::default() },
    );
    door.visit(source, &asked, t(120), 304, &told);
    assert_eq!(door.rules(), Vec::<&str>::new());
    for etag in [None, Some(b"\"1\"".to_vec()), Some(b"\"2\"".to_vec())] {
        let mut again = Door { judge: door.judge.clone(), cast: door.cast.clone() };
        again.visit(source, &DemoRequest { etag, ..asked.clone() }, t(140), 200, &told);
        assert_eq!(again.rules(), ["validators"]);
    }
    let (other, mut asked) = door.asked("flaky");
    asked.last_modified = Some(b"Mon, 02 Nov 2026 00:00:00 GMT".to_vec());
    door.visit(other, &asked, t(0), 200, &sound());
    assert_eq!(door.rules(), ["validators"]);
}

#[test]
fn robots_txt_is_fetched_daily_and_obeyed() {
    let mut door = Door::new();
    let robots = DemoRequest {
        host: "pages.localhost".into(),
        path: "/robots.txt".into(),
        ..DemoRequest::default()
    };
    let told = DemoAnswerHeaders { crawl_delay: Some(Span::from_mins(30)), ..DemoAnswerHeaders::default() };
    door.visit(None, &robots, t(0), 200, &told);
    door.plain("quiet-page", 1, &sound());
    door.plain("quiet-page", 31, &sound());
    door.visit(None, &robots, t(24 * 60), 200, &told);
    assert_eq!(door.rules(), Vec::<&str>::new());
    door.plain("quiet-page", 24 * 60 + 1, &sound());
    door.plain("quiet-page", 24 * 60 + 20, &sound());
    door.visit(None, &robots, t(47 * 60), 200, &told);
    door.plain("closed-page", 48 * 60, &sound());
    let guess = DemoRequest { path: "/favicon.ico".into(), ..robots };
    door.visit(None, &guess, t(50 * 60), 404, &DemoAnswerHeaders::default());
    assert_eq!(door.rules(), ["Crawl-delay", "robots.txt at most daily", "Disallow", "no guessed URLs"]);
}

#[test]
fn a_move_is_proven_before_it_is_adopted() {
    let hop = ("new-home.localhost".to_owned(), "/feed".to_owned());
    let moved =
        DemoAnswerHeaders { elsewhere: Some(hop.clone()), for_good: true, ..DemoAnswerHeaders::default() };
    let mut door = Door::new();
    let (source, old) = door.asked("mover");
    let new = DemoRequest { host: hop.0, path: hop.1, ..DemoRequest::default() };
    for day in 0..5 {
        door.visit(source, &old, t(day * 1440), 301, &moved);
        door.visit(source, &new, t(day * 1440), 200, &sound());
        if day == 3 {
            let mut early = Door { judge: door.judge.clone(), cast: door.cast.clone() };
            early.visit(source, &new, t(day * 1440 + 60), 200, &sound());
            assert_eq!(early.rules(), ["redirects are adopted after proof"]);
        }
    }
    door.visit(source, &new, t(6 * 1440), 200, &sound());
    assert_eq!(door.rules(), Vec::<&str>::new());
    assert_eq!(
        door.judge.account(source.unwrap()).arrivals.len(),
        6,
        "a request that follows a redirect is not a probe"
    );
    door.visit(source, &old, t(7 * 1440), 301, &moved);
    assert_eq!(door.rules(), ["an adopted address is kept"]);
}

#[test]
fn method_agent_and_headers_are_checked() {
    let mut door = Door::new();
    let (source, asked) = door.asked("office-blog");
    let rude = Bearing { method: "HEAD".into(), agent: "curl".into(), unwanted: vec!["cookie".into()] };
    door.judge.arrives(source, &asked, &rude, t(0));
    assert_eq!(door.rules(), ["GET only", "User-Agent", "no cookies, no Referer"]);
}
