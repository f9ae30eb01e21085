//! Λ is the integral of λ, in any zone and across clock changes.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::cyclic::{BadRate, DAY_S, Rate, WEEK_S};
use tidewatch_core::time::{Span, Timestamp};

fn london() -> TimeZone {
    TimeZone::get("Europe/London").unwrap()
}

/// Rates with up to a dozen segments that end on whole minutes, in UTC or London.
fn rates() -> impl Strategy<Value = Rate> {
    let minutes = WEEK_S / 60;
    let inner = prop::collection::btree_set(1..minutes, 0..12);
    (inner, prop::collection::vec(0.0..50.0_f64, 13), any::<bool>()).prop_map(move |(ends, rates, utc)| {
        let ends = ends.into_iter().chain([minutes]).map(|end| end * 60);
        Rate::new(if utc { TimeZone::UTC } else { london() }, ends.zip(rates)).unwrap()
    })
}

/// Rates of a few day profiles.
fn profiled() -> impl Strategy<Value = Rate> {
    let days = prop::array::uniform7(0..3_u8);
    (days, prop::collection::vec(0.0..50.0_f64, 12)).prop_map(|(days, rates)| {
        let profiles = u32::from(*days.iter().max().unwrap()) + 1;
        let segments = (1..=4 * profiles).map(|quarter| quarter * DAY_S / 4).zip(rates);
        Rate::of_days(london(), days, segments).unwrap()
    })
}

/// Any minute of 2024 to 2028.
fn minutes() -> impl Strategy<Value = Timestamp> {
    (28_400_000_i64..31_000_000).prop_map(|minute| Timestamp::from_secs(60 * minute))
}

/// The sum of λ over the middles of real minutes: exact when segments and ends are whole minutes.
fn summed(rate: &Rate, from: Timestamp, until: Timestamp) -> f64 {
    let count = (until - from).as_millis() / 60_000;
    (0..count).map(|minute| rate.at(from + Span::from_secs(60 * minute + 30)) / 60.0).sum()
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1.0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn adjacent_intervals_add_up(
        rate in rates(),
        from in minutes(),
        (a, b) in (0_i64..40_000_000_000, 0_i64..40_000_000_000),
    ) {
        let (middle, until) = (from + Span::from_millis(a), from + Span::from_millis(a + b));
        let (parts, whole) =
            (rate.expected(from, middle) + rate.expected(middle, until), rate.expected(from, until));
        prop_assert!(close(parts, whole), "{parts} {whole}");
    }

    #[test]
    fn it_is_the_integral_of_the_rate(rate in rates(), from in minutes(), length in 0_i64..15_000) {
        let until = from + Span::from_mins(length);
        let (sum, expected) = (summed(&rate, from, until), rate.expected(from, until));
        prop_assert!(close(sum, expected), "{sum} {expected}");
    }

    #[test]
    fn it_is_the_integral_of_day_profiles(rate in profiled(), from in minutes(), length in 0_i64..15_000) {
        let until = from + Span::from_mins(length);
        let (sum, expected) = (summed(&rate, from, until), rate.expected(from, until));
        prop_assert!(close(sum, expected), "{sum} {expected}");
    }

    #[test]
    fn whole_weeks_do_not_matter_in_utc(
        segments in prop::collection::vec(0.0..50.0_f64, 14),
        from in minutes(),
        length in 0_i64..4_000_000_000,
        weeks in -500_i64..500,
    ) {
        let ends = (1..=14).map(|half| half * WEEK_S / 14);
        let rate = Rate::new(TimeZone::UTC, ends.zip(segments)).unwrap();
        let (length, shift) = (Span::from_millis(length), Span::from_days(7 * weeks));
        let (now, then) =
            (rate.expected(from, from + length), rate.expected(from + shift, from + shift + length));
        prop_assert!(close(now, then), "{now} {then}");
        let week = rate.expected(from, from + Span::from_days(7));
        prop_assert!(close(week, rate.per_week()));
    }

    #[test]
    fn segments_make_the_same_rate_again(rate in prop_oneof![rates(), profiled()], at in minutes()) {
        let segments = rate.segments();
        prop_assert!(segments.windows(2).all(|pair| pair[0].1 == pair[1].0 && pair[0].2 != pair[1].2));
        let again =
            Rate::new(rate.zone().clone(), segments.iter().map(|&(_, end, rate)| (end, rate))).unwrap();
        prop_assert_eq!(again.segments(), segments);
        prop_assert_eq!(again.at(at), rate.at(at));
        prop_assert!(close(again.per_week(), rate.per_week()));
    }

    #[test]
    fn reaching_inverts_expecting(rate in rates(), from in minutes(), length in 1_i64..8_000_000_000) {
        let until = from + Span::from_millis(length);
        let amount = rate.expected(from, until);
        prop_assume!(amount > 0.0);
        let reached = rate.reaches(from, amount).unwrap();
        // To the millisecond and the last digits; never later, and earlier only over times in which
        // nothing is expected.
        let most = 50.0 / 3.6e6;
        prop_assert!(reached <= until + Span::from_millis(1));
        prop_assert!((rate.expected(from, reached) - amount).abs() <= most + 1e-9 * amount);
        prop_assert!(rate.reaches(from, 400.0 * 24.0 * 50.0).is_none());
    }

    #[test]
    fn invalid_input_is_refused_and_does_no_harm(
        days in prop::array::uniform7(any::<u8>()),
        segments in prop::collection::vec((any::<u32>(), any::<f64>()), 0..4),
    ) {
        let _ = Rate::of_days(TimeZone::UTC, days, segments);
    }
}

#[test]
fn ends_beyond_the_days_are_refused() {
    assert_eq!(Rate::new(TimeZone::UTC, [(u32::MAX, 1.0)]), Err(BadRate::Ends));
    assert_eq!(Rate::new(TimeZone::UTC, [(WEEK_S + 1, 1.0)]), Err(BadRate::Ends));
    assert_eq!(Rate::new(TimeZone::UTC, [(WEEK_S - 1, 1.0)]), Err(BadRate::Ends));
    assert_eq!(Rate::new(TimeZone::UTC, [(WEEK_S, f64::NAN)]), Err(BadRate::Value));
}

/// Sundays from 01:00 to 02:00 in London: the hour that is lost in March and doubled in October.
fn the_hour() -> Rate {
    let one = 6 * DAY_S + 3600;
    Rate::new(london(), [(one, 0.0), (one + 3600, 6.0), (WEEK_S, 0.0)]).unwrap()
}

#[test]
fn an_hour_that_is_lost_is_not_expected() {
    let at = |text| Timestamp::parse_iso(text).unwrap();
    let (from, until) = (at("2026-03-28T12:00:00Z"), at("2026-03-29T12:00:00Z"));
    assert_eq!(the_hour().expected(from, until), 0.0);
    assert_eq!(summed(&the_hour(), from, until), 0.0);
    let week = Span::from_days(7);
    assert!(close(the_hour().expected(from - week, until - week), 6.0));
}

#[test]
fn an_hour_that_comes_twice_is_expected_twice() {
    let at = |text| Timestamp::parse_iso(text).unwrap();
    let (from, until) = (at("2026-10-24T12:00:00Z"), at("2026-10-25T12:00:00Z"));
    assert!(close(the_hour().expected(from, until), 12.0));
    assert!(close(summed(&the_hour(), from, until), 12.0));
    // Between its two halves, too.
    let (half, more) = (at("2026-10-25T00:30:00Z"), at("2026-10-25T01:30:00Z"));
    assert!(close(the_hour().expected(half, more), 6.0));
}
