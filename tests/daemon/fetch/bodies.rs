//! Bodies and heads that are too long, too short, too slow or malformed.

use std::io::Write;
use std::time::Duration;

use tidewatch::clock::{Clock, Stopwatch, patience};
use tidewatch::config::params::FetchParams;
use tidewatch::fetch::body::UnreadBody;
use tidewatch::fetch::error::FetchFault;
use tidewatch_core::time::Span;

use super::{decoded, fetcher, follow, get, head, impatient, once, params, request, web};
use tidewatch_fixtures::loopback::{Reply, ServerStep};

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
        let length = wire.len();
        let answer = once(&params(), Reply::ok(wire).header("Content-Encoding", name)).await.unwrap();
        assert_eq!(answer.body.as_ref().unwrap().wire_bytes(), length, "{name}");
        assert_eq!(decoded(answer).unwrap(), text, "{name}");
    }
    let error = once(&params(), Reply::ok("x").header("Content-Encoding", "compress")).await.unwrap_err();
    assert!(error.message.contains("`compress`"), "{error}");
}

#[tokio::test]
async fn a_bomb_is_bounded() {
    let bomb = gzip(&vec![0; 1024 * 1024]).repeat(1024);
    let answer = once(&params(), Reply::ok(bomb).header("Content-Encoding", "gzip")).await.unwrap();
    let error = decoded(answer).unwrap_err().to_string();
    assert!(error.contains("larger than max_body (10485760 bytes) after decompression"), "{error}");
    let small = gzip(&vec![0; 8 * 1024 * 1024]);
    let answer = once(&params(), Reply::ok(small).header("Content-Encoding", "gzip")).await.unwrap();
    let error = decoded(answer).unwrap_err().to_string();
    assert!(error.contains("decompression bomb"), "{error}");
}

#[tokio::test]
async fn bodies_over_the_limit_are_failures() {
    let endless =
        Reply::raw(vec![head("Content-Type: text/html\r\n"), ServerStep::Forever(vec![b'x'; 65536])]);
    let refused = async |params: &FetchParams, reply| once(params, reply).await.unwrap().body.unwrap_err();
    let error = refused(&params(), endless).await;
    assert_eq!(error, UnreadBody::TooLarge(10_485_760));
    let message = "the body is larger than max_body (10485760 bytes); raise [fetch] max_body to read it";
    assert_eq!(error.to_string(), message);
    let chunks = Reply::raw(vec![
        head("Transfer-Encoding: chunked\r\n"),
        ServerStep::Forever(b"4\r\nxxxx\r\n".repeat(5000)),
    ]);
    let small = FetchParams { max_body: 100_000, ..params() };
    assert_eq!(refused(&small, chunks).await, UnreadBody::TooLarge(100_000));
    // Announced as too large: the body is not read.
    let announced = Reply::raw(vec![head("Content-Length: 99999999999\r\n"), ServerStep::Stall]);
    assert_eq!(refused(&params(), announced).await, UnreadBody::TooLarge(10_485_760));
    let exact = FetchParams { max_body: 5, ..params() };
    assert_eq!(decoded(once(&exact, Reply::ok("12345")).await.unwrap()).unwrap(), b"12345");
    assert_eq!(refused(&exact, Reply::ok("123456")).await, UnreadBody::TooLarge(5));
}

#[tokio::test]
async fn truncated_bodies_are_failures() {
    for (what, steps) in [
        ("length", vec![head("Content-Length: 100\r\n"), ServerStep::Send(b"only this".to_vec())]),
        ("chunk", vec![head("Transfer-Encoding: chunked\r\n"), ServerStep::Send(b"ff\r\nonly".to_vec())]),
        (
            "last chunk",
            vec![head("Transfer-Encoding: chunked\r\n"), ServerStep::Send(b"4\r\nonly\r\n".to_vec())],
        ),
    ] {
        let error = once(&params(), Reply::raw(steps)).await.unwrap_err();
        assert!(error.message.starts_with("the body broke off from 127.0.0.2"), "{what}: {error}");
        assert_eq!(error.fault, FetchFault::Answer);
    }
    let half = gzip(b"half of this will be missing")[..20].to_vec();
    let close = Reply::raw(vec![head("Content-Encoding: gzip\r\n"), ServerStep::Send(half)]);
    let error = decoded(once(&params(), close).await.unwrap()).unwrap_err();
    assert!(error.to_string().contains("ends too early"), "{error}");
}

#[tokio::test]
async fn a_body_without_a_length_ends_with_its_connection() {
    let old = vec![ServerStep::Send(b"HTTP/1.0 200 OK\r\nETag: \"1\"\r\n\r\nall of it".to_vec())];
    for steps in [old, vec![head("Connection: close\r\n"), ServerStep::Send(b"all of it".to_vec())]] {
        assert_eq!(decoded(once(&params(), Reply::raw(steps)).await.unwrap()).unwrap(), b"all of it");
    }
}

#[tokio::test]
async fn slow_servers_time_out() {
    let stopwatch = Stopwatch::start();
    let pause = Duration::from_millis(20);
    for (message, steps) in [
        ("too slowly", vec![head("Content-Length: 9999\r\n"), ServerStep::Drip(vec![b'x'; 9999], pause)]),
        ("stopped in the middle", vec![head("Content-Length: 9999\r\n"), ServerStep::Stall]),
        ("did not answer within 1.5s", vec![ServerStep::Stall]),
        ("did not answer within", vec![ServerStep::Drip(b"HTTP/1.1 200 OK\r\nX: ".repeat(500), pause)]),
    ] {
        let error = once(&impatient(), Reply::raw(steps)).await.unwrap_err();
        // Without a head, the network may be what is slow.
        let fault = if message.starts_with("did not") { FetchFault::NoAnswer } else { FetchFault::Answer };
        assert!(error.message.contains(message) && error.fault == fault, "{message}: {error}");
    }
    let hasty = FetchParams { total_timeout: Span::from_millis(300), ..params() };
    let error = once(&hasty, Reply::raw(vec![ServerStep::Stall])).await.unwrap_err();
    assert!(error.message.contains("took longer than 300ms in all"), "{error}");
    assert!(stopwatch.elapsed() < Duration::from_secs(15));
}

#[tokio::test]
async fn waits_for_our_own_memory_count_against_no_source() {
    let large = 1 << 18;
    let hasty = FetchParams {
        max_body: large,
        total_timeout: Span::from_secs(2),
        read_timeout: Span::from_secs(60),
        ..params()
    };
    let web = web(move |seen| match seen.path.as_str() {
        "/breaks" => Reply::raw(vec![
            head(&format!("Content-Length: {large}\r\n")),
            ServerStep::Send(vec![b'x'; large / 2 + 1]),
        ]),
        _ => Reply::ok(vec![b'x'; large]),
    })
    .await;
    let (fetcher, clock) = (fetcher(&hasty), Clock::wall());
    let full = request(web.url("/full"));
    // Room for two more than cores, and one that needs none.
    let cores = std::thread::available_parallelism().unwrap().get();
    let mut held = Vec::new();
    for _ in 0..cores + 3 {
        held.push(follow(&fetcher, &full, &clock).await.unwrap());
    }
    let breaks = request(web.url("/breaks"));
    let (mut whole, mut broken) =
        (Box::pin(follow(&fetcher, &full, &clock)), Box::pin(follow(&fetcher, &breaks, &clock)));
    let both = async { tokio::join!(&mut whole, &mut broken) };
    assert!(patience(Duration::from_secs(4), both).await.is_err(), "they wait, longer than both may take");
    drop(held);
    assert_eq!(decoded(whole.await.unwrap()).unwrap().len(), large);
    // Its server may have lost its patience.
    let error = broken.await.unwrap().body.unwrap_err();
    assert!(matches!(error, UnreadBody::NoRoom(_)), "{error}");
}

#[tokio::test]
async fn oversized_heads_are_failures() {
    let line = format!("X-Pad: {}\r\n", "x".repeat(1000)).into_bytes();
    for (what, steps) in [
        (
            "endless lines",
            vec![ServerStep::Send(b"HTTP/1.1 200 OK\r\n".to_vec()), ServerStep::Forever(line)],
        ),
        (
            "one endless line",
            vec![
                ServerStep::Send(b"HTTP/1.1 200 OK\r\nX: ".to_vec()),
                ServerStep::Forever(vec![b'x'; 999]),
            ],
        ),
        ("endless status", vec![ServerStep::Forever(b"HTTP/1.1 200 ".to_vec())]),
        ("no HTTP at all", vec![ServerStep::Send(b"220 mail.example ESMTP\r\n".to_vec())]),
    ] {
        let error = once(&params(), Reply::raw(steps)).await.unwrap_err();
        assert!(error.message.starts_with("no answer from 127.0.0.2"), "{what}: {error}");
        assert!(!error.message.contains('\n'));
    }
}

#[tokio::test]
async fn a_server_that_hangs_up_is_not_asked_again() {
    let web = web(|_| Reply::raw(vec![])).await;
    let error = get(&request(web.url("/"))).await.unwrap_err();
    assert!(error.message.contains("connection closed before message completed"), "{error}");
    assert_eq!(web.requests().len(), 1);
}
