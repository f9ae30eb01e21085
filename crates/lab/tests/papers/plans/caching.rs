//! Copies are served until the policy would refresh them, and the policies that run are those of a horizon.

use jiff::tz::TimeZone;
use proptest::prelude::*;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::horizon;
use tidewatch_core::planning::next_probe::{Knowledge, NextProbe, next};
use tidewatch_core::planning::plan::{Plan, Revision};
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::ttl::TtlForm;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::plans::baselines;
use tidewatch_lab::plans::caching::may_serve;

use super::any_policy::{DAILY, any_budget, any_rate, any_time, followed, monday, window};

const TICK: Span = Span::from_millis(1);

proptest! {
    /// With every policy, a copy may be served until the millisecond before its refresh.
    #[test]
    fn copies_are_served_until_they_are_refreshed(
        rate in any_rate(), from in any_time(), budget in any_budget(), threshold in 0.0_f64..5.0,
        age in prop::option::of(0_i64..100_000_000), known_rate: bool, known_group: bool,
        after in 0_i64..100_000_000, jitter in 0.0_f64..1.0, prefetching: bool,
    ) {
        let (rate, even) = (Steps::from(&rate), Steps::constant(1.0).unwrap());
        let plan = Plan {
            by: Policy::Plan,
            made_from: Revision(0),
            times: vec![from + Span::from_mins(7), from + Span::from_hours(2)],
            starts: from,
            ends: from + Span::from_days(1),
        };
        let known = Knowledge {
            rate: known_rate.then_some(&rate),
            aggregate: known_group.then_some((&rate, 0.1)),
            last_modified: age.map(|age| from - Span::from_millis(age)),
            freshness_threshold: threshold,
            ttl_form: if prefetching { TtlForm::Prefetching } else { TtlForm::Caches },
            plan: (after % 2 == 0).then_some(&plan),
            jitter,
            ..Knowledge::nothing(budget, &even)
        };
        let now = from + Span::from_millis(after);
        for policy in Policy::ALL {
            let NextProbe::At { at: refresh, .. } = next(policy, &known, from, from) else {
                prop_assert!(matches!(policy, Policy::Adaptive | Policy::Auto), "{policy:?}");
                prop_assert!(!may_serve(policy, &known, from, now), "{policy:?}: no age limit");
                continue;
            };
            prop_assert!(refresh == from || may_serve(policy, &known, from, refresh - TICK), "{policy:?}");
            prop_assert!(!may_serve(policy, &known, from, refresh), "{policy:?}");
            prop_assert_eq!(may_serve(policy, &known, from, now), now < refresh, "{:?}", policy);
            // At a later time the result is the same, or at once.
            let computed_later = match next(policy, &known, from, now) {
                NextProbe::At { at, .. } => at,
                NextProbe::Sampled { .. } => Timestamp::MIN,
            };
            prop_assert_eq!(computed_later, refresh.max(now), "{:?}", policy);
        }
    }
}

/// On a horizon of one cycle their cost equals that of the horizon's policies.
#[test]
fn they_are_the_baselines_policies() {
    let rate = Steps::windows(TimeZone::UTC, 0.2, &[(window(DAILY, 9, 18), 2.0)]).unwrap();
    let importance = Steps::windows(TimeZone::UTC, 1.0, &[(window(DAILY, 8, 17), 3.0)]).unwrap();
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::ZERO };
    let known = Knowledge { rate: Some(&rate), ..Knowledge::nothing(budget, &importance) };
    let (from, until) = (monday(), monday() + budget.per);
    let horizon = horizon::Horizon {
        cost: Obsolescence::new(&rate, &importance, from, until),
        probes: budget.probes,
        min_spacing: Span::ZERO,
        closed: Vec::new(),
        allowance: Vec::new(),
        longest_gap: None,
        end: horizon::HorizonEnd::Probed,
    };
    for (policy, planned) in [
        (Policy::Threshold, baselines::threshold(&horizon).unwrap()),
        (Policy::FirstArrival, baselines::first_arrival(&horizon).unwrap()),
    ] {
        let online: Vec<Span> =
            followed(policy, &known, from, until).into_iter().map(|at| at - from).collect();
        let (online, planned) = (horizon.cost.cost_of(&online), horizon.cost.cost_of(&planned));
        assert!((online / planned - 1.0).abs() < 0.02, "{policy:?}: {online} and {planned}");
    }
}
