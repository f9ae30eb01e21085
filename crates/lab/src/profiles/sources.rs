//! Made-up sources for profiles: Poisson at a weekly rate that is known, from 2 to 100 updates a day.
//!
//! Must not know who watches.

use crate::world::{END, by_hour, newsroom, office, poisson};
use tidewatch_core::model::steps::Steps;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// One of them.
#[derive(Debug, Clone, PartialEq)]
pub struct Source {
    /// Its number, from 0.
    pub number: usize,
    /// Updates per hour.
    pub rate: Steps,
    /// Updates in a week, in the mean.
    pub per_week: f64,
    /// When it was updated, ascending.
    pub updates: Vec<Timestamp>,
    /// Its first moment.
    pub from: Timestamp,
    /// Its end.
    pub until: Timestamp,
}

/// How rates go through the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rhythm {
    /// Offices, newsrooms and evenings in turn, somewhere on the globe.
    Weekly,
    /// None: the same day and night.
    Even,
}

/// So many sources for so many weeks; equal arguments give equal sources.
pub fn sources(rhythm: Rhythm, count: usize, weeks: i64, seed: u64) -> Vec<Source> {
    let from = END - Span::from_days(7 * weeks.max(1));
    (0..count).filter_map(|number| source(rhythm, number, count, from, seed)).collect()
}

fn source(rhythm: Rhythm, number: usize, count: usize, from: Timestamp, seed: u64) -> Option<Source> {
    let chance = &mut Stream::new(seed, format!("profile {number}"));
    let per_day = 2.0 * 50.0_f64.powf(number as f64 / (count.max(2) - 1) as f64);
    let shape = match (rhythm, number % 3) {
        (Rhythm::Even, _) => |_, _| 1.0,
        (Rhythm::Weekly, 0) => office,
        (Rhythm::Weekly, 1) => newsroom,
        (Rhythm::Weekly, _) => evenings,
    };
    let rate = by_hour(chance, 7.0 * per_day, 7.0 * per_day, shape)?;
    let (updates, rate) = poisson(rate, from, chance);
    Some(Source { number, rate, per_week: 7.0 * per_day, updates, from, until: END })
}

/// After work, and less at weekends.
fn evenings(day: usize, hour: usize) -> f64 {
    match (day, hour) {
        (0..5, 18..24) => 1.0,
        (0..5, 7..18) => 0.15,
        (5.., 10..24) => 0.4,
        _ => 0.05,
    }
}
