//! Validators: byte for byte, as a pair, sent to the address that returned them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use super::world::{Site, Visit, World, source};
use crate::waiting::until;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::{Reply, ServerStep};

/// `If-None-Match` and `If-Modified-Since` of a request.
fn conditions(visit: &Visit) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    (visit.seen.header("if-none-match"), visit.seen.header("if-modified-since"))
}

fn pair(etag: &[u8], modified: &[u8]) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    (Some(etag.to_vec()), Some(modified.to_vec()))
}

#[tokio::test]
async fn validators_come_back_byte_for_byte_and_none_are_sent_at_first_contact() {
    // Weak, unquoted, wrongly quoted, not UTF-8, a date in no format at all.
    let odd: [(&[u8], &[u8]); 4] = [
        (b"W/\"weak-1\"", b"Mon, 16 Nov 2026 12:00:00 GMT"),
        (b"no quotes at all", b"yesterday, about noon"),
        (b"\"\"twice\"\"", b"1760000000"),
        (b"\"caf\xe9\"", b"Mon, 16-Nov-26 12:00:00 GMT"),
    ];
    for (etag, modified) in odd {
        let world = World::new(7200.0);
        let site = Site::start(&world, move |visit| match visit.seen.order {
            0 => Reply::ok(rss(["a"])).header("ETag", etag).header("Last-Modified", modified),
            1 => Reply::new(304),
            // The same body with other validators.
            _ => Reply::ok(rss(["a"])).header("ETag", "W/\"other\"").header("Last-Modified", "later"),
        })
        .await;
        let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
        let visits = site.visited(4).await;
        assert_eq!(conditions(&visits[0]), (None, None), "first contact");
        assert_eq!(conditions(&visits[1]), pair(etag, modified), "after a 200");
        assert_eq!(conditions(&visits[2]), pair(etag, modified), "after a 304");
        assert_eq!(conditions(&visits[3]), pair(b"W/\"other\"", b"later"), "after another 200");
        daemon.stop().await;
        let outcomes: Vec<(String,)> = world.rows("SELECT outcome FROM probes ORDER BY id LIMIT 3").await;
        assert_eq!(outcomes.map_names(), ["unchanged", "not_modified", "unchanged"]);
    }
}

trait Names {
    fn map_names(&self) -> Vec<&str>;
}

impl Names for Vec<(String,)> {
    fn map_names(&self) -> Vec<&str> {
        self.iter().map(|(name,)| name.as_str()).collect()
    }
}

#[tokio::test]
async fn a_200_with_one_validator_drops_the_other() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])).header("ETag", "\"1\"").header("Last-Modified", "one"),
        _ => Reply::ok(rss(["a"])).header("Last-Modified", "two"),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let visits = site.visited(3).await;
    assert_eq!(conditions(&visits[1]), pair(b"\"1\"", b"one"));
    assert_eq!(conditions(&visits[2]), (None, Some(b"two".to_vec())));
    daemon.stop().await;
}

#[tokio::test]
async fn a_304_overwrites_only_what_it_carries() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])).header("ETag", "\"1\"").header("Last-Modified", "one"),
        1 => Reply::new(304).header("ETag", "W/\"2\""),
        2 => Reply::new(304).header("Last-Modified", "three"),
        _ => Reply::new(304),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let visits = site.visited(5).await;
    assert_eq!(conditions(&visits[1]), pair(b"\"1\"", b"one"));
    assert_eq!(conditions(&visits[2]), pair(b"W/\"2\"", b"one"));
    assert_eq!(conditions(&visits[3]), pair(b"W/\"2\"", b"three"));
    assert_eq!(conditions(&visits[4]), pair(b"W/\"2\"", b"three"));
    daemon.stop().await;
}

#[tokio::test]
async fn validators_survive_errors_and_a_restart() {
    let world = World::new(20_000.0);
    let statuses = [429, 500, 503, 404, 403];
    let site = Site::start(&world, move |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])).header("ETag", "\"kept\"").header("Last-Modified", "kept too"),
        n => match statuses.get(n - 1) {
            // Validators of an error do not belong to the document.
            Some(&status) => {
                Reply::new(status).header("ETag", "\"error\"").header("Last-Modified", "error")
            }
            None => Reply::ok(rss(["a"])).header("ETag", "\"new\""),
        },
    })
    .await;
    let sources = [source("s", &site.url("/feed"))];
    let daemon = world.start(&sources).await;
    site.visited(4).await;
    daemon.stop().await;
    let daemon = world.start(&sources).await;
    let visits = site.visited(8).await;
    for visit in &visits[1..7] {
        assert_eq!(conditions(visit), pair(b"\"kept\"", b"kept too"), "request {}", visit.seen.order);
    }
    assert_eq!(conditions(&visits[7]), (Some(b"\"new\"".to_vec()), None));
    daemon.stop().await;
}

#[tokio::test]
async fn a_changed_address_is_sent_no_validators_of_the_old_one() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| {
        Reply::ok(rss(["a"]))
            .header("ETag", format!("\"{}\"", visit.seen.path))
            .header("Last-Modified", "x")
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/old"))]).await;
    site.visited_at("/old", 2).await;
    world.reload(&daemon, &[source("s", &site.url("/new"))]).await;
    let visits = site.visited_at("/new", 2).await;
    assert_eq!(conditions(&visits[0]), (None, None));
    assert_eq!(conditions(&visits[1]), pair(b"\"/new\"", b"x"));
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM updates").await, 0, "the same items are no updates");
}

#[tokio::test]
async fn an_answer_from_the_old_address_does_not_affect_the_new_one() {
    let world = World::new(7200.0);
    let sign = Arc::new(tokio::sync::Notify::new());
    let wait = Arc::clone(&sign);
    let asked = Arc::new(AtomicU16::new(0));
    let site = Site::start(&world, move |visit| match visit.seen.path.as_str() {
        "/old" if asked.fetch_add(1, Ordering::SeqCst) == 0 => Reply::ok(rss(["a", "b"])),
        // The address changes during this probe.
        "/old" => Reply::ok(rss(["b", "c"])).header("Cache-Control", "max-age=864000").after(wait.clone()),
        _ => Reply::ok(rss(["x", "y", "z"])),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/old"))]).await;
    site.visited_at("/old", 2).await;
    world.reload(&daemon, &[source("s", &site.url("/new"))]).await;
    sign.notify_one();
    world.until("SELECT count(*) FROM probes", |probes| probes >= 2).await;
    site.visited_at("/new", 2).await;
    daemon.stop().await;
    let news: Vec<(String,)> = world.rows("SELECT key FROM updates").await;
    assert!(
        !news.map_names().iter().any(|key| ["x", "y", "z"].contains(key)),
        "the items at a new address are no updates: {news:?}"
    );
    assert_eq!(world.number("SELECT count(*) FROM gaps").await, 0, "a new address is not a gap");
}

/// `If-None-Match` of each request.
fn etags(visits: &[Visit]) -> Vec<Option<String>> {
    visits.iter().map(|visit| visit.seen.text("if-none-match")).collect()
}

#[tokio::test]
async fn a_document_that_our_limits_refuse_is_not_sent_again_until_the_limits_change() {
    let large = rss((0..100).map(|number| number.to_string()));
    let deep = format!("<rss><channel>{}", "<x>".repeat(1_000));
    for (body, read) in [(large, 1), (deep, 0)] {
        let mut world = World::new(7200.0);
        world.settings.push_str("[fetch]\nmax_body = \"5kB\"\n");
        let site = Site::start(&world, move |visit| match visit.seen.text("if-none-match") {
            None if visit.seen.order == 0 => Reply::ok(rss(["a"])).header("ETag", "\"small\""),
            Some(etag) if etag == "\"refused\"" => Reply::new(304),
            _ => Reply::ok(body.clone()).header("ETag", "\"refused\""),
        })
        .await;
        let sources = [source("s", &site.url("/feed"))];
        let daemon = world.start(&sources).await;
        let visits = site.visited(4).await;
        let [small, refused] = ["\"small\"", "\"refused\""].map(|etag| Some(etag.to_owned()));
        assert_eq!(etags(&visits)[..4], [None, small, refused.clone(), refused]);
        let failed = "SELECT count(*) FROM probes WHERE outcome = 'failed' AND http_status = 304
             AND error LIKE 'HTTP 304: the document that was not read is unchanged: %'";
        world.until(failed, |failed| failed > 0).await;
        world.settings = world.settings.replace("5kB", "50kB");
        world.reload(&daemon, &sources).await;
        let unconditional = || etags(&site.visits()).iter().filter(|etag| etag.is_none()).count();
        until("the limits changed", || unconditional() > 1).await;
        site.visited(site.visits().len() + 2).await;
        assert_eq!(unconditional(), 2, "once for the new limits");
        daemon.stop().await;
        assert_eq!(world.number("SELECT unread IS NULL FROM sources").await, read);
    }
}

#[tokio::test]
async fn a_document_that_is_read_again_replaces_the_one_that_was_refused() {
    let mut world = World::new(7200.0);
    world.settings.push_str("[fetch]\nmax_body = \"5kB\"\n");
    let site = Site::start(&world, |visit| match visit.seen.order {
        1 => Reply::ok(rss((0..100).map(|number| number.to_string()))).header("ETag", "\"large\""),
        // The bytes and the validator of the last document that was read.
        0 | 2 => Reply::ok(rss(["a"])).header("ETag", "\"small\""),
        _ => Reply::new(304),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let visits = site.visited(5).await;
    daemon.stop().await;
    let [small, large] = ["\"small\"", "\"large\""].map(|etag| Some(etag.to_owned()));
    assert_eq!(etags(&visits)[..5], [None, small.clone(), large, small.clone(), small]);
    let outcomes: Vec<(String,)> = world.rows("SELECT outcome FROM probes ORDER BY id LIMIT 4").await;
    assert_eq!(outcomes.map_names(), ["unchanged", "failed", "unchanged", "not_modified"]);
}

#[tokio::test]
async fn a_broken_transfer_gives_no_validators_and_counts_as_failed() {
    let begun = |head: &str, body: &str| {
        let head = format!("HTTP/1.1 200 OK\r\nETag: \"broken\"\r\n{head}\r\n{body}");
        Reply::raw(vec![ServerStep::Send(head.into_bytes())])
    };
    let body = rss(["a", "b"]);
    let half = &body[..body.len() / 2];
    let chunk = format!("{:x}\r\n{body}\r\n", body.len());
    let broken = [
        begun("Content-Length: 9999\r\n", &body),
        begun("Transfer-Encoding: chunked\r\n", &chunk),
        begun(&format!("Content-Length: {}\r\nContent-Encoding: gzip\r\n", half.len()), half),
    ];
    let world = World::new(7200.0);
    let site = Site::start(&world, move |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])).header("ETag", "\"whole\""),
        order if order <= broken.len() => broken[order - 1].clone(),
        _ => Reply::raw(vec![ServerStep::Send(
            format!("HTTP/1.0 200 OK\r\nETag: \"old\"\r\n\r\n{body}").into_bytes(),
        )]),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let visits = site.visited(6).await;
    daemon.stop().await;
    let sent: Vec<Option<String>> = etags(&visits);
    let whole = Some("\"whole\"".to_owned());
    assert_eq!(sent[..5], [None, whole.clone(), whole.clone(), whole.clone(), whole]);
    assert_eq!(sent[5].as_deref(), Some("\"old\""), "a body without a length may end with its connection");
    let outcomes: Vec<(String,)> = world.rows("SELECT outcome FROM probes ORDER BY id LIMIT 5").await;
    assert_eq!(outcomes.map_names(), ["unchanged", "failed", "failed", "failed", "updated"]);
}
