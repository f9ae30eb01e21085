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
    /// The switch of the paper (§8.1.1): the shape of the group while the own history is thin, the own
    /// history afterwards. See [`is_thin`].
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
        Borrow::Switch { individual_threshold } if is_thin(evidence, individual_threshold) => {
            borrowed(group, level, zone)
        }
        Borrow::Switch { .. } => own(),
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

/// T_ind as the paper recommends (§8.1.2): "any value around 0.5".
pub const INDIVIDUAL_THRESHOLD: f64 = 0.5;

/// Whether a history is too thin for IndHist: NumSub/NumUpdates > T_ind (§8.1.1).
///
/// NumSub is the number of intervals of the cycle in which an update was recorded. The ratio is 1 if all
/// updates are in different intervals, so none confirms another, and small if they recur in a few. A history
/// without updates is as thin as one with a single update. At T_ind = 1 no history is thin, at 0 each is.
///
/// ```
/// # use tidewatch_core::model::{aggregate::is_thin, history::WeeklyEvidence};
/// // The example of the paper: ten updates between 1:00 and 2:00, and ten in different hours.
/// let mut recurring = WeeklyEvidence::none();
/// recurring.updates[1] = 10.0;
/// let mut scattered = WeeklyEvidence::none();
/// scattered.updates[..10].fill(1.0);
/// assert!(!is_thin(&recurring, 0.5) && is_thin(&scattered, 0.5));
/// ```
pub fn is_thin(evidence: &WeeklyEvidence, individual_threshold: f64) -> bool {
    let updates = evidence.total_updates();
    let ratio = if updates > 0.0 { evidence.intervals_with_updates() / updates } else { 1.0 };
    ratio > individual_threshold
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::history::History;
    use crate::time::{Span, Timestamp};

    const DAY: Span = Span::from_days(1);
    const WEEK: Span = Span::from_days(7);
    const HOUR: Span = Span::from_hours(1);

    fn monday() -> Timestamp {
        Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
    }

    /// Two weeks in which updates came at these hours, counted from Monday 0:00.
    fn history(hours: impl IntoIterator<Item = f64>) -> WeeklyEvidence {
        let mut history = History::new(TimeZone::UTC, Span::from_days(5000), monday());
        history.exposed(monday(), monday() + WEEK + WEEK);
        hours.into_iter().for_each(|hour| history.update(monday() + HOUR.scaled(hour)));
        history.evidence(monday() + WEEK + WEEK)
    }

    fn ratio(evidence: &WeeklyEvidence) -> f64 {
        evidence.intervals_with_updates() / evidence.total_updates()
    }

    /// Bright, Gal, Raschid, §8.1.1, with a cycle of a day.
    #[test]
    fn num_sub_matches_the_example_of_the_paper() {
        // "10 updates and all occurred between 1:00 and 2:00".
        let recurring = history((0..10).map(|day| 24.0 * f64::from(day) + 1.5)).coarsened(DAY, HOUR);
        assert!((ratio(&recurring) - 0.1).abs() < 0.005, "{}", ratio(&recurring));
        // "10 updates, each of which occurred in a different interval".
        let scattered = history((0..10).map(|day| 25.0 * f64::from(day) + 1.5)).coarsened(DAY, HOUR);
        assert!((ratio(&scattered) - 1.0).abs() < 0.005, "{}", ratio(&scattered));
        assert!(!is_thin(&recurring, 0.5) && is_thin(&scattered, 0.5));
        // "for T_ind = 1, IndHist is always selected, and for T_ind = 0 AggHist".
        for evidence in [recurring, scattered, WeeklyEvidence::none()] {
            assert!(is_thin(&evidence, 0.0) && !is_thin(&evidence, 1.0));
        }
        assert!(is_thin(&WeeklyEvidence::none(), 0.5), "nothing is known");
    }

    #[test]
    fn an_interval_counts_once_at_every_resolution() {
        // Twice in each of two hours, and once in the hour after.
        let evidence = history([10.1, 10.6, 11.1, 11.6, 12.1]);
        let intervals = |cycle, resolution| evidence.coarsened(cycle, resolution).intervals_with_updates();
        for (hours, wanted) in [(1, 3.0), (2, 2.0), (4, 2.0), (8, 1.0), (12, 2.0), (24, 1.0)] {
            let got = intervals(WEEK, Span::from_hours(hours));
            assert!((got - wanted).abs() < 0.01, "{hours}: {got}");
        }
        let next_day = history([10.1, 34.1]);
        assert!((next_day.coarsened(WEEK, HOUR).intervals_with_updates() - 2.0).abs() < 0.01);
        assert!((next_day.coarsened(DAY, HOUR).intervals_with_updates() - 1.0).abs() < 0.01);
    }

    #[test]
    fn an_update_of_unknown_time_counts_as_one_interval() {
        let mut history = History::new(TimeZone::UTC, Span::from_days(5000), monday());
        history.spread(monday(), monday() + DAY, 1.0, &Rate::constant(1.0));
        let evidence = history.evidence(monday() + DAY);
        assert!((evidence.intervals_with_updates() - 1.0).abs() < 0.01);
        assert!(is_thin(&evidence, 0.5));
    }

    /// The switch where it matters: few updates in different hours go by the group, recurring ones do not.
    #[test]
    fn a_thin_history_takes_the_shape_of_its_group() {
        let busy =
            history((0..14).flat_map(|day| (9..12).map(move |hour| f64::from(24 * day + hour) + 0.5)));
        let group = Aggregate::of([&busy, &busy, &busy]);
        assert!(group.is_founded());
        let origin = |evidence: &WeeklyEvidence, individual_threshold| {
            let borrow = Borrow::Switch { individual_threshold };
            estimate(evidence, Some(&group), borrow, &TimeZone::UTC).1
        };
        let scattered = history([3.5, 40.5, 77.5, 130.5]);
        let recurring = history([10.2, 10.4, 10.6, 178.2, 178.4, 178.6]);
        assert_eq!(origin(&scattered, 0.5), RateOrigin::Aggregate);
        assert_eq!(origin(&recurring, 0.5), RateOrigin::Individual);
        assert_eq!(origin(&scattered, 1.0), RateOrigin::Individual);
        assert_eq!(origin(&recurring, 0.0), RateOrigin::Aggregate);
        let alone =
            estimate(&scattered, None, Borrow::Switch { individual_threshold: 0.5 }, &TimeZone::UTC);
        assert_eq!(alone.1, RateOrigin::Individual, "without a group");
    }
}
