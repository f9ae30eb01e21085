//! Estimates from one bit per probe, and the errors of other estimators.

use tidewatch_core::model::censored::{from_probes, homogeneous};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use jiff::tz::TimeZone;

use super::truth::{HALF_LIFE, end, exponential, monday, poisson, steady};

/// Changes divided by time: counts every change as one update.
fn naive(gaps: &[(Span, bool)]) -> f64 {
    let hours: f64 = gaps.iter().map(|(gap, _)| gap.as_secs_f64() / 3600.0).sum();
    gaps.iter().filter(|(_, changed)| *changed).count() as f64 / hours
}

/// The paper's estimator for a subset of each day: 1/mean(gap with both ends in one of its
/// intervals), per hour. `None` when there is no such gap.
fn by_gaps(events: &[Timestamp], hours: std::ops::Range<i64>) -> Option<f64> {
    let place = |at: Timestamp| {
        let hour = (at - monday()).as_millis().div_euclid(3_600_000);
        hours.contains(&hour.rem_euclid(24)).then_some(hour.div_euclid(24))
    };
    let inside =
        events.windows(2).filter(|pair| place(pair[0]).is_some() && place(pair[0]) == place(pair[1]));
    let gaps: Vec<f64> = inside.map(|pair| (pair[1] - pair[0]).as_secs_f64() / 3600.0).collect();
    (!gaps.is_empty()).then(|| gaps.len() as f64 / gaps.iter().sum::<f64>())
}

/// Gaps of one to seven hours, drawn evenly, at this rate per hour.
fn gaps(rate: f64, count: usize, seed: u64) -> Vec<(Span, bool)> {
    let mut stream = Stream::new(seed, "gaps");
    let mut gap = || {
        let hours = 1.0 + 6.0 * stream.unit();
        (Span::from_hours(1).scaled(hours), exponential(&mut stream) < rate * hours)
    };
    (0..count).map(|_| gap()).collect()
}

#[test]
fn four_updates_per_gap_are_estimated_without_bias() {
    let runs: Vec<f64> = (0..200).map(|seed| homogeneous(&gaps(1.0, 400, seed)).unwrap()).collect();
    let mean = runs.iter().sum::<f64>() / 200.0;
    let error = (runs.iter().map(|run| (run - mean).powi(2)).sum::<f64>() / 199.0 / 200.0).sqrt();
    assert!((mean - 1.0).abs() < 3.0 * error && error < 0.01, "{mean} ± {error}");
    // If every change counts as one update, three in four are missed.
    let plain = (0..200).map(|seed| naive(&gaps(1.0, 400, seed))).sum::<f64>() / 200.0;
    assert!(plain < 0.5, "{plain}");
}

#[test]
fn equal_gaps_have_the_closed_form() {
    let hour = Span::from_hours(2);
    for changed in 0..=20 {
        let list: Vec<_> = (0..20).map(|i| (hour, i < changed)).collect();
        let closed = -((20.5 - f64::from(changed)) / 20.5).ln() / 2.0;
        assert!((homogeneous(&list).unwrap() - closed).abs() < 1e-9, "{changed}");
    }
}

#[test]
fn extreme_gaps_give_finite_rates() {
    let (second, year) = (Span::from_secs(1), Span::from_days(365));
    assert_eq!(homogeneous(&[]), None);
    assert_eq!(homogeneous(&[(Span::ZERO, true), (-second, true)]), None);
    assert_eq!(homogeneous(&[(year, false)]), Some(0.0));
    for list in [vec![(second, true); 10_000], vec![(year, true)], vec![(second, true), (year, true)]] {
        let rate = homogeneous(&list).unwrap();
        assert!(rate.is_finite() && rate > 0.0, "{rate}");
    }
}

#[test]
fn the_papers_gap_estimator_is_far_too_high_when_updates_are_few() {
    // A gap with both ends within an hour lasts 20 minutes on average, however rare updates are: one
    // a day is estimated as three an hour, some 72 times the truth. In nine hours that hold 1.5 updates
    // it is still more than double.
    let ratio = |per_day: f64, hours: std::ops::Range<i64>| {
        let events = poisson(&steady(per_day), 2000, &mut Stream::new(1, "subsets"));
        by_gaps(&events, hours).unwrap() * 24.0 / per_day
    };
    let (hourly, nine) = (ratio(1.0, 10..11), ratio(4.0, 9..18));
    assert!((24.0..144.0).contains(&hourly), "{hourly}");
    assert!((2.0..3.2).contains(&nine), "{nine}");
}

#[test]
fn probes_that_never_or_always_show_a_change_give_finite_evidence() {
    let hour = |i: i64| monday() + Span::from_hours(i);
    for changed in [false, true] {
        let probes: Vec<_> = (0..1000).map(|i| (hour(i), hour(i + 1), changed)).collect();
        let evidence = from_probes(&probes, &TimeZone::UTC, HALF_LIFE, hour(1000)).evidence(hour(1000));
        let per_probe = evidence.total_updates() / evidence.total_hours();
        // n bits show at most ln(2n + 1) updates behind every change: 7.6 for a thousand,
        // 7.4 when the older of them have faded.
        let most = if changed { 7.3..7.7 } else { 0.0..1e-9 };
        assert!(most.contains(&per_probe), "{per_probe}");
    }
    let none = from_probes(&[], &TimeZone::UTC, HALF_LIFE, end());
    assert_eq!((none.seen(), none.evidence(end()).total_updates()), (0, 0.0));
}
