//! The fetcher against servers on loopback. 127.0.0.2 plays the public internet.

use std::io::Write;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use tidewatch::clock::{Clock, Stopwatch};
use tidewatch::config::FetchParams;
use tidewatch::fetch::client::Fetcher;
use tidewatch::fetch::guard::Guard;
use tidewatch::fetch::{Answer, FetchError, Request, Validators};
use tidewatch::time::{Span, Timestamp};
use url::Url;

mod web;
use web::{Reply, Seen, Step, Web};

const MAX_BODY: usize = 10 * 1024 * 1024;

fn params() -> FetchParams {
    FetchParams {
        max_body: MAX_BODY,
        connect_timeout: Span::from_secs(5),
        read_timeout: Span::from_secs(5),
        total_timeout: Span::from_secs(20),
        resolve: Vec::new(),
    }
}

/// For servers that make us wait.
fn impatient() -> FetchParams {
    FetchParams {
        connect_timeout: Span::from_millis(400),
        read_timeout: Span::from_millis(400),
        total_timeout: Span::from_secs(3),
        ..params()
    }
}

fn internet() -> IpAddr {
    IpAddr::from([127, 0, 0, 2])
}

/// A fetcher to which 127.0.0.2 is public and all other loopback addresses are not.
fn fetcher(params: &FetchParams) -> Fetcher {
    Fetcher::with_guard(params, Some("mailto:me@example.org"), Guard::treating_as_public(vec![internet()]))
        .unwrap()
}

fn request(url: Url) -> Request {
    Request { url, validators: None, headers: HeaderMap::new(), allow_private: false }
}

async fn web(script: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Web {
    Web::start_on(internet(), script).await
}

async fn get_with(params: &FetchParams, request: &Request) -> Result<Answer, FetchError> {
    fetcher(params).get(request, &Clock::wall()).await
}

async fn get(request: &Request) -> Result<Answer, FetchError> {
    get_with(&params(), request).await
}

/// One request to a server that always replies the same.
async fn once(params: &FetchParams, reply: Reply) -> Result<Answer, FetchError> {
    let web = web(move |_| reply.clone()).await;
    get_with(params, &request(web.url("/"))).await
}

#[tokio::test]
async fn manners_of_a_first_request() {
    let web = web(|_| Reply::ok("hello").header("Content-Type", "text/plain")).await;
    let answer = get(&request(web.url("/feed?x=1#part"))).await.unwrap();
    assert_eq!((answer.status, answer.body.as_slice(), answer.wire_bytes), (200, &b"hello"[..], 5));
    assert_eq!(answer.content_type.as_deref(), Some("text/plain"));
    assert_eq!(answer.final_url, web.url("/feed?x=1"));
    assert_eq!(answer.moved_to, None);
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
async fn without_contact_the_agent_is_bare_and_a_bad_contact_is_told() {
    let web = web(|_| Reply::ok("")).await;
    let guard = Guard::treating_as_public(vec![internet()]);
    let fetcher = Fetcher::with_guard(&params(), None, guard).unwrap();
    fetcher.get(&request(web.url("/")), &Clock::wall()).await.unwrap();
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
        let first = fetcher.get(&request(web.url("/")), &Clock::wall()).await.unwrap();
        assert_eq!(first.etag.as_deref(), Some(etag));
        assert_eq!(first.last_modified.as_deref(), Some(modified));
        let validators = Validators {
            url: first.final_url.to_string(),
            etag: first.etag,
            last_modified: first.last_modified,
        };
        let again = Request { validators: Some(validators), ..request(web.url("/")) };
        assert_eq!(fetcher.get(&again, &Clock::wall()).await.unwrap().status, 304);
        let seen = &web.requests()[1];
        assert_eq!(seen.header("if-none-match").as_deref(), Some(etag));
        assert_eq!(seen.header("if-modified-since").as_deref(), Some(modified));
    }
}

#[tokio::test]
async fn validators_go_only_to_the_url_that_gave_them() {
    let web = web(|seen| match seen.path.as_str() {
        "/old" => Reply::redirect(302, "/new"),
        _ => Reply::ok("x"),
    })
    .await;
    let carried = async |from: Url| {
        let before = web.requests().len();
        let validators =
            Validators { url: from.into(), etag: Some(b"\"e\"".to_vec()), last_modified: None };
        let request = Request { validators: Some(validators), ..request(web.url("/old")) };
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
        fetcher.get(&request(web.url("/a")), &Clock::wall()).await.unwrap();
    }
    let requests = web.requests();
    assert_eq!(requests.len(), 4);
    for seen in requests {
        assert_eq!((seen.text("cookie"), seen.text("referer")), (None, None), "{}", seen.path);
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn all_four_encodings() {
    let text = "tidewatch ".repeat(50).into_bytes();
    let mut zlib = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
    zlib.write_all(&text).unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(&text[..], ruzstd::encoding::CompressionLevel::Fastest);
    // `text` by brotli's reference encoder.
    let brotli = vec![
        0x1b, 0xf3, 0x01, 0xf8, 0xc5, 0x6d, 0x6c, 0x5d, 0xf7, 0x15, 0x15, 0xec, 0x0b, 0x05, 0x81, 0xa1,
        0x00, 0xa4, 0x3b, 0xe7, 0x39, 0x15,
    ];
    for (name, wire) in [
        ("gzip", gzip(&text)),
        ("deflate", zlib.finish().unwrap()),
        ("br", brotli),
        ("zstd", zstd.clone()),
        ("zstd, gzip", gzip(&zstd)),
        ("identity", text.clone()),
    ] {
        let length = wire.len() as u64;
        let answer = once(&params(), Reply::ok(wire).header("Content-Encoding", name)).await.unwrap();
        assert_eq!((answer.body.as_slice(), answer.wire_bytes), (&text[..], length), "{name}");
    }
    let error = once(&params(), Reply::ok("x").header("Content-Encoding", "compress")).await.unwrap_err();
    assert!(error.message.contains("`compress`"), "{error}");
}

#[tokio::test]
async fn a_bomb_is_bounded() {
    let bomb = gzip(&vec![0; 1024 * 1024]).repeat(1024);
    let error = once(&params(), Reply::ok(bomb).header("Content-Encoding", "gzip")).await.unwrap_err();
    assert!(error.message.contains("larger than max_body (10485760 bytes) after decompression"), "{error}");
    let small = gzip(&vec![0; 8 * 1024 * 1024]);
    let error = once(&params(), Reply::ok(small).header("Content-Encoding", "gzip")).await.unwrap_err();
    assert!(error.message.contains("decompression bomb"), "{error}");
}

fn head(more: &str) -> Step {
    Step::Send(format!("HTTP/1.1 200 OK\r\n{more}\r\n").into_bytes())
}

#[tokio::test]
async fn bodies_without_end_or_measure() {
    let endless = Reply::raw(vec![head("Content-Type: text/html\r\n"), Step::Forever(vec![b'x'; 65536])]);
    let error = once(&params(), endless).await.unwrap_err();
    assert_eq!(error.message, "the body is larger than max_body (10485760 bytes)");
    let chunks = Reply::raw(vec![
        head("Transfer-Encoding: chunked\r\n"),
        Step::Forever(b"4\r\nxxxx\r\n".repeat(5000)),
    ]);
    let small = FetchParams { max_body: 100_000, ..params() };
    assert!(once(&small, chunks).await.unwrap_err().message.contains("max_body (100000 bytes)"));
    // Announced as too large: not a byte of it is waited for.
    let announced = Reply::raw(vec![head("Content-Length: 99999999999\r\n"), Step::Stall]);
    assert!(once(&params(), announced).await.unwrap_err().message.contains("max_body"));
    let exact = FetchParams { max_body: 5, ..params() };
    assert_eq!(once(&exact, Reply::ok("12345")).await.unwrap().body, b"12345");
    assert!(once(&exact, Reply::ok("123456")).await.is_err());
}

#[tokio::test]
async fn truncated_bodies_are_failures() {
    for (what, steps) in [
        ("length", vec![head("Content-Length: 100\r\n"), Step::Send(b"only this".to_vec())]),
        ("chunk", vec![head("Transfer-Encoding: chunked\r\n"), Step::Send(b"ff\r\nonly".to_vec())]),
        ("last chunk", vec![head("Transfer-Encoding: chunked\r\n"), Step::Send(b"4\r\nonly\r\n".to_vec())]),
    ] {
        let error = once(&params(), Reply::raw(steps)).await.unwrap_err();
        assert!(error.message.starts_with("the body broke off from 127.0.0.2"), "{what}: {error}");
        assert!(!error.local);
    }
    let half = gzip(b"half of this will be missing")[..20].to_vec();
    let close = Reply::raw(vec![head("Content-Encoding: gzip\r\n"), Step::Send(half)]);
    assert!(once(&params(), close).await.unwrap_err().message.contains("ends too early"));
}

#[tokio::test]
async fn slow_servers_are_left() {
    let stopwatch = Stopwatch::start();
    let pause = Duration::from_millis(20);
    for (told, steps) in [
        ("too slowly", vec![head("Content-Length: 9999\r\n"), Step::Drip(vec![b'x'; 9999], pause)]),
        ("stopped in the middle", vec![head("Content-Length: 9999\r\n"), Step::Stall]),
        ("did not answer within 800ms", vec![Step::Stall]),
        ("did not answer within", vec![Step::Drip(b"HTTP/1.1 200 OK\r\nX: ".repeat(500), pause)]),
    ] {
        let error = once(&impatient(), Reply::raw(steps)).await.unwrap_err();
        assert!(error.message.contains(told) && !error.local, "{told}: {error}");
    }
    let hasty = FetchParams { total_timeout: Span::from_millis(300), ..params() };
    let error = once(&hasty, Reply::raw(vec![Step::Stall])).await.unwrap_err();
    assert!(error.message.contains("took longer than 300ms in all"), "{error}");
    assert!(stopwatch.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn oversized_heads_are_failures() {
    let line = format!("X-Pad: {}\r\n", "x".repeat(1000)).into_bytes();
    for (what, steps) in [
        ("endless lines", vec![Step::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), Step::Forever(line)]),
        (
            "one endless line",
            vec![Step::Send(b"HTTP/1.1 200 OK\r\nX: ".to_vec()), Step::Forever(vec![b'x'; 999])],
        ),
        ("endless status", vec![Step::Forever(b"HTTP/1.1 200 ".to_vec())]),
        ("no HTTP at all", vec![Step::Send(b"220 mail.example ESMTP\r\n".to_vec())]),
    ] {
        let error = once(&params(), Reply::raw(steps)).await.unwrap_err();
        assert!(error.message.starts_with("no answer from 127.0.0.2"), "{what}: {error}");
        assert!(!error.message.contains('\n'));
    }
}

#[tokio::test]
async fn redirects_end() {
    let web =
        web(|seen| match seen.path.strip_prefix("/down/").and_then(|left| left.parse::<u32>().ok()) {
            Some(0) => Reply::ok("floor"),
            Some(left) => Reply::redirect(301, format!("/down/{}", left - 1)),
            None if seen.path == "/nowhere" => Reply::new(302),
            None if seen.path == "/file" => Reply::redirect(302, "file:///etc/passwd"),
            None if seen.path == "/bad" => Reply::redirect(302, "http://[oops"),
            None => Reply::redirect(302, if seen.path == "/ping" { "/pong" } else { "/ping" }),
        })
        .await;
    let answer = get(&request(web.url("/down/5"))).await.unwrap();
    assert_eq!((answer.status, answer.final_url), (200, web.url("/down/0")));
    let before = web.requests().len();
    let error = get(&request(web.url("/down/6"))).await.unwrap_err();
    assert_eq!(error.message, "more than 5 redirects");
    assert_eq!(web.requests().len() - before, 6);
    let error = get(&request(web.url("/ping"))).await.unwrap_err();
    assert!(error.message.starts_with("a redirect loop"), "{error}");
    assert_eq!(get(&request(web.url("/nowhere"))).await.unwrap().status, 302);
    let error = get(&request(web.url("/file"))).await.unwrap_err();
    assert_eq!(error.message, "`file` is not http or https");
    assert!(get(&request(web.url("/bad"))).await.unwrap_err().message.contains("no URL"));
}

#[tokio::test]
async fn only_permanent_redirects_move_a_source() {
    let web = web(|seen| match seen.path.as_str() {
        "/301" => Reply::redirect(301, "/there"),
        "/308" => Reply::redirect(308, "/301"),
        "/302" => Reply::redirect(302, "/there"),
        "/307" => Reply::redirect(307, "/there"),
        "/mixed" => Reply::redirect(301, "/302"),
        "/mixed2" => Reply::redirect(302, "/301"),
        "/gone" => Reply::redirect(301, "/missing"),
        "/missing" => Reply::new(404),
        _ => Reply::ok("x"),
    })
    .await;
    for (path, moved) in [
        ("/301", true),
        ("/308", true),
        ("/302", false),
        ("/307", false),
        ("/mixed", false),
        ("/mixed2", false),
        ("/there", false),
        ("/gone", false),
    ] {
        let answer = get(&request(web.url(path))).await.unwrap();
        assert_eq!(answer.moved_to, moved.then(|| web.url("/there")), "{path}");
    }
}

#[tokio::test]
async fn strangers_cannot_send_us_inside() {
    let inside = Web::start(|_| Reply::ok("secret of the house")).await;
    let port = inside.address().port();
    let fixed = FetchParams {
        resolve: vec![
            ("rebound.example".to_owned(), IpAddr::from([127, 0, 0, 1])),
            ("outside.example".to_owned(), internet()),
        ],
        ..params()
    };
    for (host, told) in [
        ("127.0.0.1", "127.0.0.1 is a private address"),
        ("0x7f.1", "127.0.0.1 is a private address"),
        ("2130706433", "127.0.0.1 is a private address"),
        ("[::ffff:127.0.0.1]", "is a private address"),
        ("rebound.example", "rebound.example resolves only to private addresses (127.0.0.1)"),
        ("localhost", "localhost resolves only to private addresses (127.0.0.1"),
        ("x.LOCALHOST.", "x.localhost resolves only to private addresses"),
    ] {
        let target = format!("http://{host}:{port}/");
        let outside = web(move |_| Reply::redirect(302, &target)).await;
        let asked = request(outside.url_as("outside.example", "/"));
        let error = get_with(&fixed, &asked).await.unwrap_err();
        assert!(error.message.contains(told), "{host}: {error}");
        assert!(error.message.contains("set allow_private = true for this source"), "{error}");
        assert!(!error.local);
        assert_eq!(outside.requests().len(), 1, "{host}");
        assert_eq!(inside.connections(), 0, "{host}");
        // Also when it is the configured address itself.
        let direct = request(Url::parse(&format!("http://{host}:{port}/")).unwrap());
        assert!(get_with(&fixed, &direct).await.unwrap_err().message.contains(told), "{host}");
        assert_eq!(inside.connections(), 0, "{host}");
        let permitted = Request { allow_private: true, ..asked };
        assert_eq!(get_with(&fixed, &permitted).await.unwrap().body, b"secret of the house", "{host}");
        assert_eq!(inside.connections(), 1, "{host}");
        inside.forget();
    }
}

#[tokio::test]
async fn permission_does_not_leak_through_open_connections() {
    // A connection that a permitted request left open must not serve one without permission.
    let inside = Web::start(|_| {
        Reply::raw(vec![head("Content-Length: 2\r\n"), Step::Send(b"ok".to_vec()), Step::Stall])
    })
    .await;
    let fixed = FetchParams {
        resolve: vec![("name.example".to_owned(), IpAddr::from([127, 0, 0, 1]))],
        ..params()
    };
    let fetcher = fetcher(&fixed);
    let plain = request(inside.url_as("name.example", "/"));
    let permitted = Request { allow_private: true, ..plain.clone() };
    assert_eq!(fetcher.get(&permitted, &Clock::wall()).await.unwrap().body, b"ok");
    assert!(fetcher.get(&plain, &Clock::wall()).await.is_err());
    assert_eq!((inside.connections(), inside.requests().len()), (1, 1));
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
        let answer = fetcher.get(&request(web.url("/")), &clock).await.unwrap();
        assert_eq!(answer.retry_after, wait.map(Span::from_secs), "{}", answer.status);
        assert_eq!(answer.throttled, throttled, "{}", answer.status);
        assert!(answer.body.is_empty());
    }
}

#[tokio::test]
async fn a_304_renews_freshness_and_carries_what_it_carries() {
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

#[tokio::test]
async fn secrets_stay_with_their_origin() {
    let way_back = Arc::new(OnceLock::<Url>::new());
    let known = Arc::clone(&way_back);
    let other = web(move |seen| match seen.path.as_str() {
        "/back" => Reply::redirect(302, known.get().unwrap()),
        _ => Reply::ok("x"),
    })
    .await;
    let (elsewhere, detour) = (other.url("/"), other.url("/back"));
    let home = web(move |seen| match seen.path.as_str() {
        "/near" => Reply::redirect(302, "/here"),
        "/far" => Reply::redirect(307, &elsewhere),
        "/detour" => Reply::redirect(302, &detour),
        _ => Reply::ok("x"),
    })
    .await;
    let mut headers = HeaderMap::new();
    let mut value = HeaderValue::from_static("hunter2");
    value.set_sensitive(true);
    headers.insert("x-key", value);
    let asked = |path: &str| {
        let mut url = home.url(path);
        url.set_username("me").unwrap();
        url.set_password(Some("hunter3")).unwrap();
        Request { headers: headers.clone(), ..request(url) }
    };
    let near = get(&asked("/near")).await.unwrap();
    assert_eq!(near.final_url, home.url("/here"));
    for seen in home.requests() {
        assert_eq!(seen.text("x-key").as_deref(), Some("hunter2"));
        assert_eq!(seen.text("authorization").as_deref(), Some("Basic bWU6aHVudGVyMw=="));
    }
    get(&asked("/far")).await.unwrap();
    let stranger = &other.requests()[0];
    assert_eq!((stranger.text("x-key"), stranger.text("authorization")), (None, None));
    assert!(!String::from_utf8_lossy(&stranger.head).contains("hunter"));
    // A stranger who sends us back must not choose what our secrets are sent to.
    way_back.set(home.url("/delete?all")).unwrap();
    get(&asked("/detour")).await.unwrap();
    let back = home.requests().pop().unwrap();
    assert_eq!(back.path, "/delete?all");
    assert_eq!((back.text("x-key"), back.text("authorization")), (None, None));
    assert!(!format!("{:?} {near:?}", asked("/far?token=hunter4")).contains("hunter"));
}

#[tokio::test]
async fn secrets_are_in_no_error() {
    let target = web(|_| Reply::ok("x")).await;
    let mut gone = target.url("/x?token=hunter1");
    target.stop().await;
    gone.set_username("me").unwrap();
    gone.set_password(Some("hunter2")).unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("x-key", HeaderValue::from_static("hunter3"));
    let refused = get(&Request { headers, ..request(gone.clone()) }).await.unwrap_err();
    assert!(refused.message.contains("Connection refused"), "{refused}");
    let hops = web(move |_| Reply::redirect(302, gone.as_str())).await;
    let hop = get(&request(hops.url("/"))).await.unwrap_err();
    let stalled = once(&impatient(), Reply::raw(vec![Step::Stall])).await.unwrap_err();
    for error in [refused, hop, stalled] {
        assert!(!format!("{error} {error:?}").contains("hunter"), "{error:?}");
    }
}

#[tokio::test]
async fn unknown_names_are_told_and_only_one_request_is_made() {
    let error = get(&request(Url::parse("http://no-such-host.invalid/").unwrap())).await.unwrap_err();
    assert!(error.message.starts_with("cannot connect to no-such-host.invalid: "), "{error}");
    // The server hangs up without a word: that is the answer, not a reason to try again.
    let web = web(|_| Reply::raw(vec![])).await;
    get(&request(web.url("/"))).await.unwrap_err();
    assert_eq!(web.requests().len(), 1);
}
