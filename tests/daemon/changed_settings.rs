//! After a reload with another half-life, time zone, resolution or interval of fits, rates are those that would
//! have been learned with the new settings from the beginning.

use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use tidewatch_core::model::aggregate::{Borrow, estimate};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::history::{History, WeeklyEvidence};
use tidewatch_core::model::silence::{self, LearnedUntil};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_fixtures::loopback::Reply;
use tidewatch_fixtures::source_list::source_with_budget;

use crate::politeness::world::{Daemon, Site, Visit, World, monday};

const HALF_LIFE: Span = Span::from_days(56);
const SHORT: Span = Span::from_days(7);

/// Items in the document of a feed.
const HOLDS: usize = 60;

/// The sources probe once an hour, whatever is learned.
fn hourly(name: &str, site: &Site) -> String {
    let budget = "probes = 24, per = \"1d\", min_spacing = \"1h\"";
    let source = source_with_budget(name, &site.url(&format!("/{name}")), budget);
    let kind = if name.ends_with("page") { "page" } else { "feed" };
    format!("{source}kind = \"{kind}\"\nrobots = false\npolicy = \"uniform\"\n")
}

/// Once in each office hour in UTC, from two weeks before the start; more often in the last days.
fn published() -> Vec<Timestamp> {
    let mut stream = Stream::new(21, "published");
    let mut all = Vec::new();
    for hour in -14 * 24..6 * 24_i64 {
        let (day, of_day) = (hour.div_euclid(24), hour.rem_euclid(24));
        let often = if day < -7 { 2 } else { 1 };
        if day.rem_euclid(7) < 5 && (9..17).contains(&of_day) && of_day % often == 0 {
            all.push(monday() + Span::from_hours(hour) + Span::from_secs((3600.0 * stream.unit()) as i64));
        }
    }
    all
}

/// An Atom feed; items without dates have none.
fn atom(items: &[Timestamp], dated: bool) -> String {
    let entry = |at: &Timestamp| {
        let date = if dated { format!("<published>{}</published>", at.iso()) } else { String::new() };
        format!("<entry><id>urn:{}</id><title>At {at}</title>{date}</entry>", at.as_millis())
    };
    let entries: String = items.iter().rev().map(entry).collect();
    format!("<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>t</title><id>urn:f</id>{entries}</feed>")
}

fn reply(published: &[Timestamp], visit: &Visit) -> Reply {
    let there = &published[..published.partition_point(|&at| at <= visit.at)];
    let document = |holds: usize| &there[there.len() - holds..];
    let newest = there[there.len() - 1];
    let page = Reply::ok(format!("<p>At {newest}</p>"));
    match visit.seen.path.as_str() {
        "/feed" => Reply::ok(atom(document(HOLDS), true)),
        "/short-feed" => Reply::ok(atom(document(2), true)),
        "/undated-feed" => Reply::ok(atom(document(HOLDS), false)),
        "/dated-page" => {
            let modified = SystemTime::UNIX_EPOCH + Duration::from_secs(newest.as_millis() as u64 / 1000);
            page.header("Last-Modified", httpdate::fmt_http_date(modified))
        }
        _ => page,
    }
}

const NAMES: [&str; 5] = ["feed", "short-feed", "undated-feed", "dated-page", "page"];

/// Reloads with these settings, and returns when all rates are fitted again.
async fn reload(world: &mut World, daemon: &Daemon, settings: String, sources: &[String]) {
    sqlx::query("DELETE FROM fits").execute(&mut world.connection().await).await.unwrap();
    world.settings = settings;
    world.reload(daemon, sources).await;
    let all = sources.len() as i64;
    world.until("SELECT count(*) FROM fits", |fits| fits == all).await;
}

fn alike(found: &[f64], wanted: &[f64]) -> bool {
    let most = wanted.iter().copied().fold(0.0, f64::max);
    found.iter().zip(wanted).all(|(a, b)| (a - b).abs() <= 0.01 * b.max(0.1 * most))
}

/// The stored evidence of the sources with the silence since then, in the order of their names, as of this time.
async fn evidence(world: &World, now: Timestamp) -> Vec<(String, History, WeeklyEvidence)> {
    let query =
        "SELECT name, bytes, learned_until, last_look_at FROM histories JOIN sources ON id = source_id
                 ORDER BY name";
    let rows: Vec<(String, Vec<u8>, i64, i64)> = world.rows(query).await;
    let decode = |(name, bytes, learned, last): (String, Vec<u8>, i64, i64)| {
        let history = History::from_bytes(&bytes, TimeZone::UTC, HALF_LIFE).unwrap();
        let [at, last] = [learned, last].map(Timestamp::from_millis);
        let learned = LearnedUntil { at, review_at: Timestamp::MIN };
        let history = silence::with_pending(history, Some(learned), Some(last));
        let evidence = history.evidence(now);
        (name, history, evidence)
    };
    rows.into_iter().map(decode).collect()
}

/// The stored rate of the dated feed by hour of the week, and the zone of the hours.
async fn rate(world: &World) -> (Vec<f64>, String) {
    let query = "SELECT starts_s, ends_s, per_hour, time_zone FROM rates JOIN fits USING (source_id)
                 JOIN sources ON id = source_id WHERE name = 'feed' ORDER BY starts_s";
    let segments: Vec<(i64, i64, f64, String)> = world.rows(query).await;
    let at = |hour: i64| segments.iter().find(|row| row.0 <= hour * 3600 && hour * 3600 < row.1).unwrap().2;
    ((0..168).map(at).collect(), segments[0].3.clone())
}

/// The rate of the dated feed from the times themselves, learned with these settings.
fn from_scratch(
    (since, until): (Timestamp, Timestamp),
    zone: &TimeZone,
    half_life: Span,
    resolution: Span,
    now: Timestamp,
) -> Vec<f64> {
    let mut history = History::new(zone.clone(), half_life, now);
    history.exposed(since, until);
    published().iter().filter(|&&at| since < at && at <= until).for_each(|&at| history.update(at));
    let evidence = history.evidence(now).coarsened(Span::from_days(7), resolution);
    let rate: Rate = estimate(&evidence, None, Borrow::Never, zone).0.rate;
    let segments = rate.segments();
    let at = |hour: u32| segments.iter().find(|row| row.0 <= hour * 3600 && hour * 3600 < row.1).unwrap().2;
    (0..168).map(at).collect()
}

#[tokio::test]
async fn changed_settings_give_the_rates_of_a_fresh_start() {
    let mut world = World::new(20_000.0);
    let fleet = world.settings.clone();
    let published = published();
    let site = Site::start(&world, move |visit| reply(&published, visit)).await;
    let sources: Vec<String> = NAMES.iter().map(|name| hourly(name, &site)).collect();
    let daemon = world.start(&sources).await;
    world.pass(Span::from_days(3)).await;
    // No probe comes between the changes.
    let mut pending = world.clock.pending_work();
    pending.set(1);
    world.until("SELECT count(*) FROM flights", |started| started == 0).await;
    let now = world.clock.now();
    let learned = evidence(&world, now).await;
    assert_eq!(learned.len(), NAMES.len());
    assert_eq!(world.number("SELECT count(*) FROM bursts").await, 0);
    assert!(world.number("SELECT count(*) FROM gaps").await > 0);

    let (hour, tokyo) = (Span::from_hours(1), TimeZone::get("Asia/Tokyo").unwrap());
    let cases = [
        ("[rate]\nhalf_life = '1w'\n", TimeZone::UTC, SHORT, hour),
        ("[importance]\ntime_zone = 'Asia/Tokyo'\n", tokyo.clone(), HALF_LIFE, hour),
        ("[rate]\nresolution = '6h'\n", TimeZone::UTC, HALF_LIFE, Span::from_hours(6)),
        ("[rate]\nhalf_life = '1w'\n[importance]\ntime_zone = 'Asia/Tokyo'\n", tokyo, SHORT, hour),
        ("[rate]\nhalf_life = '8w'\n", TimeZone::UTC, HALF_LIFE, hour),
    ];
    let mut rates = Vec::new();
    for (settings, zone, half_life, resolution) in cases {
        reload(&mut world, &daemon, format!("{fleet}{settings}"), &sources).await;
        for (name, history, _) in evidence(&world, now).await {
            assert!(history.is_learned_with(&zone, half_life), "{name}, {settings}");
        }
        let (_, feed, _) = &learned[1];
        let (found, zone_of_rate) = rate(&world).await;
        assert_eq!(zone_of_rate, zone.iana_name().unwrap());
        let wanted = from_scratch(feed.span().unwrap(), &zone, half_life, resolution, now);
        assert!(alike(&found, &wanted), "{settings}: {found:?} {wanted:?}");
        rates.push(found);
    }
    assert!(rates[..4].iter().all(|rate| !alike(rate, &rates[4])), "each of the settings matters");
    // Back with the first settings, the evidence is what the probes taught.
    for ((name, old, before), (_, new, after)) in learned.iter().zip(evidence(&world, now).await) {
        assert_eq!((old.seen(), old.span()), (new.seen(), new.span()), "{name}");
        assert!(alike(&after.updates, &before.updates), "{name}: {:?} {:?}", after.updates, before.updates);
        assert!(alike(&after.hours, &before.hours), "{name}: {:?} {:?}", after.hours, before.hours);
    }
    drop(pending);
    daemon.stop().await;
}

#[tokio::test]
async fn a_source_that_gets_its_own_zone_is_learned_again() {
    let world = World::new(20_000.0);
    let published = published();
    let site = Site::start(&world, move |visit| reply(&published, visit)).await;
    let mut sources = [hourly("feed", &site), hourly("short-feed", &site)];
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM fits", |fits| fits == 2).await;
    sources[0].push_str("time_zone = 'Asia/Tokyo'\n");
    world.reload(&daemon, &sources).await;
    world.until("SELECT count(*) FROM fits WHERE time_zone = 'Asia/Tokyo'", |fits| fits == 1).await;
    assert_eq!(rate(&world).await.1, "Asia/Tokyo");
    daemon.stop().await;
}

#[tokio::test]
async fn a_shorter_interval_of_fits_is_followed_at_once() {
    let mut world = World::new(20_000.0);
    let fleet = world.settings.clone();
    let published = published();
    let site = Site::start(&world, move |visit| reply(&published, visit)).await;
    let sources = [hourly("feed", &site)];
    world.settings = format!("{fleet}[rate]\nrefit_every = '20d'\n");
    let daemon = world.start(&sources).await;
    let fitted_at = "SELECT fitted_at FROM fits";
    world.until("SELECT count(*) FROM fits", |fits| fits == 1).await;
    let first = world.number(fitted_at).await;
    world.pass(Span::from_days(1)).await;
    assert_eq!(world.number(fitted_at).await, first);
    world.settings = format!("{fleet}[rate]\nrefit_every = '8h'\n");
    let changed = world.clock.now().as_millis();
    world.reload(&daemon, &sources).await;
    let mut last = first;
    for _ in 0..3 {
        world.until(fitted_at, |at| at != last).await;
        last = world.number(fitted_at).await;
    }
    // At least one fit follows each of the first two, 8 hours later.
    assert!(last >= changed + 2 * Span::from_hours(8).as_millis(), "{first} {changed} {last}");
    assert!(last < first + Span::from_days(20).as_millis());
    daemon.stop().await;
}
