//! Answers with the same bytes as the last one.

use super::world::{Site, World, page, source};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;

#[tokio::test]
async fn an_unchanged_body_gives_its_validators_and_changes_no_item() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| {
        let order = visit.seen.order;
        let reply = if order < 4 { Reply::ok(rss(["a", "b"])) } else { Reply::ok(rss(["c", "a", "b"])) };
        reply.header("ETag", format!("\"{order}\""))
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let visits = site.visited(7).await;
    daemon.stop().await;
    for (order, visit) in visits.iter().enumerate().skip(1) {
        let last = format!("\"{}\"", order - 1);
        assert_eq!(visit.seen.text("if-none-match"), Some(last), "also of an unchanged body");
    }
    let outcomes: Vec<(String,)> = world.rows("SELECT outcome FROM probes ORDER BY id LIMIT 6").await;
    let outcomes: Vec<&str> = outcomes.iter().map(|(outcome,)| outcome.as_str()).collect();
    assert_eq!(outcomes, ["unchanged", "unchanged", "unchanged", "unchanged", "updated", "unchanged"]);
    let found: Vec<(String, i64)> = world.rows("SELECT key, probe_id FROM updates").await;
    assert_eq!(found.len(), 1, "{found:?}");
    let after = "SELECT count(*) FROM updates u JOIN probes last ON last.id = u.probe_id - 1
                 WHERE u.occurred_exact OR u.occurred_after = last.started_at";
    assert_eq!(world.number(after).await, 1, "the update is later than the last unchanged body");
    // The view shows the last answer, the row the time at which the item came.
    let rows = "SELECT count(*) FROM items WHERE left_at IS NULL AND first_seen_at = last_seen_at";
    assert_eq!(world.number(rows).await, 3);
    let seen = "SELECT count(*) FROM readable_items i JOIN sources s ON s.name = i.source
                WHERE i.last_seen_at = strftime('%Y-%m-%dT%H:%M:%fZ', s.last_look_at / 1000.0, 'unixepoch')";
    assert_eq!(world.number(seen).await, 3);
}

#[tokio::test]
async fn an_unchanged_page_is_read_again_with_another_selector() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::new(404),
        _ => Reply::ok("<h1>Head</h1><p>Text</p>"),
    })
    .await;
    let selected = |css: &str| format!("{}select = \"{css}\"\n", page("s", &site.url("/page")));
    let daemon = world.start(&[selected("p")]).await;
    site.visited_at("/page", 3).await;
    world.reload(&daemon, &[selected("h1")]).await;
    world.until("SELECT count(*) FROM pages WHERE text = 'Head'", |count| count == 1).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM updates").await, 0, "the page is the same");
}
