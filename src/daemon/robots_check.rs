//! Asks robots.txt before a page is probed.
//!
//! The last answer is stored per origin and asked again after a day. Knows which answers allow a page; must not
//! know how the page is read.

use http::HeaderMap;

use crate::clock::ThreadTime;
use crate::fetch::answer::HttpAnswer;
use crate::fetch::client::Fetcher;
use crate::fetch::request::FetchRequest;
use crate::fetch::robots::{Robots, kept, robots_url};
use crate::store::record::RobotsRecord;
use crate::store::writer::Write;
use tidewatch_core::engine::event::Failure;
use tidewatch_core::time::Span;

use super::document_readers::{LONGEST_READING, SMALL_BODY};
use super::messages::Launch;
use super::probe_context::ProbeContext;
use super::stopped_probe::{Stopped, refused};

/// A robots.txt is fetched at most once in this time.
const ROBOTS_LAST: Span = Span::from_days(1);

/// Longest wait of a probe between robots.txt and its page.
const LONGEST_WAIT: Span = Span::from_mins(1);

/// Checks that robots.txt allows the page. Sets `crawl_delay` whether or not it does.
pub(super) async fn ask_robots(
    context: &ProbeContext,
    fetcher: &Fetcher,
    launch: &Launch,
    request: &FetchRequest,
    crawl_delay: &mut Option<Span>,
) -> Result<(), Stopped> {
    let address = robots_url(&request.url);
    let origin = request.url.origin().ascii_serialization();
    let stored = context
        .reader
        .robots(&origin)
        .await
        .map_err(|error| Stopped::new(Failure::Interrupted, error.to_string()))?;
    let now = context.clock.now();
    let record = match stored {
        Some(record) if record.fetched_at + ROBOTS_LAST > now && record.fetched_at <= now => record,
        stored => {
            let ask = FetchRequest {
                url: address,
                validators: None,
                headers: HeaderMap::new(),
                ..request.clone()
            };
            let answer = fetcher.get(&ask, &context.clock).await;
            let throttled = answer.as_ref().ok().filter(|answer| answer.throttled).map(refused);
            let (http_status, body) = match answer {
                Ok(HttpAnswer { status, body: Ok(mut body), .. }) => {
                    let large = body.is_encoded() || body.wire_bytes() > SMALL_BODY;
                    body.make_room().await;
                    let decoding = move || {
                        let time = ThreadTime::start();
                        let decoded = body.decoded(&|| time.used() > LONGEST_READING);
                        kept(decoded.map(|(bytes, _)| bytes).unwrap_or_default())
                    };
                    // A body that cannot be decoded counts as no answer.
                    let decoded = context.readers.run(large, decoding).await;
                    decoded.map_or((0, Vec::new()), |body| (status, body))
                }
                Ok(HttpAnswer { body: Err(_), .. }) | Err(_) => (0, Vec::new()),
            };
            let mut record = RobotsRecord { origin, fetched_at: context.clock.now(), http_status, body };
            let reachable = (200..500).contains(&http_status) && http_status != 429;
            // If robots.txt cannot be fetched, the last successful copy stays valid.
            if let (false, Some(old)) =
                (reachable, stored.filter(|old| (200..300).contains(&old.http_status)))
            {
                record = RobotsRecord { fetched_at: record.fetched_at, ..old };
            }
            // The task that joins the writer notices its end.
            let _ = context.writes.send(Write::Robots(record.clone()));
            if let Some(stopped) = throttled {
                // The throttling applies to the whole host, so the page is not requested either.
                return Err(Stopped { error: format!("robots.txt: {}", stopped.error), ..stopped });
            }
            // The page request keeps the same distance from this one as any two requests to the host.
            let asked = Robots::parse(record.http_status, &record.body).crawl_delay();
            *crawl_delay = Some(asked.unwrap_or(Span::ZERO));
            let apart = launch.host_spacing.max(asked.unwrap_or(Span::ZERO));
            if apart > LONGEST_WAIT {
                // Too long to wait here: the next probe finds robots.txt in the store.
                let error = "robots.txt was read; the page waits for its crawl delay";
                return Err(Stopped::new(Failure::Interrupted, error));
            }
            let waits = context.clock.waiting();
            context.clock.sleep(apart).await;
            drop(waits);
            record
        }
    };
    if record.http_status == 0 {
        return Err(Stopped::new(
            Failure::Unreachable,
            "robots.txt cannot be fetched, so neither is the page",
        ));
    }
    if record.http_status >= 500 || record.http_status == 429 {
        let error =
            format!("robots.txt answers HTTP {}, so the page is left alone for now", record.http_status);
        return Err(Stopped::new(Failure::Refused, error));
    }
    let robots = Robots::parse(record.http_status, &record.body);
    *crawl_delay = Some(robots.crawl_delay().unwrap_or(Span::ZERO));
    if !robots.allows(&request.url) {
        let error = "robots.txt closes this page to us; set robots = false for it if you may ignore that";
        return Err(Stopped::new(Failure::Forbidden, error));
    }
    Ok(())
}
