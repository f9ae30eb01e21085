//! Redirects, gone addresses and errors.

use std::sync::atomic::{AtomicUsize, Ordering};

use tidewatch_core::time::Span;

use super::world::{Site, Visit, World, gaps, page, source};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;

/// Every six hours.
const QUARTER_DAYS: &str = "probes = 4, per = \"1d\", min_spacing = \"6h\"";

#[tokio::test]
async fn a_permanent_redirect_is_adopted_after_five_proofs_over_three_days() {
    let world = World::new(50_000.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/old" => Reply::redirect(301, "/new"),
        _ => Reply::ok(rss(["a"])).header("ETag", "\"1\""),
    })
    .await;
    let sources = [source_with_budget("s", &site.url("/old"), QUARTER_DAYS)];
    let daemon = world.start(&sources).await;
    // A restart neither forgets the proof nor counts it twice.
    site.visited_at("/new", 4).await;
    daemon.stop().await;
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM events WHERE kind = 'redirect_adopted'", |n| n == 1).await;
    let old = site.visits_to("/old");
    site.visited_at("/new", old.len() + 3).await;
    daemon.stop().await;
    assert_eq!(site.visits_to("/old").len(), old.len(), "the old address is not probed any more");
    assert!(old.len() >= 5);
    let proven =
        "SELECT (SELECT at FROM events WHERE kind = 'redirect_adopted') - min(started_at + duration_ms)
                  FROM probes";
    let proven = Span::from_millis(world.number(proven).await);
    assert!(proven >= Span::from_days(3), "adopted after {proven}");
    let adopted: Vec<(String, String)> = world.rows("SELECT url, adopted_url FROM sources").await;
    assert_eq!(adopted, [(site.url("/old").to_string(), site.url("/new").to_string())]);
    // After a restart the new address is probed directly.
    let daemon = world.start(&sources).await;
    site.visited_at("/new", old.len() + 5).await;
    daemon.stop().await;
    assert_eq!(site.visits_to("/old").len(), old.len());
    let last = site.visits().pop().unwrap();
    assert_eq!(last.seen.text("if-none-match").as_deref(), Some("\"1\""), "its validators are kept");
}

#[tokio::test]
async fn many_proofs_within_hours_are_not_enough() {
    let world = World::new(20_000.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/fast" => Reply::redirect(308, "/there"),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let daemon = world.start(&[source("fast", &site.url("/fast"))]).await;
    site.visited_at("/fast", 12).await;
    daemon.stop().await;
    assert_eq!(world.number("SELECT count(*) FROM events WHERE kind = 'redirect_adopted'").await, 0);
    let proofs = world.number("SELECT moving_times FROM sources").await;
    assert!(proofs >= 11, "{proofs} proofs in a few hours are counted, and do not suffice");
}

#[tokio::test]
async fn a_temporary_redirect_is_never_adopted() {
    let world = World::new(100_000.0);
    let mut sites = Vec::new();
    for status in [302, 303, 307] {
        let site = Site::start(&world, move |visit| match visit.seen.path.as_str() {
            "/old" => Reply::redirect(status, "/new"),
            _ => Reply::ok(rss(["a"])),
        })
        .await;
        sites.push(site);
    }
    let sources: Vec<String> = sites
        .iter()
        .enumerate()
        .map(|(n, site)| source_with_budget(&format!("s{n}"), &site.url("/old"), QUARTER_DAYS))
        .collect();
    let daemon = world.start(&sources).await;
    for site in &sites {
        let visits = site.visited_at("/old", 18).await;
        assert!(visits[17].at - visits[0].at > Span::from_days(4));
    }
    daemon.stop().await;
    let untouched = "SELECT count(*) FROM sources WHERE adopted_url IS NULL AND moving_to IS NULL";
    assert_eq!(world.number(untouched).await, 3);
}

#[tokio::test]
async fn endless_redirects_fail_after_six_requests_and_are_backed_off_from() {
    let world = World::new(7200.0);
    let site = Site::start(&world, |visit| {
        let hop: u32 = visit.seen.path.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        match visit.seen.path.starts_with("/loop") {
            true => Reply::redirect(302, if hop == 0 { "/loop/1" } else { "/loop/0" }),
            false => Reply::redirect(301, format!("/down/{}", hop + 1)),
        }
    })
    .await;
    let daemon =
        world.start(&[source("down", &site.url("/down/0")), source("loop", &site.url("/loop/0"))]).await;
    let down = site.visited_at("/down/0", 4).await;
    let round = site.visited_at("/loop/0", 4).await;
    daemon.stop().await;
    assert!(site.visits_to("/down/6").is_empty(), "five redirects, not six");
    assert!(site.visits_to("/loop/1").len() <= site.visits_to("/loop/0").len());
    for visits in [down, round] {
        let gaps = gaps(&visits);
        assert!(gaps[1] >= Span::from_mins(30) && gaps[2] >= Span::from_mins(60), "{gaps:?}");
    }
    let errors: Vec<(String,)> = world.rows("SELECT DISTINCT error FROM probes ORDER BY error").await;
    assert!(errors[0].0.contains("redirect loop"), "{errors:?}");
    assert!(errors[1].0.contains("more than 5 redirects"), "{errors:?}");
}

#[tokio::test]
async fn a_gone_source_is_not_probed_until_its_address_changes() {
    let world = World::new(20_000.0);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/gone" => Reply::new(410),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let (gone, other) = (source("gone", &site.url("/gone")), source("other", &site.url("/other")));
    let daemon = world.start(&[gone.clone(), other.clone()]).await;
    site.visited_at("/other", 30).await;
    daemon.stop().await;
    let daemon = world.start(&[gone, other.clone()]).await;
    site.visited_at("/other", 60).await;
    assert_eq!(site.visits_to("/gone").len(), 1);
    let state =
        "SELECT count(*) FROM sources WHERE name = 'gone' AND state = 'resting' AND next_probe_at IS NULL";
    assert_eq!(world.number(state).await, 1);
    assert_eq!(world.number("SELECT count(*) FROM events WHERE kind = 'rests'").await, 1);
    world.reload(&daemon, &[source("gone", &site.url("/back")), other]).await;
    site.visited_at("/back", 2).await;
    daemon.stop().await;
    assert_eq!(site.visits_to("/gone").len(), 1);
}

#[tokio::test]
async fn errors_are_backed_off_from_with_growing_gaps_of_a_day_at_most() {
    let world = World::new(60_000.0);
    let site = Site::start(&world, |visit| match visit.seen.order {
        0..9 => Reply::new(404),
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let daemon = world.start(&[source("s", &site.url("/feed"))]).await;
    let visits = site.visited(12).await;
    world.until("SELECT count(*) FROM probes", |n| n >= 12).await;
    daemon.stop().await;
    let gaps = gaps(&visits);
    // 15, 30, 60 minutes and so on, jittered upwards, with the cap of a day from the eighth on.
    for (n, gap) in gaps[..9].iter().enumerate() {
        let least = Span::from_mins(15 << n).min(Span::from_days(1));
        assert!(*gap >= least, "after {} failures: {gap}", n + 1);
    }
    let due: Vec<(i64,)> = world
        .rows(
            "SELECT due_at - lag(started_at + duration_ms) OVER (ORDER BY id) FROM probes LIMIT 9 OFFSET 1",
        )
        .await;
    assert!(due.iter().all(|(wait,)| *wait <= Span::from_days(1).as_millis()), "{due:?}");
    assert_eq!(world.number("SELECT error_streak FROM sources").await, 0, "reset at once");
    assert!(*gaps.last().unwrap() < Span::from_days(1), "{gaps:?}");
}

/// The requests to a host.
fn asked(site: &Site, host: &str) -> Vec<Visit> {
    let of_host = |visit: &Visit| visit.seen.text("host").unwrap().starts_with(host);
    site.visits().into_iter().filter(of_host).collect()
}

#[tokio::test]
async fn a_redirect_to_another_site_keeps_the_spacing_of_that_site_from_the_first_time_on() {
    let names: Vec<String> = (0..8).map(|n| format!("from{n}.example")).collect();
    let mut named: Vec<&str> = names.iter().map(String::as_str).collect();
    named.push("target.example");
    let world = World::new(600.0).fleet("step = \"1s\"\nprobes_per_step = 100\nhost_spacing = \"20s\"");
    let world = world.named(&named);
    let site = Site::start(&world, |visit| match visit.seen.text("host").unwrap() {
        host if host.starts_with("from") => {
            let port = host.rsplit(':').next().unwrap();
            Reply::redirect(302, format!("http://target.example:{port}{}", visit.seen.path))
        }
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let mut sources: Vec<String> =
        names.iter().map(|name| source(name, &site.url_as(name, &format!("/{name}")))).collect();
    sources.push(source("own", &site.url_as("target.example", "/own")));
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM (SELECT 1 FROM probes WHERE outcome <> 'failed' GROUP BY source_id HAVING count(*) > 1)", |n| n == 9).await;
    daemon.stop().await;
    let gaps = gaps(&asked(&site, "target"));
    assert!(gaps.len() > 17, "{gaps:?}");
    assert!(gaps.iter().all(|gap| *gap >= Span::from_secs(20)), "{gaps:?}");
}

#[tokio::test]
async fn a_redirect_does_not_lead_into_the_pause_of_another_site() {
    let world = World::new(7200.0).named(&["from.example", "target.example"]);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/own" if visit.seen.order == 0 => Reply::new(429).header("Retry-After", "36000"),
        "/redirected" => {
            let host = visit.seen.text("host").unwrap();
            let port = host.rsplit(':').next().unwrap();
            Reply::redirect(302, format!("http://target.example:{port}/there"))
        }
        _ => Reply::ok(rss(["a"])),
    })
    .await;
    let own = source("own", &site.url_as("target.example", "/own"));
    let redirected = source("redirected", &site.url_as("from.example", "/redirected"));
    let daemon = world.start(std::slice::from_ref(&own)).await;
    world.until("SELECT count(paused_until) FROM hosts", |n| n == 1).await;
    world.reload(&daemon, &[own, redirected]).await;
    site.visited_at("/there", 2).await;
    daemon.stop().await;
    let visits = asked(&site, "target");
    assert!(visits[1].at - visits[0].at >= Span::from_hours(10), "{}", visits[1].at - visits[0].at);
    assert!(site.visits_to("/redirected")[0].at - visits[0].at < Span::from_hours(10));
    // The first probe ended there; the next one began when both sites could be asked.
    let errors: Vec<(String,)> =
        world.rows("SELECT error FROM probes WHERE error LIKE '%redirects to target.example%'").await;
    assert_eq!(errors.len(), 1, "{errors:?}");
    assert!(errors[0].0.contains("which may not be asked before 2026-11-16T"), "{errors:?}");
    assert_eq!(world.number("SELECT sum(error_streak) FROM sources").await, 0);
}

#[tokio::test]
async fn a_page_is_not_read_at_an_origin_whose_robots_txt_closes_it() {
    let world = World::new(7200.0).named(&["from.example", "target.example"]);
    let site = Site::start(&world, |visit| {
        let host = visit.seen.text("host").unwrap();
        let (target, port) = (host.starts_with("target"), host.rsplit(':').next().unwrap());
        match visit.seen.path.as_str() {
            "/robots.txt" if target => Reply::ok("User-agent: *\nDisallow: /closed\n"),
            "/robots.txt" => Reply::new(404),
            path if !target => Reply::redirect(302, format!("http://target.example:{port}{path}")),
            _ => Reply::ok("<p>Text</p>"),
        }
    })
    .await;
    let sources = [
        page("open", &site.url_as("from.example", "/open")),
        page("closed", &site.url_as("from.example", "/closed")),
    ];
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM sources WHERE state = 'resting'", |n| n == 1).await;
    world.until("SELECT count(*) FROM probes WHERE outcome <> 'failed'", |n| n > 1).await;
    daemon.stop().await;
    let read: Vec<String> = asked(&site, "target").into_iter().map(|visit| visit.seen.path).collect();
    assert_eq!(read[0], "/robots.txt");
    assert!(read.contains(&"/open".to_owned()) && !read.contains(&"/closed".to_owned()), "{read:?}");
}

#[tokio::test]
async fn of_robots_txt_at_redirects_little_is_kept_and_obeyed() {
    let names: Vec<String> = (0..30).map(|n| format!("n{n}.target.example")).collect();
    let mut named: Vec<&str> = names.iter().map(String::as_str).collect();
    named.push("from.example");
    let world = World::new(7200.0).named(&named);
    let probed = AtomicUsize::new(0);
    // At each probe it names another host of the site, whose robots.txt is long. The last ones close the page.
    let site = Site::start(&world, move |visit| {
        let host = visit.seen.text("host").unwrap();
        let port = host.rsplit(':').next().unwrap();
        let number = host.strip_prefix('n').and_then(|rest| rest.split('.').next()?.parse::<u32>().ok());
        match (visit.seen.path.as_str(), number) {
            ("/robots.txt", None) => Reply::new(404),
            ("/robots.txt", Some(number)) => {
                let rule = if number < 20 { "" } else { "Disallow: /page\n" };
                Reply::ok(format!("User-agent: *\n{rule}{}", "Disallow: /1234567\n".repeat(20_000)))
            }
            (path, None) => {
                let n = probed.fetch_add(1, Ordering::Relaxed).min(29);
                Reply::redirect(302, format!("http://n{n}.target.example:{port}{path}"))
            }
            (_, Some(_)) => Reply::ok("<p>Text</p>"),
        }
    })
    .await;
    let daemon = world.start(&[page("s", &site.url_as("from.example", "/page"))]).await;
    world.until("SELECT count(*) FROM probes WHERE outcome = 'failed'", |failed| failed > 0).await;
    daemon.stop().await;
    let probes = "SELECT count(*) FROM probes WHERE outcome <> 'failed'";
    assert_eq!(world.number(probes).await, 20);
    let closed = "SELECT count(*) FROM probes WHERE error LIKE 'robots.txt closes this page%'";
    assert!(world.number(closed).await > 0);
    assert!(asked(&site, "n20").iter().all(|visit| visit.seen.path == "/robots.txt"));
    let bytes = world.number("SELECT sum(length(body)) FROM robots").await;
    assert!(bytes < 4_000, "{bytes} bytes are kept");
    let own =
        "SELECT count(*) FROM robots WHERE origin LIKE 'http://from.example:%' AND redirect_site IS NULL";
    assert_eq!(world.number(own).await, 1);
}

#[tokio::test]
async fn a_page_that_waits_for_a_robots_txt_that_cannot_be_kept_is_probed_more_and_more_rarely() {
    let world = World::new(7200.0).named(&["from.example", "target.example"]);
    let site = Site::start(&world, |visit| {
        let host = visit.seen.text("host").unwrap();
        let (target, port) = (host.starts_with("target"), host.rsplit(':').next().unwrap());
        match visit.seen.path.as_str() {
            "/robots.txt" if target => Reply::ok(format!(
                "User-agent: *\nCrawl-delay: 100\n{}",
                "Disallow: /1234567\n".repeat(2_000)
            )),
            "/robots.txt" => Reply::new(404),
            // At another address at each probe.
            _ if !target => {
                Reply::redirect(302, format!("http://target.example:{port}/{}", visit.seen.order))
            }
            _ => Reply::ok("<p>Text</p>"),
        }
    })
    .await;
    let daemon = world.start(&[page("s", &site.url_as("from.example", "/page"))]).await;
    world
        .until("SELECT max(error_streak) FROM sources WHERE state = 'backoff'", |streak| streak >= 2)
        .await;
    daemon.stop().await;
}

#[tokio::test]
async fn a_rule_kept_for_one_address_says_nothing_of_another_one() {
    let world = World::new(7200.0).named(&["from.example", "target.example"]);
    let site = Site::start(&world, |visit| {
        let host = visit.seen.text("host").unwrap();
        let (target, port) = (host.starts_with("target"), host.rsplit(':').next().unwrap());
        match visit.seen.path.as_str() {
            "/robots.txt" if target => Reply::ok(format!(
                "User-agent: *\nDisallow: /closed\n{}",
                "Disallow: /1234567\n".repeat(2_000)
            )),
            "/robots.txt" => Reply::new(404),
            path if !target => Reply::redirect(302, format!("http://target.example:{port}{path}")),
            _ => Reply::ok("<p>Text</p>"),
        }
    })
    .await;
    let redirected = |path: &str| page(&path[1..], &site.url_as("from.example", path));
    let daemon = world.start(&[redirected("/closed"), redirected("/open")]).await;
    world.until("SELECT count(*) FROM sources WHERE state = 'resting'", |n| n == 1).await;
    world.until("SELECT count(*) FROM probes WHERE outcome <> 'failed'", |n| n > 3).await;
    daemon.stop().await;
    let read = asked(&site, "target").into_iter().map(|visit| visit.seen.path).collect::<Vec<_>>();
    assert!(!read.contains(&"/closed".to_owned()), "{read:?}");
}
