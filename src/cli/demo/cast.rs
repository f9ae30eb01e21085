//! Who takes part: the sources of the demo, each with its character.
//!
//! Exists so that the whole cast can be read in one place. Knows names, addresses, rhythms and
//! manners, and how they are written into a configuration. Must not know how a request is
//! answered, nor what the daemon makes of it.

use std::path::Path;

use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};

use super::world::{Calendar, Post, Rhythm};

/// What every source's User-Agent check expects after the plus sign.
pub const CONTACT: &str = "https://tidewatch.invalid/demo";

/// In what form a source publishes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// RSS 2.0.
    Rss,
    /// Atom.
    Atom,
    /// JSON Feed.
    Json,
    /// An HTML page whose text is compared.
    Page,
}

/// Which validators a source gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gives {
    /// None: every answer is whole.
    Nothing,
    /// A strong `ETag`.
    Etag,
    /// A weak one.
    WeakEtag,
    /// `Last-Modified`.
    LastModified,
    /// Both.
    Both,
}

/// What is peculiar about a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Quirk {
    /// Nothing.
    None,
    /// `Cache-Control: max-age` on 200 and 304.
    MaxAge(Span),
    /// `skipHours` as a mask, and a `ttl`.
    Hours { skip: u32, ttl: Span },
    /// Nobody listens at its port.
    Dead,
    /// 410 from then on.
    Gone(Timestamp),
    /// 429 when asked more than `most` times within `within`.
    Throttles { most: usize, within: Span, rest: Span },
    /// 301 to another host from then on.
    Moved { from: Timestamp, host: &'static str },
    /// Every fifth answer is a 503 or breaks off.
    Flaky,
    /// Bare ampersands, and no end.
    Malformed,
    /// Compressed.
    Gzip,
    /// 503 with `Retry-After` during the hour after noon.
    ClosedAtNoon { rest: Span },
    /// Sends a kilobyte that unpacks to far more than anyone should take.
    Bomb,
    /// Redirects in a circle.
    Carousel,
    /// Behind a `Disallow`.
    Closed,
}

/// One source of the demo.
#[derive(Debug, Clone)]
pub struct Character {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Its character, for the report.
    pub says: &'static str,
    /// The host it answers as.
    pub host: &'static str,
    /// The path it is at.
    pub path: &'static str,
    /// Its own lines of configuration.
    settings: &'static str,
    /// Its form.
    pub form: Form,
    /// Its validators.
    pub gives: Gives,
    /// Its peculiarity.
    pub quirk: Quirk,
    /// What it publishes.
    pub posts: Vec<Post>,
    /// When it breaks its rhythm, if ever.
    pub burst: Option<(Timestamp, Timestamp)>,
}

impl Character {
    /// Whoever bears our requests together with this host: its registrable domain, said here by
    /// hand so that the judge does not ask the code it judges.
    pub fn group_of(host: &str) -> &str {
        if host.ends_with(".shared-demo.example") { "shared-demo.example" } else { host }
    }

    /// Whether it has anything to tell, so that asking it by another policy can be compared.
    pub fn publishes(&self) -> bool {
        !self.posts.is_empty()
    }

    /// Whether all that it publishes early enough must have been found.
    pub fn owes_everything(&self) -> bool {
        !matches!(self.quirk, Quirk::Dead | Quirk::Throttles { .. })
    }
}

/// The path of a source that moved, and of every source that is a feed.
pub const FEED: &str = "/feed";
/// What robots.txt closes on the host of the pages.
pub const CLOSED: &str = "/private/";
/// What robots.txt asks to keep between requests there.
pub const CRAWL_DELAY: Span = Span::from_mins(10);

/// Asked often enough to run into what limits the source itself sets.
const EAGER: &str = "budget = { probes = 96, min_spacing = \"10m\" }";
const DEFAULT: &str = "";
const PAGE: &str = "kind = \"page\"";

/// Night hours, in which the sleeper wants no visits.
const NIGHT: u32 = 0b11 << 22 | 0b11_1111;

/// All sources, with what they publish during the run.
pub fn cast(calendar: &Calendar) -> Vec<Character> {
    use Rhythm::{Daytime, Newsroom, Nightly, Office, Silent, Steady};
    let hours = |skip| Quirk::Hours { skip, ttl: Span::from_mins(60) };
    let throttles = Quirk::Throttles { most: 6, within: Span::from_hours(3), rest: Span::from_hours(2) };
    let moved = Quirk::Moved { from: calendar.share(1), host: "new-home.localhost" };
    let gone = calendar.share(3);
    #[rustfmt::skip]
    let table = [
        ("office-blog", "posts in office hours; ETag", "office-blog.localhost", FEED, DEFAULT, Form::Rss, Gives::Etag, Quirk::None, Office),
        ("nightly-cron", "one entry at 02:30; Last-Modified", "nightly-cron.localhost", FEED, DEFAULT, Form::Atom, Gives::LastModified, Quirk::None, Nightly),
        ("newsroom", "a trickle and one burst; max-age", "newsroom.localhost", FEED, EAGER, Form::Json, Gives::Etag, Quirk::MaxAge(Span::from_mins(30)), Newsroom),
        ("sleeper", "skipHours at night, ttl 60", "sleeper.localhost", FEED, EAGER, Form::Rss, Gives::Both, hours(NIGHT), Steady(8.0)),
        ("quiet-page", "a page; robots.txt, Crawl-delay", "pages.localhost", "/news", PAGE, Form::Page, Gives::Both, Quirk::None, Steady(2.0)),
        ("closed-page", "behind a Disallow", "pages.localhost", "/private/diary", PAGE, Form::Page, Gives::Nothing, Quirk::Closed, Silent),
        ("zipped", "gzip; weak ETag", "zipped.localhost", FEED, EAGER, Form::Rss, Gives::WeakEtag, Quirk::Gzip, Daytime(12)),
        ("malformed", "bare ampersands, no end", "malformed.localhost", FEED, DEFAULT, Form::Rss, Gives::Nothing, Quirk::Malformed, Daytime(8)),
        ("flaky", "every fifth answer fails", "flaky.localhost", FEED, EAGER, Form::Rss, Gives::Both, Quirk::Flaky, Steady(10.0)),
        ("throttler", "429 when asked too often", "throttler.localhost", FEED, EAGER, Form::Atom, Gives::Etag, throttles, Steady(10.0)),
        ("shared-a", "one domain with shared-b", "a.shared-demo.example", FEED, EAGER, Form::Rss, Gives::Etag, Quirk::None, Office),
        ("shared-b", "one domain; 503 at noon", "b.shared-demo.example", FEED, EAGER, Form::Json, Gives::Etag, Quirk::ClosedAtNoon { rest: Span::from_hours(1) }, Steady(6.0)),
        ("mover", "301 to a new host", "mover.localhost", FEED, DEFAULT, Form::Rss, Gives::Etag, moved, Steady(6.0)),
        ("gone", "410 in mid-run", "gone.localhost", FEED, DEFAULT, Form::Rss, Gives::Etag, Quirk::Gone(gone), Steady(6.0)),
        ("dead", "connection refused", "dead.localhost", FEED, DEFAULT, Form::Rss, Gives::Nothing, Quirk::Dead, Silent),
        ("bomb", "hostile: unpacks without end", "bomb.localhost", FEED, DEFAULT, Form::Rss, Gives::Nothing, Quirk::Bomb, Silent),
        ("carousel", "hostile: redirects in a circle", "carousel.localhost", FEED, DEFAULT, Form::Rss, Gives::Nothing, Quirk::Carousel, Silent),
    ];
    let character = |(name, says, host, path, settings, form, gives, quirk, rhythm)| {
        let mut posts = calendar.posts(name, rhythm);
        if let Quirk::Gone(from) = quirk {
            posts.retain(|post: &Post| post.at < from);
        }
        let burst = (rhythm == Newsroom).then(|| calendar.afternoon());
        Character { name, says, host, path, settings, form, gives, quirk, posts, burst }
    };
    table.into_iter().map(character).collect()
}

/// The configuration that the daemon is given.
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
    // Names that look public, and the one whose port is kept closed on this very address.
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
