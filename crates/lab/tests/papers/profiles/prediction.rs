//! Where cells are laid, and what share of updates falls into them.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::execution::{Interval, RuleId};
use tidewatch_core::planning::expected::Forecast;
use tidewatch_core::planning::prediction::{
    Lifetime, Want, intervals, intervals_at, intervals_once, price,
};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

/// A Monday.
const MONDAY: Timestamp = Timestamp::from_secs(1_794_787_200);
const WEEK: Span = Span::from_days(7);

fn hours(hours: f64) -> Timestamp {
    MONDAY + Span::from_hours(1).scaled(hours)
}

fn week() -> [(Timestamp, Timestamp); 1] {
    [(MONDAY, MONDAY + WEEK)]
}

fn want(every: u32, counted: u32, mins: i64, confidence: f64) -> Want {
    Want { rule: RuleId(7), every, counted, life: Lifetime::Window(Span::from_mins(mins)), confidence }
}

fn daily(from: u16, until: u16, within: f64, outside: f64) -> Steps {
    let window = WeekWindow { days: 0b111_1111, from_minute: from, until_minute: until };
    Steps::windows(TimeZone::UTC, outside, &[(window, within)]).unwrap()
}

fn share_held(rate: &Steps, found: &[Interval]) -> f64 {
    let forecast = Forecast::individual(rate);
    let held: f64 = found.iter().map(|interval| forecast.expected(interval.from, interval.until)).sum();
    held / forecast.expected(MONDAY, MONDAY + WEEK)
}

#[test]
fn where_nothing_is_expected_nothing_is_foretold() {
    let (never, some) = (Steps::constant(0.0).unwrap(), Steps::constant(1.0).unwrap());
    for every in [1, 5] {
        let want = want(every, 0, 30, 0.9);
        assert_eq!(intervals(&never, 1.0, MONDAY, &want, &week(), MONDAY + WEEK), []);
        assert_eq!(intervals(&some, 0.0, MONDAY, &want, &week(), MONDAY + WEEK), []);
        assert_eq!(intervals(&some, 1.0, MONDAY, &want, &[], MONDAY + WEEK), []);
        assert_eq!(intervals(&some, 1.0, MONDAY, &want, &week(), MONDAY), []);
        assert_eq!(intervals_once(&never, 1.0, MONDAY, &want, &week(), MONDAY + WEEK), []);
    }
}

#[test]
fn quiet_nights_are_skipped_and_the_share_is_held() {
    let rate = daily(9 * 60, 18 * 60, 4.0, 0.05);
    for confidence in [0.5, 0.8, 0.9, 0.95] {
        let found = intervals(&rate, 1.0, MONDAY, &want(1, 0, 30, confidence), &week(), MONDAY + WEEK);
        let held = share_held(&rate, &found);
        assert!((confidence - 0.015..confidence + 0.04).contains(&held), "{held} of {confidence}");
        let by_day = |at: Timestamp| (8..=18).contains(&at.utc_hour());
        assert!(found.iter().all(|interval| by_day(interval.from)), "{confidence}");
    }
    // What is left of the share after the days takes a part of the nights.
    let found = intervals(&rate, 1.0, MONDAY, &want(1, 0, 30, 0.99), &week(), MONDAY + WEEK);
    assert!((share_held(&rate, &found) - 0.99).abs() < 0.01);
}

#[test]
fn an_even_rate_is_looked_at_evenly_also_when_asked_anew() {
    let (rate, want) = (Steps::constant(2.0).unwrap(), want(1, 0, 30, 0.8));
    let mut looked = MONDAY;
    for _ in 0..20 {
        let found = intervals(&rate, 1.0, looked, &want, &[(looked, looked + WEEK)], looked + WEEK);
        let gap = (found[0].until - looked).as_secs_f64() / 60.0;
        assert!((gap - 30.0 / 0.8).abs() < 0.1, "{gap}");
        looked = found[0].until;
    }
}

#[test]
fn a_job_is_looked_at_once() {
    let rate = daily(190, 192, 27.0, 0.0);
    let found = intervals(&rate, 1.0, MONDAY, &want(1, 0, 30, 0.9), &week(), MONDAY + WEEK);
    assert!((6..=7).contains(&found.len()), "{found:?}");
    for interval in &found {
        let minute = (interval.until.as_millis() / 60_000) % 1440;
        assert!((190..=221).contains(&minute), "{minute}");
    }
}

#[test]
fn cells_gather_where_the_tenth_is_due() {
    let rate = Steps::constant(1.0).unwrap();
    // Γ(10): a tenth by 6.22 hours, 95 of 100 by 15.7.
    let once = intervals_once(&rate, 1.0, MONDAY, &want(10, 0, 30, 0.3), &week(), hours(16.0));
    assert!(once.len() > 3);
    assert!(once.iter().all(|cell| cell.from > hours(6.2) && cell.until < hours(15.7)), "{once:?}");
    let first =
        |counted| intervals(&rate, 1.0, MONDAY, &want(10, counted, 30, 0.9), &week(), hours(40.0))[0];
    let firsts: Vec<Timestamp> = (0..10).map(|counted| first(counted).from).collect();
    assert!(hours(4.0) < firsts[0] && firsts[0] <= hours(6.5), "{firsts:?}");
    assert!(firsts.is_sorted_by(|sooner, later| sooner >= later), "{firsts:?}");
    assert_eq!(first(9).until, hours(0.5));
}

#[test]
fn without_confidence_a_point_is_foretold() {
    let rate = Steps::constant(1.0).unwrap();
    let once = intervals_once(&rate, 1.0, MONDAY, &want(10, 0, 30, 0.0), &week(), hours(20.0));
    // The mode of Γ(10) is 9.
    assert_eq!(once.len(), 1);
    assert!(hours(8.4) < once[0].from && once[0].until < hours(9.6), "{once:?}");
    let found = intervals(&rate, 1.0, MONDAY, &want(10, 0, 30, 0.0), &week(), MONDAY + WEEK);
    // Its median 9.67.
    assert!(found[0].from <= hours(9.9), "{:?}", found[0]);
}

#[test]
fn only_what_is_active_counts() {
    let rate = Steps::constant(1.0).unwrap();
    let mornings = (0..7).map(|day| hours(24.0 * f64::from(day) + 9.0));
    let active: Vec<_> = mornings.map(|nine| (nine, nine + Span::from_hours(3))).collect();
    for every in [1, 4] {
        let found = intervals(&rate, 1.0, MONDAY, &want(every, 0, 60, 0.9), &active, MONDAY + WEEK);
        assert!(found.len() > 2);
        for cell in &found {
            assert!(active.iter().any(|&(from, to)| cell.from < to && cell.until > from), "{cell:?}");
        }
    }
}

/// Updates at one an hour.
fn updates(label: &str, hours: f64) -> Vec<Timestamp> {
    let chance = &mut Stream::new(5, label);
    let mut at = 0.0;
    let mut all = Vec::new();
    while at < hours {
        at -= (1.0 - chance.unit()).ln();
        all.push(MONDAY + Span::from_hours(1).scaled(at));
    }
    all
}

/// The share of X-th updates that is caught before the next, or within the window, going from look to look.
fn caught(want: Want, updates: &[Timestamp]) -> (f64, usize) {
    let rate = Steps::constant(1.0).unwrap();
    let price = price(&rate, 1.0, MONDAY, &want, &week()).unwrap();
    let (every, last) = (want.every as usize, updates[updates.len() - 1]);
    let (mut looked, mut seen, mut looks) = (MONDAY, 0, Vec::new());
    while looked < last {
        let want = Want { counted: (seen % every) as u32, ..want };
        let until = looked + Span::from_days(3);
        let active = [(looked, until)];
        let found = intervals_at(price, &rate, 1.0, looked, &want, &active, until);
        looked = found[0].until;
        seen = updates.partition_point(|&update| update <= looked);
        looks.push(looked);
    }
    let numbers = (every - 1..updates.len() - 1).step_by(every);
    let in_time = |&number: &usize| {
        let until = match want.life {
            Lifetime::Window(window) => updates[number] + window,
            Lifetime::Overwrite => updates[number + 1] - Span::from_millis(1),
        };
        let look = looks.partition_point(|&look| look < updates[number]);
        looks.get(look).is_some_and(|&look| look <= until)
    };
    (numbers.clone().filter(in_time).count() as f64 / numbers.count() as f64, looks.len())
}

#[test]
fn as_much_is_caught_before_it_is_overwritten_as_was_asked_for() {
    let updates = updates("overwrite", 3000.0);
    for (every, confidence) in [(1, 0.8), (1, 0.5), (4, 0.8), (10, 0.7)] {
        let want = Want { life: Lifetime::Overwrite, ..want(every, 0, 0, confidence) };
        let (share, looks) = caught(want, &updates);
        let scatter = 2.5 * (f64::from(every) / 3000.0).sqrt() * 0.5;
        assert!(share > confidence - scatter - 0.01, "{every} {confidence}: {share}");
        // No more looks than that: (1 − e^−g)/g = 0.8 at g = 0.464.
        if (every, confidence) == (1, 0.8) {
            assert!(share < confidence + scatter, "{share}");
            assert!((looks as f64 / 3000.0 * 0.464 - 1.0).abs() < 0.02, "{looks}");
        }
    }
}

#[test]
fn as_much_is_caught_in_time_as_was_asked_for() {
    let updates = updates("window", 3000.0);
    for (every, mins, confidence) in
        [(1, 30, 0.9), (5, 30, 0.9), (5, 30, 0.7), (10, 5, 0.8), (10, 120, 0.9)]
    {
        let (share, _) = caught(want(every, 0, mins, confidence), &updates);
        let scatter = 2.5 * (f64::from(every) / 3000.0 * confidence * (1.0 - confidence)).sqrt();
        assert!(share > confidence - scatter - 0.01, "{every} {mins} {confidence}: {share}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn cells_are_apart_and_as_long_as_the_window(
        from in 0_u16..1439, length in 1_u16..1439, within in 0.0_f64..20.0, outside in 0.0_f64..2.0,
        every in 1_u32..40, counted in 0_u32..40, mins in 5_i64..200, confidence in 0.0_f64..1.0, anew in any::<bool>(),
    ) {
        let rate = daily(from, (from + length) % 1440 + 1, within, outside);
        let want = want(every, counted, mins, confidence);
        let ask = if anew { intervals } else { intervals_once };
        let found = ask(&rate, 1.0, MONDAY, &want, &week(), MONDAY + WEEK);
        for cell in &found {
            prop_assert!(cell.from > MONDAY && cell.from < MONDAY + WEEK && cell.rule == want.rule);
            prop_assert!(cell.until >= cell.from && cell.until - cell.from <= Span::from_mins(mins));
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].until < pair[1].from));
        prop_assert!(!found.is_empty() || anew || within + outside == 0.0);
    }
}
