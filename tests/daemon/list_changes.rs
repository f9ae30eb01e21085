//! Changes of the list of sources that are no news: another name, and other parts or another address of a page.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tidewatch_core::time::Span;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;

use crate::politeness::world::{Daemon, Site, World, page, source};

/// Number, name and state of all sources.
async fn listed(world: &World) -> Vec<(i64, String, String)> {
    world.rows("SELECT id, name, iif(state = 'removed', state, 'listed') FROM sources ORDER BY id").await
}

fn row(id: i64, name: &str, state: &str) -> (i64, String, String) {
    (id, name.to_owned(), state.to_owned())
}

/// A feed with one more item at each probe.
async fn growing(world: &World) -> Site {
    Site::start(world, |visit| {
        let items = (0..visit.seen.order + 5).map(|n| format!("item {n}"));
        Reply::ok(rss(items))
    })
    .await
}

async fn probed(world: &World, more: i64) {
    let probes = "SELECT count(*) FROM probes";
    let before = world.number(probes).await;
    world.until(probes, |now| now >= before + more).await;
}

/// Applies a changed list by a reload, or by a restart.
async fn apply(world: &World, daemon: Daemon, sources: &[String], restart: bool) -> Daemon {
    if !restart {
        world.reload(&daemon, sources).await;
        return daemon;
    }
    daemon.stop().await;
    world.start(sources).await
}

#[tokio::test]
async fn a_source_with_another_name_keeps_its_history() {
    for restart in [false, true] {
        let world = World::new(7200.0);
        let site = growing(&world).await;
        let daemon = world.start(&[source("before", &site.url("/feed"))]).await;
        probed(&world, 2).await;
        let spacing = "SELECT count(*) FROM (SELECT started_at - lag(started_at + duration_ms) OVER (ORDER BY started_at)
                       AS apart FROM probes) WHERE apart < 15 * 60 * 1000";
        let renamed =
            format!("{}weight = 2.0\npolicy = \"uniform\"\n", source("after", &site.url("/feed")));
        let daemon = apply(&world, daemon, &[renamed], restart).await;
        probed(&world, 3).await;
        daemon.stop().await;
        assert_eq!(listed(&world).await, [row(1, "after", "listed")], "restart: {restart}");
        let events: Vec<(i64, String)> =
            world.rows("SELECT source_id, detail FROM events WHERE kind = 'renamed'").await;
        assert_eq!(events, [(1, "from before to after".to_owned())], "restart: {restart}");
        assert_eq!(world.number("SELECT policy = 'uniform' FROM sources").await, 1);
        // Each item is new once, and the first contact was one.
        let found = "SELECT (SELECT count(*) FROM updates) - (SELECT count(*) FROM items) + 5";
        assert_eq!(world.number(found).await, 0, "restart: {restart}");
        assert_eq!(world.number(spacing).await, 0, "the spacing holds");
    }
}

#[tokio::test]
async fn an_ambiguous_change_of_names_is_no_rename() {
    for restart in [false, true] {
        let world = World::new(7200.0);
        let site = growing(&world).await;
        let same = |name: &str| source(name, &site.url("/same"));
        let page_of = |name: &str, select: &str| {
            format!("{}robots = false\nselect = \"{select}\"\n", page(name, &site.url("/page")))
        };
        let daemon =
            world.start(&[same("a"), same("b"), page_of("c", "rss"), source("d", &site.url("/d"))]).await;
        world.until("SELECT count(DISTINCT source_id) FROM probes", |probed| probed == 4).await;
        // Two sources of one address; a page of which other parts are read; another address.
        let list = [same("x"), same("y"), page_of("z", "channel"), source("w", &site.url("/w"))];
        let daemon = apply(&world, daemon, &list, restart).await;
        let all = listed(&world).await;
        let names = ["a", "b", "c", "d", "x", "y", "z", "w"];
        let state = |n: usize| if n < 4 { "removed" } else { "listed" };
        let wanted: Vec<_> =
            names.iter().enumerate().map(|(n, name)| row(n as i64 + 1, name, state(n))).collect();
        assert_eq!(all, wanted, "restart: {restart}");
        // A removed source has the new name: it comes back with its own history.
        let list = [same("x"), same("y"), page_of("z", "channel"), source("d", &site.url("/w"))];
        let daemon = apply(&world, daemon, &list, restart).await;
        let all = listed(&world).await;
        assert_eq!(
            (&all[3], &all[7]),
            (&row(4, "d", "listed"), &row(8, "w", "removed")),
            "restart: {restart}"
        );
        assert_eq!(world.number("SELECT count(*) FROM events WHERE kind = 'renamed'").await, 0);
        daemon.stop().await;
    }
}

#[tokio::test]
async fn other_parts_or_another_address_of_a_page_make_no_update() {
    let world = World::new(7200.0);
    let version = Arc::new(AtomicUsize::new(0));
    let now = Arc::clone(&version);
    let site = Site::start(&world, move |visit| {
        let tag = format!("\"{}\"", now.load(Ordering::SeqCst));
        if visit.seen.text("if-none-match").as_deref() == Some(&tag) {
            return Reply::new(304);
        }
        let side = format!("side {}", now.load(Ordering::SeqCst));
        let main = if visit.seen.path == "/page" { "main" } else { "other" };
        Reply::ok(format!("<main>{main} text</main><p>{side}</p><i>12 views</i>")).header("ETag", &tag)
    })
    .await;
    let with =
        |path: &str, rules: &str| vec![format!("{}robots = false\n{rules}\n", page("p", &site.url(path)))];
    let mut daemon = world.start(&with("/page", "select = \"main\"")).await;
    probed(&world, 2).await;
    let changes = [
        ("/page", "select = \"p\"", false),
        ("/page", "select = [\"p\", \"i\"]", true),
        ("/page", "select = [\"p\", \"i\"]\nignore = ['\\d+ views']", false),
        ("/page", "select = [\"p\", \"i\"]\nremove = [\"i\"]", true),
        ("/page", "", false),
        ("/elsewhere", "", false),
        ("/page", "", true),
    ];
    for (path, rules, restart) in changes {
        let before = site.visits().len();
        daemon = apply(&world, daemon, &with(path, rules), restart).await;
        let next = site.visited(before + 1).await.split_off(before).remove(0);
        assert_eq!(next.seen.text("if-none-match"), None, "{path} {rules}: the page is read");
        probed(&world, 2).await;
        assert_eq!(world.number("SELECT count(*) FROM updates").await, 0, "{path} {rules}");
    }
    // A change of the page is one, afterwards as before.
    version.store(1, Ordering::SeqCst);
    world.until("SELECT count(*) FROM updates", |updates| updates == 1).await;
    world.pass(Span::from_hours(2)).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM updates WHERE kind = 'changed'").await, 1);
    assert_eq!(world.number("SELECT count(*) FROM updates").await, 1);
}
