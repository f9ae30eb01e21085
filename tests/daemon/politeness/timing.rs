//! Times that a publisher sets for the next probe.

use tidewatch::daemon::pardon::pardon_stopped;
use tidewatch_core::engine::event::Pardon;
use tidewatch_core::source_id::SourceId;
use tidewatch_core::time::{Span, Timestamp};

use super::world::{Site, Visit, World, gaps, source};
use tidewatch_fixtures::documents::{rss, rss_with};
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;

fn http_date(at: Timestamp) -> String {
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_millis(at.as_millis().unsigned_abs());
    httpdate::fmt_http_date(at)
}

#[tokio::test]
async fn max_age_is_kept_on_a_200_and_on_a_304_less_the_age() {
    let world = World::new(14_400.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])).header("ETag", "\"1\"").header("Cache-Control", "public, max-age=14400"),
        1 => Reply::new(304).header("Cache-Control", "max-age=36000").header("Age", "3600"),
        2 => Reply::new(304).header("Cache-Control", "s-maxage=18000"),
        // No header any more, so no limit.
        _ => Reply::new(304),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let gaps = gaps(&site.visited(5).await);
    daemon.stop().await;
    assert!(gaps[0] >= Span::from_hours(4), "{gaps:?}");
    assert!(gaps[1] >= Span::from_hours(9), "{gaps:?}");
    assert!(gaps[2] >= Span::from_hours(5), "{gaps:?}");
    assert!(gaps[3] >= Span::from_mins(15), "{gaps:?}");
    let reasons: Vec<(String,)> = world.rows("SELECT reason FROM probes WHERE id IN (2, 3, 4)").await;
    assert!(reasons.iter().all(|(reason,)| reason == "max-age"), "{reasons:?}");
    let fifth: Vec<(String,)> = world.rows("SELECT reason FROM probes WHERE id = 5").await;
    assert_eq!(fifth, [("policy".to_owned(),)]);
}

#[tokio::test]
async fn expires_is_kept_by_the_servers_own_clock() {
    let world = World::new(14_400.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(rss(["a"])).header("Expires", http_date(visit.at + Span::from_hours(5))),
        // A server whose clock is a year slow still means six hours.
        _ => {
            let theirs = visit.at - Span::from_days(365);
            Reply::ok(rss(["a"]))
                .header("Date", http_date(theirs))
                .header("Expires", http_date(theirs + Span::from_hours(6)))
        }
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let visits = site.visited(3).await;
    daemon.stop().await;
    // The date has whole seconds and counts from the arrival of the headers.
    assert!(visits[1].at >= visits[0].at + Span::from_hours(5) - Span::from_secs(1), "{:?}", gaps(&visits));
    assert!(visits[2].at >= visits[1].at + Span::from_hours(6) - Span::from_secs(1), "{:?}", gaps(&visits));
}

#[tokio::test]
async fn rss_ttl_and_update_period_are_kept_also_over_304s() {
    let world = World::new(14_400.0);
    let ttl = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::ok(rss_with("<ttl>180</ttl>", ["a"])).header("ETag", "\"1\""),
        _ => Reply::new(304),
    })
    .await;
    let channel = "<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>";
    let period = Site::start(&world, move |_| Reply::ok(rss_with(channel, ["a"]))).await;
    // A publisher's "every minute" does not shorten the interval.
    let hasty =
        "<ttl>1</ttl><sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>60</sy:updateFrequency>";
    let hasty = Site::start(&world, move |_| Reply::ok(rss_with(hasty, ["a"]))).await;
    let daemon = world
        .start(&[
            source("ttl", &ttl.url("/feed")),
            source("period", &period.url("/feed")),
            source("hasty", &hasty.url("/feed")),
        ])
        .await;
    let gaps_of = async |site: &Site| gaps(&site.visited(4).await);
    let (by_ttl, by_period, by_none) = (gaps_of(&ttl).await, gaps_of(&period).await, gaps_of(&hasty).await);
    daemon.stop().await;
    assert!(by_ttl.iter().all(|gap| *gap >= Span::from_hours(3)), "{by_ttl:?}");
    assert!(by_period.iter().all(|gap| *gap >= Span::from_hours(6)), "{by_period:?}");
    assert!(by_none.iter().all(|gap| *gap >= Span::from_mins(15)), "{by_none:?}");
}

#[tokio::test]
async fn skipped_hours_and_days_are_skipped() {
    let world = World::new(14_400.0);
    // Open from 2 to 8 hours UTC, and not on Mondays; the test begins on a Monday at midnight.
    let hours: String =
        (0..24).filter(|hour| !(2..8).contains(hour)).map(|hour| format!("<hour>{hour}</hour>")).collect();
    let channel = format!("<skipHours>{hours}</skipHours><skipDays><day>Monday</day></skipDays>");
    let site = Site::start(&world, move |_| Reply::ok(rss_with(&channel, ["a"]))).await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    world.pass(Span::from_hours(24 + 14)).await;
    let visits = site.visits();
    daemon.stop().await;
    assert!(visits.len() > 8, "{}", visits.len());
    // A request that is sent in the last moment of an open hour arrives a little later; an eighth
    // of a second here is half an hour there.
    let slack = Span::from_mins(30);
    for visit in &visits[1..] {
        let open = |at: Timestamp| (2..8).contains(&at.utc_hour()) && at.utc_weekday() != 0;
        assert!(open(visit.at) || open(visit.at - slack), "{}", visit.at);
    }
}

#[tokio::test]
async fn retry_after_holds_in_both_forms_across_a_restart() {
    for seconds in [true, false] {
        let world = World::new(7200.0);
        let site = Site::start(&world, move |visit| {
            let until = visit.at + Span::from_hours(7);
            let value = if seconds { (7 * 3600).to_string() } else { http_date(until) };
            match visit.seen.order {
                0 => Reply::new(if seconds { 429 } else { 503 }).header("Retry-After", value),
                _ => Reply::ok(rss(["a"])),
            }
        })
        .await;
        let sources = [source("s", &site.url("/feed"))];
        let daemon = world.start(&sources).await;
        site.visited(1).await;
        world.until("SELECT count(*) FROM probes", |probes| probes == 1).await;
        daemon.stop().await;
        let daemon = world.start(&sources).await;
        let visits = site.visited(2).await;
        daemon.stop().await;
        assert!(
            visits[1].at - visits[0].at >= Span::from_hours(7) - Span::from_secs(1),
            "{:?}",
            gaps(&visits)
        );
    }
}

#[tokio::test]
async fn retry_after_pauses_the_whole_registrable_domain_and_no_other() {
    let names = ["a.shop.example", "b.shop.example", "c.other.example"];
    let world = World::new(7200.0).named(&names);
    let site = Site::start(&world, |visit| {
        let is_first_shop = visit.seen.text("host").is_some_and(|host| host.starts_with("a."));
        match is_first_shop {
            true => Reply::new(429).header("Retry-After", "28800"),
            false => Reply::ok(rss(["a"])),
        }
    })
    .await;
    let url = |name: &str| site.url_as(name, &format!("/{name}"));
    let [a, b, c] = names.map(|name| source(name, &url(name)));
    let daemon = world.start(&[a.clone(), c.clone()]).await;
    let asked = site.visited_at("/a.shop.example", 1).await[0].at;
    world
        .until("SELECT count(*) FROM hosts WHERE host = 'shop.example' AND paused_until > 0", |n| n == 1)
        .await;
    // A source added by a reload is paused as well, also over a restart.
    world.reload(&daemon, &[a.clone(), b.clone(), c.clone()]).await;
    let others = site.visits_to("/c.other.example").len();
    site.visited_at("/c.other.example", others + 4).await;
    daemon.stop().await;
    let daemon = world.start(&[a, b, c]).await;
    let first = site.visited_at("/b.shop.example", 1).await[0].at;
    let again = site.visited_at("/a.shop.example", 2).await[1].at;
    let others = site
        .visits_to("/c.other.example")
        .iter()
        .filter(|visit| visit.at < asked + Span::from_hours(8))
        .count();
    daemon.stop().await;
    assert!(first - asked >= Span::from_hours(8), "{}", first - asked);
    assert!(again - asked >= Span::from_hours(8), "{}", again - asked);
    assert!(others >= 10, "the other domain was asked {others} times meanwhile");
    assert!(world.number("SELECT count(*) FROM events WHERE kind = 'host_paused'").await >= 1);
}

#[tokio::test]
async fn a_bare_429_backs_off_and_a_limit_that_names_its_end_is_kept() {
    let world = World::new(1800.0);
    let bare = Site::start(&world, |visit| match visit.seen.order {
        0..3 => Reply::new(429),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let limited = Site::start(&world, |visit| match visit.seen.order {
        0 => Reply::new(403).header("X-RateLimit-Remaining", "0").header("X-RateLimit-Reset", "9000"),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    // Five minutes would be allowed by the budget.
    let budget = "probes = 288, per = \"1d\", min_spacing = \"5m\"";
    let daemon = world
        .start(&[
            source_with_budget("bare", &bare.url("/feed"), budget),
            source_with_budget("limited", &limited.url("/feed"), budget),
        ])
        .await;
    let by_bare = gaps(&bare.visited(5).await);
    let by_limit = gaps(&limited.visited(2).await);
    daemon.stop().await;
    assert!(by_bare[..3].iter().all(|gap| *gap >= Span::from_mins(15)), "{by_bare:?}");
    assert!(by_bare[2] >= Span::from_mins(20), "grows: {by_bare:?}");
    assert!(by_limit[0] >= Span::from_secs(9000), "{by_limit:?}");
}

#[tokio::test]
async fn a_publishers_limits_survive_the_removal_of_a_source() {
    let world = World::new(7200.0);
    let fresh =
        Site::start(&world, |_| Reply::ok(rss(["a"])).header("Cache-Control", "max-age=36000")).await;
    let throttled = Site::start(&world, |_| Reply::new(503).header("Retry-After", "36000")).await;
    let other = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
    let both = [source("fresh", &fresh.url("/")), source("throttled", &throttled.url("/"))];
    let stays = source("stays", &other.url("/"));
    let all = [both[0].clone(), both[1].clone(), stays.clone()];
    let daemon = world.start(&all).await;
    let asked = [fresh.visited(1).await[0].at, throttled.visited(1).await[0].at];
    world
        .until(
            "SELECT count(*) FROM probes WHERE source_id IN (SELECT id FROM sources WHERE name <> 'stays')",
            |n| n == 2,
        )
        .await;
    world.reload(&daemon, &[stays]).await;
    assert_eq!(world.number("SELECT count(*) FROM sources WHERE state = 'removed'").await, 2);
    world.reload(&daemon, &all).await;
    let again = [fresh.visited(2).await[1].at, throttled.visited(2).await[1].at];
    daemon.stop().await;
    for (asked, again) in asked.into_iter().zip(again) {
        assert!(again - asked >= Span::from_hours(10), "{}", again - asked);
    }
}

#[tokio::test]
async fn a_robots_txt_with_retry_after_pauses_the_whole_domain() {
    let world = World::new(7200.0).named(&["www.shop.example", "feeds.shop.example"]);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::new(429).header("Retry-After", "18000"),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let page = super::world::page("page", &site.url_as("www.shop.example", "/page"));
    let feed = source("feed", &site.url_as("feeds.shop.example", "/feed"));
    let daemon = world.start(&[page, feed]).await;
    let robots = site.visited_at("/robots.txt", 1).await.remove(0);
    let asked = robots.at;
    let earlier = |visit: &&Visit| visit.seen.order < robots.seen.order;
    let before = site.visits_to("/feed").iter().filter(earlier).count();
    let next = site.visited_at("/feed", before + 1).await[before].at;
    daemon.stop().await;
    assert!(next - asked >= Span::from_hours(5), "{}", next - asked);
    assert!(site.visits_to("/page").is_empty());
}

#[tokio::test]
async fn a_retry_after_of_months_is_kept_until_the_user_pardons_it() {
    let world = World::new(7200.0).named(&["shop.example"]);
    let asked = Span::from_days(300);
    let site = Site::start(&world, move |visit| match visit.seen.order {
        0 => Reply::new(429).header("Retry-After", (asked.as_millis() / 1000).to_string()),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let other = Site::start(&world, |_| Reply::ok(rss(["a"]))).await;
    let sources =
        [source("s", &site.url_as("shop.example", "/feed")), source("other", &other.url("/feed"))];
    let daemon = world.start(&sources).await;
    let first = site.visited(1).await[0].at;
    world.until("SELECT count(*) FROM events WHERE kind = 'long_pause'", |n| n == 1).await;
    let seen = other.visits().len();
    other.visited(seen + 50).await;
    assert_eq!(site.visits().len(), 1);
    // The source alone: its site is still paused.
    world
        .execute("INSERT INTO pardons (source_id, asked_at) SELECT id, 1900000000000 FROM sources WHERE name = 's'")
        .await;
    world
        .until("SELECT count(*) FROM pardons WHERE answer LIKE 'lifted: retry-after until %'", |n| n == 1)
        .await;
    let seen = other.visits().len();
    other.visited(seen + 50).await;
    assert_eq!(site.visits().len(), 1);
    world
        .execute("INSERT INTO pardons (host, asked_at) VALUES ('shop.example', 1900000000000), ('other.example', 1900000000000)")
        .await;
    let again = site.visited(2).await[1].at;
    world.until("SELECT count(*) FROM pardons WHERE answer = 'nothing to lift'", |n| n == 1).await;
    daemon.stop().await;
    assert!(again - first < asked, "{}", again - first);
    assert_eq!(world.number("SELECT count(*) FROM events WHERE kind = 'pardoned'").await, 2);
    assert_eq!(world.number("SELECT count(paused_until) FROM hosts").await, 0);
    assert_eq!(world.number("SELECT count(retry_until) FROM sources").await, 0);
}

#[tokio::test]
async fn a_pardon_after_the_clock_was_set_lifts_what_was_moved() {
    for (by, stopped) in
        [(Span::from_hours(-5), false), (Span::from_hours(5), true), (Span::from_days(1500), true)]
    {
        let world = World::new(7200.0).named(&["shop.example"]);
        let site = Site::start(&world, move |visit| match visit.seen.order {
            0 => Reply::new(429).header("Retry-After", "8640000"),
            _ => Reply::ok(rss(["a"])),
        })
        .await;
        let sources = [source("s", &site.url_as("shop.example", "/feed"))];
        let mut daemon = world.start(&sources).await;
        world.until("SELECT count(*) FROM probes", |probes| probes == 1).await;
        let set = "SELECT count(*) FROM events WHERE kind = 'clock_set'";
        if stopped {
            daemon.stop().await;
            world.clock.set(by);
            let config = world.loaded();
            for whom in [Pardon::Source(SourceId(1)), Pardon::Host("shop.example".into())] {
                let answer = pardon_stopped(&config, whom, &world.clock).await.unwrap();
                assert!(answer.starts_with("lifted: "), "set by {by}: {answer}");
            }
            assert_eq!(world.number(set).await, 1, "the correction is stored once");
            daemon = world.start(&sources).await;
        } else {
            world.clock.set(by);
            world.until(set, |events| events == 1).await;
            world.execute("INSERT INTO pardons (source_id, asked_at) VALUES (1, 0)").await;
            world.execute("INSERT INTO pardons (host, asked_at) VALUES ('shop.example', 0)").await;
        }
        site.visited(3).await;
        daemon.stop().await;
        assert_eq!(world.number("SELECT count(retry_until) FROM sources").await, 0, "set by {by}");
        assert_eq!(world.number("SELECT count(paused_until) FROM hosts").await, 0, "set by {by}");
        assert_eq!(world.number(set).await, 1, "set by {by}");
    }
}
