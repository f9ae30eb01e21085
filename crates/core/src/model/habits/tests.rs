use jiff::tz::TimeZone;

use super::mixture::PredictorMix;
use super::predict::{Detail, UpdateForecast};
use super::predictors::{COUNT, PREDICTORS, Predictor};
use super::regular::Regularity;
use super::update_times::UpdateTimes;
use super::weights::predicted;
use crate::model::cyclic::Rate;
use crate::model::steps::Steps;
use crate::model::week::HOUR_MS;
use crate::rng::Stream;
use crate::time::{Span, Timestamp};

fn start() -> Timestamp {
    Timestamp::parse_iso("2026-08-03T00:00:00Z").unwrap()
}

/// A constant weekly rate.
fn even(per_hour: f64) -> Steps {
    Steps::from(&Rate::constant(per_hour))
}

fn minutes(n: f64) -> Span {
    Span::from_mins(1).scaled(n)
}

fn update_times(times: impl IntoIterator<Item = Timestamp>, predicted_rate: f32) -> UpdateTimes {
    let mut update_times = UpdateTimes::default();
    update_times.watched_since(start());
    times.into_iter().for_each(|at| update_times.note(at, Some(predicted_rate)));
    update_times
}

/// A Poisson source with this rate per hour.
fn poisson(per_hour: f64, hours: f64, seed: u64) -> Vec<Timestamp> {
    let mut chance = Stream::new(seed, "poisson");
    let mut at = 0.0;
    let mut times = Vec::new();
    loop {
        at -= (1.0 - chance.unit()).ln() / per_hour;
        if at > hours {
            return times;
        }
        times.push(start() + Span::from_hours(1).scaled(at));
    }
}

/// The same, where each update triggers ρ others on average, after β minutes.
fn self_exciting(per_hour: f64, rho: f64, beta: f64, hours: f64, seed: u64) -> Vec<Timestamp> {
    let mut chance = Stream::new(seed, "echoing");
    let mut times = poisson(per_hour * (1.0 - rho), hours, seed);
    let mut next = 0;
    while next < times.len() {
        let mut before = chance.unit();
        // A Poisson number with mean ρ.
        while before > (-rho).exp() {
            times.push(times[next] - minutes(beta * (1.0 - chance.unit()).ln()));
            before *= chance.unit();
        }
        next += 1;
    }
    let end = start() + Span::from_hours(1).scaled(hours);
    times.retain(|&at| at < end);
    times.sort_unstable();
    times
}

fn share(habits: &PredictorMix, of: impl Fn(&Predictor) -> bool) -> f64 {
    PREDICTORS
        .iter()
        .zip(&habits.shares)
        .filter(|(predictor, _)| of(predictor))
        .map(|(_, s)| f64::from(*s))
        .sum()
}

#[test]
fn weights_sum_to_one_and_round_trip() {
    for (seed, per_hour) in [(1, 0.02), (2, 0.3), (3, 4.0)] {
        let update_times = update_times(poisson(per_hour, 2000.0, seed), per_hour as f32);
        let now = start() + Span::from_hours(2000);
        for with_self_exciting in [true, false] {
            let habits = PredictorMix::fit_weights(&update_times, &even(1.0), now, with_self_exciting);
            assert!((share(&habits, |_| true) - 1.0).abs() < 1e-5);
            assert!(habits.shares.iter().all(|share| (0.0..=1.0).contains(share)));
            assert!(with_self_exciting || habits.triggered_per_update() == 0.0);
            assert_eq!(PredictorMix::from_bytes(&habits.to_bytes()), Some(habits));
        }
    }
    let nothing = PredictorMix::fit_weights(&UpdateTimes::default(), &even(1.0), start(), true);
    let [rhythm, others @ ..] = nothing.shares;
    assert!(others.iter().all(|&other| other < rhythm / 4.0), "the weekly rate dominates without evidence");
    assert_eq!(PredictorMix::from_bytes(&[0; 7]), None);
    assert_eq!(PredictorMix::from_bytes(&f32::NAN.to_le_bytes().repeat(COUNT)), None);
}

#[test]
fn an_hourly_job_is_predicted_at_its_minute() {
    let chance = &mut Stream::new(1, "job");
    let jobs: Vec<Timestamp> =
        (0..200).map(|n| start() + Span::from_hours(4 * n) + minutes(4.0 + 1.5 * chance.unit())).collect();
    let (now, rhythm) = (start() + Span::from_hours(800), Rate::constant(0.25));
    let habits = PredictorMix::fit_weights(&update_times(jobs.clone(), 0.25), &even(0.25), now, true);
    let foresight = UpdateForecast::new(update_times(jobs, 0.25), habits, &TimeZone::UTC, now);
    let day = foresight.over(&Steps::from(&rhythm), now, (now, now + Span::from_days(1)), Detail::MINUTES);
    let at_the_job = |&(end, _): &&(i64, f64)| {
        let minute = (end / 60_000 - 1).rem_euclid(240);
        (2..=8).contains(&minute)
    };
    let sum =
        |pieces: &mut dyn Iterator<Item = &(i64, f64)>| pieces.map(|piece| piece.1).sum::<f64>() / 60.0;
    let (near, all) = (sum(&mut day.iter().filter(at_the_job)), sum(&mut day.iter()));
    assert!((all - 6.0).abs() < 1.0, "six a day: {all}");
    assert!(near > 0.75 * all, "{near} of {all} within minutes of the job");
}

#[test]
fn self_excitation_is_detected_only_where_it_exists() {
    let hours = 1500.0;
    let now = start() + Span::from_hours(1500);
    let weighed = |times: Vec<Timestamp>| {
        PredictorMix::fit_weights(&update_times(times, 0.15), &even(0.15), now, true)
    };
    for seed in 0..4 {
        let found = weighed(self_exciting(0.15, 0.5, 30.0, hours, seed)).triggered_per_update();
        assert!((0.3..0.8).contains(&found), "ρ = 0.5: {found}");
        let none = weighed(poisson(0.15, hours, seed)).triggered_per_update();
        assert!(none < 0.12, "ρ = 0: {none}");
    }
}

/// The tables and the direct computation agree to within the width of a minute.
#[test]
fn the_predicted_rate_matches_the_fitted_predictors() {
    let times = self_exciting(0.5, 0.4, 45.0, 1500.0, 9);
    let now = start() + Span::from_hours(1500);
    let rhythm = Steps::constant(0.5).unwrap();
    // Without the narrowest predictors, for which a minute is too coarse.
    for predictor in
        (0..COUNT).filter(|&predictor| !matches!(PREDICTORS[predictor], Predictor::Periodic(_, ..30, _)))
    {
        let mut shares = [0.0; COUNT];
        shares[predictor] = 1.0;
        let habits = PredictorMix { shares, regularity: Regularity::NONE };
        let forecast = UpdateForecast::new(update_times(times.clone(), 0.5), habits, &TimeZone::UTC, now);
        let ahead = forecast.over(&rhythm, now, (now, now + Span::from_mins(2)), Detail::MINUTES);
        let soon = now + Span::from_secs(30);
        let mut and_then = update_times(times.clone(), 0.5);
        and_then.note(soon, Some(0.5));
        let rows = predicted(&and_then, &TimeZone::UTC);
        let wanted = rows.last().unwrap()[predictor];
        let got = ahead[0].1;
        // A single self-exciting predictor is capped for stability, so its rate approaches the mean a little
        // faster.
        let off = if PREDICTORS[predictor].is_self_exciting() { 0.2 } else { 0.06 };
        assert!(
            (got - wanted).abs() <= off * wanted.max(0.1),
            "{:?}: {got} ahead, {wanted} by the update times",
            PREDICTORS[predictor]
        );
    }
}

#[test]
fn the_predicted_rate_of_a_stopped_source_decreases() {
    let jobs: Vec<Timestamp> = (0..200).map(|n| start() + Span::from_hours(n)).collect();
    let last = start() + Span::from_hours(199);
    let weighed = update_times(jobs, 1.0);
    let habits = PredictorMix::fit_weights(&weighed, &even(1.0), last, true);
    let ahead = |now: Timestamp| {
        let foresight = UpdateForecast::new(weighed.clone(), habits.clone(), &TimeZone::UTC, last);
        let pieces = foresight.over(&even(1.0), now, (now, now + Span::from_hours(3)), Detail::MINUTES);
        pieces.iter().map(|piece| piece.1).sum::<f64>() / 60.0
    };
    let (at_once, next_day) = (ahead(last + Span::from_mins(1)), ahead(last + Span::from_hours(24)));
    assert!((at_once - 3.0).abs() < 0.6, "three in three hours: {at_once}");
    assert!(next_day < 0.5 * at_once, "a day late: {next_day}");
}

#[test]
fn coarse_and_fine_pieces_have_equal_sums() {
    let times = self_exciting(1.0, 0.4, 45.0, 240.0, 5);
    let now = start() + Span::from_hours(240);
    let update_times = update_times(times, 1.0);
    let habits = PredictorMix::fit_weights(&update_times, &even(1.0), now, true);
    let foresight = UpdateForecast::new(update_times, habits, &TimeZone::UTC, now);
    let rhythm = Steps::constant(1.0).unwrap();
    let until = now + Span::from_days(3);
    let updates = |coarser| {
        let mut before = 0;
        let mut sum = 0.0;
        for (end, rate) in foresight.over(&rhythm, now, (now, until), Detail { coarser, ..Detail::MINUTES })
        {
            assert!(end > before && rate >= 0.0);
            sum += rate * (end - before) as f64 / HOUR_MS as f64;
            before = end;
        }
        assert_eq!(before, (until - now).as_millis());
        sum
    };
    let (fine, coarse) = (updates(None), updates(Some((now + Span::from_hours(2), Span::from_mins(17)))));
    assert!((fine - coarse).abs() < 0.02 * fine, "{fine} {coarse}");
}
