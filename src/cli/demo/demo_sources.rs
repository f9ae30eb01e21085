//! The sources of the demo.
//!
//! Defines names, addresses, rhythms and special behaviour of all sources in one table, and writes them
//! into a configuration. Must not know how requests are answered, nor the results of the daemon.

use std::path::Path;

use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};

use super::world::{DemoCalendar, DemoPost, DemoRhythm};

/// Contact that the User-Agent must contain.
pub const CONTACT: &str = "https://tidewatch.invalid/demo";

/// Document format of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DemoFormat {
    /// RSS 2.0.
    Rss,
    /// Atom.
    Atom,
    /// JSON Feed.
    Json,
    /// HTML page whose text is compared.
    Page,
}

/// Validators that a source sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// None: every response has a full body.
    Nothing,
    /// A strong `ETag`.
    Etag,
    /// A weak `ETag`.
    WeakEtag,
    /// `Last-Modified`.
    LastModified,
    /// A strong `ETag` and `Last-Modified`.
    Both,
}

/// Special behaviour of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quirk {
    /// No special behaviour.
    None,
    /// `Cache-Control: max-age` on 200 and 304.
    MaxAge(Span),
    /// `skipHours` as a bit mask, and a `ttl`.
    Hours { skip: u32, ttl: Span },
    /// Its port refuses connections.
    Dead,
    /// Responds with 410 from this time on.
    Gone(Timestamp),
    /// Responds with 429 after `most` requests within `within`.
    Throttles { most: usize, within: Span, rest: Span },
    /// Responds with 301 to another host from this time on.
    Moved { from: Timestamp, host: &'static str },
    /// Every fifth response is a 503 or breaks off.
    Flaky,
    /// Unescaped ampersands, and no closing tags.
    Malformed,
    /// Responses are compressed.
    Gzip,
    /// Responds with 503 and `Retry-After` in the hour after noon.
    ClosedAtNoon { rest: Span },
    /// Sends a small gzip body that unpacks beyond the largest accepted body.
    Bomb,
    /// Redirects in a loop.
    Carousel,
    /// robots.txt disallows its path.
    Closed,
}

/// One source of the demo.
#[derive(Debug, Clone)]
pub struct Character {
    /// Name in the configuration.
    pub name: &'static str,
    /// Description for the report.
    pub says: &'static str,
    /// Host that it answers for.
    pub host: &'static str,
    /// Path of its document.
    pub path: &'static str,
    /// Extra lines of its configuration.
    settings: &'static str,
    /// Document format.
    pub form: DemoFormat,
    /// Validators.
    pub gives: Gives,
    /// Special behaviour.
    pub quirk: Quirk,
    /// Its publications.
    pub posts: Vec<DemoPost>,
    /// Start and end of its burst, if it has one.
    pub burst: Option<(Timestamp, Timestamp)>,
}

impl Character {
    /// The host group: the registrable domain of the host. Written by hand, so that the checks do not
    /// depend on the code they check.
    pub fn group_of(host: &str) -> &str {
        if host.ends_with(".shared-demo.example") { "shared-demo.example" } else { host }
    }

    /// Whether it publishes anything; only such sources take part in the comparison of policies.
    pub fn publishes(&self) -> bool {
        !self.posts.is_empty()
    }

    /// Whether every update that is published early enough must be found.
    pub fn owes_everything(&self) -> bool {
        !matches!(self.quirk, Quirk::Dead | Quirk::Throttles { .. })
    }
}

/// Path of all feeds, also after a redirect to another host.
pub const FEED: &str = "/feed";
/// Path that robots.txt disallows on the host of the pages.
pub const CLOSED: &str = "/private/";
/// `Crawl-delay` in that robots.txt.
pub const CRAWL_DELAY: Span = Span::from_mins(10);

/// A budget large enough to reach the limits that sources set.
const EAGER: &str = "budget = { probes = 96, min_spacing = \"10m\" }";
const DEFAULT: &str = "";
const PAGE: &str = "kind = \"page\"";

/// Night hours (22 to 06), which one source lists in `skipHours`.
const NIGHT: u32 = 0b11 << 22 | 0b11_1111;

/// All sources, with their publications during the run.
pub fn cast(calendar: &DemoCalendar) -> Vec<Character> {
    use DemoRhythm::{Daytime, Newsroom, Nightly, Office, Silent, Steady};
    let hours = |skip| Quirk::Hours { skip, ttl: Span::from_mins(60) };
    let throttles = Quirk::Throttles { most: 6, within: Span::from_hours(3), rest: Span::from_hours(2) };
    let moved = Quirk::Moved { from: calendar.share(1), host: "new-home.localhost" };
    let gone = calendar.share(3);
    #[rustfmt::skip]
    let table = [
        ("office-blog", "posts in office hours; ETag", "office-blog.localhost", FEED, DEFAULT, DemoFormat::Rss, Gives::Etag, Quirk::None, Office),
        ("nightly-cron", "one entry at 02:30; Last-Modified", "nightly-cron.localhost", FEED, DEFAULT, DemoFormat::Atom, Gives::LastModified, Quirk::None, Nightly),
        ("newsroom", "a trickle and one burst; max-age", "newsroom.localhost", FEED, EAGER, DemoFormat::Json, Gives::Etag, Quirk::MaxAge(Span::from_mins(30)), Newsroom),
        ("sleeper", "skipHours at night, ttl 60", "sleeper.localhost", FEED, EAGER, DemoFormat::Rss, Gives::Both, hours(NIGHT), Steady(8.0)),
        ("quiet-page", "a page; robots.txt, Crawl-delay", "pages.localhost", "/news", PAGE, DemoFormat::Page, Gives::Both, Quirk::None, Steady(2.0)),
        ("closed-page", "behind a Disallow", "pages.localhost", "/private/diary", PAGE, DemoFormat::Page, Gives::Nothing, Quirk::Closed, Silent),
        ("zipped", "gzip; weak ETag", "zipped.localhost", FEED, EAGER, DemoFormat::Rss, Gives::WeakEtag, Quirk::Gzip, Daytime(12)),
        ("malformed", "bare ampersands, no end", "malformed.localhost", FEED, DEFAULT, DemoFormat::Rss, Gives::Nothing, Quirk::Malformed, Daytime(8)),
        ("flaky", "every fifth answer fails", "flaky.localhost", FEED, EAGER, DemoFormat::Rss, Gives::Both, Quirk::Flaky, Steady(10.0)),
        ("throttler", "429 when asked too often", "throttler.localhost", FEED, EAGER, DemoFormat::Atom, Gives::Etag, throttles, Steady(10.0)),
        ("shared-a", "one domain with shared-b", "a.shared-demo.example", FEED, EAGER, DemoFormat::Rss, Gives::Etag, Quirk::None, Office),
        ("shared-b", "one domain; 503 at noon", "b.shared-demo.example", FEED, EAGER, DemoFormat::Json, Gives::Etag, Quirk::ClosedAtNoon { rest: Span::from_hours(1) }, Steady(6.0)),
        ("mover", "301 to a new host", "mover.localhost", FEED, DEFAULT, DemoFormat::Rss, Gives::Etag, moved, Steady(6.0)),
        ("gone", "410 in mid-run", "gone.localhost", FEED, DEFAULT, DemoFormat::Rss, Gives::Etag, Quirk::Gone(gone), Steady(6.0)),
        ("dead", "connection refused", "dead.localhost", FEED, DEFAULT, DemoFormat::Rss, Gives::Nothing, Quirk::Dead, Silent),
        ("bomb", "hostile: unpacks without end", "bomb.localhost", FEED, DEFAULT, DemoFormat::Rss, Gives::Nothing, Quirk::Bomb, Silent),
        ("carousel", "hostile: redirects in a circle", "carousel.localhost", FEED, DEFAULT, DemoFormat::Rss, Gives::Nothing, Quirk::Carousel, Silent),
    ];
    let character = |(name, says, host, path, settings, form, gives, quirk, rhythm)| {
        let mut posts = calendar.posts(name, rhythm);
        if let Quirk::Gone(from) = quirk {
            posts.retain(|post: &DemoPost| post.at < from);
        }
        let burst = (rhythm == Newsroom).then(|| calendar.afternoon());
        Character { name, says, host, path, settings, form, gives, quirk, posts, burst }
    };
    table.into_iter().map(character).collect()
}

/// The configuration for the daemon.
pub fn configuration(
    cast: &[Character],
    policy: Policy,
    store: &Path,
    port: u16,
    dead_port: u16,
) -> String {
    let mut text = format!(
        "[daemon]\nstore = {:?}\ncontact = \"{CONTACT}\"\n\n\
         [fleet]\nstep = \"1m\"\nprobes_per_step = 60\nhost_spacing = \"1s\"\n\n\
         [fetch.resolve]\n",
        store.to_string_lossy(),
    );
    // Fixes the address of hosts with public names, and of the host whose port refuses connections.
    for character in cast {
        if character.quirk == Quirk::Dead || Character::group_of(character.host) != character.host {
            text.push_str(&format!("{:?} = \"127.0.0.1\"\n", character.host));
        }
    }
    for character in cast {
        let port = if character.quirk == Quirk::Dead { dead_port } else { port };
        text.push_str(&format!(
            "\n[[source]]\nname = {:?}\nurl = \"http://{}:{port}{}\"\nallow_private = true\n\
             policy = \"{}\"\n{}\n",
            character.name,
            character.host,
            character.path,
            policy.name(),
            character.settings,
        ));
    }
    text
}
