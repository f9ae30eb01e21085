//! The store alone proves that every probe was allowed.

use sqlx::AssertSqlSafe;

use super::world::{Site, World, page};
use tidewatch_core::time::Span;
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;

/// The query of docs/store.md for probes that were not allowed.
fn query() -> String {
    let text = include_str!("../../../docs/store.md");
    let from = text.find("Probes that were not allowed").expect("the query is documented");
    let block = text[from..].split("```").nth(1).expect("a block");
    block.trim_start_matches("sql").trim().to_owned()
}

async fn not_allowed(world: &World) -> Vec<(i64, String, i64)> {
    sqlx::query_as(AssertSqlSafe(query())).fetch_all(&mut world.connection().await).await.unwrap()
}

#[tokio::test]
async fn the_log_proves_that_every_probe_was_allowed() {
    let world = World::new(7200.0).named(&["www.shop.example", "pages.shop.example", "fresh.example"]);
    let site = Site::start(&world, |visit| match visit.seen.path.as_str() {
        "/robots.txt" => Reply::ok("User-agent: *\nCrawl-delay: 1800\n"),
        "/throttled" if visit.seen.order % 7 == 5 => Reply::new(429).header("Retry-After", "9000"),
        "/fresh" => Reply::ok(rss(["a"])).header("Cache-Control", "max-age=4000"),
        "/throttled" => Reply::ok(rss(["a"])),
        path => Reply::ok(format!("<p>The page {path}")),
    })
    .await;
    let budget = |probes: u32| format!("probes = {probes}, per = \"12h\", min_spacing = \"20m\"");
    let list = |probes: u32| {
        let mut sources = vec![
            source_with_budget("fresh", &site.url_as("fresh.example", "/fresh"), &budget(probes)),
            source_with_budget(
                "throttled",
                &site.url_as("www.shop.example", "/throttled"),
                &budget(probes),
            ),
        ];
        let pages =
            (0..3).map(|n| page(&format!("p{n}"), &site.url_as("pages.shop.example", &format!("/{n}"))));
        sources.extend(pages);
        sources
    };
    let daemon = world.start(&list(12)).await;
    world.until("SELECT count(*) FROM probes", |n| n >= 60).await;
    world.reload(&daemon, &list(30)).await;
    let paused = "SELECT count(*) FROM host_limits WHERE paused_until IS NOT NULL";
    world.until(paused, |n| n >= 2).await;
    world.until("SELECT count(*) FROM probes", |n| n >= 150).await;
    daemon.stop().await;
    let daemon = world.start(&list(30)).await;
    world.until("SELECT count(*) FROM probes", |n| n >= 180).await;
    daemon.stop().await;
    assert_eq!(not_allowed(&world).await, []);
    assert_eq!(world.number("SELECT count(*) FROM source_limits").await, 7, "two changed");
    assert!(world.number("SELECT count(*) FROM host_limits WHERE crawl_delay_ms = 1800000").await >= 1);
    assert!(world.number("SELECT count(*) FROM probes WHERE fresh_until IS NOT NULL").await >= 10);
    // The query finds each kind of breach.
    for breach in [
        "UPDATE probes SET started_at = started_at - 300000 WHERE id = (
             SELECT max(probes.id) FROM probes JOIN sources ON sources.id = source_id WHERE name = 'fresh')",
        "UPDATE source_limits SET probes = 1",
        "UPDATE source_limits SET min_spacing_ms = 36000000",
        "UPDATE host_limits SET paused_until = 2000000000000, ended_at = NULL WHERE paused_until IS NOT NULL",
        "UPDATE host_limits SET crawl_delay_ms = 7200000 WHERE crawl_delay_ms > 0",
        "UPDATE probes SET retry_until = started_at + 86400000 WHERE retry_until IS NOT NULL",
        "DELETE FROM source_limits",
    ] {
        let mut connection = world.connection().await;
        sqlx::query("BEGIN").execute(&mut connection).await.unwrap();
        sqlx::query(breach).execute(&mut connection).await.unwrap();
        let found: Vec<(i64, String, i64)> =
            sqlx::query_as(AssertSqlSafe(query())).fetch_all(&mut connection).await.unwrap();
        sqlx::query("ROLLBACK").execute(&mut connection).await.unwrap();
        assert!(!found.is_empty(), "{breach}");
    }
}

/// A feed that a server limits, and one that only its budget does.
async fn limited(world: &World) -> (Site, Vec<String>) {
    let site = Site::start(world, |visit| match visit.seen.path.as_str() {
        "/throttled" if visit.seen.order % 5 == 3 => Reply::new(429).header("Retry-After", "9000"),
        _ => Reply::ok(rss(["a"])).header("Cache-Control", "max-age=2000"),
    })
    .await;
    let budget = "probes = 12, per = \"12h\", min_spacing = \"20m\"";
    let sources = ["/throttled", "/fresh"].map(|path| {
        let host = format!("{}.example", &path[1..]);
        source_with_budget(&path[1..], &site.url_as(&host, path), budget)
    });
    (site, sources.to_vec())
}

#[tokio::test]
async fn the_proof_holds_over_corrections_of_the_clock() {
    let world = World::new(7200.0).named(&["throttled.example", "fresh.example"]);
    let (_site, sources) = limited(&world).await;
    let mut daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM probes", |n| n >= 12).await;
    let years = Span::from_days(3 * 365);
    for (nth, by) in [years, -years, Span::from_hours(-2), Span::from_hours(2)].into_iter().enumerate() {
        let probes = world.number("SELECT count(*) FROM probes").await;
        world.clock.set(by);
        let events = "SELECT count(*) FROM events WHERE kind = 'clock_set'";
        world.until(events, |events| events == nth as i64 + 1).await;
        if nth == 1 {
            // The limits that are changed meanwhile are of this clock.
            let other: Vec<String> = sources.iter().map(|source| source.replace("12,", "20,")).collect();
            world.reload(&daemon, &other).await;
            world.reload(&daemon, &sources).await;
        }
        world.until("SELECT count(*) FROM probes", |n| n >= probes + 8).await;
    }
    daemon.stop().await;
    daemon = world.start(&sources).await;
    let probes = world.number("SELECT count(*) FROM probes").await;
    world.until("SELECT count(*) FROM probes", |n| n >= probes + 4).await;
    daemon.stop().await;
    assert_eq!(not_allowed(&world).await, []);
    world.execute("UPDATE source_limits SET min_spacing_ms = 36000000").await;
    assert!(!not_allowed(&world).await.is_empty());
}

/// Undoes what was added to the store since limits are logged.
const BEFORE_LIMITS: [&str; 15] = [
    "DELETE FROM _sqlx_migrations WHERE version = 30",
    "DROP VIEW readable_corrected_pardons",
    "DROP VIEW readable_corrected_host_limits",
    "DROP VIEW readable_corrected_source_limits",
    "DROP VIEW readable_corrected_probes",
    "DROP VIEW corrected_pardons",
    "DROP VIEW corrected_host_limits",
    "DROP VIEW corrected_source_limits",
    "DROP VIEW corrected_probes",
    "DROP VIEW readable_log_clocks",
    "DROP VIEW log_clocks",
    "DELETE FROM meta WHERE key = 'limits_after_probe'",
    "DELETE FROM source_limits",
    "UPDATE sources SET limits = NULL",
    "DROP VIEW readable_histories",
];

#[tokio::test]
async fn probes_of_versions_that_logged_no_limits_are_left_out() {
    let world = World::new(7200.0).named(&["throttled.example", "fresh.example"]);
    let (_site, sources) = limited(&world).await;
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM probes", |n| n >= 12).await;
    daemon.stop().await;
    for statement in BEFORE_LIMITS {
        world.execute(statement).await;
    }
    for statement in [
        "ALTER TABLE histories DROP COLUMN clock_ms",
        "ALTER TABLE histories DROP COLUMN begun_clock_ms",
        "CREATE VIEW readable_histories AS SELECT 1",
    ] {
        world.execute(statement).await;
    }
    let before = world.number("SELECT max(id) FROM probes").await;
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM probes", |n| n >= before + 6).await;
    daemon.stop().await;
    let left_out = world.number("SELECT value FROM meta WHERE key = 'limits_after_probe'").await;
    assert_eq!(left_out, before);
    assert_eq!(not_allowed(&world).await, []);
    world.execute("DELETE FROM source_limits").await;
    assert!(not_allowed(&world).await.iter().all(|(id, ..)| *id > before));
    assert!(!not_allowed(&world).await.is_empty());
}
