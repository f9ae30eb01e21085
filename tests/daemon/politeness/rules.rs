//! Rules on a fast clock: probes come when updates are predicted and not at night, rules never exceed a
//! budget, and a webhook that is down for an hour catches up in order.

use std::collections::HashSet;

use serde_json::Value;
use tidewatch_core::time::{Span, Timestamp};

use super::world::{Site, World, monday};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;

const ITEMS_PER_DAY: i64 = 20;

/// When items are published: twenty times a day, between eight and eighteen, never quite evenly.
fn published(until: Timestamp) -> impl Iterator<Item = Timestamp> {
    let item = |day: i64, n: i64| {
        let minutes = 8 * 60 + n * 30 + (day * 7 + n * 13).rem_euclid(29);
        monday() + Span::from_days(day) + Span::from_mins(minutes)
    };
    let all = (-14..30).flat_map(move |day| (0..ITEMS_PER_DAY).map(move |n| item(day, n)));
    all.filter(move |&at| at <= until)
}

/// A feed of the last items, each with its date.
fn feed(now: Timestamp) -> String {
    let all: Vec<Timestamp> = published(now).collect();
    let last = all.iter().rev().take(200);
    let items: String = last
        .map(|at| {
            let date =
                std::time::UNIX_EPOCH + std::time::Duration::from_millis(at.as_millis().unsigned_abs());
            let date = httpdate::fmt_http_date(date);
            format!("<item><guid>{}</guid><title>t</title><pubDate>{date}</pubDate></item>", at.as_millis())
        })
        .collect();
    format!("<rss version=\"2.0\"><channel><title>f</title>{items}</channel></rss>")
}

fn rule(window: &str, target: &str) -> String {
    format!(
        "[[profile]]\nname = \"p\"\nsources = [\"s\"]\n[[profile.rule]]\nname = \"r\"\n\
         life = {{ window = \"{window}\" }}\ndeliver = [\"{target}\"]\n"
    )
}

#[tokio::test]
async fn probes_come_when_updates_are_predicted() {
    let world = World::new(12_000.0);
    let site = Site::start(&world, |visit| Reply::ok(feed(visit.at))).await;
    let source =
        source_with_budget("s", &site.url("/feed"), "probes = 280, per = \"1d\", min_spacing = \"5m\"")
            + "policy = \"profile\"\n";
    let target = "[deliver.sink]\nexec = [\"/bin/true\"]\n".to_owned();
    let daemon = world.start(&[source, rule("1h", "exec:sink"), target]).await;
    // The rhythm is known from the first probe on: the feed shows ten days.
    world.pass(Span::from_hours(60)).await;
    daemon.stop().await;
    // The second day, for which predictions exist.
    let (from, until) = (monday() + Span::from_days(1), monday() + Span::from_days(2));
    let visits: Vec<Timestamp> =
        site.visits().iter().map(|visit| visit.at).filter(|&at| from <= at && at < until).collect();
    let by_day = |at: &&Timestamp| (7..20).contains(&at.utc_hour());
    let day = visits.iter().filter(by_day).count();
    let night = visits.len() - day;
    assert!(night <= 3, "{night} probes at night");
    assert!((8..=20).contains(&day), "{day} probes by day");
    let in_time =
        |&&at: &&Timestamp| visits.iter().any(|&visit| at <= visit && visit - at <= Span::from_mins(65));
    let items: Vec<Timestamp> = published(until).filter(|&at| at >= from).collect();
    let seen = items.iter().filter(in_time).count();
    assert!(seen * 10 >= items.len() * 8, "{seen} of {} in time", items.len());
    let reasons = world
        .number("SELECT count(*) FROM probes WHERE reason = 'rule' AND policy = 'profile' AND id > 2")
        .await;
    assert!(reasons >= 10, "{reasons}");
    let delivered = world.number("SELECT count(*) FROM deliveries WHERE state = 'delivered'").await;
    assert!(delivered >= 10, "{delivered}");
}

#[tokio::test]
async fn rules_never_exceed_the_budget() {
    let world = World::new(12_000.0);
    let site = Site::start(&world, |visit| Reply::ok(feed(visit.at))).await;
    let source =
        source_with_budget("s", &site.url("/feed"), "probes = 6, per = \"1d\", min_spacing = \"90m\"");
    let target = "[deliver.sink]\nexec = [\"/bin/true\"]\n".to_owned();
    let daemon = world.start(&[source, rule("30m", "exec:sink"), target]).await;
    world.pass(Span::from_hours(40)).await;
    daemon.stop().await;
    let visits: Vec<Timestamp> = site.visits().iter().map(|visit| visit.at).collect();
    for (n, at) in visits.iter().enumerate() {
        if let Some(next) = visits.get(n + 1) {
            assert!(*next - *at >= Span::from_mins(90), "{} apart", *next - *at);
        }
        if let Some(later) = visits.get(n + 6) {
            assert!(*later - *at >= Span::from_days(1), "seven within {}", *later - *at);
        }
    }
    let text: Vec<(String,)> = world.rows("SELECT detail FROM events WHERE kind = 'rule_unmet'").await;
    assert!(!text.is_empty() && text.len() <= 6, "once a day for each: {text:?}");
    assert!(text.iter().all(|(text,)| text.starts_with("p/r: no probe is possible before")), "{text:?}");
}

#[tokio::test]
async fn a_webhook_that_was_down_for_an_hour_catches_up_in_order() {
    let world = World::new(600.0);
    let begin = world.clock.now();
    let site = Site::start(&world, move |visit| {
        let items = (visit.at - begin).as_millis() / Span::from_mins(4).as_millis();
        Reply::ok(rss((0..=items.min(22)).rev().map(|n| format!("item {n}"))))
    })
    .await;
    let hook = Site::start(&world, move |visit| {
        Reply::new(if visit.at - begin < Span::from_hours(1) { 503 } else { 200 })
    })
    .await;
    let source =
        source_with_budget("s", &site.url("/feed"), "probes = 720, per = \"1d\", min_spacing = \"1m\"");
    let target = format!("[deliver.hook]\nwebhook = \"{}\"\nallow_private = true\n", hook.url("/"));
    let daemon = world.start(&[source, rule("10m", "webhook:hook"), target]).await;
    world.until("SELECT count(*) FROM updates WHERE key = 'item 22'", |found| found == 1).await;
    world.until("SELECT count(*) FROM deliveries WHERE state <> 'delivered'", |left| left == 0).await;
    daemon.stop().await;
    let documents: Vec<(Timestamp, Value)> = hook
        .visits()
        .iter()
        .map(|visit| (visit.at, serde_json::from_slice(&visit.seen.body).unwrap()))
        .collect();
    let accepted: Vec<&Value> = documents
        .iter()
        .filter(|(at, _)| *at - begin >= Span::from_hours(1))
        .map(|(_, document)| document)
        .collect();
    // The refused document is the first to be accepted, under its key.
    let refused: HashSet<&str> = documents[..documents.len() - accepted.len()]
        .iter()
        .map(|(_, document)| document["key"].as_str().unwrap())
        .collect();
    assert_eq!(refused, HashSet::from([accepted[0]["key"].as_str().unwrap()]));
    let mut titles: Vec<String> = Vec::new();
    for document in &accepted {
        let items = document["items"].as_array().unwrap();
        // A document has its items as the feed does, the newest first.
        titles.extend(items.iter().rev().map(|item| item["title"].as_str().unwrap().to_owned()));
    }
    let first: usize = titles[0].trim_start_matches("About item ").parse().unwrap();
    let wanted: Vec<String> = (first..=22).map(|n| format!("About item {n}")).collect();
    assert_eq!(titles, wanted);
    assert!(first <= 2, "{first}");
}
