//! The headers of a request, and robots.txt.

use tidewatch_core::time::Span;

use super::world::{Site, World, gaps, page, source};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;

#[tokio::test]
async fn every_request_is_a_get_with_an_agent_and_without_cookie_or_referer() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::new(404).header("Set-Cookie", "id=0; Path=/"),
        "/hop" => Reply::redirect(302, "/feed").header("Set-Cookie", "id=1; Path=/"),
        "/page" => Reply::ok("<p>Text</p>").header("Set-Cookie", "id=2; Path=/"),
        _ => Reply::ok(rss(["a"])).header("Set-Cookie", "id=3; Path=/"),
    })
    .await;
    let daemon = world.start(&[source("hop", &site.url("/hop")), page("page", &site.url("/page"))]).await;
    let visits = site.visited(9).await;
    daemon.stop().await;
    let agent = format!("tidewatch/{} (+https://example.org/me)", env!("CARGO_PKG_VERSION"));
    for visit in visits {
        assert_eq!(visit.seen.method, "GET");
        assert_eq!(visit.seen.text("user-agent").as_deref(), Some(agent.as_str()));
        assert_eq!((visit.seen.text("cookie"), visit.seen.text("referer")), (None, None));
        assert_eq!(visit.seen.text("accept-encoding").as_deref(), Some("gzip, br, deflate, zstd"));
    }
}

#[tokio::test]
async fn a_probe_is_one_request() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])),
        // Closes the connection without an answer; many clients would retry at once.
        _ => Reply::raw(Vec::new()),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    site.visited(4).await;
    daemon.stop().await;
    let probes = world.number("SELECT count(*) FROM probes").await;
    assert_eq!(i64::try_from(site.visits().len()).unwrap(), probes);
}

#[tokio::test]
async fn robots_txt_is_asked_for_at_most_daily_and_closed_pages_never() {
    let world = World::new(40_000.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => {
            Reply::ok("User-agent: other\nDisallow: /\n\nUser-agent: tidewatch\nDisallow: /closed\n")
        }
        _ => Reply::ok("<p>Text</p>"),
    })
    .await;
    let sources = [page("open", &site.url("/open")), page("closed", &site.url("/closed/page"))];
    let daemon = world.start(&sources).await;
    site.visited_at("/open", 20).await;
    daemon.stop().await;
    let daemon = world.start(&sources).await;
    let robots = site.visited_at("/robots.txt", 3).await;
    daemon.stop().await;
    assert!(gaps(&robots).iter().all(|gap| *gap >= Span::from_days(1)), "{:?}", gaps(&robots));
    assert!(site.visits_to("/closed/page").is_empty());
    assert!(site.visits_to("/open").len() > 40);
    assert_eq!(site.visits()[0].seen.path, "/robots.txt", "rules first");
    let state: Vec<(String,)> = world.rows("SELECT state FROM sources WHERE name = 'closed'").await;
    assert_eq!(state[0].0, "resting");
}

#[tokio::test]
async fn a_page_is_not_probed_while_robots_txt_cannot_be_fetched() {
    let world = World::new(20_000.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" if visit.seen.order == 0 => Reply::new(500),
        "/robots.txt" => Reply::new(404),
        _ => Reply::ok("<p>Text</p>"),
    })
    .await;
    let daemon = world.start(&[page("p", &site.url("/page"))]).await;
    site.visited_at("/page", 1).await;
    daemon.stop().await;
    let order: Vec<_> = site.visits().into_iter().map(|visit| visit.seen.path).collect();
    assert_eq!(order[..3], ["/robots.txt", "/robots.txt", "/page"]);
}

#[tokio::test]
async fn feeds_obey_robots_txt_only_if_configured() {
    let world = World::new(7200.0);
    let closed = |visit: &super::world::Visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::ok("User-agent: *\nDisallow: /\n"),
        _ => Reply::ok(rss(["a"])),
    };
    let (free, bound) = (Site::start(&world, closed).await, Site::start(&world, closed).await);
    let obedient = format!("{}robots = true\n", source("bound", &bound.url("/feed")));
    let daemon = world.start(&[source("free", &free.url("/feed")), obedient]).await;
    free.visited_at("/feed", 5).await;
    bound.visited_at("/robots.txt", 1).await;
    world.until("SELECT count(*) FROM probes WHERE outcome = 'failed'", |n| n >= 1).await;
    daemon.stop().await;
    assert!(free.visits_to("/robots.txt").is_empty());
    assert!(bound.visits_to("/feed").is_empty());
}

#[tokio::test]
async fn rules_hold_while_robots_txt_cannot_be_fetched_and_it_is_asked_for_again_soon() {
    let world = World::new(20_000.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" if visit.at < super::world::monday() + Span::from_hours(20) => {
            Reply::ok("User-agent: *\nDisallow: /closed\n")
        }
        "/robots.txt" => Reply::new(503),
        _ => Reply::ok("<p>Text</p>"),
    })
    .await;
    let sources = [page("open", &site.url("/open")), page("closed", &site.url("/closed/page"))];
    let daemon = world.start(&sources).await;
    let robots = site.visited_at("/robots.txt", 4).await;
    let open = site.visits_to("/open").len();
    site.visited_at("/open", open + 5).await;
    daemon.stop().await;
    let gaps = gaps(&robots);
    assert!(gaps[0] >= Span::from_days(1), "{gaps:?}");
    assert!(gaps[1] >= Span::from_mins(5) && gaps[1] < Span::from_hours(2), "{gaps:?}");
    assert!(gaps[2] >= Span::from_mins(10) && gaps[2] < Span::from_hours(2), "{gaps:?}");
    assert!(site.visits_to("/closed/page").is_empty());
}
