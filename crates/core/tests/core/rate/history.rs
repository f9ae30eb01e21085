//! Evidence: the online sums equal those of all data at once, for years.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::fit::{WeeklyPrior, fit, level};
use tidewatch_core::model::history::{CELLS, History};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

use super::truth::{HALF_LIFE, end, feed, monday, office, poisson};

fn sum(list: &[f64]) -> f64 {
    list.iter().sum()
}

/// Within 1 %, or within a thousandth of the fullest cell: numbers are kept in 16 bits.
pub fn alike(kept: &[f64], truth: &[f64]) -> bool {
    let most = truth.iter().copied().fold(0.0, f64::max);
    kept.iter().zip(truth).all(|(a, b)| (a - b).abs() <= (0.01 * b).max(0.001 * most))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn online_is_batch(
        hours in prop::collection::vec(0.0..6000.0_f64, 1..300),
        half_life in 7_i64..200,
        reference in 0_i64..300,
    ) {
        let mut hours = hours;
        hours.sort_by(f64::total_cmp);
        let at = |hour: f64| monday() + Span::from_millis((hour * 3.6e6) as i64);
        let half_life = Span::from_days(half_life);
        let now = at(6000.0);
        let mut history = History::new(TimeZone::UTC, half_life, monday() + Span::from_days(reference));
        let (mut updates, mut exposure) = (vec![0.0; CELLS], vec![0.0; CELLS]);
        let weight = |at: Timestamp| (-(now - at).as_secs_f64() / half_life.as_secs_f64()).exp2();
        for hour in 0..6000_usize {
            exposure[hour % CELLS] += weight(at(hour as f64 + 0.5));
        }
        let mut last = monday();
        for &hour in &hours {
            history.exposed(last, at(hour));
            history.update(at(hour));
            last = at(hour);
            updates[(hour as usize) % CELLS] += weight(at(hour));
        }
        history.exposed(last, now);
        let evidence = history.evidence(now);
        prop_assert!(alike(&evidence.updates, &updates), "{:?} {updates:?}", evidence.updates);
        prop_assert!(alike(&evidence.hours, &exposure), "{:?} {exposure:?}", evidence.hours);
        prop_assert_eq!(history.seen() as usize, hours.len());
        prop_assert_eq!(history.span(), Some((monday(), now)));
    }

    #[test]
    fn bytes_round_trip(hours in prop::collection::vec(0_i64..9000, 0..200)) {
        let mut history = History::new(TimeZone::UTC, HALF_LIFE, monday());
        for hour in hours {
            let at = monday() + Span::from_hours(hour);
            history.exposed(at, at + Span::from_mins(hour % 300));
            history.update(at);
        }
        let again = History::from_bytes(&history.to_bytes(), TimeZone::UTC, HALF_LIFE);
        prop_assert_eq!(again, Some(history));
    }

    #[test]
    fn invalid_bytes_do_no_harm(
        noise in prop::collection::vec(any::<u8>(), 753),
        length in prop_oneof![Just(753_usize), Just(741_usize), Just(733_usize), 0..753_usize],
        layout in prop_oneof![Just(3_u8), Just(2_u8), Just(1_u8), any::<u8>()],
        kept in 0..753_usize,
    ) {
        // A true history's bytes up to some place, and noise from there.
        let mut bytes = feed(&[monday()], end()).to_bytes();
        prop_assert_eq!(bytes.len(), noise.len());
        let from = kept.min(length);
        bytes[from..].copy_from_slice(&noise[from..]);
        bytes[0] = layout;
        bytes.truncate(length);
        if let Some(mut history) = History::from_bytes(&bytes, TimeZone::UTC, HALF_LIFE) {
            history.update(end());
            history.exposed(end(), end() + Span::from_hours(3));
            let evidence = history.evidence(end());
            let _ = fit(&evidence, &WeeklyPrior::flat(level(&evidence)), &TimeZone::UTC);
        }
    }

    #[test]
    fn splitting_an_exposure_changes_nothing(
        cuts in prop::collection::vec(0_i64..40_000, 0..200),
        zone in prop_oneof![Just("UTC"), Just("Europe/London"), Just("Asia/Kolkata")],
    ) {
        let zone = TimeZone::get(zone).unwrap();
        let at = |minute: i64| monday() + Span::from_days(70) + Span::from_mins(minute);
        let mut whole = History::new(zone.clone(), HALF_LIFE, at(40_000));
        whole.exposed(at(0), at(40_000));
        let mut parts = History::new(zone, HALF_LIFE, at(40_000));
        let mut cuts = cuts;
        cuts.sort_unstable();
        let mut last = 0;
        for cut in cuts.into_iter().chain([40_000]) {
            parts.exposed(at(last), at(cut));
            last = cut;
        }
        let (whole, parts) = (whole.evidence(at(40_000)), parts.evidence(at(40_000)));
        prop_assert!(alike(&parts.hours, &whole.hours), "{:?} {:?}", parts.hours, whole.hours);
    }
}

#[test]
fn half_is_left_after_a_half_life() {
    let history = feed(&poisson(&office(5.0), 26, &mut Stream::new(1, "fading")), end());
    let (now, later) = (history.evidence(end()), history.evidence(end() + HALF_LIFE));
    for cell in 0..CELLS {
        assert!((later.updates[cell] - 0.5 * now.updates[cell]).abs() < 1e-9);
        assert!((later.hours[cell] - 0.5 * now.hours[cell]).abs() < 1e-9);
    }
}

#[test]
fn evidence_is_kept_over_years() {
    // Sixty half-lives, thus several rebases; one update in each hour of office time.
    let half_life = Span::from_days(14);
    let mut history = History::new(TimeZone::UTC, half_life, monday());
    let (mut at, end) = (monday(), monday() + Span::from_days(14 * 60));
    let mut hour = 0_usize;
    while at < end {
        history.exposed(at, at + Span::from_hours(1));
        if (9..17).contains(&(hour % 24)) {
            history.update(at + Span::from_mins(30));
        }
        at += Span::from_hours(1);
        hour += 1;
    }
    let evidence = history.evidence(end);
    // Two weeks' half-life: 1/(1 − 2^(−1/2)) weeks, less half a week on average.
    for cell in 0..CELLS {
        let expected = (1..1000)
            .map(|week| (-(f64::from(week) - (cell as f64 + 0.5) / 168.0) / 2.0).exp2())
            .sum::<f64>();
        assert!((evidence.hours[cell] - expected).abs() < 0.01 * expected, "{cell}");
        let updates = if (9..17).contains(&(cell % 24)) { expected } else { 0.0 };
        assert!((evidence.updates[cell] - updates).abs() <= 0.01 * expected, "{cell}");
    }
    assert_eq!(history.seen(), 8 * 14 * 60);
}

#[test]
fn evidence_is_finite_after_many_half_lives_and_kept_by_a_clock_set_by_decades() {
    let half_life = Span::from_hours(6);
    let mut history = History::new(TimeZone::UTC, half_life, end());
    history.exposed(monday(), end());
    history.update(monday());
    for (years, kept) in [(1, 1.0), (3, 1.0), (30, 2.0)] {
        let at = end() + Span::from_days(365 * years);
        history.exposed(at - Span::from_hours(1), at);
        history.update(at);
        let evidence = history.evidence(at);
        assert!((evidence.total_updates() - kept).abs() < 0.01, "{years}: {}", evidence.total_updates());
        assert!((evidence.total_hours() - kept).abs() < 0.1 * kept, "{years}: {}", evidence.total_hours());
    }
}

#[test]
fn an_update_that_is_spread_thin_still_counts_as_one() {
    // Three half-lives ago, over a week: a hundredth of a hundredth in each hour.
    let rate = Rate::constant(0.01);
    for half_lives in [0.0, 1.0, 2.0, 3.0] {
        let until = end() - HALF_LIFE.scaled(half_lives);
        let mut history = History::new(TimeZone::UTC, HALF_LIFE, end());
        history.spread(until - Span::from_days(7), until, 1.0, &rate);
        let (kept, weight) = (sum(&history.evidence(end()).updates), (-half_lives).exp2());
        // A week is an eighth of the half-life: its middle weighs 4 % less than its end.
        assert!((kept - 0.958 * weight).abs() < 0.01 * weight, "{half_lives}: {kept}");
    }
}

#[test]
fn daily_counts_decay_like_other_evidence() {
    // Ten updates on one day, and three half-lives of silence: an eighth of them is left.
    let mut history = History::new(TimeZone::UTC, HALF_LIFE, monday());
    (0..10).for_each(|hour| history.update(monday() + Span::from_hours(hour)));
    let until = monday() + HALF_LIFE.scaled(3.0);
    history.exposed(monday(), until);
    let evidence = history.evidence(until);
    let days = evidence.total_hours() / 24.0;
    let mean = evidence.total_updates() / days;
    assert!((evidence.daily.0 - mean).abs() < 0.02 * mean, "{} {mean}", evidence.daily.0);
    // The same when the next update closes the day.
    history.update(until);
    let evidence = history.evidence(until);
    let mean = evidence.total_updates() / days;
    assert!((evidence.daily.0 - mean).abs() < 0.02 * mean, "{} {mean}", evidence.daily.0);
}

/// Stores of older versions have histories without bursts and without settings.
#[test]
fn bytes_of_older_layouts_are_still_read() {
    let history = feed(&[monday()], end());
    let mut bytes = history.to_bytes();
    // Layout, four times, the count and six numbers come first, then bursts, half-life and the zone's name.
    let bursts = 1 + 4 * 8 + 4 + 6 * 4;
    bytes.drain(bursts + 8..bursts + 8 + 8 + 1 + "UTC".len());
    bytes[0] = 2;
    assert_eq!(History::from_bytes(&bytes, TimeZone::UTC, HALF_LIFE).as_ref(), Some(&history));
    bytes.drain(bursts..bursts + 8);
    bytes[0] = 1;
    assert_eq!(History::from_bytes(&bytes, TimeZone::UTC, HALF_LIFE).as_ref(), Some(&history));
}

#[test]
fn stored_evidence_keeps_the_settings_that_it_was_learned_with() {
    let tokyo = TimeZone::get("Asia/Tokyo").unwrap();
    let mut history = History::new(tokyo.clone(), HALF_LIFE, monday());
    history.exposed(monday(), end());
    history.update(monday());
    let (paris, short) = (TimeZone::get("Europe/Paris").unwrap(), HALF_LIFE.scaled(0.1));
    let read = History::from_bytes(&history.to_bytes(), paris.clone(), short).unwrap();
    assert_eq!(read, history);
    assert!(read.is_learned_with(&tokyo, HALF_LIFE));
    assert!(!read.is_learned_with(&tokyo, short) && !read.is_learned_with(&paris, HALF_LIFE));
}

#[test]
fn bursts_count_for_the_level_and_not_for_the_hours() {
    let mut history = History::new(TimeZone::UTC, HALF_LIFE, monday());
    history.exposed(monday(), end());
    let before = history.evidence(end());
    let late = end() - Span::from_hours(1);
    for minute in 0..3 {
        history.update(late + Span::from_mins(minute));
    }
    history.move_to_burst(late);
    history.burst(end(), end() + Span::from_hours(2), 10);
    let after = history.evidence(end() + Span::from_hours(2));
    assert_eq!(history.seen(), 3);
    assert!((after.total_updates() - 2.0).abs() < 0.5, "{}", after.total_updates());
    assert!((after.total_hours() / before.total_hours() - 1.0).abs() < 0.01);
    let (updates, hours) = after.bursts;
    assert!((10.0..=11.0).contains(&updates) && (hours - 2.0).abs() < 0.01, "{updates} {hours}");
    assert!(level(&after) > 3.0 * level(&before));
}

#[test]
fn a_clock_that_was_wrong_by_decades_leaves_the_evidence() {
    let years = Span::from_days(20_000);
    let mut history = History::new(TimeZone::UTC, HALF_LIFE, monday());
    history.exposed(monday(), end());
    (0..100).for_each(|hour| history.update(monday() + Span::from_hours(hour)));
    let before = level(&history.evidence(end()));
    for wrong in [end() - years, end() + years] {
        let mut later = history.clone();
        later.exposed(wrong, wrong + Span::from_hours(1));
        let during = later.evidence(wrong + Span::from_hours(1));
        later.exposed(end(), end() + Span::from_hours(1));
        let after = later.evidence(end() + Span::from_hours(1));
        for level in [level(&during), level(&after)] {
            assert!((level / before - 1.0).abs() < 0.1, "{wrong}: {level} instead of {before}");
        }
    }
}
