//! A judge that never convicts proves nothing: each rule is broken once here, and kept once.

use super::*;
use crate::cli::demo::cast::cast;
use crate::cli::demo::world::Calendar;

const AGENT: &str = "tidewatch/test";

struct Door {
    judge: Judge,
    cast: Vec<Character>,
}

fn t(minutes: i64) -> Timestamp {
    // A Monday, midnight.
    Timestamp::from_secs(1_793_577_600) + Span::from_mins(minutes)
}

impl Door {
    fn new() -> Self {
        let cast = cast(&Calendar { origin: t(0), days: 7 });
        let budget = Budget { probes: 4, per: Span::from_hours(2), min_spacing: Span::from_mins(10) };
        let judge = Judge::new(&cast, vec![budget; cast.len()], AGENT.to_owned(), 10_000.0);
        Self { judge, cast }
    }

    fn asked(&self, name: &str) -> (Option<usize>, Asked) {
        let index = self.cast.iter().position(|c| c.name == name).unwrap();
        let Character { host, path, .. } = &self.cast[index];
        (Some(index), Asked { host: (*host).to_owned(), path: (*path).to_owned(), ..Asked::default() })
    }

    fn bearing() -> Bearing {
        Bearing { method: "GET".to_owned(), agent: AGENT.to_owned(), unwanted: Vec::new() }
    }

    /// A whole visit that is over within its minute.
    fn visit(&mut self, source: Option<usize>, asked: &Asked, at: Timestamp, status: u16, told: &Told) {
        self.judge.arrives(source, asked, &Self::bearing(), at);
        self.judge.answers(source, asked, status, told, at);
        self.judge.leaves(&asked.host, asked.path == "/robots.txt", at);
    }

    fn plain(&mut self, name: &str, minutes: i64, told: &Told) {
        let (source, asked) = self.asked(name);
        self.visit(source, &asked, t(minutes), 200, told);
    }

    fn rules(&self) -> Vec<&'static str> {
        self.judge.violations().iter().map(|violation| violation.rule).collect()
    }
}

fn sound() -> Told {
    Told { sound: true, ..Told::default() }
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
fn what_was_told_binds() {
    for (rule, told) in [
        ("max-age", Told { fresh_for: Some(Span::from_hours(1)), ..sound() }),
        ("Retry-After", Told { rest: Some(Span::from_hours(1)), ..Told::default() }),
        ("ttl", Told { ttl: Some(Span::from_hours(1)), ..sound() }),
    ] {
        let mut door = Door::new();
        door.plain("office-blog", 0, &told);
        door.plain("office-blog", 60, &told);
        assert_eq!(door.rules(), Vec::<&str>::new(), "{rule}");
        door.plain("office-blog", 119, &told);
        assert_eq!(door.rules(), [rule]);
    }
    let mut door = Door::new();
    door.plain("gone", 0, &Told { gone: true, ..Told::default() });
    door.plain("gone", 60, &Told::default());
    assert_eq!(door.rules(), ["410 is for good"]);
}

#[test]
fn skipped_hours_have_the_only_grace() {
    let told = Told { skip_hours: Some(1 << 2), ..sound() };
    let mut door = Door::new();
    door.plain("sleeper", 0, &told);
    // 100 ms at this speed are 16 minutes and 40 seconds.
    door.plain("sleeper", 120 + 16, &told);
    assert_eq!(door.rules(), Vec::<&str>::new());
    door.plain("sleeper", 120 + 27, &told);
    assert_eq!(door.rules(), ["skipHours"]);
}

#[test]
fn a_shared_domain_is_one_host() {
    let mut door = Door::new();
    let (a, at_a) = door.asked("shared-a");
    door.judge.arrives(a, &at_a, &Door::bearing(), t(0));
    door.plain("shared-b", 0, &sound());
    assert_eq!(door.rules(), ["one request in flight per host group"]);
    door.judge.leaves(&at_a.host, false, t(1));
    door.plain("shared-b", 20, &Told { rest: Some(Span::from_hours(1)), ..Told::default() });
    door.plain("shared-a", 60, &sound());
    assert_eq!(door.rules()[1..], ["Retry-After of the host group"]);
}

#[test]
fn validators_are_neither_lost_nor_invented() {
    let told = Told { etag: Some(b"W/\"1\"".to_vec()), ..sound() };
    let mut door = Door::new();
    let (source, mut asked) = door.asked("zipped");
    door.visit(source, &asked, t(0), 200, &told);
    asked.etag = Some(b"W/\"1\"".to_vec());
    door.visit(source, &asked, t(20), 304, &told);
    // What broke off gave nothing.
    door.visit(source, &asked, t(40), 200, &Told { etag: Some(b"\"2\"".to_vec()), ..Told::default() });
    door.visit(source, &asked, t(120), 304, &told);
    assert_eq!(door.rules(), Vec::<&str>::new());
    for etag in [None, Some(b"\"1\"".to_vec()), Some(b"\"2\"".to_vec())] {
        let mut again = Door { judge: door.judge.clone(), cast: door.cast.clone() };
        again.visit(source, &Asked { etag, ..asked.clone() }, t(140), 200, &told);
        assert_eq!(again.rules(), ["validators"]);
    }
    let (other, mut asked) = door.asked("flaky");
    asked.last_modified = Some(b"Mon, 02 Nov 2026 00:00:00 GMT".to_vec());
    door.visit(other, &asked, t(0), 200, &sound());
    assert_eq!(door.rules(), ["validators"]);
}

#[test]
fn robots_txt_is_asked_daily_and_obeyed() {
    let mut door = Door::new();
    let robots = Asked { host: "pages.localhost".into(), path: "/robots.txt".into(), ..Asked::default() };
    let told = Told { crawl_delay: Some(Span::from_mins(30)), ..Told::default() };
    door.visit(None, &robots, t(0), 200, &told);
    door.plain("quiet-page", 1, &sound());
    door.plain("quiet-page", 31, &sound());
    door.visit(None, &robots, t(24 * 60), 200, &told);
    assert_eq!(door.rules(), Vec::<&str>::new());
    door.plain("quiet-page", 24 * 60 + 1, &sound());
    door.plain("quiet-page", 24 * 60 + 20, &sound());
    door.visit(None, &robots, t(47 * 60), 200, &told);
    door.plain("closed-page", 48 * 60, &sound());
    let guess = Asked { path: "/favicon.ico".into(), ..robots };
    door.visit(None, &guess, t(50 * 60), 404, &Told::default());
    assert_eq!(door.rules(), ["Crawl-delay", "robots.txt at most daily", "Disallow", "no guessed URLs"]);
}

#[test]
fn a_move_is_proven_before_it_is_adopted() {
    let hop = ("new-home.localhost".to_owned(), "/feed".to_owned());
    let moved = Told { elsewhere: Some(hop.clone()), for_good: true, ..Told::default() };
    let mut door = Door::new();
    let (source, old) = door.asked("mover");
    let new = Asked { host: hop.0, path: hop.1, ..Asked::default() };
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
    assert_eq!(door.judge.account(source.unwrap()).arrivals.len(), 6, "a redirect followed is no probe");
    door.visit(source, &old, t(7 * 1440), 301, &moved);
    assert_eq!(door.rules(), ["an adopted address is kept"]);
}

#[test]
fn bearing_counts() {
    let mut door = Door::new();
    let (source, asked) = door.asked("office-blog");
    let rude = Bearing { method: "HEAD".into(), agent: "curl".into(), unwanted: vec!["cookie".into()] };
    door.judge.arrives(source, &asked, &rude, t(0));
    assert_eq!(door.rules(), ["GET only", "User-Agent", "no cookies, no Referer"]);
}
