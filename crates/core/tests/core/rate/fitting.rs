//! Fits: as many segments as the evidence supports, at the observed level, in little memory.

use jiff::tz::TimeZone;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{Cycle, Fitted, WeeklyPrior, fit, level};
use tidewatch_core::model::history::{History, WeeklyEvidence};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::truth::{end, feed, monday, office, poisson, steady, weekend};

fn fitted(evidence: &WeeklyEvidence) -> Fitted {
    fit(evidence, &WeeklyPrior::flat(level(evidence)), &TimeZone::UTC)
}

#[test]
fn twenty_updates_give_few_segments() {
    for seed in 0..10 {
        for cells in [steady(1.0), office(1.0)] {
            let mut events = poisson(&cells, 26, &mut Stream::new(seed, "twenty"));
            events.truncate(20);
            let until = *events.last().unwrap();
            let segments = fitted(&feed(&events, until).evidence(until)).segments;
            assert!((1..=3).contains(&segments), "{seed}: {segments}");
        }
    }
}

#[test]
fn two_thousand_from_the_office_give_the_working_week() {
    for seed in 0..5 {
        let events = poisson(&office(11.0), 26, &mut Stream::new(seed, "office"));
        assert!((1_800..2_200).contains(&events.len()));
        let fitted = fitted(&feed(&events, end()).evidence(end()));
        assert_eq!(fitted.cycle, Cycle::WorkWeek, "{seed}");
        // Night, day, the rest of the line; one or two more by chance.
        assert!((3..=5).contains(&fitted.segments), "{seed}: {}", fitted.segments);
        assert!(fitted.gain > 100.0, "{seed}: {}", fitted.gain);
        let (noon, night) = (monday() + Span::from_hours(12), monday() + Span::from_hours(2));
        assert!(fitted.rate.at(noon) > 20.0 * fitted.rate.at(night), "{seed}");
    }
}

#[test]
fn expected_and_observed_updates_agree() {
    for (name, cells) in [("steady", steady(5.0)), ("office", office(5.0)), ("weekend", weekend(5.0))] {
        let events = poisson(&cells, 26, &mut Stream::new(3, name));
        let evidence = feed(&events, end()).evidence(end());
        let rate = fitted(&evidence).rate;
        let hour = |cell: usize| monday() + Span::from_hours(cell as i64);
        let expected: f64 = (0..168).map(|cell| rate.at(hour(cell)) * evidence.hours[cell]).sum();
        let seen = evidence.total_updates();
        assert!((expected - seen).abs() < 0.01 * seen, "{name}: {expected} {seen}");
    }
}

#[test]
fn a_silent_source_has_a_positive_rate() {
    let evidence = feed(&[], end()).evidence(end());
    let rate = fitted(&evidence).rate;
    assert!(rate.per_week() > 0.0 && rate.per_week() < 0.1, "{}", rate.per_week());
}

#[test]
fn a_source_takes_at_most_a_kibibyte() {
    let events: Vec<Timestamp> = poisson(&office(11.0), 26, &mut Stream::new(1, "office"));
    let history = feed(&events, end());
    let rate = fitted(&history.evidence(end())).rate;
    let bytes = size_of::<History>() + history.heap_bytes() + size_of::<Rate>() + rate.heap_bytes();
    // 672 in the two tallies; the rate takes 6 for each of some 20 segments, since what leaks to the
    // hours beside makes two more of every edge.
    assert!(bytes <= 1024, "{bytes}, {} in the rate", rate.heap_bytes());
}
