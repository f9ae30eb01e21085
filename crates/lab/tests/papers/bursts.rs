//! Bursts on simulated sources with known truth: detection, and the rate of false alarms.
//!
//! Sources are drawn from seeds, so every run has the same. Bounds on false alarms are the
//! configured rate plus three standard errors.

mod world;

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::cyclic::WEEK_S;
use world::*;

const DAY: Span = Span::from_days(1);

fn params(test: Test) -> BurstParams {
    BurstParams { test, ..BurstParams::default() }
}

/// Office hours, Monday to Friday, and a little at night.
fn office(per_hour: f64) -> Rate {
    let hours = (0..168).map(|hour| {
        let busy = hour / 24 < 5 && (9..17).contains(&(hour % 24));
        ((hour + 1) * WEEK_S / 168, if busy { per_hour } else { per_hour / 40.0 })
    });
    Rate::new(TimeZone::UTC, hours).unwrap()
}

#[test]
fn false_alarms_are_as_few_as_configured() {
    for test in [Test::Filter, Test::Tail] {
        let params = params(test);
        for in_window in WINDOW_COUNTS {
            let updates = 12_000;
            let alarms = false_alarms(in_window, updates, &params);
            let allowed = params.false_alarms * updates as f64;
            assert!(alarms <= allowed + 3.0 * allowed.sqrt(), "{test:?} {in_window}: {alarms} > {allowed}");
        }
    }
}

#[test]
fn other_rates_of_false_alarms_are_kept_too() {
    for test in [Test::Filter, Test::Tail] {
        for false_alarms_per_update in [0.0025, 0.01, 0.05] {
            let params = BurstParams { false_alarms: false_alarms_per_update, ..params(test) };
            let alarms = false_alarms(1.0, 8_000, &params);
            let allowed = false_alarms_per_update * 8_000.0;
            assert!(alarms <= allowed + 3.0 * allowed.sqrt(), "{test:?}: {alarms} > {allowed}");
        }
    }
}

#[test]
fn the_papers_ratio_fires_on_single_updates() {
    // P(N ≥ 2Λ), per probe at the end of a window.
    let known = [(0.1, 0.095), (0.4, 0.330), (1.0, 0.264), (2.0, 0.143), (5.0, 0.032), (10.0, 0.0035)];
    for (in_window, share) in known {
        let (rate, mut stream) = (Rate::constant(in_window), Stream::new(3, format!("ratio {in_window}")));
        let probes = 6000;
        let updates = poisson(in_window, (1.1 * in_window * f64::from(probes)) as usize + 100, &mut stream);
        let (mut watch, mut rest, mut on) = (BurstDetector::default(), &updates[..], 0);
        for hour in 0..probes {
            let from = monday() + Span::from_hours(hour.into());
            let until = from + Span::from_hours(1);
            let (now, later) = rest.split_at(rest.partition_point(|&at| at <= until));
            rest = later;
            watch.add_probe(
                &ProbeWindow { from, until, seen: WindowUpdates::Dated(now) },
                &rate,
                &params(Test::Ratio),
            );
            on += u32::from(watch.is_on());
        }
        let (seen, probes) = (f64::from(on) / f64::from(probes), f64::from(probes));
        // Its own rounding, and three standard errors.
        let error = 0.0005 + 3.0 * (share * (1.0 - share) / probes).sqrt();
        assert!((seen - share).abs() < error, "{in_window}: {seen} is not {share}");
    }
}

#[test]
fn bursts_of_ten_updates_are_found() {
    for in_window in [0.01, 5.0] {
        let found = |times| detection(in_window, times, 400, &params(Test::Filter));
        assert!(found(4.0).share >= 0.05, "{in_window}");
        assert!(found(30.0).share >= 0.99, "{in_window}");
        let Found { share, updates, gaps_to_end } = found(10.0);
        assert!(share >= 0.85, "{in_window}: {share}");
        assert!(updates < 8.5, "{in_window}: found after {updates} of its ten updates");
        assert!(gaps_to_end < 2.0, "{in_window}: over after {gaps_to_end} mean gaps");
    }
    // The scan depends on how its windows fit.
    assert!(detection(1.0, 10.0, 200, &params(Test::Tail)).share >= 0.7);
}

#[test]
fn a_rhythm_is_no_burst() {
    // A year of office hours, probed every six hours.
    let rate = office(1.0);
    let updates = rhythmic(&rate, 1.0, 52, &mut Stream::new(4, "office"));
    for test in [Test::Filter, Test::Tail] {
        let changes = watch(&updates, Span::from_hours(6), &rate, &params(test));
        let begun = begun(&changes);
        let allowed = 0.001 * updates.len() as f64;
        assert!(updates.len() > 2000 && begun <= allowed + 3.0 * allowed.sqrt(), "{test:?}: {begun}");
    }
    // The ratio does little else.
    assert!(begun(&watch(&updates, Span::from_hours(1), &rate, &params(Test::Ratio))) > 100.0);
}

#[test]
fn a_burst_begins_and_ends_with_evidence() {
    let rate = Rate::constant(0.25);
    let start = monday() + DAY;
    let burst: Vec<_> = (0..10).map(|minute| start + Span::from_mins(3 * minute)).collect();
    for test in [Test::Filter, Test::Tail] {
        let mut watch = BurstDetector::default();
        let mut probe = |from, until, seen| {
            let change = watch.add_probe(
                &ProbeWindow { from, until, seen: WindowUpdates::Dated(seen) },
                &rate,
                &params(test),
            );
            (change, watch.is_on(), watch.probability(test), watch.excess_rate())
        };
        assert_eq!(probe(monday(), start - Span::from_mins(1), &[]).0, None);
        let end = start + Span::from_mins(28);
        let (change, on, probability, excess) = probe(start - Span::from_mins(1), end, &burst);
        let Some(BurstChange::Began(evidence)) = change else { panic!("{test:?}: {change:?}") };
        assert!(on && probability > 0.9 && excess > 4.0, "{test:?}: {probability} {excess}");
        assert!(evidence.observed >= 5 && evidence.expected < 0.26, "{test:?}: {evidence:?}");
        let (change, on, probability, _) = probe(end, start + DAY, &[]);
        assert!(matches!(change, Some(BurstChange::Ended(_))) && !on && probability < 0.1, "{test:?}");
    }
    // All of it within one probe.
    let probe = ProbeWindow { from: monday(), until: start + DAY, seen: WindowUpdates::Dated(&burst) };
    let change = BurstDetector::default().add_probe(&probe, &rate, &params(Test::Filter));
    assert!(matches!(change, Some(BurstChange::Passed(evidence)) if evidence.observed == 10), "{change:?}");
}

#[test]
fn the_ratios_ends_are_ttl_and_ind_hist() {
    let updates = poisson(0.5, 300, &mut Stream::new(5, "ends"));
    for rate in [Rate::constant(0.5), Rate::constant(0.0)] {
        let every = Span::from_mins(40);
        let always = BurstParams { threshold: 0.0, ..params(Test::Ratio) };
        let never = BurstParams { threshold: f64::INFINITY, ..params(Test::Ratio) };
        let changes = watch(&updates, every, &rate, &always);
        assert!(matches!(changes[..], [BurstChange::Began(evidence)] if evidence.at == monday() + every));
        assert_eq!(watch(&updates, every, &rate, &never), []);
    }
}

#[test]
fn pages_that_only_change_are_watched_too() {
    let (rate, params) = (Rate::constant(1.0 / 24.0), params(Test::Filter));
    let change_at = |watch: &mut BurstDetector, hour: i64, hours: i64, seen| {
        let from = monday() + Span::from_hours(hour);
        watch.add_probe(&ProbeWindow { from, until: from + Span::from_hours(hours), seen }, &rate, &params)
    };
    // Changed at two daily probes of three, as it should: 1 − 1/e.
    let mut watch = BurstDetector::default();
    let daily = |day| if day % 3 == 0 { WindowUpdates::Dated(&[]) } else { WindowUpdates::Changed };
    assert!((0..61).all(|day| change_at(&mut watch, day * 24, 24, daily(day)).is_none()));
    // And now every hour.
    let begun =
        (0..10).find(|hour| change_at(&mut watch, 1464 + hour, 1, WindowUpdates::Changed).is_some());
    assert!(begun.is_some_and(|probes| (1..8).contains(&probes)), "{begun:?}");
}

#[test]
fn a_source_without_a_rate_is_watched_without_harm() {
    for test in Test::ALL {
        let mut watch = BurstDetector::default();
        for day in 0..30 {
            let from = monday() + Span::from_days(day);
            let seen = WindowUpdates::Counted(u32::from(day % 10 == 9) * 1_000_000);
            watch.add_probe(
                &ProbeWindow { from, until: from + DAY, seen },
                &Rate::constant(0.0),
                &params(test),
            );
            assert!((0.0..=1.0).contains(&watch.probability(test)) && watch.excess_rate().is_finite());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// One probe, or the same updates in two with a restart between them.
    #[test]
    fn the_result_does_not_depend_on_the_split_of_updates_into_probes(
        minutes in prop::collection::vec(1_i64..2880, 0..40), cut in 1_i64..2880, per_hour in 0.01..5.0_f64
    ) {
        let at = |minute| monday() + Span::from_mins(minute);
        let mut times: Vec<_> = minutes.into_iter().map(at).collect();
        times.sort_unstable();
        let (early, late) = times.split_at(times.partition_point(|&time| time <= at(cut)));
        for test in Test::ALL {
            for rate in [Rate::constant(per_hour), office(per_hour)] {
                // Between probes the scan's end depends on the rhythm within a gap.
                if test == Test::Tail && rate.at(at(0)) != rate.at(at(600)) {
                    continue;
                }
                let (mut whole, mut first) = (BurstDetector::default(), BurstDetector::default());
                let dated = |from, until, seen| ProbeWindow { from, until, seen: WindowUpdates::Dated(seen) };
                whole.add_probe(&dated(at(0), at(2880), &times), &rate, &params(test));
                first.add_probe(&dated(at(0), at(cut), early), &rate, &params(test));
                let bytes = first.to_bytes();
                let mut second = BurstDetector::from_bytes(&bytes).unwrap();
                prop_assert_eq!(&second, &first);
                prop_assert!(test != Test::Filter || bytes.len() < 100);
                second.add_probe(&dated(at(cut), at(2880), late), &rate, &params(test));
                prop_assert_eq!(whole.is_on(), second.is_on());
                prop_assert!((whole.probability(test) - second.probability(test)).abs() < 1e-9);
                prop_assert!((whole.excess_rate() - second.excess_rate()).abs() < 1e-6);
            }
        }
    }

    #[test]
    fn other_bytes_are_refused_or_harmless(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        if let Some(mut watch) = BurstDetector::from_bytes(&bytes) {
            let (from, until) = (monday(), monday() + DAY);
            let probe = ProbeWindow { from, until, seen: WindowUpdates::Counted(3) };
            watch.add_probe(&probe, &Rate::constant(1.0), &BurstParams::default());
        }
    }
}
