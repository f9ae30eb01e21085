//! The fetcher against servers on loopback. 127.0.0.2 stands for the public internet.

use std::net::IpAddr;

use http::HeaderMap;
use tidewatch::clock::Clock;
use tidewatch::config::params::FetchParams;
use tidewatch::fetch::answer::HttpAnswer;
use tidewatch::fetch::client::{FetchStep, Fetcher, MOST_KEPT};
use tidewatch::fetch::decode::DecodeError;
use tidewatch::fetch::error::FetchError;
use tidewatch::fetch::guard::Guard;
use tidewatch::fetch::request::{FetchRequest, Validators};
use tidewatch_core::time::{Span, Timestamp};
use url::Url;

mod bodies;
mod connections;
mod hops;
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, SeenRequest, ServerStep};

const MAX_BODY: usize = 10 * 1024 * 1024;

fn params() -> FetchParams {
    FetchParams {
        max_body: MAX_BODY,
        max_items: 10_000,
        connect_timeout: Span::from_secs(5),
        read_timeout: Span::from_secs(5),
        total_timeout: Span::from_secs(20),
        resolve: Vec::new(),
    }
}

/// Short timeouts, for slow servers.
fn impatient() -> FetchParams {
    FetchParams {
        connect_timeout: Span::from_millis(500),
        read_timeout: Span::from_secs(1),
        total_timeout: Span::from_secs(6),
        ..params()
    }
}

fn internet() -> IpAddr {
    IpAddr::from([127, 0, 0, 2])
}

/// A fetcher to which 127.0.0.2 is public and all other loopback addresses are not.
fn fetcher(params: &FetchParams) -> Fetcher {
    fetcher_keeping(params, MOST_KEPT)
}

/// The same, with connections to at most this many hosts that are kept.
fn fetcher_keeping(params: &FetchParams, most_kept: usize) -> Fetcher {
    let guard = Guard::treating_as_public(vec![internet()]);
    Fetcher::with_limits(params, Some("mailto:me@example.org"), guard, most_kept).unwrap()
}

fn request(url: Url) -> FetchRequest {
    FetchRequest { url, validators: None, headers: HeaderMap::new(), allow_private: false }
}

async fn web(script: impl Fn(&SeenRequest) -> Reply + Send + Sync + 'static) -> LoopbackServer {
    LoopbackServer::start_on(internet(), script).await
}

/// Makes one request and follows all of its redirects.
async fn follow(
    fetcher: &Fetcher,
    request: &FetchRequest,
    clock: &Clock,
) -> Result<HttpAnswer, FetchError> {
    let mut progress = fetcher.begin(request);
    loop {
        match fetcher.go_on(request, progress, clock).await? {
            FetchStep::Answered(answer) => return Ok(*answer),
            FetchStep::Redirected(next) => progress = next,
        }
    }
}

async fn get_with(params: &FetchParams, request: &FetchRequest) -> Result<HttpAnswer, FetchError> {
    follow(&fetcher(params), request, &Clock::wall()).await
}

async fn get(request: &FetchRequest) -> Result<HttpAnswer, FetchError> {
    get_with(&params(), request).await
}

/// One request to a server that always replies the same.
async fn once(params: &FetchParams, reply: Reply) -> Result<HttpAnswer, FetchError> {
    let web = web(move |_| reply.clone()).await;
    get_with(params, &request(web.url("/"))).await
}

/// The body of an answer, decoded.
fn decoded(answer: HttpAnswer) -> Result<Vec<u8>, DecodeError> {
    let (bytes, _) = answer.body.expect("within the limits").decoded(&|| false)?;
    Ok(bytes)
}

fn head(more: &str) -> ServerStep {
    ServerStep::Send(format!("HTTP/1.1 200 OK\r\n{more}\r\n").into_bytes())
}

#[tokio::test]
async fn a_first_request_has_the_expected_headers() {
    let web = web(|_| Reply::ok("hello").header("Content-Type", "text/plain")).await;
    let answer = get(&request(web.url("/feed?x=1#part"))).await.unwrap();
    assert_eq!(answer.status, 200);
    assert_eq!(answer.content_type.as_deref(), Some("text/plain"));
    assert_eq!(answer.final_url, web.url("/feed?x=1"));
    assert_eq!(answer.moved_to, None);
    assert_eq!(answer.body.as_ref().unwrap().wire_bytes(), 5);
    assert_eq!(decoded(answer).unwrap(), b"hello");
    let seen = &web.requests()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("GET", "/feed?x=1"));
    let agent = format!("tidewatch/{} (+mailto:me@example.org)", env!("CARGO_PKG_VERSION"));
    assert_eq!(seen.text("user-agent"), Some(agent));
    assert_eq!(seen.text("accept-encoding").as_deref(), Some("gzip, br, deflate, zstd"));
    assert!(seen.text("accept").unwrap().contains("application/atom+xml"));
    for absent in ["if-none-match", "if-modified-since", "cookie", "referer", "authorization"] {
        assert_eq!(seen.text(absent), None, "{absent}");
    }
}

#[tokio::test]
async fn without_contact_the_agent_is_bare_and_a_bad_contact_is_refused() {
    let web = web(|_| Reply::ok("")).await;
    let guard = Guard::treating_as_public(vec![internet()]);
    let fetcher = Fetcher::with_limits(&params(), None, guard, MOST_KEPT).unwrap();
    follow(&fetcher, &request(web.url("/")), &Clock::wall()).await.unwrap();
    let agent = format!("tidewatch/{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(web.requests()[0].text("user-agent"), Some(agent));
    assert!(Fetcher::new(&params(), Some("me\n")).unwrap_err().message.contains("contact"));
}

#[tokio::test]
async fn validators_come_back_byte_for_byte() {
    for (etag, modified) in [
        (&b"\"abc\""[..], &b"Mon, 16 Nov 2026 12:00:00 GMT"[..]),
        (b"W/\"weak\"", b"mon, 16-nov-26  12:00:00 utc"),
        (b"unquoted", b"0"),
        (b"\"a\"b\"; '", b"-1"),
        (b"\"caf\xe9\xff\"", b"\xfcbermorgen"),
        (b"w/\"lower\"-gzip", b"Thu, 01 Jan 1970 00:00:00 GMT"),
    ] {
        let web = web(move |seen| match seen.order {
            0 => Reply::ok("x").header("ETag", etag).header("Last-Modified", modified),
            _ => Reply::new(304),
        })
        .await;
        let fetcher = fetcher(&params());
        let first = follow(&fetcher, &request(web.url("/")), &Clock::wall()).await.unwrap();
        assert_eq!(first.etag.as_deref(), Some(etag));
        assert_eq!(first.last_modified.as_deref(), Some(modified));
        let validators = Validators {
            url: first.final_url.to_string(),
            etag: first.etag,
            last_modified: first.last_modified,
        };
        let again = FetchRequest { validators: Some(validators), ..request(web.url("/")) };
        assert_eq!(follow(&fetcher, &again, &Clock::wall()).await.unwrap().status, 304);
        let seen = &web.requests()[1];
        assert_eq!(seen.header("if-none-match").as_deref(), Some(etag));
        assert_eq!(seen.header("if-modified-since").as_deref(), Some(modified));
    }
}

#[tokio::test]
async fn validators_go_only_to_the_url_that_returned_them() {
    let web = web(|seen| match seen.path.as_str() {
        "/old" => Reply::redirect(302, "/new"),
        _ => Reply::ok("x"),
    })
    .await;
    let carried = async |from: Url| {
        let before = web.requests().len();
        let validators =
            Validators { url: from.into(), etag: Some(b"\"e\"".to_vec()), last_modified: None };
        let request = FetchRequest { validators: Some(validators), ..request(web.url("/old")) };
        get(&request).await.unwrap();
        let seen = web.requests();
        (seen[before].text("if-none-match"), seen[before + 1].text("if-none-match"))
    };
    let etag = Some("\"e\"".to_owned());
    assert_eq!(carried(web.url("/old")).await, (etag.clone(), None));
    assert_eq!(carried(web.url("/new")).await, (None, etag));
    assert_eq!(carried(web.url("/else")).await, (None, None));
}

#[tokio::test]
async fn no_cookie_and_no_referer_even_when_offered() {
    let web = web(|seen| match seen.path.as_str() {
        "/a" => Reply::redirect(302, "/b").header("Set-Cookie", "id=1; Path=/"),
        _ => Reply::ok("x").header("Set-Cookie", "id=2; Path=/"),
    })
    .await;
    let fetcher = fetcher(&params());
    for _ in 0..2 {
        follow(&fetcher, &request(web.url("/a")), &Clock::wall()).await.unwrap();
    }
    let requests = web.requests();
    assert_eq!(requests.len(), 4);
    for seen in requests {
        assert_eq!((seen.text("cookie"), seen.text("referer")), (None, None), "{}", seen.path);
    }
}

#[tokio::test]
async fn throttling_is_read_in_all_its_forms() {
    let clock = Clock::accelerated(Timestamp::parse_iso("2026-11-16T12:00:00Z").unwrap(), 1.0);
    let fetcher = fetcher(&params());
    for (reply, wait, throttled) in [
        (Reply::new(429).header("Retry-After", "120"), Some(120), true),
        (
            Reply::new(503)
                .header("Date", "Mon, 16 Nov 2026 12:00:00 GMT")
                .header("Retry-After", "Mon, 16 Nov 2026 12:05:00 GMT"),
            Some(300),
            true,
        ),
        (Reply::new(429), None, true),
        (Reply::new(503), None, false),
        (
            Reply::new(403).header("X-RateLimit-Remaining", "0").header("X-RateLimit-Reset", "60"),
            Some(60),
            true,
        ),
        (Reply::new(403), None, false),
    ] {
        let web = web(move |_| reply.clone()).await;
        let answer = follow(&fetcher, &request(web.url("/")), &clock).await.unwrap();
        assert_eq!(answer.retry_after, wait.map(Span::from_secs), "{}", answer.status);
        assert_eq!(answer.throttled, throttled, "{}", answer.status);
        assert_eq!(answer.body.unwrap().wire_bytes(), 0);
    }
}

#[tokio::test]
async fn very_long_header_values_are_neither_kept_nor_followed() {
    let of = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
    for (length, kept) in [(4096, true), (4097, false), (100_000, false)] {
        let reply = Reply::ok("x").header("ETag", of(length)).header("Last-Modified", of(length));
        let answer = once(&params(), reply.header("Content-Type", of(length))).await.unwrap();
        assert_eq!((answer.etag.is_some(), answer.last_modified.is_some()), (kept, kept), "{length}");
        assert_eq!(answer.content_type.is_some(), kept, "{length}");
    }
    let to = format!("/{}", "x".repeat(5_000));
    let error = once(&params(), Reply::redirect(302, to)).await.unwrap_err();
    assert!(error.message.ends_with("redirects to an address longer than 4096 bytes"), "{error:?}");
}

#[tokio::test]
async fn a_304_renews_freshness_and_only_its_own_validators() {
    let reply = Reply::new(304)
        .header("Cache-Control", "max-age=600")
        .header("Age", "100")
        .header("ETag", "\"new\"")
        .header("Content-Length", "12345");
    let answer = once(&params(), reply).await.unwrap();
    assert_eq!((answer.status, answer.fresh_for), (304, Some(Span::from_secs(500))));
    assert_eq!((answer.etag.as_deref(), answer.last_modified), (Some(&b"\"new\""[..]), None));
    let reply = Reply::ok("x").header("Last-Modified", "Mon, 16 Nov 2026 12:00:00 GMT");
    let answer = once(&params(), reply).await.unwrap();
    assert_eq!(answer.modified_at, Timestamp::parse_iso("2026-11-16T12:00:00Z"));
}
