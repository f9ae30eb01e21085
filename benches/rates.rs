//! The number of sources that can be fitted in a second, and of updates that can be counted.
//!
//! `cargo bench --bench rates`. Ten thousand sources of 500 updates each over half a year; building their
//! histories is not measured.

use std::hint::black_box;
use std::io::Write;

use jiff::tz::TimeZone;
use tidewatch::clock::Stopwatch;
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::history::History;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

const SOURCES: usize = 10_000;
const UPDATES: usize = 500;
const HALF_LIFE: Span = Span::from_days(56);
const WATCHED: Span = Span::from_days(182);

/// Updates on working days from 9 to 17, three in four; the others at any time.
fn updates(from: Timestamp, stream: &mut Stream) -> Vec<Timestamp> {
    let mut any = || {
        let at = WATCHED.scaled(stream.unit());
        let (day, hour) = (at.as_millis() / 86_400_000 % 7, at.as_millis() / 3_600_000 % 24);
        (at, day < 5 && (9..17).contains(&hour), stream.unit() < 0.1)
    };
    let mut list = Vec::with_capacity(UPDATES);
    while list.len() < UPDATES {
        let (at, office, stray) = any();
        if office || stray {
            list.push(from + at);
        }
    }
    list.sort_unstable();
    list
}

fn main() -> std::io::Result<()> {
    let from = Timestamp::from_secs(1_767_571_200);
    let now = from + WATCHED;
    let zone = TimeZone::UTC;
    let mut stream = Stream::new(1, "rates");
    let events: Vec<Vec<Timestamp>> = (0..SOURCES).map(|_| updates(from, &mut stream)).collect();
    // Exposure is the same for all, so it is measured once and copied.
    let mut watched = History::new(zone.clone(), HALF_LIFE, now);
    watched.exposed(from, now);
    let mut histories = vec![watched; SOURCES];

    let stopwatch = Stopwatch::start();
    for (history, events) in histories.iter_mut().zip(&events) {
        events.iter().for_each(|&event| history.update(event));
    }
    let counted = stopwatch.elapsed().as_secs_f64();

    let stopwatch = Stopwatch::start();
    let mut segments = 0;
    for history in &histories {
        let evidence = history.evidence(now);
        segments += black_box(fit(&evidence, &WeeklyPrior::flat(level(&evidence)), &zone)).segments;
    }
    let fitted = stopwatch.elapsed().as_secs_f64();

    let out = &mut std::io::stdout().lock();
    writeln!(out, "fit: {:.0} sources a second", SOURCES as f64 / fitted)?;
    writeln!(out, "     {:.1} segments a source", segments as f64 / SOURCES as f64)?;
    let all = (SOURCES * UPDATES) as f64;
    writeln!(
        out,
        "History::update: {:.0} sources a second ({UPDATES} updates each)",
        SOURCES as f64 / counted
    )?;
    writeln!(out, "                 {:.1} million updates a second", all / counted / 1e6)
}
