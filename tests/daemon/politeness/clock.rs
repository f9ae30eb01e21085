//! The clock is set by hours and by decades: while the daemon runs, while it is stopped, while a probe is in
//! progress, and at a boot without network time. Limits hold in real time, also over two more restarts.

use std::sync::{Arc, Mutex};

use tidewatch::clock::Clock;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_fixtures::documents::rss;
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;
use tokio::sync::Notify;

use super::world::{Site, World, monday, source};

const YEARS: Span = Span::from_days(40 * 365);

/// Changes of the clock: hours and decades, in both directions.
const CHANGES: [Span; 4] = [Span::from_hours(2), Span::from_hours(-2), YEARS, Span::from_days(-40 * 365)];

/// Real time, which goes on whatever the clock shows.
#[derive(Clone)]
struct RealTime(Arc<Mutex<(Clock, Span)>>);

impl RealTime {
    fn of(world: &World) -> Self {
        Self(Arc::new(Mutex::new((world.clock.clone(), Span::ZERO))))
    }

    fn now(&self) -> Timestamp {
        let clock = self.0.lock().unwrap();
        clock.0.now() - clock.1
    }

    /// Sets the world's clock.
    fn set(&self, by: Span) {
        let mut clock = self.0.lock().unwrap();
        clock.0.set(by);
        clock.1 = clock.1 + by;
    }

    /// The machine was off for this long, and boots with a clock that shows `at`.
    fn boot(&self, world: &mut World, off: Span, at: Timestamp, speed: f64) {
        let mut clock = self.0.lock().unwrap();
        let real = clock.0.now() - clock.1 + off;
        world.clock = Clock::paced(at, speed);
        *clock = (world.clock.clone(), at - real);
    }
}

/// The real times of requests, by path.
#[derive(Clone)]
struct Visits(Arc<Mutex<Vec<(String, Timestamp)>>>);

impl Visits {
    fn to(&self, path: &str) -> Vec<Timestamp> {
        self.0.lock().unwrap().iter().filter(|visit| visit.0 == path).map(|visit| visit.1).collect()
    }
}

/// A site with a feed at `/greedy` that has an update at each probe, and an address that asks for a pause of seven
/// hours at its first request.
async fn site(world: &World, real: &RealTime, held: Option<Arc<Notify>>) -> (Site, Visits) {
    let visits = Visits(Arc::default());
    let (noted, real) = (visits.clone(), real.clone());
    let site = Site::start(world, move |visit| {
        noted.0.lock().unwrap().push((visit.seen.path.clone(), real.now()));
        let nth = noted.to(&visit.seen.path).len();
        match (visit.seen.path.as_str(), &held) {
            ("/pauses", _) if nth == 1 => Reply::new(429).header("Retry-After", "25200"),
            ("/greedy", Some(held)) if nth == 2 => Reply::ok(rss(["held"])).after(held.clone()),
            _ => Reply::ok(rss((nth.saturating_sub(30)..=nth).map(|n| format!("item {n}")))),
        }
    })
    .await;
    (site, visits)
}

/// Four probes in six hours, twenty minutes apart.
fn greedy(site: &Site) -> String {
    source_with_budget(
        "greedy",
        &site.url_as("greedy.example", "/greedy"),
        "probes = 4, per = \"6h\", min_spacing = \"20m\"",
    )
}

fn assert_polite(visits: &Visits, what: &str) {
    let greedy = visits.to("/greedy");
    let gaps: Vec<Span> = greedy.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().all(|gap| *gap >= Span::from_mins(20)), "{what}: spacing {gaps:?}");
    for window in greedy.windows(5) {
        let span = window[4] - window[0];
        assert!(span >= Span::from_hours(6), "{what}: five in {span}, {gaps:?}");
    }
    if let [first, second, ..] = visits.to("/pauses")[..] {
        let pause = second - first;
        assert!(pause >= Span::from_hours(7) - Span::from_secs(1), "{what}: asked again after {pause}");
        assert!(pause <= Span::from_hours(9), "{what}: asked again only after {pause}");
    }
}

async fn limits_hold(by: Span, stopped: bool) {
    let what = format!("set by {by}, {}", if stopped { "stopped" } else { "running" });
    let world = World::new(7200.0).named(&["greedy.example", "pauses.example"]);
    let real = RealTime::of(&world);
    let (site, visits) = site(&world, &real, None).await;
    let sources = [greedy(&site), source("pauses", &site.url_as("pauses.example", "/pauses"))];
    let mut daemon = world.start(&sources).await;
    site.visited_at("/greedy", 4).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 5).await;
    if stopped {
        daemon.stop().await;
        real.set(by);
        daemon = world.start(&sources).await;
    } else {
        real.set(by);
        world.until("SELECT count(*) FROM events WHERE kind = 'clock_set'", |events| events == 1).await;
    }
    for _ in 0..2 {
        daemon.stop().await;
        daemon = world.start(&sources).await;
    }
    site.visited_at("/pauses", 2).await;
    site.visited_at("/greedy", 10).await;
    daemon.stop().await;
    assert_polite(&visits, &what);
    let corrections = world.number("SELECT count(*) FROM events WHERE kind = 'clock_set'").await;
    assert_eq!(corrections, 1, "{what}");
    let gaps = world.number("SELECT count(*) FROM gaps WHERE source_id = 2").await;
    assert_eq!(gaps, 0, "{what}");
}

#[tokio::test]
async fn limits_hold_if_the_clock_is_set_while_the_daemon_runs_and_after_two_more_restarts() {
    for by in CHANGES {
        limits_hold(by, false).await;
    }
}

#[tokio::test]
async fn limits_hold_if_the_clock_is_set_while_the_daemon_is_stopped_and_after_two_more_restarts() {
    for by in CHANGES {
        limits_hold(by, true).await;
    }
}

#[tokio::test]
async fn a_probe_that_is_in_progress_when_the_clock_is_set_has_its_real_duration_and_counts() {
    for by in CHANGES {
        let world = World::new(7200.0).named(&["greedy.example"]);
        let real = RealTime::of(&world);
        let answer = Arc::new(Notify::new());
        let (site, visits) = site(&world, &real, Some(answer.clone())).await;
        let sources = [greedy(&site)];
        let mut daemon = world.start(&sources).await;
        site.visited_at("/greedy", 2).await;
        world.until("SELECT count(*) FROM flights", |probes| probes == 1).await;
        world.pass(Span::from_mins(1)).await;
        real.set(by);
        world.until("SELECT count(*) FROM events WHERE kind = 'clock_set'", |events| events == 1).await;
        answer.notify_one();
        world.until("SELECT count(*) FROM probes", |probes| probes >= 2).await;
        let [(start, duration)] =
            world.rows::<(i64, i64)>("SELECT started_at, duration_ms FROM probes WHERE id = 2").await[..]
        else {
            panic!("a probe")
        };
        assert!(duration >= 60_000, "set by {by}: {duration} ms");
        // As many hours as the clock runs ahead while a busy machine is late.
        assert!(duration < 3_600_000 * 48, "set by {by}: {duration} ms");
        let age = world.clock.now() - Timestamp::from_millis(start);
        assert!(age >= Span::ZERO && age < Span::from_days(10), "set by {by}: it began {age} ago");
        for _ in 0..2 {
            daemon.stop().await;
            daemon = world.start(&sources).await;
        }
        site.visited_at("/greedy", 9).await;
        daemon.stop().await;
        assert_polite(&visits, &format!("set by {by} in progress"));
    }
}

#[tokio::test]
async fn a_boot_in_1970_that_network_time_corrects_loses_nothing() {
    let mut world = World::new(7200.0).named(&["greedy.example", "pauses.example"]);
    let real = RealTime::of(&world);
    let (site, visits) = site(&world, &real, None).await;
    let sources = [greedy(&site), source("pauses", &site.url_as("pauses.example", "/pauses"))];
    let daemon = world.start(&sources).await;
    site.visited_at("/greedy", 4).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 5).await;
    daemon.stop().await;
    let logged = world.number("SELECT count(*) FROM probes").await;
    real.boot(&mut world, Span::from_mins(5), Timestamp::from_secs(40), 7200.0);
    let mut daemon = world.start(&sources).await;
    world.pass(Span::from_mins(3)).await;
    // Network time sets the clock right.
    let set = "SELECT count(*) FROM events WHERE kind = 'clock_set'";
    let before = world.number(set).await;
    real.set(real.now() - world.clock.now());
    assert!(world.clock.now() > monday());
    world.until(set, |events| events > before).await;
    for _ in 0..2 {
        daemon.stop().await;
        daemon = world.start(&sources).await;
    }
    site.visited_at("/pauses", 2).await;
    site.visited_at("/greedy", 10).await;
    daemon.stop().await;
    assert_polite(&visits, "booted in 1970");
    assert!(world.number("SELECT count(*) FROM probes").await >= logged + 7, "nothing was deleted");
}

/// Such a clock cannot be distinguished from a machine that was off for years, so one more budget may be spent by it.
#[tokio::test]
async fn a_boot_with_a_clock_that_is_years_ahead_costs_one_budget_at_most_and_deletes_nothing() {
    let mut world = World::new(7200.0).named(&["greedy.example"]);
    let real = RealTime::of(&world);
    let (site, visits) = site(&world, &real, None).await;
    let sources = [greedy(&site)];
    let daemon = world.start(&sources).await;
    site.visited_at("/greedy", 6).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 6).await;
    daemon.stop().await;
    let before = world.number("SELECT count(*) FROM probes").await;
    let ahead = monday() + Span::from_days(3 * 365);
    real.boot(&mut world, Span::from_mins(5), ahead, 7200.0);
    let booted = visits.to("/greedy").len();
    let mut daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM probes WHERE started_at > 1800000000000", |probes| probes >= 2).await;
    let set = "SELECT count(*) FROM events WHERE kind = 'clock_set'";
    let corrections = world.number(set).await;
    real.set(real.now() - world.clock.now());
    world.until(set, |events| events > corrections).await;
    for _ in 0..2 {
        daemon.stop().await;
        daemon = world.start(&sources).await;
    }
    site.visited_at("/greedy", booted + 9).await;
    daemon.stop().await;
    let all = visits.to("/greedy");
    for window in all.windows(9) {
        let span = window[8] - window[0];
        assert!(span >= Span::from_hours(6), "two budgets in {span}");
    }
    for window in all[booted..].windows(5) {
        let span = window[4] - window[0];
        assert!(span >= Span::from_hours(6), "since the boot, five in {span}");
    }
    assert_eq!(world.number(set).await, corrections + 1);
    assert!(world.number("SELECT count(*) FROM probes").await >= before + 8, "nothing was deleted");
}
