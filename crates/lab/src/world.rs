//! Simulated sources, for comparisons without recorded traces.
//!
//! Policies can be tested without a record of real sources, and against a known true rate. There are six
//! kinds in turn, from a newsroom to a page that changes twice a month. The level of each source and its
//! hours are drawn from the seed. All traces end on one date, so equal arguments give equal worlds on any
//! day. Must not know the policies.

use jiff::tz::TimeZone;

use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::trace::Trace;

/// Monday, 2026-11-16.
pub(super) const END: Timestamp = Timestamp::from_secs(1_794_787_200);

const DAY: Span = Span::from_days(1);
const HOUR_MS: f64 = 3_600_000.0;
const HOURS: usize = 168;
const ALL_DAYS: u8 = 0b111_1111;

/// ρ: the mean number of further updates that an update of a burst triggers.
const BRINGS: f64 = 0.5;

/// β: their mean delay after it.
const WITHIN: Span = Span::from_mins(30);

/// The kinds of sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WorldKind {
    /// In working hours.
    Office,
    /// Day and night, at a high rate.
    Newsroom,
    /// A job at a fixed minute of the night.
    Nightly,
    /// A job at a fixed minute of every n-th hour.
    Hourly,
    /// A few occasions with several updates each (bursts).
    Flurries,
    /// A few updates a month.
    Seldom,
}

impl WorldKind {
    const ALL: [Self; 6] =
        [Self::Office, Self::Newsroom, Self::Nightly, Self::Hourly, Self::Flurries, Self::Seldom];

    fn name(self) -> &'static str {
        match self {
            Self::Office => "office",
            Self::Newsroom => "newsroom",
            Self::Nightly => "nightly",
            Self::Hourly => "hourly",
            Self::Flurries => "flurries",
            Self::Seldom => "seldom",
        }
    }
}

/// `count` sources, for `weeks` weeks up to 2026-11-16. The truth of each is its mean rate over such worlds;
/// office, newsroom and seldom are Poisson processes of that rate.
///
/// ```
/// # use tidewatch_lab::world::world;
/// let sources = world(7, 12, 1);
/// assert_eq!((sources[0].name.as_str(), sources[6].name.as_str()), ("office-1", "office-2"));
/// assert_eq!(sources, world(7, 12, 1));
/// ```
pub fn world(count: usize, weeks: i64, seed: u64) -> Vec<Trace> {
    let from = END - Span::from_days(7 * weeks.max(0));
    (0..count).filter_map(|index| source(index, from, seed)).collect()
}

fn source(index: usize, from: Timestamp, seed: u64) -> Option<Trace> {
    let kind = WorldKind::ALL[index % WorldKind::ALL.len()];
    let name = format!("{}-{}", kind.name(), index / WorldKind::ALL.len() + 1);
    let chance = &mut Stream::new(seed, format!("world {name}"));
    let (mut events, truth) = match kind {
        WorldKind::Office => poisson(by_hour(chance, 3.0, 150.0, office)?, from, chance),
        WorldKind::Newsroom => poisson(by_hour(chance, 60.0, 2000.0, newsroom)?, from, chance),
        WorldKind::Seldom => poisson(by_hour(chance, 0.5, 2.0, office)?, from, chance),
        WorldKind::Nightly => {
            let at = (chance.unit() * 6.0) as u16;
            let (minute, width) = ((chance.unit() * 50.0) as u16, 2 + (chance.unit() * 8.0) as u16);
            let kept = 0.8 + 0.2 * chance.unit();
            job(&[at], minute, width, kept, from, chance)?
        }
        WorldKind::Hourly => {
            let every = [1, 2, 3, 4, 6, 8, 12][(chance.unit() * 7.0) as usize % 7];
            let first = (chance.unit() * every as f64) as u16;
            let hours: Vec<u16> = (first..24).step_by(every).collect();
            let (minute, width) = ((chance.unit() * 55.0) as u16, 1 + (chance.unit() * 3.0) as u16);
            job(&hours, minute, width, 0.97, from, chance)?
        }
        WorldKind::Flurries => {
            let occasions = by_hour(chance, 2.0, 30.0, newsroom)?;
            let truth = steps(brought(&occasions))?;
            let (firsts, _) = poisson(occasions, from, chance);
            (with_others(firsts, chance), truth)
        }
    };
    events.retain(|&at| at >= from && at < END);
    events.sort_unstable();
    Some(Trace { truth: Some(truth), ..Trace::new(name, kind.name(), events) })
}

/// Relative rate of an hour for a source with working hours.
pub(super) fn office(day: usize, hour: usize) -> f64 {
    match (day, hour) {
        (0..5, 9..18) => 1.0,
        (0..5, 7..9 | 18..22) => 0.2,
        (0..5, _) => 0.02,
        _ => 0.05,
    }
}

/// Relative rate of an hour for a source that publishes day and night.
pub(super) fn newsroom(day: usize, hour: usize) -> f64 {
    let by_day = if (6..22).contains(&hour) { 1.0 } else { 0.25 };
    if day < 5 { by_day } else { 0.6 * by_day }
}

/// A weekly rate of this shape, with a random level between these limits in updates a week and a random time
/// zone.
pub(super) fn by_hour(
    chance: &mut Stream,
    least: f64,
    most: f64,
    shape: fn(usize, usize) -> f64,
) -> Option<Steps> {
    let per_week = least * (most / least).powf(chance.unit());
    let shift = (chance.unit() * 24.0) as usize;
    let weights: Vec<f64> =
        (0..HOURS).map(|hour| (hour + shift) % HOURS).map(|local| shape(local / 24, local % 24)).collect();
    let all: f64 = weights.iter().sum();
    steps(weights.into_iter().map(|weight| per_week * weight / all))
}

/// A rate for each hour of the week.
pub(super) fn steps(hours: impl IntoIterator<Item = f64>) -> Option<Steps> {
    let ends = hours.into_iter().zip(1..).map(|(per_hour, end)| (end * 3600, per_hour));
    Rate::new(TimeZone::UTC, ends).ok().map(|rate| Steps::from(&rate))
}

/// Poisson updates at that rate.
pub(super) fn poisson(rate: Steps, from: Timestamp, chance: &mut Stream) -> (Vec<Timestamp>, Steps) {
    let mut events = Vec::new();
    let mut begins = 0;
    for (ends, per_hour) in rate.over(from, END) {
        let mut at = begins as f64 + exponential(chance) * HOUR_MS / per_hour;
        while at < ends as f64 {
            events.push(second(from + Span::from_millis(at as i64)));
            at += exponential(chance) * HOUR_MS / per_hour;
        }
        begins = ends;
    }
    (events, rate)
}

/// A job at a minute of these hours, up to `width` minutes late. It is skipped with probability 1 − `kept`.
fn job(
    hours: &[u16],
    minute: u16,
    width: u16,
    kept: f64,
    from: Timestamp,
    chance: &mut Stream,
) -> Option<(Vec<Timestamp>, Steps)> {
    let mut events = Vec::new();
    let mut day = from;
    while day < END {
        for hour in hours {
            let late = Span::from_mins(i64::from(width)).scaled(chance.unit());
            if chance.unit() < kept {
                events.push(second(day + Span::from_mins(i64::from(hour * 60 + minute)) + late));
            }
        }
        day += DAY;
    }
    let window = |hour: &u16| {
        let from_minute = hour * 60 + minute;
        let until_minute = (from_minute + width - 1) % 1440 + 1;
        (WeekWindow { days: ALL_DAYS, from_minute, until_minute }, kept * 60.0 / f64::from(width))
    };
    let windows: Vec<_> = hours.iter().map(window).collect();
    Some((events, Steps::windows(TimeZone::UTC, 0.0, &windows).ok()?))
}

/// These updates and all that they trigger, directly or indirectly.
fn with_others(mut events: Vec<Timestamp>, chance: &mut Stream) -> Vec<Timestamp> {
    let mut next = 0;
    while let Some(&event) = events.get(next) {
        // A Poisson number with mean ρ: unit-rate arrivals before ρ.
        let mut passed = exponential(chance);
        while passed < BRINGS {
            events.push(second(event + WITHIN.scaled(exponential(chance))));
            passed += exponential(chance);
        }
        next += 1;
    }
    events
}

/// The mean rate, hour by hour, if each update triggers others: m = μ + E, where E follows ρ·m with the delay
/// β.
fn brought(occasions: &Steps) -> Vec<f64> {
    let monday = END;
    let pieces = occasions.over(monday, monday + Span::from_days(7));
    let fade = (-60.0 / WITHIN.as_secs_f64()).exp();
    let (mut hours, mut excited) = (vec![0.0; HOURS], 0.0);
    // The first week only provides the initial E of the second.
    for week in 0..2 {
        let mut pieces = pieces.iter().peekable();
        for minute in 0..HOURS * 60 {
            while pieces.next_if(|piece| piece.0 <= minute as i64 * 60_000).is_some() {}
            let rate = pieces.peek().map_or(0.0, |piece| piece.1) + excited;
            excited = excited * fade + BRINGS * rate * (1.0 - fade);
            if week == 1 {
                hours[minute / 60] += rate / 60.0;
            }
        }
    }
    hours
}

/// An exponential variate with mean 1.
fn exponential(chance: &mut Stream) -> f64 {
    -(1.0 - chance.unit()).ln()
}

/// Rounds down to whole seconds, the resolution of traces.
fn second(at: Timestamp) -> Timestamp {
    Timestamp::from_secs(at.as_millis().div_euclid(1000))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expected(trace: &Trace, from: Timestamp) -> f64 {
        let mut begins = 0;
        let pieces = trace.truth.as_ref().unwrap().over(from, END);
        let sum = |(ends, rate): (i64, f64)| {
            let hours = (ends - std::mem::replace(&mut begins, ends)) as f64 / HOUR_MS;
            hours * rate
        };
        pieces.into_iter().map(sum).sum()
    }

    #[test]
    fn number_of_updates_matches_the_true_rate() {
        let weeks = 200;
        let from = END - Span::from_days(7 * weeks);
        for trace in world(24, weeks, 3) {
            let (found, expected) = (trace.events.len() as f64, expected(&trace, from));
            // Clusters scatter more: by 1/(1 − ρ)² = 4 in variance. Jobs scatter less.
            let deviations = (found - expected) / (4.0 * expected).sqrt();
            assert!(deviations.abs() < 3.0, "{}: {found} of {expected}", trace.name);
            assert!(trace.events.is_sorted() && trace.events.iter().all(|&at| at >= from && at < END));
        }
    }

    #[test]
    fn jobs_are_in_their_windows() {
        for trace in world(60, 8, 5).iter().filter(|trace| ["nightly", "hourly"].contains(&&*trace.kind)) {
            for &event in &trace.events {
                let pieces = trace.truth.as_ref().unwrap().over(event, event + Span::from_millis(1));
                assert!(pieces[0].1 > 0.0, "{} at {event}", trace.name);
            }
        }
    }

    #[test]
    fn updates_of_bursts_are_clustered() {
        let worlds = world(60, 50, 2);
        let near = |kind: &str| {
            let (mut close, mut all) = (0, 0);
            for trace in worlds.iter().filter(|trace| trace.kind == kind) {
                let gaps = trace.events.windows(2).map(|pair| pair[1] - pair[0]);
                close += gaps.filter(|&gap| gap < Span::from_hours(1)).count();
                all += trace.events.len();
            }
            close as f64 / all as f64
        };
        assert!(near("flurries") > 0.35 && near("seldom") < 0.1, "{} {}", near("flurries"), near("seldom"));
    }

    #[test]
    fn rates_vary_and_depend_on_the_seed_only() {
        let offices: Vec<usize> = world(300, 12, 1)
            .iter()
            .filter(|trace| trace.kind == "office")
            .map(|trace| trace.events.len())
            .collect();
        assert!(*offices.iter().max().unwrap() > 20 * offices.iter().min().unwrap().max(&1));
        assert_ne!(world(6, 12, 1), world(6, 12, 2));
        // A source does not depend on the number of sources.
        assert_eq!(world(6, 12, 1), world(600, 12, 1)[..6]);
    }
}
