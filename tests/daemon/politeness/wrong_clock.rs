//! A clock that is years ahead for an hour: what was learned before, meanwhile and after is as by a clock that was never
//! wrong.

use std::sync::{Arc, Mutex};

use tidewatch::clock::Clock;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_fixtures::loopback::Reply;

use super::world::{Site, World, monday, source};

const YEAR: Span = Span::from_days(365);

/// The clock, and by how much it is ahead.
type AheadClock = Arc<Mutex<(Clock, Span)>>;

fn set(clock: &AheadClock, by: Span) {
    let mut clock = clock.lock().unwrap();
    clock.0.set(by);
    clock.1 = clock.1 + by;
}

/// A feed of the last 40 items. One comes every two hours, for three weeks before Monday and since then.
fn feed(real: Timestamp) -> String {
    let every = Span::from_hours(2).as_millis();
    let last = (real - monday()).as_millis().div_euclid(every);
    let entry = |n: i64| {
        let at = (monday() + Span::from_millis(n * every)).iso();
        format!(
            "<entry><id>urn:{n}</id><title>{n}</title><published>{at}</published><updated>{at}</updated></entry>"
        )
    };
    let entries: String = (last - 39..=last).rev().map(entry).collect();
    format!(
        "<feed xmlns=\"http://www.w3.org/2005/Atom\"><id>urn:f</id><title>f</title><updated>2026-11-16T00:00:00Z</updated>\
         {entries}</feed>"
    )
}

/// How the clock was wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Wrong {
    Never,
    /// Set while the daemon runs, and set back while it runs.
    Running,
    /// The same, set back while it is stopped.
    Stopped,
    /// From before the first probe on.
    FirstContact,
}

/// The rate per week after all, as fitted while the daemon runs and at another start, and the probes of the next day.
async fn learned(wrong: Wrong, ahead: Span) -> [f64; 3] {
    let world = World::new(3600.0).named(&["feed.example"]);
    let clock: AheadClock = Arc::new(Mutex::new((world.clock.clone(), Span::ZERO)));
    let shown = Arc::clone(&clock);
    let site = Site::start(&world, move |_| {
        let clock = shown.lock().unwrap();
        Reply::ok(feed(clock.0.now() - clock.1))
    })
    .await;
    let sources = [source("feed", &site.url_as("feed.example", "/feed"))];
    if wrong == Wrong::FirstContact {
        set(&clock, ahead);
    }
    let daemon = world.start(&sources).await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= 8).await;
    world.until("SELECT count(*) FROM fits", |fits| fits == 1).await;
    let before = world.number("SELECT count(*) FROM probes").await;
    if matches!(wrong, Wrong::Running | Wrong::Stopped) {
        set(&clock, ahead);
        world.until("SELECT count(*) FROM events WHERE kind = 'clock_set'", |events| events == 1).await;
    }
    world.until("SELECT count(*) FROM probes", |probes| probes >= before + 4).await;
    let back = clock.lock().unwrap().1;
    let daemon = match wrong {
        Wrong::Stopped => {
            daemon.stop().await;
            set(&clock, -back);
            world.start(&sources).await
        }
        _ => {
            set(&clock, -back);
            daemon
        }
    };
    let since = world.number("SELECT count(*) FROM probes").await;
    world.until("SELECT count(*) FROM probes", |probes| probes >= since + 4).await;
    // The fit since then is by the right clock.
    world.until("SELECT count(*) FROM fits WHERE fitted_at < 1798761600000", |fits| fits == 1).await;
    let per_week = "SELECT CAST(1000 * per_week AS INTEGER) FROM fits";
    let while_running = world.number(per_week).await;
    daemon.stop().await;
    let daemon = world.start(&sources).await;
    let probes = world.number("SELECT count(*) FROM probes").await;
    let fitted = world.number("SELECT fitted_at FROM fits").await;
    world.pass(Span::from_days(1)).await;
    let of_a_day = world.number("SELECT count(*) FROM probes").await - probes;
    daemon.stop().await;
    assert!(world.number("SELECT fitted_at FROM fits").await >= fitted);
    let at_start = world.number(per_week).await;
    [while_running as f64 / 1000.0, at_start as f64 / 1000.0, of_a_day as f64]
}

#[tokio::test]
async fn a_clock_that_was_years_ahead_for_an_hour_teaches_nothing() {
    let right = learned(Wrong::Never, Span::ZERO).await;
    // Twelve a day.
    assert!((70.0..100.0).contains(&right[0]), "{right:?}");
    for (wrong, ahead) in [
        (Wrong::Running, YEAR.scaled(3.0)),
        (Wrong::Stopped, YEAR.scaled(1.1)),
        (Wrong::Stopped, YEAR.scaled(9.5)),
        (Wrong::FirstContact, YEAR.scaled(3.0)),
    ] {
        let learned = learned(wrong, ahead).await;
        let ratios = [0, 1, 2].map(|at| learned[at] / right[at]);
        let what = format!("{wrong:?}, {ahead}: {learned:?} instead of {right:?}");
        assert!(ratios[..2].iter().all(|ratio| (0.93..1.07).contains(ratio)), "{what}");
        assert!((0.75..1.33).contains(&ratios[2]), "{what}");
    }
}
