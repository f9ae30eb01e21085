//! Hostile documents: each costs its own source one failed probe.

use std::io::Write;
use std::net::Ipv4Addr;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::daemon::{BRISK, Home, LAZY};
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

#[tokio::test]
async fn no_document_takes_much_memory() {
    let documents: Vec<_> = HOSTILE_DOCUMENTS.iter().filter(|it| it.read_as != ReadAs::Robots).collect();
    let web = LoopbackServer::start({
        let bodies: Vec<String> = documents.iter().map(|document| (document.write)(2_000_000)).collect();
        move |seen| Reply::ok(bodies[seen.path[1..].parse::<usize>().unwrap()].clone())
    })
    .await;
    let home = Home::new();
    let source = |(number, document): (usize, &&HostileDocument)| {
        let kind = if document.read_as == ReadAs::Page { "page" } else { "feed" };
        let source = source_with_budget(&number.to_string(), &web.url(&format!("/{number}")), BRISK);
        format!("{source}kind = \"{kind}\"\nrobots = false\n")
    };
    let sources: Vec<String> = documents.iter().enumerate().map(source).collect();
    home.write(&sources);
    let mut daemon = home.start();
    let count = documents.len() as i64;
    home.until("SELECT count(DISTINCT source_id) FROM probes", |probed| probed == count).await;
    let peak = daemon.peak_memory();
    daemon.stop().await;
    assert!(peak < 256 << 20, "{} MB", peak >> 20);
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
