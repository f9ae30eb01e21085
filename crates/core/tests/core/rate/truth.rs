//! Sources whose true rate is known: drawn from seeds, so that every run sees the same.

use jiff::tz::TimeZone;
use tidewatch_core::model::cyclic::{Rate, WEEK_S};
use tidewatch_core::model::history::{CELLS, History};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// A Monday, midnight UTC.
pub fn monday() -> Timestamp {
    Timestamp::parse_iso("2026-01-05T00:00:00Z").unwrap()
}

pub const HALF_LIFE: Span = Span::from_days(56);
pub const WEEKS: i64 = 26;

pub fn end() -> Timestamp {
    monday() + Span::from_days(7 * WEEKS)
}

/// True rates per hour, by hour of the week.
pub type Cells = Vec<f64>;

/// A rate of `per_day` updates a day on average, in the chosen hours.
pub fn in_hours(per_day: f64, chosen: impl Fn(usize, usize) -> bool) -> Cells {
    let inside: Vec<bool> = (0..CELLS).map(|cell| chosen(cell / 24, cell % 24)).collect();
    let count = inside.iter().filter(|inside| **inside).count() as f64;
    inside.iter().map(|&inside| if inside { 7.0 * per_day / count } else { 0.0 }).collect()
}

pub fn is_office(day: usize, hour: usize) -> bool {
    day < 5 && (9..17).contains(&hour)
}

pub fn steady(per_day: f64) -> Cells {
    in_hours(per_day, |_, _| true)
}

pub fn office(per_day: f64) -> Cells {
    in_hours(per_day, is_office)
}

pub fn weekend(per_day: f64) -> Cells {
    in_hours(per_day, |day, _| day >= 5)
}

pub fn rate_of(cells: &[f64]) -> Rate {
    let ends = (1..).map(|hour| hour * WEEK_S / CELLS as u32);
    Rate::new(TimeZone::UTC, ends.zip(cells.iter().copied())).unwrap()
}

pub fn exponential(stream: &mut Stream) -> f64 {
    -(1.0 - stream.unit()).ln()
}

/// Poisson updates of such rates, by thinning, over whole weeks from the first Monday.
pub fn poisson(cells: &[f64], weeks: i64, stream: &mut Stream) -> Vec<Timestamp> {
    let most = cells.iter().copied().fold(0.0, f64::max);
    let (mut at, end) = (0.0, 168.0 * weeks as f64);
    let mut events = Vec::new();
    loop {
        at += exponential(stream) / most;
        if at >= end {
            return events;
        }
        if stream.unit() * most < cells[at as usize % CELLS] {
            events.push(monday() + Span::from_millis((at * 3.6e6) as i64));
        }
    }
}

/// Every night within the minute of 03:17, with this probability.
pub fn cron(probability: f64, weeks: i64, stream: &mut Stream) -> Vec<Timestamp> {
    let nights = (0..7 * weeks).filter_map(|night| {
        let second = (60.0 * stream.unit()) as i64;
        (stream.unit() < probability)
            .then(|| monday() + Span::from_days(night) + Span::from_mins(197) + Span::from_secs(second))
    });
    nights.collect()
}

/// The evidence from a feed with correct dates.
pub fn feed(events: &[Timestamp], until: Timestamp) -> History {
    let mut history = History::new(TimeZone::UTC, HALF_LIFE, until);
    history.exposed(monday(), until);
    events.iter().for_each(|&event| history.update(event));
    history
}

/// Probe times: every hour, or after exponential gaps of that mean.
pub fn probe_times(regular: bool, until: Timestamp, stream: &mut Stream) -> Vec<Timestamp> {
    let mut list = vec![monday()];
    let mut at = monday();
    while at < until {
        let hours = if regular { 1.0 } else { exponential(stream) };
        at += Span::from_hours(1).scaled(hours);
        list.push(at);
    }
    list
}

/// Whether a page changed between two such probes.
pub fn bits(events: &[Timestamp], probe_times: &[Timestamp]) -> Vec<(Timestamp, Timestamp, bool)> {
    let before = |at: Timestamp| events.partition_point(|&event| event < at);
    probe_times.windows(2).map(|pair| (pair[0], pair[1], before(pair[1]) > before(pair[0]))).collect()
}
