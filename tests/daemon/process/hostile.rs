//! Hostile documents: each costs its own source one failed probe.

use std::io::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tidewatch::daemon::document_readers::LONGEST_READING;

use super::daemon::{BRISK, Home, LAZY, allocator_settings, processor_time};
use crate::waiting::until;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::hostile::{HOSTILE_DOCUMENTS, HostileDocument, ReadAs};
use tidewatch_fixtures::loopback::{LoopbackServer, Reply, ServerStep};
use tidewatch_fixtures::source_list::source_with_budget;

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[tokio::test]
async fn a_hostile_document_costs_one_failed_probe_and_the_others_go_on() {
    let deep = format!("<rss><channel><item>{}", "<x>".repeat(200_000));
    let laughs: String =
        (1..12).map(|n| format!("<!ENTITY l{n} \"{}\">", format!("&l{};", n - 1).repeat(10))).collect();
    let laughs = format!(
        "<?xml version=\"1.0\"?><!DOCTYPE rss [<!ENTITY l0 \"lol\">{laughs}]><rss><channel><title>&l11;</title>\
         <item><guid>&l11;</guid></item></channel></rss>"
    );
    let outside = "<?xml version=\"1.0\"?><!DOCTYPE rss [<!ENTITY x SYSTEM \"file:///etc/passwd\">]>\
                   <rss version=\"2.0\"><channel><item><guid>x</guid><title>&x;</title></item></channel></rss>";
    let half = gzip(rss(["a"]).as_bytes());
    let half = half[..half.len() / 2].to_vec();
    let bomb = gzip(&vec![b' '; 30_000_000]);
    let compressed = |body: Vec<u8>| Reply::ok(body).header("Content-Encoding", "gzip");
    let documents = [
        ("deep", Reply::ok(deep)),
        ("laughs", Reply::ok(laughs)),
        ("outside", Reply::ok(outside)),
        ("half", compressed(half)),
        ("bomb", compressed(bomb)),
        ("noise", Reply::ok((0..=255_u8).cycle().take(100_000).collect::<Vec<_>>())),
    ];
    let mut webs = Vec::new();
    for (name, reply) in documents {
        webs.push((name, LoopbackServer::start(move |_| reply.clone()).await));
    }
    let good = LoopbackServer::start(|seen| Reply::ok(rss((0..=seen.order).map(|n| n.to_string())))).await;
    let home = Home::new();
    let mut sources: Vec<String> =
        webs.iter().map(|(name, web)| source_with_budget(name, &web.url("/feed"), BRISK)).collect();
    sources.push(source_with_budget("good", &good.url("/feed"), BRISK));
    home.write(&sources);
    let mut daemon = home.start();
    until("all were asked", || webs.iter().all(|(_, web)| !web.requests().is_empty())).await;
    home.until("SELECT count(DISTINCT source_id) FROM probes", |probed| probed == 7).await;
    let before = good.requests().len();
    until("the good one goes on", || good.requests().len() > before + 5).await;
    daemon.stop().await;
    for (name, first) in home
        .rows::<(String, String)>(
            "SELECT s.name, p.outcome FROM probes p JOIN sources s ON s.id = p.source_id
             WHERE p.id IN (SELECT min(id) FROM probes GROUP BY source_id)",
        )
        .await
    {
        match name.as_str() {
            "good" => assert_eq!(first, "unchanged"),
            _ => assert_eq!(first, "failed", "{name}"),
        }
    }
    assert!(
        home.number(
            "SELECT count(*) FROM updates WHERE source_id = (SELECT id FROM sources WHERE name = 'good')"
        )
        .await
            > 3
    );
    let leaked = "SELECT count(*) FROM updates WHERE title LIKE '%root:%' OR length(title) > 100000";
    assert_eq!(home.number(leaked).await, 0);
    assert_eq!(home.number("SELECT count(*) FROM probes WHERE error LIKE '%panic%'").await, 0);
}

/// Size of large documents: nearly `max_body`.
const LARGE: usize = 9_900_000;

/// More than a probe of a large document takes beside reading it: sending it and storing its items.
const BESIDE_READING: Duration = Duration::from_secs(1);

/// A document, and the processor time that the daemon had used when it was asked for.
type Asked = (&'static str, Duration);

/// Serves the hostile documents, and notes when each was asked for.
async fn serve_large_documents(daemon: Arc<AtomicU32>, asked: Arc<Mutex<Vec<Asked>>>) -> LoopbackServer {
    LoopbackServer::start(move |seen| {
        let document = &HOSTILE_DOCUMENTS[seen.path[1..].parse::<usize>().unwrap()];
        let body = (document.write)(LARGE);
        assert!(body.len() <= 10_000_000, "{} has {} bytes", document.name, body.len());
        asked.lock().unwrap().push((document.name, processor_time(daemon.load(Ordering::Relaxed))));
        Reply::ok(body)
    })
    .await
}

#[tokio::test]
async fn no_document_takes_much_memory_or_time() {
    let (pid, asked) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let idle = LoopbackServer::start(|_| Reply::ok(rss(["a"]))).await;
    let web = serve_large_documents(Arc::clone(&pid), Arc::clone(&asked)).await;
    let home = Home::new();
    let good = source_with_budget("good", &idle.url("/"), LAZY);
    home.write(std::slice::from_ref(&good));
    let mut daemon = home.start_after(&format!("export {}", allocator_settings()));
    pid.store(daemon.pid(), Ordering::Relaxed);
    home.until("SELECT count(*) FROM probes", |probes| probes == 1).await;
    let before = daemon.peak_memory();
    // All are of one host, so that one is in progress at a time.
    let documents = HOSTILE_DOCUMENTS.iter().enumerate().filter(|(_, it)| it.read_as != ReadAs::Robots);
    let source = |(number, document): (usize, &HostileDocument)| {
        let kind = if document.read_as == ReadAs::Page { "page" } else { "feed" };
        let source = source_with_budget(&number.to_string(), &web.url(&format!("/{number}")), LAZY);
        format!("{source}kind = \"{kind}\"\nrobots = false\n")
    };
    let sources: Vec<String> = documents.map(source).chain([good]).collect();
    home.write(&sources);
    daemon.signal("HUP");
    let count = sources.len() as i64;
    home.until("SELECT count(DISTINCT source_id) FROM probes", |probed| probed == count).await;
    asked.lock().unwrap().push(("the end", processor_time(daemon.pid())));
    let taken = daemon.peak_memory().saturating_sub(before);
    daemon.stop().await;
    let asked = asked.lock().unwrap().clone();
    assert_eq!(asked.len() as i64, count, "one probe of each, and the end");
    let longest = asked.windows(2).map(|pair| (pair[1].1 - pair[0].1, pair[0].0)).max().unwrap();
    println!("at most {} MB above idle, and {longest:?}", taken >> 20);
    assert!(taken < 100 << 20, "{} MB", taken >> 20);
    assert!(longest.0 < LONGEST_READING + BESIDE_READING, "{longest:?}");
    assert_eq!(home.number("SELECT count(*) FROM probes WHERE error LIKE '%panic%'").await, 0);
    let stored = std::fs::metadata(home.store()).unwrap().len();
    assert!(stored < 64 << 20, "{} MB in the store", stored >> 20);
}

#[tokio::test]
async fn large_bodies_of_many_slow_servers_take_bounded_memory() {
    // Each sends most of a large body, and then nothing.
    let web = LoopbackServer::start_on(Ipv4Addr::UNSPECIFIED.into(), |_| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n".to_vec();
        Reply::raw(vec![ServerStep::Send(head), ServerStep::Send(vec![b'x'; 8_000_000]), ServerStep::Stall])
    })
    .await;
    let good = LoopbackServer::start(|seen| Reply::ok(rss((0..=seen.order).map(|n| n.to_string())))).await;
    let home = Home::new();
    let mut sources: Vec<String> = (0..60)
        .map(|number| {
            source_with_budget(&number.to_string(), &web.url_as(&format!("127.0.1.{number}"), "/"), LAZY)
        })
        .collect();
    sources.push(source_with_budget("good", &good.url("/feed"), BRISK));
    // The servers outlast the test.
    sources.insert(0, "[fetch]\nread_timeout = \"5m\"\ntotal_timeout = \"10m\"\n".to_owned());
    home.write(&sources);
    let mut daemon = home.start();
    until("all are asked", || web.requests().len() == 60).await;
    // Those that can send have sent when the good source was asked some times more.
    let before = good.requests().len();
    until("the good one goes on", || good.requests().len() > before + 30).await;
    let peak = daemon.peak_memory();
    daemon.kill();
    assert!(peak < 256 << 20, "{} MB", peak >> 20);
    assert_eq!(home.number("SELECT count(*) FROM probes WHERE outcome = 'failed'").await, 0);
}

#[tokio::test]
async fn reloads_do_not_multiply_the_memory_of_bodies() {
    let web = LoopbackServer::start_on(Ipv4Addr::UNSPECIFIED.into(), |_| {
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n".to_vec();
        Reply::raw(vec![ServerStep::Send(head), ServerStep::Send(vec![b'x'; 8_000_000]), ServerStep::Stall])
    })
    .await;
    let good = LoopbackServer::start(|seen| Reply::ok(rss((0..=seen.order).map(|n| n.to_string())))).await;
    let home = Home::new();
    let mut sources = vec![
        // The servers outlast the test.
        "[fetch]\nread_timeout = \"5m\"\ntotal_timeout = \"10m\"\n".to_owned(),
        source_with_budget("good", &good.url("/feed"), BRISK),
    ];
    home.write(&sources);
    let mut daemon = home.start();
    until("the daemon is up", || !good.requests().is_empty()).await;
    for reload in 1..=8 {
        sources.extend((0..12).map(|number| {
            let url = web.url_as(&format!("127.0.{reload}.{}", number + 1), "/");
            source_with_budget(&format!("{reload}-{number}"), &url, LAZY)
        }));
        home.write(&sources);
        daemon.signal("HUP");
        until("all are asked", || web.requests().len() == reload * 12).await;
        let before = good.requests().len();
        until("the good one goes on", || good.requests().len() > before + 8).await;
    }
    let peak = daemon.peak_memory();
    daemon.kill();
    assert!(peak < 256 << 20, "{} MB", peak >> 20);
}
