//! Simulated sources for profiles: Poisson processes with a known weekly rate, from 2 to 100 updates a day.
//!
//! Must not know the policies.

use crate::world::{END, by_hour, newsroom, office, poisson};
use tidewatch_core::model::steps::Steps;
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// A simulated source.
#[derive(Debug, Clone, PartialEq)]
pub struct ProfileSource {
    /// Its number, from 0.
    pub number: usize,
    /// Updates per hour.
    pub rate: Steps,
    /// Mean number of updates in a week.
    pub per_week: f64,
    /// Update times, ascending.
    pub updates: Vec<Timestamp>,
    /// Start of its time span.
    pub from: Timestamp,
    /// End of its time span.
    pub until: Timestamp,
}

/// The variation of rates over the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProfileRhythm {
    /// Offices, newsrooms and evenings in turn, each in a random time zone.
    Weekly,
    /// A constant rate.
    Even,
}

/// `count` sources for `weeks` weeks; equal arguments give equal sources.
pub fn sources(rhythm: ProfileRhythm, count: usize, weeks: i64, seed: u64) -> Vec<ProfileSource> {
    let from = END - Span::from_days(7 * weeks.max(1));
    (0..count).filter_map(|number| source(rhythm, number, count, from, seed)).collect()
}

fn source(
    rhythm: ProfileRhythm,
    number: usize,
    count: usize,
    from: Timestamp,
    seed: u64,
) -> Option<ProfileSource> {
    let chance = &mut Stream::new(seed, format!("profile {number}"));
    let per_day = 2.0 * 50.0_f64.powf(number as f64 / (count.max(2) - 1) as f64);
    let shape = match (rhythm, number % 3) {
        (ProfileRhythm::Even, _) => |_, _| 1.0,
        (ProfileRhythm::Weekly, 0) => office,
        (ProfileRhythm::Weekly, 1) => newsroom,
        (ProfileRhythm::Weekly, _) => evenings,
    };
    let rate = by_hour(chance, 7.0 * per_day, 7.0 * per_day, shape)?;
    let (updates, rate) = poisson(rate, from, chance);
    Some(ProfileSource { number, rate, per_week: 7.0 * per_day, updates, from, until: END })
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
