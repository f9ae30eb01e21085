//! The places of cells, and the share of updates in them.

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
fn without_expected_updates_nothing_is_predicted() {
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
    // The remaining share takes a part of the nights.
    let found = intervals(&rate, 1.0, MONDAY, &want(1, 0, 30, 0.99), &week(), MONDAY + WEEK);
    assert!((share_held(&rate, &found) - 0.99).abs() < 0.01);
}

#[test]
fn an_even_rate_gives_even_probes_also_when_computed_again() {
    let (rate, want) = (Steps::constant(2.0).unwrap(), want(1, 0, 30, 0.8));
    let mut last_probe = MONDAY;
    for _ in 0..20 {
        let found =
            intervals(&rate, 1.0, last_probe, &want, &[(last_probe, last_probe + WEEK)], last_probe + WEEK);
        let gap = (found[0].until - last_probe).as_secs_f64() / 60.0;
        assert!((gap - 30.0 / 0.8).abs() < 0.1, "{gap}");
        last_probe = found[0].until;
    }
}

#[test]
fn a_daily_job_is_probed_once_a_day() {
    let rate = daily(190, 192, 27.0, 0.0);
    let found = intervals(&rate, 1.0, MONDAY, &want(1, 0, 30, 0.9), &week(), MONDAY + WEEK);
    assert!((6..=7).contains(&found.len()), "{found:?}");
    for interval in &found {
        let minute = (interval.until.as_millis() / 60_000) % 1440;
        assert!((190..=221).contains(&minute), "{minute}");
    }
}

#[test]
fn cells_are_where_the_tenth_update_is_due() {
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
fn without_confidence_a_point_is_predicted() {
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
fn only_active_hours_count() {
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

/// A week has more cells of a minute than one grid.
#[test]
fn short_windows_are_planned_over_the_whole_week() {
    let weekend = WeekWindow { days: 0b110_0000, from_minute: 10 * 60, until_minute: 14 * 60 };
    let rate = |outside| Steps::windows(TimeZone::UTC, outside, &[(weekend, 4.0)]).unwrap();
    let saturday = hours(5.0 * 24.0 + 10.0);
    for every in [1, 3] {
        let found = intervals(&rate(0.0), 1.0, MONDAY, &want(every, 0, 1, 0.8), &week(), MONDAY + WEEK);
        let first = found[0];
        assert!(
            saturday <= first.from && first.until < saturday + Span::from_hours(4),
            "{every}: {first:?}"
        );
    }
    // The price of a cell is that of the week, not that of its first days.
    let (rate, want) = (rate(0.02), want(1, 0, 1, 0.8));
    let price = price(&rate, 1.0, MONDAY, &want, &week()).unwrap();
    let (mut known_until, mut all) = (MONDAY, Vec::new());
    loop {
        let found = intervals_at(price, &rate, 1.0, known_until, &want, &week(), MONDAY + WEEK);
        let Some(last) = found.last() else { break };
        known_until = last.until;
        all.extend(found);
    }
    let held = share_held(&rate, &all);
    assert!((held - 0.8).abs() < 0.02, "{held} in {} cells", all.len());
    assert!(all[0].from >= saturday, "{:?}", all[0]);
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

/// The share of X-th updates found before the next, or within the window, and the number of probes.
fn found_in_time(want: Want, updates: &[Timestamp]) -> (f64, usize) {
    let rate = Steps::constant(1.0).unwrap();
    let price = price(&rate, 1.0, MONDAY, &want, &week()).unwrap();
    let (every, last) = (want.every as usize, updates[updates.len() - 1]);
    let (mut last_probe, mut seen, mut probes) = (MONDAY, 0, Vec::new());
    while last_probe < last {
        let want = Want { counted: (seen % every) as u32, ..want };
        let until = last_probe + Span::from_days(3);
        let active = [(last_probe, until)];
        let found = intervals_at(price, &rate, 1.0, last_probe, &want, &active, until);
        last_probe = found[0].until;
        seen = updates.partition_point(|&update| update <= last_probe);
        probes.push(last_probe);
    }
    let numbers = (every - 1..updates.len() - 1).step_by(every);
    let in_time = |&number: &usize| {
        let until = match want.life {
            Lifetime::Window(window) => updates[number] + window,
            Lifetime::Overwrite => updates[number + 1] - Span::from_millis(1),
        };
        let next = probes.partition_point(|&probe| probe < updates[number]);
        probes.get(next).is_some_and(|&probe| probe <= until)
    };
    (numbers.clone().filter(in_time).count() as f64 / numbers.count() as f64, probes.len())
}

#[test]
fn the_requested_share_is_found_before_it_is_overwritten() {
    let updates = updates("overwrite", 3000.0);
    for (every, confidence) in [(1, 0.8), (1, 0.5), (4, 0.8), (10, 0.7)] {
        let want = Want { life: Lifetime::Overwrite, ..want(every, 0, 0, confidence) };
        let (share, probes) = found_in_time(want, &updates);
        let scatter = 2.5 * (f64::from(every) / 3000.0).sqrt() * 0.5;
        assert!(share > confidence - scatter - 0.01, "{every} {confidence}: {share}");
        // No more probes than necessary: (1 − e^−g)/g = 0.8 at g = 0.464.
        if (every, confidence) == (1, 0.8) {
            assert!(share < confidence + scatter, "{share}");
            assert!((probes as f64 / 3000.0 * 0.464 - 1.0).abs() < 0.02, "{probes}");
        }
    }
}

#[test]
fn the_requested_share_is_found_in_time() {
    let updates = updates("window", 3000.0);
    for (every, mins, confidence) in
        [(1, 30, 0.9), (5, 30, 0.9), (5, 30, 0.7), (10, 5, 0.8), (10, 120, 0.9)]
    {
        let (share, _) = found_in_time(want(every, 0, mins, confidence), &updates);
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
        let predict = if anew { intervals } else { intervals_once };
        let found = predict(&rate, 1.0, MONDAY, &want, &week(), MONDAY + WEEK);
        for cell in &found {
            prop_assert!(cell.from > MONDAY && cell.from < MONDAY + WEEK && cell.rule == want.rule);
            prop_assert!(cell.until >= cell.from && cell.until - cell.from <= Span::from_mins(mins));
        }
        prop_assert!(found.windows(2).all(|pair| pair[0].until < pair[1].from));
        prop_assert!(!found.is_empty() || anew || within + outside == 0.0);
    }
}
