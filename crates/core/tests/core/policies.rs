//! Policies that compute one probe at a time, on any rhythm: when they are due, that a higher threshold is
//! never sooner, and that a budget is spent and not exceeded.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::expected::Forecast;
use tidewatch_core::planning::next_probe::Knowledge;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::ttl::TtlForm;
use tidewatch_core::time::{Span, Timestamp};

use crate::any_policy::{DAILY, any_budget, any_rate, any_time, followed, monday, time, window};

const TICK: Span = Span::from_millis(1);
const WEEKDAYS: u8 = 0b1_1111;

/// The most probes in any span of that length.
fn most_in(times: &[Timestamp], per: Span) -> usize {
    let until = |first: Timestamp| times.partition_point(|&at| at < first + per);
    times.iter().enumerate().map(|(index, &first)| until(first) - index).max().unwrap_or(0)
}

proptest! {
    /// The pieces agree with the integral of the rate and with its own search.
    #[test]
    fn histories_are_due_when_the_threshold_is_expected(
        rate in any_rate(), from in any_time(), threshold in 0.01_f64..400.0, share in 0.01_f64..1.0,
    ) {
        let steps = Steps::from(&rate);
        let own = Forecast::individual(&steps);
        let until = from + Span::from_hours(1000);
        let integral = rate.expected(from, until);
        prop_assert!((own.expected(from, until) - integral).abs() <= 1e-9 * (1.0 + integral));

        match (own.reaches(threshold, from), rate.reaches(from, threshold)) {
            (Some(at), Some(searched)) => {
                // If Λ stays at θ up to the last digits, either time is valid.
                let between = rate.expected(at.min(searched), at.max(searched));
                prop_assert!((at - searched).as_millis().abs() <= 1 || between < 1e-9 * (1.0 + threshold));
                prop_assert!(own.expected(from, at) >= threshold * (1.0 - 1e-12));
                prop_assert!(own.expected(from, at - TICK) < threshold * (1.0 + 1e-12));
                prop_assert!(own.has_reached(threshold, from, at));
                prop_assert!(!own.has_reached(threshold, from, at - TICK));
            }
            (ours, searched) => prop_assert_eq!(ours, searched),
        }

        // A share of the group's rate is a rate.
        let aggregate = Forecast::aggregate(&steps, share);
        prop_assert!((aggregate.expected(from, until) - share * integral).abs() <= 1e-9 * (1.0 + integral));
        match (aggregate.reaches(threshold, from), own.reaches(threshold / share, from)) {
            (Some(at), Some(other)) => {
                let between = rate.expected(at.min(other), at.max(other));
                prop_assert!((at - other).as_millis().abs() <= 1 || between < 1e-9 * (1.0 + threshold / share));
            }
            (ours, other) => prop_assert_eq!(ours, other),
        }
    }

    #[test]
    fn a_higher_threshold_or_factor_is_never_sooner(
        rate in any_rate(), from in any_time(), budget in any_budget(),
        threshold in 0.0_f64..5.0, higher in 0.0_f64..5.0,
        factor in 0.0_f64..1.0, more in 0.0_f64..1.0, age in 0_i64..100_000_000, prefetching: bool,
    ) {
        let (rate, even) = (Steps::from(&rate), Steps::constant(1.0).unwrap());
        let ttl_form = if prefetching { TtlForm::Prefetching } else { TtlForm::Caches };
        let known = Knowledge {
            rate: Some(&rate),
            aggregate: Some((&rate, 0.1)),
            last_modified: Some(from - Span::from_millis(age)),
            freshness_threshold: threshold,
            ttl_factor: factor,
            ttl_form,
            ..Knowledge::nothing(budget, &even)
        };
        let patient = Knowledge { freshness_threshold: threshold + higher, ..known };
        let lazy = Knowledge { ttl_factor: factor + more, ..known };
        for policy in [Policy::IndHist, Policy::AggHist, Policy::Ttl] {
            prop_assert!(time(policy, &known, from) <= time(policy, &patient, from), "{policy:?}");
            prop_assert!(time(policy, &known, from) <= time(policy, &lazy, from), "{policy:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// n per T if the rhythm repeats within T, from any start. Updates at the end of a day get one probe, or
    /// at a slightly higher level none, on all days of a week together. So for some n no threshold takes n,
    /// and the next lower number is up to seven less.
    #[test]
    fn levels_spend_the_budget_of_a_cycle(
        values in prop::collection::vec(prop_oneof![1 => Just(0.0), 3 => 0.01_f64..20.0], 4),
        worth in 0.5_f64..8.0, probes in 1_u32..80, from in any_time(), weekly: bool,
    ) {
        prop_assume!(values.iter().any(|&value| value > 0.0));
        let rows: Vec<_> = [(0, 7), (7, 12), (12, 20), (20, 24)]
            .into_iter()
            .zip(&values)
            .map(|((from, until), &value)| (window(DAILY, from, until), value))
            .collect();
        let rate = Steps::windows(TimeZone::UTC, 0.0, &rows).unwrap();
        let importance = Steps::windows(TimeZone::UTC, 1.0, &[(window(DAILY, 9, 18), worth)]).unwrap();
        let per = if weekly { Span::from_days(7) } else { Span::from_days(1) };
        let budget = Budget { probes, per, min_spacing: Span::ZERO };
        let known = Knowledge { rate: Some(&rate), ..Knowledge::nothing(budget, &importance) };
        for policy in [Policy::Threshold, Policy::FirstArrival] {
            let times = followed(policy, &known, from, from + per.scaled(4.0));
            for span in 0..4 {
                let begins = from + per.scaled(f64::from(span));
                let spent = times.iter().filter(|&&at| at > begins && at <= begins + per).count();
                let together = if weekly && policy == Policy::Threshold { 7 } else { 1 };
                let allowed = (probes as usize).saturating_sub(together)..=probes as usize + 1;
                prop_assert!(allowed.contains(&spent), "{policy:?}: {spent} for {probes}");
            }
        }
    }

    /// On any rhythm, also one longer than T, no span T has many more than n probes.
    #[test]
    fn levels_overspend_little(rate in any_rate(), budget in any_budget(), from in any_time()) {
        let (rate, even) = (Steps::from(&rate), Steps::constant(1.0).unwrap());
        let known = Knowledge { rate: Some(&rate), ..Knowledge::nothing(budget, &even) };
        let until = from + budget.per.scaled(3.0).max(Span::from_days(7));
        let first = most_in(&followed(Policy::FirstArrival, &known, from, until), budget.per);
        prop_assert!(first <= budget.probes as usize + 1, "first arrival: {first} for {}", budget.probes);
        let threshold = most_in(&followed(Policy::Threshold, &known, from, until), budget.per);
        prop_assert!(threshold <= budget.probes as usize + 2, "threshold: {threshold} for {}", budget.probes);
    }
}

/// Before a weekend the level does not fall with the remaining updates of the week.
#[test]
fn a_friday_evening_does_not_get_the_budget_twice() {
    let rate = Steps::windows(TimeZone::UTC, 0.0, &[(window(WEEKDAYS, 9, 18), 2.0)]).unwrap();
    let even = Steps::constant(1.0).unwrap();
    let budget = Budget { probes: 18, per: Span::from_days(1), min_spacing: Span::ZERO };
    let known = Knowledge { rate: Some(&rate), ..Knowledge::nothing(budget, &even) };
    for policy in [Policy::Threshold, Policy::FirstArrival] {
        let times = followed(policy, &known, monday(), monday() + Span::from_days(7));
        assert!(most_in(&times, budget.per) <= 19, "{policy:?}");
        for day in 0..5 {
            let (begins, ends) = (monday() + Span::from_days(day), monday() + Span::from_days(day + 1));
            let spent = times.iter().filter(|&&at| at >= begins && at < ends).count();
            assert!((17..=19).contains(&spent), "{policy:?}: {spent} on day {day}");
        }
    }
}
