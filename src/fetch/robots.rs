//! Evaluates robots.txt (RFC 9309).
//!
//! Interprets a response or its absence. Must not fetch or cache: the store keeps status and body, and the
//! caller decides how old they may be.

use robotxt::BYTE_LIMIT;
use url::{Position, Url};

use tidewatch_core::time::Span;

use super::address::strip;

/// This program's product name in robots.txt. The whole User-Agent would match no group.
pub const PRODUCT: &str = "tidewatch";

/// Longest accepted crawl delay; a longer one is probably a mistake.
const LONGEST_DELAY: Span = Span::from_days(1);

/// The robots.txt rules of one site.
#[derive(Debug, Clone)]
pub struct Robots(robotxt::Robots);

impl Robots {
    /// Parses a response. 2xx: the rules in it (the first 500 KiB, up to the last whole line). 4xx:
    /// everything is allowed. 5xx and 429: nothing is allowed for now.
    pub fn parse(status: u16, body: &[u8]) -> Self {
        match status {
            200..=299 => Self(robotxt::Robots::parse(body, PRODUCT)),
            429 | 500.. => Self::unreachable(),
            // 4xx, and an unresolved redirect, which the RFC allows to be treated as 4xx.
            _ => Self(robotxt::Robots::allow_all()),
        }
    }

    /// The rules without any response: nothing is allowed for now.
    pub fn unreachable() -> Self {
        Self(robotxt::Robots::disallow_all())
    }

    /// Whether the rules allow this URL, which must belong to their site.
    pub fn allows(&self, url: &Url) -> bool {
        self.0.is_url_allowed(url)
    }

    /// The crawl delay of the site, at most a day.
    pub fn crawl_delay(&self) -> Option<Span> {
        let delay = self.0.crawl_delay().map(Span::from_duration)?;
        (delay > Span::ZERO).then_some(delay.min(LONGEST_DELAY))
    }
}

/// The part of a body that is kept, up to the last whole line.
pub fn kept(mut body: Vec<u8>) -> Vec<u8> {
    if body.len() > BYTE_LIMIT {
        // What ends a line for the parser.
        let ends = |byte: &u8| matches!(byte, b'\n' | b'\r' | 0);
        let end = body[..BYTE_LIMIT].iter().rposition(ends).map_or(0, |at| at + 1);
        body.truncate(end);
        body.shrink_to_fit();
    }
    body
}

/// Largest robots.txt in bytes that is kept whole for an origin that no source has.
const SHORT: usize = 24 << 10;

/// How a robots.txt begins of which only the rule for one address is kept.
const RULE_FOR: &[u8] = b"# tidewatch kept only the rule for ";

/// What is kept of the robots.txt of an origin that no source has: all of a short one, else what it says of this address.
pub fn shortened(body: Vec<u8>, url: &Url) -> Vec<u8> {
    if body.len() <= SHORT {
        return body;
    }
    let robots = Robots::parse(200, &body);
    let rule = if robots.allows(url) { "Allow" } else { "Disallow" };
    let delay = robots
        .crawl_delay()
        .map_or_else(String::new, |delay| format!("Crawl-delay: {}\n", delay.as_secs_f64()));
    let rules = format!("{}\nUser-agent: *\n{rule}: /\n{delay}", address(url));
    [RULE_FOR, rules.as_bytes()].concat()
}

/// Whether only the rule for one address is kept of a robots.txt.
pub fn is_shortened(body: &[u8]) -> bool {
    body.starts_with(RULE_FOR)
}

/// Whether what is kept of a robots.txt says something of this address.
pub fn applies(body: &[u8], url: &Url) -> bool {
    let of_one = body.strip_prefix(RULE_FOR).and_then(|rest| rest.split(|&byte| byte == b'\n').next());
    of_one.is_none_or(|of| of == address(url).as_bytes())
}

fn address(url: &Url) -> &str {
    &url[Position::BeforePath..Position::AfterQuery]
}

/// The robots.txt URL for this URL: same scheme, host and port, no user, no query.
///
/// ```
/// # use tidewatch::fetch::robots::robots_url;
/// let url = url::Url::parse("https://me:pw@example.com:8443/a/b?c#d").unwrap();
/// assert_eq!(robots_url(&url).as_str(), "https://example.com:8443/robots.txt");
/// ```
pub fn robots_url(url: &Url) -> Url {
    let mut robots = url.clone();
    robots.set_path("/robots.txt");
    robots.set_query(None);
    strip(&mut robots);
    robots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(robots: &Robots, path: &str) -> bool {
        robots.allows(&Url::parse("https://example.com").unwrap().join(path).unwrap())
    }

    #[test]
    fn the_own_group_takes_precedence_over_the_wildcard() {
        let text = b"User-agent: *\nDisallow: /\n\n\
            User-agent: TideWatch\nDisallow: /private\nAllow: /private/feed\nCrawl-delay: 20\n";
        let robots = Robots::parse(200, text);
        assert!(allows(&robots, "/feed") && allows(&robots, "/private/feed.xml"));
        assert!(!allows(&robots, "/private/page"));
        assert_eq!(robots.crawl_delay(), Some(Span::from_secs(20)));
    }

    #[test]
    fn without_an_own_group_the_wildcard_applies() {
        let robots = Robots::parse(200, b"\xef\xbb\xbfUser-agent: *\r\nDisallow: /*.cgi$\r\n");
        assert!(!allows(&robots, "/a.cgi") && allows(&robots, "/a.cgi?x"));
        assert_eq!(robots.crawl_delay(), None);
    }

    #[test]
    fn the_status_takes_precedence_over_the_body() {
        let all = b"User-agent: *\nDisallow: /";
        for (status, body, allowed) in [
            (200, &b"<html>Not here</html>"[..], true),
            (200, b"", true),
            (200, all, false),
            (404, all, true),
            (401, all, true),
            (403, all, true),
            (429, b"", false),
            (500, b"", false),
            (503, b"", false),
            (304, all, true),
        ] {
            assert_eq!(allows(&Robots::parse(status, body), "/x"), allowed, "{status}");
        }
        assert!(!allows(&Robots::unreachable(), "/x"));
    }

    #[test]
    fn whole_lines_of_the_beginning_are_kept() {
        let line = b"Disallow: /1234567\n";
        let kept = kept(line.repeat(100_000));
        assert!(kept.len() <= BYTE_LIMIT && kept.len() > BYTE_LIMIT - line.len());
        assert!(kept.ends_with(line) && kept.capacity() < 2 * BYTE_LIMIT);
        assert!(super::kept(vec![b'x'; BYTE_LIMIT + 1]).is_empty());
        assert_eq!(super::kept(line.to_vec()), line);
        let old = super::kept(b"User-agent: *\rDisallow: /\r".repeat(100_000));
        assert!(!allows(&Robots::parse(200, &old), "/x"), "lines of old systems");
    }

    #[test]
    fn of_a_long_one_the_rule_for_one_address_is_kept() {
        let url = |path: &str| Url::parse("https://example.com").unwrap().join(path).unwrap();
        let text =
            b"User-agent: other\nDisallow: /\n\nUser-agent: *\nDisallow: /closed\nCrawl-delay: 1.5\n";
        assert_eq!(shortened(text.to_vec(), &url("/x")), text);
        assert!(applies(text, &url("/x")));
        let long = [&text[..], &b"Disallow: /1234567\n".repeat(2_000)].concat();
        for (path, allowed) in [("/open?x=*&y=$", true), ("/closed/x", false)] {
            let kept = shortened(long.clone(), &url(path));
            assert!(kept.len() < 200, "{}", String::from_utf8_lossy(&kept));
            assert!(applies(&kept, &url(path)) && !applies(&kept, &url("/other")));
            let robots = Robots::parse(200, &kept);
            assert_eq!(allows(&robots, path), allowed, "{path}");
            assert_eq!(robots.crawl_delay(), Some(Span::from_millis(1_500)));
            assert_eq!(shortened(kept.clone(), &url(path)), kept);
        }
    }

    #[test]
    fn oversized_files_and_delays_are_limited() {
        let mut text = b"User-agent: *\nDisallow: /early\n".to_vec();
        text.extend(b"#padding\n".repeat(70_000));
        text.extend(b"Disallow: /late\n");
        let robots = Robots::parse(200, &text);
        assert!(!allows(&robots, "/early") && allows(&robots, "/late"));
        let slow = Robots::parse(200, b"User-agent: *\nCrawl-delay: 1e9\n");
        assert_eq!(slow.crawl_delay(), Some(Span::from_days(1)));
        let nonsense = Robots::parse(200, b"User-agent: *\nCrawl-delay: -3\n");
        assert_eq!(nonsense.crawl_delay(), None);
    }
}
