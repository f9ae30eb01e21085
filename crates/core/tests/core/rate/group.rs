//! The rhythm of a group for its sources, and the scatter of daily counts around a rhythm.

use jiff::tz::TimeZone;
use tidewatch_core::model::aggregate::{Aggregate, RateOrigin, blend};
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::history::{CELLS, History, WeeklyEvidence};
use tidewatch_core::model::residuals::{dispersion, rescaled};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::truth::{
    HALF_LIFE, cron, end, feed, in_hours, is_office, monday, office, poisson, rate_of, steady,
};

fn offices() -> Aggregate {
    let all: Vec<WeeklyEvidence> = (0..10)
        .map(|seed| {
            feed(&poisson(&office(2.0), 26, &mut Stream::new(seed, "group")), end()).evidence(end())
        })
        .collect();
    Aggregate::of(&all)
}

/// The share of a rate's week that lies in office hours.
fn in_office(rate: &Rate) -> f64 {
    let hour = |cell: usize| rate.at(monday() + Span::from_hours(cell as i64));
    (0..CELLS).filter(|cell| is_office(cell / 24, cell % 24)).map(hour).sum::<f64>() / rate.per_week()
}

#[test]
fn a_new_source_gets_its_groups_rhythm() {
    let group = offices();
    assert!(group.is_founded());
    // The first fetch shows nothing new: an hour of exposure and no update.
    let mut history = History::new(TimeZone::UTC, HALF_LIFE, end());
    history.exposed(end() - Span::from_hours(1), end());
    for evidence in [WeeklyEvidence::none(), history.evidence(end())] {
        let (fitted, origin) = blend(&evidence, Some(&group), &TimeZone::UTC);
        // Office hours are 24 % of the week.
        assert!(in_office(&fitted.rate) > 0.5, "{}", in_office(&fitted.rate));
        assert_eq!(origin, RateOrigin::Aggregate);
    }
}

#[test]
fn a_source_with_its_own_rhythm_is_not_changed_by_its_group() {
    let group = offices();
    let nights = in_hours(5.0, |_, hour| !(7..19).contains(&hour));
    let evidence = feed(&poisson(&nights, 26, &mut Stream::new(1, "nights")), end()).evidence(end());
    assert!(group.credence(&evidence) < 1e-6);
    let (fitted, origin) = blend(&evidence, Some(&group), &TimeZone::UTC);
    assert_eq!(origin, RateOrigin::Individual);
    assert_eq!(fitted, fit(&evidence, &WeeklyPrior::flat(level(&evidence)), &TimeZone::UTC));
    assert!(in_office(&fitted.rate) < 0.05, "{}", in_office(&fitted.rate));
}

#[test]
fn a_group_with_little_evidence_is_not_used() {
    let few = feed(&[monday(), end() - Span::from_hours(1)], end()).evidence(end());
    let group = Aggregate::of([&few]);
    assert!(!group.is_founded());
    assert_eq!(blend(&WeeklyEvidence::none(), Some(&group), &TimeZone::UTC).1, RateOrigin::Individual);
}

fn scatter(events: &[Timestamp]) -> f64 {
    let evidence = feed(events, end()).evidence(end());
    let rate = fit(&evidence, &WeeklyPrior::flat(level(&evidence)), &TimeZone::UTC).rate;
    dispersion(&evidence, &rate).unwrap()
}

#[test]
fn poisson_sources_scatter_as_poisson_numbers_do() {
    for seed in 0..5 {
        for cells in [steady(5.0), office(5.0), steady(0.5)] {
            // Some 100 effective days: the variance of the ratio is about 2/100, four sigmas 0.57.
            let found = scatter(&poisson(&cells, 26, &mut Stream::new(seed, "scatter")));
            assert!((found - 1.0).abs() < 0.57, "{seed}: {found}");
        }
    }
}

#[test]
fn bursts_scatter_more_and_clockwork_less() {
    for seed in 0..5 {
        let starts = poisson(&steady(0.5), 26, &mut Stream::new(seed, "bursts"));
        let bursts: Vec<_> =
            starts.iter().flat_map(|&at| (0..10).map(move |i| at + Span::from_mins(i))).collect();
        assert!(scatter(&bursts) > 2.0, "{seed}: {}", scatter(&bursts));
        let nightly = cron(1.0, 26, &mut Stream::new(seed, "cron"));
        assert!(scatter(&nightly) < 0.7, "{seed}: {}", scatter(&nightly));
    }
}

#[test]
fn rescaled_by_the_true_rate_gaps_are_exponential() {
    let cells = office(10.0);
    let events = poisson(&cells, 26, &mut Stream::new(1, "rescaled"));
    let gaps = rescaled(&events, &rate_of(&cells));
    let count = gaps.len() as f64;
    let mean = gaps.iter().sum::<f64>() / count;
    let square = gaps.iter().map(|gap| gap * gap).sum::<f64>() / count;
    // Mean 1 with variance 1/n; mean square 2 with variance 20/n.
    assert!((mean - 1.0).abs() < 4.0 / count.sqrt(), "{mean}");
    assert!((square - 2.0).abs() < 4.0 * (20.0 / count).sqrt(), "{square}");
}
