//! Which changes count as updates, and which failures count against a source.

use tidewatch_core::time::Span;

use super::world::{Site, World, source};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::{source_table, source_with_budget};

fn numbered(from: usize, to: usize) -> String {
    rss((from..to).map(|n| format!("item {n}")))
}

#[tokio::test]
async fn first_contact_reports_no_updates_and_stores_the_items() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(numbered(0, 20)),
        _ => Reply::ok(numbered(1, 21)),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 1).await;
    assert_eq!(world.number("SELECT updates_found FROM probes WHERE id = 1").await, 0);
    assert_eq!(
        world
            .number(
                "SELECT count(*) FROM items WHERE first_seen_at = (SELECT min(first_seen_at) FROM items)"
            )
            .await,
        20
    );
    world.until("SELECT count(*) FROM probes", |probes| probes >= 3).await;
    daemon.stop().await;
    let news: Vec<(String, String)> = world.rows("SELECT kind, key FROM updates").await;
    assert_eq!(news, [("new".to_owned(), "item 20".to_owned())]);
}

#[tokio::test]
async fn an_edited_item_is_an_edit() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(numbered(0, 5)),
        _ => Reply::ok(numbered(0, 5).replace("About item 3", "About item 3, corrected")),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 3).await;
    daemon.stop().await;
    let news: Vec<(String, String, String)> = world.rows("SELECT kind, key, title FROM updates").await;
    let [(kind, key, title)] = &news[..] else { panic!("{news:?}") };
    assert_eq!(
        (kind.as_str(), key.as_str(), title.as_str()),
        ("edited", "item 3", "About item 3, corrected")
    );
    // No rate is learned from it.
    let learned =
        "SELECT known_updates + (last_update_at IS NOT NULL) + coalesce((SELECT max(updates) FROM fits), 0)
                   FROM sources";
    assert_eq!(world.number(learned).await, 0);
}

/// Documents of both sizes: large ones are parsed on threads of their own.
#[tokio::test]
async fn an_item_that_is_back_is_not_new() {
    for size in [5, 1_000] {
        let world = World::new(7200.0);
        let site = Site::start(&world, move |visit| match visit.seen.order {
            0 => Reply::ok(numbered(0, size)),
            1 => Reply::ok(numbered(2, size)),
            _ => Reply::ok(numbered(0, size + 1).replace("About item 1<", "Corrected<")),
        })
        .await;
        let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
        world.until("SELECT count(*) FROM probes", |probes| probes >= 4).await;
        daemon.stop().await;
        let updates: Vec<(String, String)> =
            world.rows("SELECT kind, key FROM updates ORDER BY kind").await;
        let newest = ("new".to_owned(), format!("item {size}"));
        assert_eq!(updates, [("edited".to_owned(), "item 1".to_owned()), newest]);
    }
}

#[tokio::test]
async fn no_overlap_is_a_gap_and_the_next_probe_comes_sooner() {
    let world = World::new(7200.0);
    // The first probes are the early ones of a new source.
    let site = Site::start(&world, |visit| match visit.seen.order {
        0..=4 => Reply::ok(numbered(0, 5)),
        5 => Reply::ok(numbered(100, 105)),
        _ => Reply::ok(numbered(101, 106)),
    })
    .await;
    let budget = "probes = 12, per = \"1d\", min_spacing = \"15m\"";
    let daemon = world.start(&[source_with_budget("s", &site.url("/feed"), budget)]).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 8).await;
    daemon.stop().await;
    assert_eq!(world.rows::<(i64,)>("SELECT probe_id FROM gaps").await, [(6,)]);
    assert_eq!(world.number("SELECT count(*) FROM probes WHERE id = 7 AND reason = 'gap'").await, 1);
    let waits: Vec<(i64,)> = world
        .rows(
            "SELECT due_at - lag(started_at + duration_ms) OVER (ORDER BY id) FROM probes LIMIT 3 OFFSET 5",
        )
        .await;
    let minutes: Vec<i64> = waits.iter().map(|(wait,)| wait / 60_000).collect();
    assert!(minutes[0] >= 110 && minutes[2] >= 110, "{minutes:?}");
    assert!((50..70).contains(&minutes[1]), "{minutes:?}");
}

#[tokio::test]
async fn a_page_that_changes_is_one_change() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::new(404),
        _ if visit.seen.order < 3 => Reply::ok("<p>Before</p>"),
        _ => Reply::ok("<p>After</p>"),
    })
    .await;
    let daemon = world.start(&[super::world::page("p", &site.url("/page"))]).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 5).await;
    daemon.stop().await;
    assert_eq!(world.rows::<(String,)>("SELECT kind FROM updates").await, [("changed".to_owned(),)]);
}

#[tokio::test]
async fn when_no_host_can_be_reached_the_failures_count_against_no_source() {
    let world = World::new(7200.0);
    let mut sites = Vec::new();
    for _ in 0..8 {
        sites.push(Site::start(&world, |_| Reply::ok(rss(["a"]))).await);
    }
    let sources: Vec<String> =
        sites.iter().enumerate().map(|(n, site)| source(&format!("s{n}"), &site.url("/feed"))).collect();
    let daemon = world.start(&sources).await;
    for site in &sites {
        site.visited(2).await;
    }
    for site in sites {
        site.close().await;
    }
    world.until("SELECT count(*) FROM events WHERE kind = 'outage_began'", |n| n == 1).await;
    world.until("SELECT min(n) FROM (SELECT count(*) AS n FROM probes WHERE outcome = 'failed' GROUP BY source_id)", |n| n >= 6).await;
    daemon.stop().await;
    assert_eq!(
        world.number("SELECT count(DISTINCT source_id) FROM probes WHERE outcome = 'failed'").await,
        8
    );
    // The first few failed before the outage was detected.
    assert!(world.number("SELECT sum(error_streak) FROM sources").await <= 3);
    assert!(world.number("SELECT max(error_streak) FROM sources").await <= 1);
    assert_eq!(world.number("SELECT count(*) FROM events WHERE kind = 'outage_began'").await, 1);
}

#[tokio::test]
async fn failures_of_one_dead_host_count_against_its_source() {
    let world = World::new(20_000.0);
    let site = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
    let dead = Site::start(&world, |_| Reply::new(200)).await;
    let address = dead.url("/feed");
    dead.close().await;
    let daemon = world.start(&[source("dead", &address), source("live", &site.url("/feed"))]).await;
    world.until("SELECT error_streak FROM sources WHERE name = 'dead'", |streak| streak >= 4).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM events WHERE kind = 'outage_began'").await, 0);
    let waits: Vec<(i64,)> = world
        .rows(
            "SELECT due_at - lag(started_at + duration_ms) OVER (ORDER BY id) FROM probes
             WHERE source_id = (SELECT id FROM sources WHERE name = 'dead') LIMIT 3 OFFSET 1",
        )
        .await;
    assert!(waits[2].0 >= Span::from_mins(60).as_millis(), "{waits:?}");
}

/// A feed and a page that change every five minutes, with the default settings.
#[tokio::test]
async fn the_first_update_of_a_new_source_is_found_after_one_spacing() {
    let world = World::new(3600.0);
    let site = Site::start(&world, |visit| {
        let count = (visit.at.as_millis() / Span::from_mins(5).as_millis()) as usize;
        match visit.seen.path.as_str() {
            "/feed" => Reply::ok(numbered(count - 20, count)),
            "/page" => Reply::ok(format!("<html><body><p>Reading {count}</p></body></html>")),
            _ => Reply::new(404),
        }
    })
    .await;
    let feed = source_table("feed", &site.url("/feed"), "");
    let page = source_table("page", &site.url("/page"), "kind = \"page\"");
    let daemon = world.start(&[feed, page]).await;
    world.until("SELECT count(DISTINCT source_id) FROM updates", |found| found == 2).await;
    daemon.stop().await;
    let waits: Vec<(String, i64)> = world
        .rows(
            "SELECT name, (SELECT min(detected_at) FROM updates WHERE source_id = sources.id)
                        - (SELECT min(started_at) FROM probes WHERE source_id = sources.id)
             FROM sources ORDER BY name",
        )
        .await;
    assert_eq!(waits.len(), 2);
    for (name, wait) in waits {
        let wait = Span::from_millis(wait);
        assert!(wait >= Span::from_mins(15) && wait <= Span::from_mins(16), "{name}: {wait}");
    }
}
