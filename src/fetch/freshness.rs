//! Reads the time limits in response headers.
//!
//! Supports `Cache-Control`, `Expires`, `Retry-After` and the common rate-limit headers. The publisher's
//! limits take precedence over every plan. Pure functions of headers and `now`. Must not know how the
//! limits are used.

use std::time::UNIX_EPOCH;

use http::header::{self, HeaderMap, HeaderName, HeaderValue};

use tidewatch_core::time::{Span, Timestamp};

/// Longest accepted freshness.
const YEAR: Span = Span::from_days(365);

/// Bounds `Retry-After` against overflow only.
const DECADE: Span = Span::from_days(3650);

/// Time limits from response headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Timing {
    /// The time for which the document stays fresh. Only for 2xx and 304.
    pub fresh_for: Option<Span>,
    /// The time before the next allowed request. Only for 4xx and 5xx.
    pub retry_after: Option<Span>,
    /// The server limits the request rate: any 429, a 503 with `Retry-After`, a 403 with `Retry-After` or
    /// with an exhausted rate limit.
    pub throttled: bool,
}

/// Reads the time limits of a response received at `now`.
pub fn read(status: u16, headers: &HeaderMap, now: Timestamp) -> Timing {
    let fresh_for = match status {
        200..=299 | 304 => fresh_for(headers, now),
        _ => None,
    };
    let (limit_reached, reset) = match status {
        403 | 429 | 503 => rate_limit(headers, now),
        _ => (false, None),
    };
    let retry_after = match status {
        400.. => retry_after(headers, now).or(reset),
        _ => None,
    };
    let asked_to_wait = headers.contains_key(header::RETRY_AFTER);
    let throttled = match status {
        429 => true,
        503 => asked_to_wait,
        403 => asked_to_wait || limit_reached,
        _ => false,
    };
    Timing { fresh_for, retry_after, throttled }
}

/// Parses an HTTP date in any of its three forms.
pub fn http_date(value: &HeaderValue) -> Option<Timestamp> {
    let date = httpdate::parse_http_date(value.to_str().ok()?.trim()).ok()?;
    let since = date.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp::from_millis(i64::try_from(since.as_millis()).ok()?))
}

fn date_of(headers: &HeaderMap, name: HeaderName) -> Option<Timestamp> {
    headers.get(name).and_then(http_date)
}

/// The server's clock, if it sends `Date`: its dates are relative to that clock.
fn their_now(headers: &HeaderMap, now: Timestamp) -> Timestamp {
    date_of(headers, header::DATE).unwrap_or(now)
}

fn fresh_for(headers: &HeaderMap, now: Timestamp) -> Option<Span> {
    let (mut max_age, mut s_maxage) = (None, None);
    for (name, value) in directives(headers, &header::CACHE_CONTROL, ',') {
        match name.as_str() {
            // With a list of fields, it applies to those fields only.
            "no-cache" if value.is_empty() => return None,
            "no-store" => return None,
            "max-age" => max_age = max_age.or_else(|| delta_seconds(&value)),
            "s-maxage" => s_maxage = s_maxage.or_else(|| delta_seconds(&value)),
            _ => {}
        }
    }
    let lifetime = max_age.or(s_maxage).or_else(|| {
        let expires = date_of(headers, header::EXPIRES)?;
        Some(expires - their_now(headers, now))
    })?;
    let age = text(headers, &header::AGE).and_then(|age| delta_seconds(&age)).unwrap_or(Span::ZERO);
    let left = lifetime.min(YEAR) - age;
    (left > Span::ZERO).then_some(left)
}

fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Span> {
    let value = headers.get(header::RETRY_AFTER)?;
    let span = delta_seconds(value.to_str().ok()?)
        .or_else(|| Some(http_date(value)? - their_now(headers, now)))?;
    Some(span.max(Span::ZERO).min(DECADE))
}

/// Whether a rate limit is exhausted, and the time until its reset. The reset of a limit with remaining
/// requests is ignored.
fn rate_limit(headers: &HeaderMap, now: Timestamp) -> (bool, Option<Span>) {
    let (mut reached, mut reset) = (false, None);
    let mut learn = |remaining: Option<String>, at: Option<String>| {
        let used_up = remaining.as_deref().and_then(number).map(|left| left <= 0.0);
        reached |= used_up == Some(true);
        if used_up != Some(false) {
            reset = reset.max(at.and_then(|at| until_reset(&at, headers, now)));
        }
    };
    for prefix in ["x-ratelimit", "x-rate-limit", "ratelimit"] {
        let part =
            |end: &str| text(headers, &HeaderName::from_bytes(format!("{prefix}-{end}").as_bytes()).ok()?);
        learn(part("remaining"), part("reset"));
    }
    // The IETF draft. Earlier: `limit=10, remaining=0, reset=5`; later one item per policy:
    // `"hour";r=0;t=5, "day";r=7;t=9`.
    let draft = HeaderName::from_static("ratelimit");
    let find = |parts: &[(String, String)], name: &str| {
        parts.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let early: Vec<_> = directives(headers, &draft, ',').collect();
    learn(find(&early, "remaining"), find(&early, "reset"));
    for value in headers.get_all(&draft) {
        for item in split_outside_quotes(&String::from_utf8_lossy(value.as_bytes()), ',') {
            let parts: Vec<_> = split_outside_quotes(&item, ';').iter().map(|part| pair(part)).collect();
            learn(find(&parts, "r"), find(&parts, "t"));
        }
    }
    (reached, reset)
}

/// The time until a reset. Servers send either a time or a delay; the magnitude distinguishes them.
fn until_reset(value: &str, headers: &HeaderMap, now: Timestamp) -> Option<Span> {
    let number = number(value)?;
    let span = if number >= 1e12 {
        Timestamp::from_millis(number as i64) - their_now(headers, now)
    } else if number >= 1e9 {
        Timestamp::from_millis((number * 1000.0) as i64) - their_now(headers, now)
    } else {
        Span::from_millis((number * 1000.0) as i64)
    };
    Some(span.max(Span::ZERO).min(DECADE))
}

fn number(text: &str) -> Option<f64> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite())
}

/// Parses whole seconds. A number that overflows becomes the largest span.
fn delta_seconds(text: &str) -> Option<Span> {
    let digits = text.trim();
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Some(digits.parse().map_or(DECADE, Span::from_secs))
}

fn text(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(str::to_owned)
}

/// `name=value` pairs of a list header, over all its lines; names in lower case, quotes removed.
fn directives(
    headers: &HeaderMap,
    name: &HeaderName,
    separator: char,
) -> impl Iterator<Item = (String, String)> {
    headers.get_all(name).iter().flat_map(move |line| {
        let line = String::from_utf8_lossy(line.as_bytes()).into_owned();
        split_outside_quotes(&line, separator).iter().map(|part| pair(part)).collect::<Vec<_>>()
    })
}

fn pair(part: &str) -> (String, String) {
    let (name, value) = part.split_once('=').unwrap_or((part, ""));
    (name.trim().to_ascii_lowercase(), value.trim().trim_matches('"').to_owned())
}

fn split_outside_quotes(line: &str, separator: char) -> Vec<String> {
    let (mut parts, mut quoted) = (vec![String::new()], false);
    for character in line.chars() {
        quoted ^= character == '"';
        if character == separator && !quoted {
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(character);
        }
    }
    parts
}

#[cfg(test)]
#[path = "freshness_tests.rs"]
mod tests;
