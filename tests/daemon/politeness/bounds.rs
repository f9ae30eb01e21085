//! What is kept of a source, whatever its documents hold.

use super::world::{Site, World, monday, source};
use tidewatch::clock::Clock;
use tidewatch_core::time::Span;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;

fn with_max_items(items: usize) -> World {
    let mut world = World::new(7200.0);
    world.settings.push_str(&format!("[fetch]\nmax_items = {items}\n"));
    world
}

#[tokio::test]
async fn a_source_keeps_some_documents_of_items_and_reports_none_twice() {
    let world = with_max_items(3);
    // Two fresh items, and one that left any number of documents ago.
    let site = Site::start(&world, |visit| {
        let order = visit.seen.order;
        let old = (order * 7919) % (2 * order).max(1);
        Reply::ok(rss([2 * order, 2 * order + 1, old].map(|number| number.to_string())))
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    site.visited(60).await;
    daemon.stop().await;
    let twice = "SELECT (SELECT sum(updates_found) FROM probes) - (SELECT count(*) FROM updates)";
    assert_eq!(world.number(twice).await, 0);
    assert!(world.number("SELECT count(*) FROM updates").await >= 100);
    let items = world.number("SELECT count(*) FROM items").await;
    assert!((9..=15).contains(&items), "{items}");
    assert!(world.number("SELECT count(*) FROM sources WHERE items_forgotten IS NOT NULL").await == 1);
    let last = "SELECT count(*) FROM items WHERE left_at IS NULL";
    assert_eq!(world.number(last).await, 3, "those of the last document are kept");
}

/// A site whose answers repeat: the items of the first, the second, … answer.
async fn repeating(world: &World, sets: &'static [&'static [&'static str]]) -> Site {
    Site::start(world, move |visit| Reply::ok(rss(sets[visit.seen.order % sets.len()]))).await
}

#[tokio::test]
async fn items_that_come_back_are_bounded_and_known() {
    let world = with_max_items(2);
    const SETS: &[&[&str]] =
        &[&["a", "b"], &["c", "d"], &["e", "f"], &["g", "h"], &["i", "j"], &["k", "l"], &["m", "n"]];
    let site = repeating(&world, SETS).await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    site.visited(40).await;
    daemon.stop().await;
    let items = world.number("SELECT count(*) FROM items").await;
    assert!((2..=10).contains(&items), "{items}");
    let twice = "SELECT (SELECT sum(updates_found) FROM probes) - (SELECT count(*) FROM updates)";
    assert_eq!(world.number(twice).await, 0);
}

#[tokio::test]
async fn few_items_that_come_and_go_are_never_forgotten() {
    let world = with_max_items(2);
    let site = repeating(&world, &[&["a", "b"], &["c", "d"]]).await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    site.visited(30).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM items").await, 4);
    assert_eq!(world.number("SELECT count(*) FROM sources WHERE items_forgotten IS NULL").await, 1);
    assert_eq!(world.number("SELECT sum(updates_found) FROM probes").await, 2);
}

#[tokio::test]
async fn a_source_that_was_removed_long_ago_comes_back_as_a_new_one() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a", "b"])),
        1 => Reply::ok(rss(["c", "a", "b"])),
        // Among items that were history, one that was reported, and others.
        _ => Reply::ok(rss(["z", "c", "a", "b"])),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    world.until("SELECT count(*) FROM updates", |updates| updates == 2).await;
    world.reload(&daemon, &[]).await;
    daemon.stop().await;
    world.prune(world.clock.now()).await;
    assert_eq!(world.number("SELECT count(*) FROM items").await, 0);
    let before = site.visits().len();
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    site.visited(before + 2).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM items").await, 4);
    assert_eq!(world.number("SELECT count(*) FROM updates").await, 2);
}

#[tokio::test]
async fn a_higher_limit_of_items_is_used_at_the_next_probe_and_invents_no_update() {
    let mut world = with_max_items(3);
    let site = Site::start(&world, |visit| match visit.seen.text("if-none-match").is_some() {
        true => Reply::new(304),
        // One of the first is removed before the others are read.
        false if visit.seen.order > 0 => Reply::ok(rss(["b", "c", "d", "e"])).header("ETag", "\"2\""),
        false => Reply::ok(rss(["a", "b", "c", "d", "e"])).header("ETag", "\"1\""),
    })
    .await;
    let sources = [source("s", &site.url("/feed"))];
    let daemon = world.start(&sources).await;
    let visits = site.visited(3).await;
    assert!(
        visits[1..].iter().all(|visit| visit.seen.text("if-none-match").is_some()),
        "the limit is as before"
    );
    assert_eq!(world.number("SELECT count(*) FROM items").await, 3);
    world.settings = world.settings.replace("max_items = 3", "max_items = 10");
    world.reload(&daemon, &sources).await;
    world.until("SELECT count(*) FROM items", |items| items == 5).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM updates").await, 0);
    let unconditional =
        site.visits().iter().filter(|visit| visit.seen.text("if-none-match").is_none()).count();
    assert_eq!(unconditional, 2);
}

#[tokio::test]
async fn a_clock_that_is_wrong_at_a_start_deletes_nothing() {
    let mut world = World::new(7200.0);
    let site = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
    let sources = [source("s", &site.url("/feed"))];
    let daemon = world.start(&sources).await;
    site.visited(3).await;
    daemon.stop().await;
    let deleted =
        "INSERT OR REPLACE INTO meta (key, value) SELECT 'deletions_at', max(started_at) FROM probes";
    world.execute(deleted).await;
    let before = "SELECT count(*) FROM probes WHERE started_at < 1900000000000";
    let logged = world.number(before).await;
    world.clock = Clock::paced(monday() + Span::from_days(4_000), 7200.0);
    let daemon = world.start(&sources).await;
    world.until("SELECT value FROM meta WHERE key = 'deletions_hours_ahead'", |hours| hours >= 3).await;
    assert_eq!(world.number(before).await, logged);
    daemon.stop().await;
}

#[tokio::test]
async fn updates_of_a_probe_are_bounded_and_the_others_are_counted_in_one_event() {
    let world = with_max_items(3);
    // Ten fresh items each time, then ten that are edited each time, then few.
    let site = Site::start(&world, |visit| match visit.seen.order {
        order @ 0..10 => Reply::ok(rss((0..10).map(|number| format!("{order}-{number}")))),
        order @ 10..20 => {
            let feed = rss((0..10).map(|number| format!("edited-{number}")));
            Reply::ok(feed.replace("About", &format!("{order} about")))
        }
        _ => Reply::ok(rss(["a", "b"])),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    site.visited(23).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT max(updates_found) FROM probes").await, 3);
    let most = "SELECT max(stored) FROM (SELECT count(*) AS stored FROM updates GROUP BY probe_id)";
    assert_eq!(world.number(most).await, 3);
    assert_eq!(world.number("SELECT count(*) FROM updates WHERE kind = 'edited'").await, 27);
    let events: Vec<(String,)> =
        world.rows("SELECT detail FROM events WHERE kind = 'items_left_out'").await;
    assert_eq!(events, [("only the first 3 of 10 items are read (`max_items`)".to_owned(),)]);
}
