//! The sources of the demo.
//!
//! Defines names, addresses, rhythms and special behaviour of all sources in one table, and writes them
//! into a configuration. Must not know how requests are answered, nor the results of the daemon.

use std::path::Path;

use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_fixtures::source_list::source_table;

use super::calendar::{DemoCalendar, DemoPost, DemoRhythm};

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
pub enum SentValidators {
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
pub enum SpecialBehaviour {
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
    Throttles { most: usize, within: Span, retry_after: Span },
    /// Responds with 301 to another host from this time on.
    Moved { from: Timestamp, host: &'static str },
    /// Every fifth response is a 503 or breaks off.
    Flaky,
    /// Unescaped ampersands, and no closing tags.
    Malformed,
    /// Responses are compressed.
    Gzip,
    /// Responds with 503 and `Retry-After` in the hour after noon.
    ClosedAtNoon { retry_after: Span },
    /// Sends a small gzip body that unpacks beyond the largest accepted body.
    Bomb,
    /// Redirects in a loop.
    Carousel,
    /// robots.txt disallows its path.
    Closed,
}

/// One source of the demo.
#[derive(Debug, Clone)]
pub struct DemoSource {
    /// Name in the configuration.
    pub name: &'static str,
    /// Description for the report.
    pub description: &'static str,
    /// Host that it answers for.
    pub host: &'static str,
    /// Path of its document.
    pub path: &'static str,
    /// Extra lines of its configuration.
    settings: &'static str,
    /// Document format.
    pub form: DemoFormat,
    /// Validators.
    pub validators: SentValidators,
    /// Special behaviour.
    pub behaviour: SpecialBehaviour,
    /// Its publications.
    pub posts: Vec<DemoPost>,
    /// Start and end of its burst, if it has one.
    pub burst: Option<(Timestamp, Timestamp)>,
}

impl DemoSource {
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
    pub fn must_be_found(&self) -> bool {
        !matches!(self.behaviour, SpecialBehaviour::Dead | SpecialBehaviour::Throttles { .. })
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
pub fn demo_sources(calendar: &DemoCalendar) -> Vec<DemoSource> {
    use DemoRhythm::{Daytime, Newsroom, Nightly, Office, Silent, Steady};
    let hours = |skip| SpecialBehaviour::Hours { skip, ttl: Span::from_mins(60) };
    let throttles = SpecialBehaviour::Throttles {
        most: 6,
        within: Span::from_hours(3),
        retry_after: Span::from_hours(2),
    };
    let moved = SpecialBehaviour::Moved { from: calendar.share(1), host: "new-home.localhost" };
    let gone = calendar.share(3);
    #[rustfmt::skip]
    let table = [
        ("office-blog", "posts in office hours; ETag", "office-blog.localhost", FEED, DEFAULT, DemoFormat::Rss, SentValidators::Etag, SpecialBehaviour::None, Office),
        ("nightly-cron", "one entry at 02:30; Last-Modified", "nightly-cron.localhost", FEED, DEFAULT, DemoFormat::Atom, SentValidators::LastModified, SpecialBehaviour::None, Nightly),
        ("newsroom", "a trickle and one burst; max-age", "newsroom.localhost", FEED, EAGER, DemoFormat::Json, SentValidators::Etag, SpecialBehaviour::MaxAge(Span::from_mins(30)), Newsroom),
        ("sleeper", "skipHours at night, ttl 60", "sleeper.localhost", FEED, EAGER, DemoFormat::Rss, SentValidators::Both, hours(NIGHT), Steady(8.0)),
        ("quiet-page", "a page; robots.txt, Crawl-delay", "pages.localhost", "/news", PAGE, DemoFormat::Page, SentValidators::Both, SpecialBehaviour::None, Steady(2.0)),
        ("closed-page", "behind a Disallow", "pages.localhost", "/private/notes", PAGE, DemoFormat::Page, SentValidators::Nothing, SpecialBehaviour::Closed, Silent),
        ("zipped", "gzip; weak ETag", "zipped.localhost", FEED, EAGER, DemoFormat::Rss, SentValidators::WeakEtag, SpecialBehaviour::Gzip, Daytime(12)),
        ("malformed", "bare ampersands, no end", "malformed.localhost", FEED, DEFAULT, DemoFormat::Rss, SentValidators::Nothing, SpecialBehaviour::Malformed, Daytime(8)),
        ("flaky", "every fifth answer fails", "flaky.localhost", FEED, EAGER, DemoFormat::Rss, SentValidators::Both, SpecialBehaviour::Flaky, Steady(10.0)),
        ("throttler", "429 when request too often", "throttler.localhost", FEED, EAGER, DemoFormat::Atom, SentValidators::Etag, throttles, Steady(10.0)),
        ("shared-a", "one domain with shared-b", "a.shared-demo.example", FEED, EAGER, DemoFormat::Rss, SentValidators::Etag, SpecialBehaviour::None, Office),
        ("shared-b", "one domain; 503 at noon", "b.shared-demo.example", FEED, EAGER, DemoFormat::Json, SentValidators::Etag, SpecialBehaviour::ClosedAtNoon { retry_after: Span::from_hours(1) }, Steady(6.0)),
        ("mover", "301 to a new host", "mover.localhost", FEED, DEFAULT, DemoFormat::Rss, SentValidators::Etag, moved, Steady(6.0)),
        ("gone", "410 in mid-run", "gone.localhost", FEED, DEFAULT, DemoFormat::Rss, SentValidators::Etag, SpecialBehaviour::Gone(gone), Steady(6.0)),
        ("dead", "connection refused", "dead.localhost", FEED, DEFAULT, DemoFormat::Rss, SentValidators::Nothing, SpecialBehaviour::Dead, Silent),
        ("bomb", "hostile: unpacks without end", "bomb.localhost", FEED, DEFAULT, DemoFormat::Rss, SentValidators::Nothing, SpecialBehaviour::Bomb, Silent),
        ("carousel", "hostile: redirects in a circle", "carousel.localhost", FEED, DEFAULT, DemoFormat::Rss, SentValidators::Nothing, SpecialBehaviour::Carousel, Silent),
    ];
    let source = |(name, description, host, path, settings, form, validators, behaviour, rhythm)| {
        let mut posts = calendar.posts(name, rhythm);
        if let SpecialBehaviour::Gone(from) = behaviour {
            posts.retain(|post: &DemoPost| post.at < from);
        }
        let burst = (rhythm == Newsroom).then(|| calendar.afternoon());
        DemoSource { name, description, host, path, settings, form, validators, behaviour, posts, burst }
    };
    table.into_iter().map(source).collect()
}

/// The configuration for the daemon.
pub fn configuration(
    sources: &[DemoSource],
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
    for source in sources {
        if source.behaviour == SpecialBehaviour::Dead || DemoSource::group_of(source.host) != source.host {
            text.push_str(&format!("{:?} = \"127.0.0.1\"\n", source.host));
        }
    }
    for source in sources {
        let port = if source.behaviour == SpecialBehaviour::Dead { dead_port } else { port };
        let url = format!("http://{}:{port}{}", source.host, source.path);
        let settings = format!("policy = \"{}\"\n{}", policy.name(), source.settings);
        text.push('\n');
        text.push_str(&source_table(source.name, &url, &settings));
    }
    text
}
