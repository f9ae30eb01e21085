//! The shape that the sources of a group share, and its weight in the rate of one source.
//!
//! AggHist (Bright, Gal, Raschid §6.2) is the rate of the group scaled by the share of the source. The
//! switch of the paper uses it instead of the source's own history while that is thin. The default here is a
//! blend: the shape of the group is the prior of the source's own fit. Its weight against a flat prior is
//! how well each predicted the evidence so far. May not know where histories are stored.

use jiff::tz::TimeZone;

use super::cyclic::Rate;
use super::fit::{Cycle, Fitted, WeeklyPrior, fit, level, to_rate};
use super::history::{CELLS, WeeklyEvidence};

/// The shape of a group: relative rates by hour of the week, with mean 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Aggregate {
    shape: Vec<f64>,
    /// Independent events behind the shape.
    weight: f64,
    sources: u32,
}

/// The accumulated evidence of a group.
#[derive(Debug, Clone, PartialEq)]
pub struct EvidenceSum {
    sums: Vec<f64>,
    weight: f64,
    sources: u32,
}

/// Upper bound on the weight of one source, so that no busy one dominates the group.
const MOST_WEIGHT: f64 = 50.0;

/// Minimum evidence and minimum number of sources for a usable shape.
const LEAST_WEIGHT: f64 = 20.0;
const LEAST_SOURCES: u32 = 3;

/// The share of the shape that is spread over the week, so that no hour has rate zero.
const ANYWHEN: f64 = 0.05;

impl Default for EvidenceSum {
    fn default() -> Self {
        Self { sums: vec![0.0; CELLS], weight: 0.0, sources: 0 }
    }
}

impl EvidenceSum {
    /// Adds the shape of a source, weighted by its independent events.
    pub fn add(&mut self, evidence: &WeeklyEvidence) {
        let flurries = (evidence.total_updates() / evidence.clumping).min(MOST_WEIGHT);
        let mean = evidence.total_updates() / evidence.total_hours();
        if flurries < 1.0 || !mean.is_finite() || mean <= 0.0 {
            return;
        }
        self.sources += 1;
        self.weight += flurries;
        for (cell, sum) in self.sums.iter_mut().enumerate() {
            if evidence.hours[cell] > 0.0 {
                *sum += flurries * evidence.updates[cell] / evidence.hours[cell] / mean;
            }
        }
    }

    /// The shape of the group.
    pub fn aggregate(&self) -> Aggregate {
        let total: f64 = self.sums.iter().sum();
        let share = |sum: &f64| ANYWHEN + (1.0 - ANYWHEN) * sum * CELLS as f64 / total;
        let shape = if total > 0.0 { self.sums.iter().map(share).collect() } else { vec![1.0; CELLS] };
        Aggregate { shape, weight: self.weight, sources: self.sources }
    }
}

impl Aggregate {
    /// The shape of a group from the evidence of its sources.
    pub fn of<'e>(sources: impl IntoIterator<Item = &'e WeeklyEvidence>) -> Self {
        let mut sum = EvidenceSum::default();
        sources.into_iter().for_each(|evidence| sum.add(evidence));
        sum.aggregate()
    }

    /// Whether the evidence suffices for a usable shape.
    pub fn is_founded(&self) -> bool {
        self.weight >= LEAST_WEIGHT && self.sources >= LEAST_SOURCES
    }

    /// AggHist: the group's shape at the source's own level.
    pub fn history(&self, level: f64, zone: &TimeZone) -> Rate {
        to_rate(&WeeklyPrior::shaped(level, &self.shape).per_hour, zone)
    }

    /// The posterior probability that the source follows the shape of the group rather than a flat one.
    pub fn credence(&self, evidence: &WeeklyEvidence) -> f64 {
        if !self.is_founded() {
            return 0.0;
        }
        let level = level(evidence);
        let gain: f64 = (0..CELLS)
            .map(|cell| {
                let updates = evidence.updates[cell] * self.shape[cell].ln();
                updates - level * evidence.hours[cell] * (self.shape[cell] - 1.0)
            })
            .sum();
        1.0 / (1.0 + (-gain / evidence.clumping).exp())
    }
}

/// The origin of a rate, as stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RateOrigin {
    /// The source's own evidence.
    Individual,
    /// The group's shape.
    Aggregate,
    /// Both.
    Blend,
}

impl RateOrigin {
    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Individual => "individual",
            Self::Aggregate => "aggregate",
            Self::Blend => "blend",
        }
    }

    /// The origin of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Individual, Self::Aggregate, Self::Blend].into_iter().find(|origin| origin.name() == name)
    }
}

/// The use of the group's shape in a source's rate.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Borrow {
    /// The shape of the group is the prior of the source's fit, weighted by its credence.
    #[default]
    Blend,
    /// The switch of the paper (§8.1): the shape of the group while NumSub/NumUpdates exceeds the threshold,
    /// the own history afterwards.
    Switch {
        /// T_ind.
        individual_threshold: f64,
    },
    /// Nothing.
    Never,
    /// The shape of the group at the source's level, independent of its evidence (§6.2).
    Always,
}

/// The rate of a source from its own evidence and its group.
pub fn estimate(
    evidence: &WeeklyEvidence,
    group: Option<&Aggregate>,
    borrow: Borrow,
    zone: &TimeZone,
) -> (Fitted, RateOrigin) {
    let level = level(evidence);
    let own = || (fit(evidence, &WeeklyPrior::flat(level), zone), RateOrigin::Individual);
    let Some(group) = group.filter(|group| group.is_founded()) else { return own() };
    match borrow {
        Borrow::Never => own(),
        Borrow::Blend => blend(evidence, Some(group), zone),
        Borrow::Always => borrowed(group, level, zone),
        Borrow::Switch { individual_threshold } => {
            let (fitted, origin) = own();
            match prefers_aggregate(fitted.segments, evidence.total_updates(), individual_threshold) {
                true => borrowed(group, level, zone),
                false => (fitted, origin),
            }
        }
    }
}

fn borrowed(group: &Aggregate, level: f64, zone: &TimeZone) -> (Fitted, RateOrigin) {
    let rate = group.history(level, zone);
    (Fitted { rate, cycle: Cycle::None, segments: 1, gain: 0.0 }, RateOrigin::Aggregate)
}

/// The default rate of a source: its own fit with the shape of the group as the prior, weighted by credence.
pub fn blend(
    evidence: &WeeklyEvidence,
    group: Option<&Aggregate>,
    zone: &TimeZone,
) -> (Fitted, RateOrigin) {
    let level = level(evidence);
    let credence = group.map_or(0.0, |group| group.credence(evidence));
    let Some(group) = group.filter(|_| credence > 0.01) else {
        return (fit(evidence, &WeeklyPrior::flat(level), zone), RateOrigin::Individual);
    };
    let shape: Vec<f64> = group.shape.iter().map(|share| credence * share + 1.0 - credence).collect();
    let fitted = fit(evidence, &WeeklyPrior::shaped(level, &shape), zone);
    let origin = if fitted.segments > 1 { RateOrigin::Blend } else { RateOrigin::Aggregate };
    (fitted, origin)
}

/// The switch of the paper (§8.1): AggHist while NumSub/NumUpdates exceeds the threshold. NumSub is the
/// number of subsets of the own history.
fn prefers_aggregate(subsets: usize, updates: f64, individual_threshold: f64) -> bool {
    subsets as f64 > individual_threshold * updates
}
