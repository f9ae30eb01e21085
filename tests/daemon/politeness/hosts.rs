//! One server, many sources: one request at a time, spaced, without bursts of requests.

use std::time::Duration;

use tidewatch_core::time::{Span, Timestamp};

use super::world::{Site, World, gaps, page, source};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;

#[tokio::test]
async fn one_request_at_a_time_for_a_registrable_domain() {
    let names = ["a.shop.example", "b.shop.example", "shop.example"];
    let world = World::new(2000.0).named(&names);
    let site = Site::start(&world, |_| Reply::ok(rss(["a"])).slowly(Duration::from_millis(60))).await;
    let sources: Vec<String> = names
        .iter()
        .flat_map(|name| (0..3).map(move |n| (name, n)))
        .map(|(name, n)| source(&format!("{name}{n}"), &site.url_as(name, &format!("/{n}"))))
        .collect();
    let daemon = world.start(&sources).await;
    site.visited(30).await;
    daemon.stop().await;
    assert_eq!(site.web().most_in_flight(), 1);
}

#[tokio::test]
async fn different_domains_may_be_asked_at_once() {
    let names = ["one.example", "two.example", "three.example", "four.example"];
    let world = World::new(2000.0).named(&names);
    let sign = std::sync::Arc::new(tokio::sync::Notify::new());
    let wait = sign.clone();
    let site = Site::start(&world, move |_| Reply::ok(rss(["a"])).after(wait.clone())).await;
    let sources = names.map(|name| source(name, &site.url_as(name, "/feed")));
    let daemon = world.start(&sources).await;
    // No request is answered until all have arrived.
    site.visited(4).await;
    assert_eq!(site.web().most_in_flight(), 4);
    for _ in names {
        sign.notify_one();
    }
    daemon.stop().await;
}

#[tokio::test]
async fn requests_to_one_host_are_spaced_also_over_a_restart() {
    let spacing = Span::from_mins(20);
    let world = World::new(7200.0).fleet("step = \"1s\"\nprobes_per_step = 100\nhost_spacing = \"20m\"");
    let world = world.named(&["a.shop.example", "b.shop.example"]);
    let site = Site::start(&world, |_| Reply::ok(rss(["a"])).slowly(Duration::from_millis(20))).await;
    let sources: Vec<String> = (0..8)
        .map(|n| {
            let name = if n % 2 == 0 { "a.shop.example" } else { "b.shop.example" };
            source(&format!("s{n}"), &site.url_as(name, &format!("/{n}")))
        })
        .collect();
    let daemon = world.start(&sources).await;
    site.visited(6).await;
    daemon.stop().await;
    let daemon = world.start(&sources).await;
    let gaps = gaps(&site.visited(14).await);
    daemon.stop().await;
    assert!(gaps.iter().all(|gap| *gap >= spacing), "{gaps:?}");
}

#[tokio::test]
async fn a_crawl_delay_is_kept_between_pages_also_over_a_restart() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::ok("User-agent: *\nCrawl-delay: 1800\n"),
        path => Reply::ok(format!("<p>The page {path}")),
    })
    .await;
    let sources: Vec<String> =
        (0..4).map(|n| page(&format!("p{n}"), &site.url(&format!("/{n}")))).collect();
    let pages = |site: &Site| -> Vec<_> {
        site.visits().into_iter().filter(|visit| visit.seen.path != "/robots.txt").collect()
    };
    let daemon = world.start(&sources).await;
    site.visited(5).await;
    daemon.stop().await;
    let daemon = world.start(&sources).await;
    site.visited(10).await;
    daemon.stop().await;
    let gaps = gaps(&pages(&site));
    assert!(gaps.len() >= 7);
    assert!(gaps.iter().all(|gap| *gap >= Span::from_mins(30)), "{gaps:?}");
}

#[tokio::test]
async fn a_crawl_delay_is_kept_also_between_pages_that_fail() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::ok("User-agent: *\nCrawl-delay: 1800\n"),
        _ => Reply::new(500),
    })
    .await;
    let sources: Vec<String> =
        (0..4).map(|n| page(&format!("p{n}"), &site.url(&format!("/{n}")))).collect();
    let daemon = world.start(&sources).await;
    let gaps = gaps(&site.visited(8).await);
    daemon.stop().await;
    assert!(gaps.iter().all(|gap| *gap >= Span::from_mins(30)), "{gaps:?}");
}

#[tokio::test]
async fn of_the_crawl_delays_of_a_site_the_largest_holds() {
    let world = World::new(7200.0).named(&["slow.shop.example", "fast.shop.example"]);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" if visit.seen.text("host").unwrap().starts_with("slow") => {
            Reply::ok("User-agent: *\nCrawl-delay: 1800\n")
        }
        "/robots.txt" => Reply::ok("User-agent: *\nDisallow: /closed\n"),
        path => Reply::ok(format!("<p>The page {path}")),
    })
    .await;
    let of = |name: &str, n| {
        page(&format!("{name}{n}"), &site.url_as(&format!("{name}.shop.example"), &format!("/{name}{n}")))
    };
    let sources: Vec<String> = (0..3).flat_map(|n| [of("slow", n), of("fast", n)]).collect();
    let daemon = world.start(&sources).await;
    // From when both are known.
    site.visited_at("/robots.txt", 2).await;
    let known = site.visits().len() + 2;
    site.visited(known + 6).await;
    daemon.stop().await;
    // As stored: a restart knows it too.
    let daemon = world.start(&sources).await;
    let visits = site.visited(known + 12).await;
    daemon.stop().await;
    let pages: Vec<_> =
        visits[known..].iter().filter(|it| it.seen.path != "/robots.txt").cloned().collect();
    let gaps = gaps(&pages);
    assert!(gaps.iter().all(|gap| *gap >= Span::from_mins(30)), "{gaps:?}");
}

#[tokio::test]
async fn two_hundred_new_sources_are_spread_and_a_restart_fetches_nothing_that_is_not_due() {
    let names: Vec<String> = (0..200).map(|n| format!("site{n}.example")).collect();
    let named: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = World::new(200.0).fleet("step = \"10s\"\nprobes_per_step = 2").named(&named);
    let site = Site::start(&world, |_| Reply::ok(rss(["a"])).header("Cache-Control", "max-age=7200")).await;
    let sources: Vec<String> = names
        .iter()
        .map(|name| {
            let url = site.url_as(name, &format!("/{name}"));
            format!("[[source]]\nname = \"{name}\"\nurl = \"{url}\"\nallow_private = true\n")
        })
        .collect();
    let start = world.clock.now();
    let daemon = world.start(&sources).await;
    let visits = site.visited(200).await;
    world.until("SELECT count(*) FROM probes", |probes| probes == 200).await;
    // Two a step: in any order of arrival, the n-th was not sent before the (n / 2)-th step.
    for (n, visit) in visits.iter().enumerate() {
        let steps = i64::try_from(n / 2).unwrap() - 1;
        assert!(visit.at >= start + Span::from_millis(steps * 10_000), "request {n} at {}", visit.at);
    }
    let due: Vec<(i64, Option<i64>)> =
        world.rows("SELECT id, next_probe_at FROM sources ORDER BY id").await;
    daemon.stop().await;
    let daemon = world.start(&sources).await;
    world.reload(&daemon, &sources).await;
    // No source is due in this quarter of an hour: `max-age` holds for two hours.
    let first_due = due.iter().filter_map(|(_, at)| *at).min().unwrap();
    world.pass(Span::from_mins(15)).await;
    assert!(world.clock.now() < Timestamp::from_millis(first_due), "the machine is too slow for this test");
    assert_eq!(site.visits().len(), 200);
    assert_eq!(due, world.rows("SELECT id, next_probe_at FROM sources ORDER BY id").await);
    daemon.stop().await;
}

#[tokio::test]
async fn a_restart_before_first_contact_does_not_advance_it() {
    let world = World::new(600.0);
    let site = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
    let sources: Vec<String> =
        (0..20).map(|n| source(&format!("s{n}"), &site.url(&format!("/{n}")))).collect();
    let daemon = world.start(&sources).await;
    world.until("SELECT count(next_probe_at) FROM sources", |due| due == 20).await;
    daemon.stop().await;
    let never = "SELECT id, next_probe_at FROM sources WHERE last_probe_at IS NULL ORDER BY id";
    let before: Vec<(i64, i64)> = world.rows(never).await;
    let daemon = world.start(&sources).await;
    let after: Vec<(i64, i64)> = world.rows(never).await;
    daemon.stop().await;
    assert!(after.iter().all(|row| before.contains(row)), "{before:?} {after:?}");
}

#[tokio::test]
async fn the_budget_holds_in_any_window_over_restarts_reloads_and_re_added_sources() {
    let world = World::new(10_800.0);
    let site = Site::start(&world, |visit| {
        // Every probe finds an update.
        let newest = visit.seen.order;
        Reply::ok(rss((newest.saturating_sub(30)..=newest).map(|n| format!("item {n}"))))
    })
    .await;
    let greedy =
        source_with_budget("s", &site.url("/feed"), "probes = 4, per = \"6h\", min_spacing = \"20m\"");
    let other = source("other", &site.url("/other"));
    let mut seen = 0;
    for round in 0..5 {
        let daemon = world.start(&[greedy.clone(), other.clone()]).await;
        seen = site.visited_at("/feed", seen + 2).await.len();
        if round % 2 == 1 {
            world.reload(&daemon, std::slice::from_ref(&other)).await;
            world.reload(&daemon, &[greedy.clone(), other.clone()]).await;
            seen = site.visited_at("/feed", seen + 1).await.len();
        }
        daemon.stop().await;
    }
    let visits = site.visits_to("/feed");
    assert!(visits.len() >= 12);
    assert!(gaps(&visits).iter().all(|gap| *gap >= Span::from_mins(20)), "{:?}", gaps(&visits));
    for window in visits.windows(5) {
        let span = window[4].at - window[0].at;
        assert!(span >= Span::from_hours(6), "five in {span}");
    }
}

#[tokio::test]
async fn a_source_added_again_during_its_probe_keeps_its_interval() {
    let world = World::new(7200.0);
    let sign = std::sync::Arc::new(tokio::sync::Notify::new());
    let wait = sign.clone();
    let site = Site::start(&world, move |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])),
        1 => Reply::ok(rss(["a"])).after(wait.clone()),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let hourly =
        source_with_budget("s", &site.url("/feed"), "probes = 24, per = \"1d\", min_spacing = \"10m\"");
    let other = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
    let other = source("other", &other.url("/other"));
    let daemon = world.start(&[hourly.clone(), other.clone()]).await;
    site.visited(2).await;
    world.reload(&daemon, std::slice::from_ref(&other)).await;
    world.reload(&daemon, &[hourly, other]).await;
    sign.notify_one();
    site.visited(12).await;
    daemon.stop().await;
    // Start times from the log: on a busy machine a request may arrive well after its start.
    let sent: Vec<(i64,)> = world
        .rows(
            "SELECT started_at FROM probes JOIN sources ON sources.id = source_id
             WHERE name = 's' ORDER BY started_at",
        )
        .await;
    assert!(sent.len() >= 11, "{sent:?}");
    // Jitter takes up to 5 % of the hour, and up to 10 % of lateness is made up for. Two chains of probes
    // would halve the interval. The early probes of a new source come earlier.
    let too_early = |pair: &[(i64,)]| pair[1].0 - pair[0].0 < Span::from_mins(50).as_millis();
    assert!(!sent[4..].windows(2).any(too_early), "{sent:?}");
    assert_eq!(site.web().most_in_flight(), 1);
}
