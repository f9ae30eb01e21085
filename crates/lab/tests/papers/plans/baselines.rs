//! Uniform, threshold and first arrival: the paper's instances, and that any schedule is allowed.

use proptest::prelude::*;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::planning::horizon::{Horizon, HorizonEnd};
use tidewatch_core::time::Span;
use tidewatch_lab::plans::baselines::{first_arrival, threshold, uniform};

use super::world::{cost_in_days, dbworld, horizon, papers};

/// Measured with another program, in update·days: uniform, threshold, first arrival.
const MEASURED: [[f64; 3]; 4] =
    [[59.8187, 51.26, 61.80], [107.9125, 86.91, 94.15], [10.9320, 7.74, 14.39], [21.5223, 18.15, 21.74]];

#[test]
fn the_papers_instances() {
    for ((name, horizon), expected) in papers().into_iter().zip(MEASURED) {
        let costs = [uniform, threshold, first_arrival]
            .map(|policy| cost_in_days(&horizon, &policy(&horizon).unwrap()));
        assert!((costs[0] - expected[0]).abs() < 1e-4, "{name}: {costs:?}");
        // Given with two digits.
        assert!((costs[1] - expected[1]).abs() < 0.01, "{name}: {costs:?}");
        assert!((costs[2] - expected[2]).abs() < 0.01, "{name}: {costs:?}");
    }
}

#[test]
fn first_arrival_takes_equal_steps_of_expected_updates() {
    let horizon = dbworld(3.0, 28);
    let times = first_arrival(&horizon).unwrap();
    assert_eq!(times.len(), 28);
    let step = horizon.cost.expected_updates(Span::ZERO, horizon.length()) / 28.0;
    let mut last = Span::ZERO;
    for at in times {
        assert!((horizon.cost.expected_updates(last, at) - step).abs() < 1e-5, "at {at}");
        last = at;
    }
}

#[test]
fn threshold_lets_every_gap_cost_the_same() {
    let horizon = dbworld(3.0, 28);
    let times = threshold(&horizon).unwrap();
    let mut last = Span::ZERO;
    let gaps: Vec<f64> = times
        .iter()
        .map(|&at| {
            let cost = horizon.cost.cost(last, at);
            last = at;
            cost
        })
        .collect();
    assert_eq!(gaps.len(), 28);
    assert!(gaps.iter().all(|gap| (gap - gaps[0]).abs() < 1e-3), "{gaps:?}");
}

/// Probes in a closed time are moved to its end, and become one.
#[test]
fn uniform_waits_for_closed_times() {
    let hour = Span::from_hours;
    let horizon = Horizon { closed: vec![(hour(6), hour(30))], ..dbworld(1.0, 28 * 4) };
    let times = uniform(&horizon).unwrap();
    assert_eq!(times[..2], [hour(30), hour(36)]);
    assert_eq!(horizon.verify(&times), Ok(()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn their_schedules_are_allowed(horizon in horizon(12)) {
        for policy in [uniform, threshold, first_arrival] {
            let times = policy(&horizon).unwrap();
            prop_assert_eq!(horizon.verify(&times), Ok(()));
        }
    }

    #[test]
    fn where_nothing_is_in_the_way_all_probes_are_used(
        horizon in horizon(12), rate in 0.1_f64..3.0, weight in 0.1_f64..3.0, seconds in 60_i64..10_000,
    ) {
        let horizon = Horizon {
            cost: Obsolescence::of_cells([(Span::from_secs(seconds), rate, weight)]),
            min_spacing: Span::ZERO, closed: Vec::new(), allowance: Vec::new(), ..horizon
        };
        let even = uniform(&horizon).unwrap();
        prop_assert_eq!(even.len(), horizon.probes as usize);
        // The paper's gaps are T/n; where the end is free there is one more of them.
        let gaps = f64::from(horizon.probes) + if horizon.end == HorizonEnd::Open { 1.0 } else { 0.0 };
        for (index, at) in (1_u32..).zip(&even) {
            let wanted = horizon.length().as_millis() as f64 * f64::from(index) / gaps;
            prop_assert!((at.as_millis() as f64 - wanted).abs() <= 1.0);
        }
        for policy in [threshold, first_arrival] {
            let times = policy(&horizon).unwrap();
            prop_assert!(times.len() == even.len(), "{} of {}", times.len(), even.len());
            // With one rate and one importance they are the same.
            for (a, b) in times.iter().zip(&even) {
                prop_assert!((*a - *b).as_millis().abs() <= 2 + i64::from(horizon.probes), "{times:?} {even:?}");
            }
        }
    }
}
