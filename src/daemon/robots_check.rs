//! Asks robots.txt before a page is probed.
//!
//! The last answer is stored per origin and asked again after a day. If that fails, the answer is kept, and asked
//! again after minutes. Of an origin that only a redirect leads to, less is stored. Knows which answers allow a page; must
//! not know how the page is read.

use http::HeaderMap;
use url::Url;

use crate::clock::ThreadTime;
use crate::fetch::answer::HttpAnswer;
use crate::fetch::client::{FetchStep, Fetcher};
use crate::fetch::host_group::host_group;
use crate::fetch::request::FetchRequest;
use crate::fetch::robots::{Robots, applies, is_shortened, kept, robots_url, shortened};
use crate::store::record::{RobotsFailures, RobotsRecord};
use crate::store::writer::Write;
use tidewatch_core::engine::event::{CrawlDelay, Failure};
use tidewatch_core::time::{Span, Timestamp};

use super::document_readers::{LONGEST_READING, SMALL_BODY};
use super::messages::Launch;
use super::probe_context::ProbeContext;
use super::redirects;
use super::stopped_probe::{Stopped, refused};

/// An answer is asked for again after this time.
const ROBOTS_LAST: Span = Span::from_days(1);

/// After a request that failed, the next one waits for this long, and twice as long after each that follows.
const FIRST_RETRY: Span = Span::from_mins(5);

/// Longest wait of a probe between robots.txt and its page.
const LONGEST_WAIT: Span = Span::from_mins(1);

/// Checks that robots.txt allows the page. Adds to `crawl_delays` whether or not it does.
pub(super) async fn ask_robots(
    context: &ProbeContext,
    fetcher: &Fetcher,
    launch: &Launch,
    request: &FetchRequest,
    crawl_delays: &mut Vec<CrawlDelay>,
) -> Result<(), Stopped> {
    let origin = request.url.origin().ascii_serialization();
    let stored = context
        .reader
        .robots(&origin)
        .await
        .map_err(|error| Stopped::new(Failure::Interrupted, error.to_string()))?;
    let stored = stored.and_then(|stored| about(stored, &request.url));
    let now = context.clock.now();
    let (record, fetched) = match stored {
        Some(record) if next_request(&record) > now && last_request(&record) <= now => (record, None),
        stored => {
            let ((status, body), throttled) = fetch(context, fetcher, launch, request).await?;
            let redirected = launch.spec.url().origin() != request.url.origin();
            let body = if redirected { shortened(body, &request.url) } else { body };
            let record = RobotsRecord {
                redirect_site: redirected.then(|| host_group(&request.url).key.to_string()),
                ..combine(stored, (status, body), origin.clone(), context.clock.now())
            };
            // The task that joins the writer notices its end.
            let _ = context.writes.send(Write::Robots(record.clone()));
            (record, Some(throttled))
        }
    };
    let robots = Robots::parse(record.http_status, &record.body);
    let delay = robots.crawl_delay().unwrap_or(Span::ZERO);
    crawl_delays.push(CrawlDelay { host: host_group(&request.url), origin, delay });
    if let Some(throttled) = fetched {
        if let Some(stopped) = throttled {
            // The throttling applies to the whole host, so the page is not requested either.
            return Err(Stopped { error: format!("robots.txt: {}", stopped.error), ..stopped });
        }
        // The page request keeps the same distance from this one as any two requests to the host.
        let apart = launch.host_spacing.max(delay);
        if apart > LONGEST_WAIT {
            // Too long to wait here: the next probe finds robots.txt in the store.
            let error = "robots.txt was read; the page waits for its crawl delay";
            // Of a shortened one, the next probe may find nothing about its address, and read it again.
            let kept_whole = !is_shortened(&record.body);
            let failure = if kept_whole { Failure::Interrupted } else { Failure::Refused };
            return Err(Stopped::new(failure, error));
        }
        let waits = context.clock.waiting();
        context.clock.sleep(apart).await;
        drop(waits);
    }
    if !is_answer(record.http_status) {
        let status = match record.http_status {
            0 => "gives no valid answer".to_owned(),
            status => format!("answers HTTP {status}"),
        };
        let again = next_request(&record);
        let error = format!(
            "robots.txt {status}, so the page is left alone for now; it is asked again after {again}"
        );
        return Err(Stopped::new(Failure::Refused, error));
    }
    if !robots.allows(&request.url) {
        let error = "robots.txt closes this page to us; set robots = false for it if you may ignore that";
        return Err(Stopped::new(Failure::Forbidden, error));
    }
    Ok(())
}

/// What is stored of a robots.txt, as far as it says something of this address. If it does not, it is asked for again,
/// but not at once after a failure.
fn about(stored: RobotsRecord, url: &Url) -> Option<RobotsRecord> {
    if applies(&stored.body, url) {
        return Some(stored);
    }
    let unknown = RobotsRecord { http_status: 0, body: Vec::new(), ..stored };
    unknown.failed.is_some().then_some(unknown)
}

/// Whether a status is an answer by RFC 9309: the rules (2xx), or that there are none (4xx). Otherwise the rules cannot
/// be reached, and nothing is allowed.
fn is_answer(status: u16) -> bool {
    (200..500).contains(&status) && status != 429
}

/// The time of the last request.
fn last_request(record: &RobotsRecord) -> Timestamp {
    record.failed.map_or(record.fetched_at, |failed| failed.at.max(record.fetched_at))
}

/// From when the next request may be sent.
fn next_request(record: &RobotsRecord) -> Timestamp {
    match record.failed {
        None if is_answer(record.http_status) => record.fetched_at + ROBOTS_LAST,
        // Written by an earlier version.
        None => record.fetched_at + FIRST_RETRY,
        Some(RobotsFailures { at, times }) => {
            let doublings = times.saturating_sub(1).min(16);
            at + FIRST_RETRY.scaled(f64::from(1_u32 << doublings)).min(ROBOTS_LAST)
        }
    }
}

/// The status and content of an answer; 0 if it is not valid.
type Fetched = (u16, Vec<u8>);

/// Asks for robots.txt. Returns the answer, and the pause that it asks for, if it does. An error if the host cannot be
/// reached: then the page cannot either.
async fn fetch(
    context: &ProbeContext,
    fetcher: &Fetcher,
    launch: &Launch,
    page: &FetchRequest,
) -> Result<(Fetched, Option<Stopped>), Stopped> {
    let url = robots_url(&page.url);
    let request = FetchRequest { url, validators: None, headers: HeaderMap::new(), ..page.clone() };
    let site = host_group(&request.url);
    let mut left = false;
    let mut progress = fetcher.begin(&request);
    let answered = loop {
        match redirects::go_on(context, fetcher, launch, &request, progress).await {
            Ok(FetchStep::Redirected(next)) => {
                left |= host_group(next.url()) != site;
                progress = next;
            }
            Ok(FetchStep::Answered(answer)) => break Ok(*answer),
            Err(stopped) => break Err(stopped),
        }
    };
    let answer: HttpAnswer = match answered {
        Ok(answer) => answer,
        Err(stopped) if matches!(stopped.failure, Failure::Unreadable | Failure::Unanswered) => {
            return Ok(((0, Vec::new()), None));
        }
        Err(stopped) => {
            return Err(Stopped { error: format!("robots.txt: {}", stopped.error), ..stopped });
        }
    };
    let throttled = answer.throttled.then(|| refused(&answer));
    if left && throttled.is_none() {
        // The page is requested at its own site again.
        redirects::wait_for(context, launch, &site).await?;
    }
    let (status, Ok(mut body)) = (answer.status, answer.body) else {
        return Ok(((0, Vec::new()), throttled));
    };
    let large = body.is_encoded() || body.wire_bytes() > SMALL_BODY;
    body.make_room().await;
    let decoding = move || {
        let time = ThreadTime::start();
        let decoded = body.decoded(&|| time.used() > LONGEST_READING);
        decoded.ok().map(|(bytes, _)| kept(bytes))
    };
    // A body that cannot be decoded counts as no answer.
    let decoded = context.readers.run(large, decoding).await.flatten();
    Ok((decoded.map_or((0, Vec::new()), |body| (status, body)), throttled))
}

/// What is known after a request. If it failed, the rules of before stay in force.
fn combine(
    stored: Option<RobotsRecord>,
    (http_status, body): Fetched,
    origin: String,
    now: Timestamp,
) -> RobotsRecord {
    if is_answer(http_status) {
        let crawl_delay = Robots::parse(http_status, &body).crawl_delay();
        return RobotsRecord {
            origin,
            fetched_at: now,
            http_status,
            body,
            crawl_delay,
            failed: None,
            redirect_site: None,
        };
    }
    let times = stored.as_ref().and_then(|stored| stored.failed).map_or(0, |failed| failed.times);
    let failed = Some(RobotsFailures { at: now, times: times.saturating_add(1) });
    match stored.filter(|stored| (200..300).contains(&stored.http_status)) {
        Some(rules) => RobotsRecord { failed, ..rules },
        None => RobotsRecord {
            origin,
            fetched_at: now,
            http_status,
            body: Vec::new(),
            crawl_delay: None,
            failed,
            redirect_site: None,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn t(mins: i64) -> Timestamp {
        Timestamp::from_secs(mins * 60)
    }

    fn after(stored: Option<RobotsRecord>, status: u16, at: Timestamp) -> RobotsRecord {
        let body = b"User-agent: *\nCrawl-delay: 20\n".to_vec();
        combine(stored, (status, body), "https://a.example".to_owned(), at)
    }

    #[test]
    fn rules_are_kept_while_requests_fail_and_these_are_repeated_soon() {
        let rules = after(None, 200, t(0));
        assert_eq!((rules.crawl_delay, next_request(&rules)), (Some(Span::from_secs(20)), t(24 * 60)));
        let mut failing = rules.clone();
        let mut at = t(24 * 60);
        for (status, wait) in [(503, 5), (0, 10), (429, 20), (500, 40)] {
            failing = after(Some(failing), status, at);
            assert_eq!((failing.http_status, &failing.body), (200, &rules.body), "{status}");
            assert_eq!(next_request(&failing), at + Span::from_mins(wait), "{status}");
            assert_eq!(last_request(&failing), at);
            at = next_request(&failing);
        }
        for _ in 0..20 {
            failing = after(Some(failing), 503, at);
        }
        assert_eq!(next_request(&failing), at + ROBOTS_LAST);
        assert_eq!(after(Some(failing), 200, at).failed, None);
    }

    #[test]
    fn a_rule_for_another_address_is_none_and_failures_are_remembered() {
        let url = |path: &str| format!("https://a.example{path}").parse::<Url>().unwrap();
        let long = b"User-agent: *\nDisallow: /closed\n".repeat(1_000);
        let rules = RobotsRecord { body: shortened(long, &url("/a")), ..after(None, 200, t(0)) };
        assert_eq!(about(rules.clone(), &url("/a")), Some(rules.clone()));
        assert_eq!(about(rules.clone(), &url("/b")), None);
        let failing = about(after(Some(rules), 503, t(1)), &url("/b")).unwrap();
        assert_eq!((failing.http_status, next_request(&failing)), (0, t(6)));
    }

    #[test]
    fn what_is_unavailable_allows_and_what_is_unreachable_does_not() {
        let unavailable = after(Some(after(None, 200, t(0))), 404, t(9));
        assert_eq!((unavailable.http_status, next_request(&unavailable)), (404, t(9) + ROBOTS_LAST));
        // A site without rules that cannot be reached is left alone.
        let unreachable = after(Some(unavailable), 503, t(2_000));
        assert_eq!((unreachable.http_status, next_request(&unreachable)), (503, t(2_005)));
        assert!(!is_answer(503) && !is_answer(0) && !is_answer(429));
        assert!([200, 301, 401, 403, 404, 410].into_iter().all(is_answer));
    }
}
