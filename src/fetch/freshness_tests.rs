use proptest::prelude::*;

use super::*;

/// Mon, 16 Nov 2026 12:00:00 GMT
const NOW: Timestamp = Timestamp::from_secs(1_794_830_400);

fn timing(status: u16, lines: &[(&'static str, &str)]) -> Timing {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    read(status, &headers, NOW)
}

fn fresh(lines: &[(&'static str, &str)]) -> Option<i64> {
    timing(200, lines).fresh_for.map(|span| span.as_millis() / 1000)
}

fn wait(status: u16, lines: &[(&'static str, &str)]) -> Option<i64> {
    timing(status, lines).retry_after.map(|span| span.as_millis() / 1000)
}

#[test]
fn now_equals_the_date_used_in_these_tests() {
    let date = HeaderValue::from_static("Mon, 16 Nov 2026 12:00:00 GMT");
    assert_eq!(http_date(&date), Some(NOW));
}

#[test]
fn freshness_by_cache_control() {
    let year = 365 * 86_400;
    for (value, seconds) in [
        ("max-age=600", Some(600)),
        ("public, Max-Age = 600", Some(600)),
        ("max-age=\"600\"", Some(600)),
        ("s-maxage=60, max-age=600", Some(600)),
        ("s-maxage=60", Some(60)),
        ("max-age=soon, s-maxage=60", Some(60)),
        ("max-age=0", None),
        ("max-age=-5", None),
        ("max-age=", None),
        ("max-age=600, no-cache", None),
        ("no-store, max-age=600", None),
        ("no-cache=\"Set-Cookie, X\", max-age=600", Some(600)),
        ("ext=\"max-age=9, no-store\", max-age=600", Some(600)),
        ("max-age=99999999999999999999999999", Some(year)),
        ("max-age=4294967296000", Some(year)),
        ("immutable", None),
        ("", None),
    ] {
        assert_eq!(fresh(&[("cache-control", value)]), seconds, "{value}");
    }
    assert_eq!(fresh(&[("cache-control", "public"), ("cache-control", "max-age=7")]), Some(7));
    assert_eq!(fresh(&[("cache-control", "max-age=600"), ("age", "500")]), Some(100));
    assert_eq!(fresh(&[("cache-control", "max-age=600"), ("age", "900")]), None);
    assert_eq!(fresh(&[("cache-control", "max-age=600"), ("age", "old")]), Some(600));
}

#[test]
fn freshness_by_expires() {
    let later = ("expires", "Mon, 16 Nov 2026 13:00:00 GMT");
    assert_eq!(fresh(&[later]), Some(3600));
    // The server's clock is half an hour ahead, so half an hour remains.
    assert_eq!(fresh(&[later, ("date", "Mon, 16 Nov 2026 12:30:00 GMT")]), Some(1800));
    assert_eq!(fresh(&[later, ("age", "600")]), Some(3000));
    assert_eq!(fresh(&[later, ("cache-control", "max-age=5")]), Some(5));
    assert_eq!(fresh(&[later, ("cache-control", "max-age=0")]), None);
    assert_eq!(fresh(&[later, ("cache-control", "no-cache")]), None);
    assert_eq!(fresh(&[("expires", "0")]), None);
    assert_eq!(fresh(&[("expires", "-1")]), None);
    assert_eq!(fresh(&[("expires", "Thu, 01 Jan 1970 00:00:00 GMT")]), None);
    assert_eq!(fresh(&[("expires", "Fri, 31 Dec 9999 23:59:59 GMT")]), Some(365 * 86_400));
}

#[test]
fn only_2xx_and_304_give_freshness() {
    let lines = [("cache-control", "max-age=600")];
    for (status, promised) in [(200, true), (304, true), (301, false), (404, false), (500, false)] {
        assert_eq!(timing(status, &lines).fresh_for.is_some(), promised, "{status}");
    }
}

#[test]
fn retry_after_in_both_forms() {
    assert_eq!(wait(429, &[("retry-after", "120")]), Some(120));
    assert_eq!(wait(503, &[("retry-after", "Mon, 16 Nov 2026 12:10:00 GMT")]), Some(600));
    let date = ("date", "Mon, 16 Nov 2026 12:09:00 GMT");
    assert_eq!(wait(503, &[("retry-after", "Mon, 16 Nov 2026 12:10:00 GMT"), date]), Some(60));
    assert_eq!(wait(503, &[("retry-after", "Mon, 16 Nov 2026 11:00:00 GMT")]), Some(0));
    assert_eq!(wait(429, &[("retry-after", "31536000")]), Some(31_536_000));
    assert_eq!(wait(429, &[("retry-after", "99999999999999999999")]), Some(3650 * 86_400));
    assert_eq!(wait(429, &[("retry-after", "soon")]), None);
    assert_eq!(wait(500, &[("retry-after", "60")]), Some(60));
    assert_eq!(wait(200, &[("retry-after", "60")]), None);
}

#[test]
fn resets_are_times_or_delays() {
    let soon = NOW.as_millis() / 1000 + 90;
    for name in ["x-ratelimit-reset", "x-rate-limit-reset", "ratelimit-reset"] {
        assert_eq!(wait(429, &[(name, &soon.to_string())]), Some(90), "{name}");
        assert_eq!(wait(429, &[(name, &(soon * 1000).to_string())]), Some(90), "{name} in milliseconds");
        assert_eq!(wait(403, &[(name, "45")]), Some(45), "{name}");
        assert_eq!(wait(429, &[(name, "1.5")]), Some(1), "{name}");
        assert_eq!(wait(429, &[(name, "NaN")]), None, "{name}");
        assert_eq!(wait(404, &[(name, "45")]), None, "{name} is not read on a 404");
    }
    assert_eq!(wait(429, &[("x-ratelimit-reset", "45"), ("retry-after", "5")]), Some(5));
    assert_eq!(wait(429, &[("x-ratelimit-reset", "45"), ("x-ratelimit-remaining", "3")]), None);
    assert_eq!(wait(429, &[("x-ratelimit-reset", "45"), ("x-ratelimit-remaining", "0")]), Some(45));
}

#[test]
fn the_draft_header_is_read_in_both_versions() {
    assert_eq!(wait(429, &[("ratelimit", "limit=10, remaining=0, reset=50")]), Some(50));
    assert_eq!(wait(429, &[("ratelimit", "\"a,b;t=9\";r=0;t=50")]), Some(50));
    assert_eq!(wait(429, &[("ratelimit", "\"hour\";r=0;t=50, \"day\";r=7;t=9000")]), Some(50));
    assert_eq!(wait(429, &[("ratelimit", "\"day\";r=7;t=9000")]), None);
    assert!(timing(403, &[("ratelimit", "\"hour\";r=0;t=50")]).throttled);
    assert!(!timing(403, &[("ratelimit", "\"hour\";r=1;t=50")]).throttled);
}

#[test]
fn throttling_depends_on_status_and_headers() {
    assert_eq!(timing(429, &[]), Timing { throttled: true, ..Timing::default() });
    assert!(timing(503, &[("retry-after", "5")]).throttled);
    assert!(timing(403, &[("retry-after", "5")]).throttled);
    assert!(timing(403, &[("x-ratelimit-remaining", "0")]).throttled);
    assert!(!timing(403, &[("x-ratelimit-remaining", "10")]).throttled);
    assert!(!timing(403, &[]).throttled);
    assert!(!timing(503, &[]).throttled);
    assert!(!timing(200, &[("x-ratelimit-remaining", "0"), ("retry-after", "5")]).throttled);
}

proptest! {
    #[test]
    fn no_header_panics_and_all_spans_are_bounded(
        status in 100_u16..600,
        values in proptest::collection::vec("[ -~]{0,40}", 6),
    ) {
        let names = ["cache-control", "expires", "age", "retry-after", "ratelimit", "x-ratelimit-reset"];
        let lines: Vec<_> = names.iter().copied().zip(values.iter().map(String::as_str)).collect();
        let timing = timing(status, &lines);
        for span in [timing.fresh_for, timing.retry_after].into_iter().flatten() {
            prop_assert!(span >= Span::ZERO && span <= DECADE);
        }
    }
}
