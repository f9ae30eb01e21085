//! The next probe times of a policy that computes one probe at a time.
//!
//! The component that tracks the last probe does not hold the rate. So the next probe ([`next_probe::next`])
//! is computed repeatedly, as if each probe occurred at its time, and the times are passed on like a plan. A
//! chain is short, because a late probe invalidates all later times. Takes the state of one source. May not
//! know the quality of its times.

use crate::model::obsolescence::Obsolescence;
use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

use super::next_probe::{self, Knowledge, NextProbe};
use super::plan_input::{PlanInput, PlannedTimes, apart};
use super::policy::Policy;

/// Maximum number of times.
const LONGEST: usize = 16;

/// The next times of this policy under this rate, in updates per hour. `None` if the policy has no time of
/// its own.
pub fn follow(
    policy: Policy,
    input: &PlanInput,
    known: &Knowledge<'_>,
    rate: &Steps,
) -> Option<PlannedTimes> {
    let importance = known.importance?;
    let PlanInput { now, budget, .. } = input;
    let starts = input.spent.last().map_or(*now, |&last| last.clamp(*now - budget.per, *now));
    let apart = apart(budget.min_spacing, &input.hints, input.fresh_for);
    let most = LONGEST.min(budget.probes.max(1) as usize);
    let mut times: Vec<Timestamp> = Vec::with_capacity(most);
    let mut last = starts;
    while times.len() < most {
        let NextProbe::At { at, asked_by } = next_probe::next(policy, known, last, last) else {
            return None;
        };
        if asked_by != policy {
            return None;
        }
        // The gate may still defer the first probe; the later times follow from this estimate.
        let soonest = if times.is_empty() { input.allowed_from() } else { last + apart };
        last = at.max(soonest).max(last + Span::from_millis(1));
        times.push(last);
    }
    let cost = Obsolescence::new(rate, importance, starts, last);
    let spans: Vec<Span> = times.iter().map(|&at| at - starts).collect();
    Some(PlannedTimes {
        by: policy,
        times,
        starts,
        ends: last,
        expected_cost: cost.cost_of(&spans),
        lower_bound: 0.0,
        price: 0.0,
        overflow: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::budget::Budget;

    fn input(budget: Budget, spent: Vec<Timestamp>) -> PlanInput {
        PlanInput { spent, ..PlanInput::new(Timestamp::from_secs(1_000_000), budget) }
    }

    #[test]
    fn each_time_is_computed_from_the_previous_one() {
        let (rate, even) = (Steps::constant(0.5).unwrap(), Steps::constant(1.0).unwrap());
        let budget = Budget { probes: 5, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
        let now = input(budget, Vec::new()).now;
        let known = Knowledge { rate: Some(&rate), ..Knowledge::nothing(budget, &even) };
        let chain = |input: &PlanInput| follow(Policy::IndHist, input, &known, &rate).unwrap();
        let every_two_hours = chain(&input(budget, vec![now]));
        assert_eq!(every_two_hours.times.len(), 5);
        for (nth, &at) in (1..).zip(&every_two_hours.times) {
            assert_eq!(at, now + Span::from_hours(2 * nth));
        }
        // Five gaps of two hours with one update each, whose mean delay is one hour.
        assert!((every_two_hours.expected_cost - 5.0).abs() < 1e-9);
        assert_eq!(
            (every_two_hours.by, every_two_hours.ends),
            (Policy::IndHist, now + Span::from_hours(10))
        );
        // The last probe was long ago, and the next one is not allowed yet.
        let mut late = input(budget, vec![now - Span::from_hours(9)]);
        late.not_before = now + Span::from_hours(1);
        assert_eq!(chain(&late).times[..2], [now + Span::from_hours(1), now + Span::from_hours(3)]);
        let fresh = PlanInput { fresh_for: Span::from_hours(3), ..input(budget, vec![now]) };
        assert_eq!(chain(&fresh).times[1], now + Span::from_hours(5), "max-age separates two probes");
    }

    #[test]
    fn a_policy_without_a_next_time_has_no_chain() {
        let even = Steps::constant(1.0).unwrap();
        let known = Knowledge::nothing(Budget::default(), &even);
        let input = input(Budget::default(), Vec::new());
        for policy in [Policy::IndHist, Policy::Adaptive, Policy::Auto, Policy::Threshold] {
            assert_eq!(follow(policy, &input, &known, &even), None);
        }
    }
}
