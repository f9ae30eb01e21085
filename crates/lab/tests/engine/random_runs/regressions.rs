//! Faults that random runs have found, each as a test of its own.

use tidewatch_core::engine::action::Refusal;
use tidewatch_core::engine::constraint::Constraint;
use tidewatch_core::engine::event::{Changed, Failure, KnownSource, Moved, ProbeAnswer, ProbeReport};
use tidewatch_core::engine::params::{FleetParams, SourcePrice, Terms};
use tidewatch_core::engine::reason::SourceState;
use tidewatch_core::engine::source_memory::{Due, SourceMemory};
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::stepper::ByHand;

use super::random_run::{ONE, host, start};

fn hourly(per: Span) -> Budget {
    let probes = (per.as_millis() / 3_600_000) as u32;
    Budget { probes, per, min_spacing: Span::from_mins(30) }
}

fn terms(policy: Policy, budget: Budget) -> Terms {
    Terms {
        budget,
        policy,
        weight: 1.0,
        price: SourcePrice::Own(0.0),
        max_gap: None,
        cost: None,
        host: host(0),
    }
}

fn known(policy: Policy, memory: SourceMemory) -> KnownSource {
    let terms = terms(policy, hourly(Span::from_hours(2)));
    KnownSource { id: ONE, terms, memory, probes: Vec::new(), answered_by: None, moved: Moved::Same }
}

/// Sends the first probe, and ends it.
fn probed(policy: Policy, result: Result<ProbeAnswer, Failure>) -> (ByHand, Timestamp) {
    let mut fleet =
        ByHand::new(FleetParams::default(), 7, start(), vec![known(policy, SourceMemory::default())]);
    let at = fleet.memory(ONE).unwrap().due.at().unwrap();
    probe(&mut fleet, at, result);
    (fleet, at)
}

fn probe(fleet: &mut ByHand, at: Timestamp, result: Result<ProbeAnswer, Failure>) {
    assert_eq!(fleet.step(at).len(), 1);
    let report = ProbeReport {
        source: ONE,
        started: at,
        finished: at,
        answered_by: None,
        crawl_delays: Vec::new(),
        result,
    };
    fleet.end_probe(&report).unwrap();
    fleet.commit_end(ONE, at);
}

fn change(fleet: &mut ByHand, budget: Budget, moved: Moved, probes: Vec<Timestamp>, now: Timestamp) {
    let change = Changed { id: ONE, terms: terms(Policy::Plan, budget), moved, probes };
    fleet.reconfigure(Vec::new(), vec![change], &[], now);
}

#[test]
fn a_probe_that_ended_after_the_log_was_read_counts() {
    let (mut fleet, first) = probed(Policy::Plan, Ok(ProbeAnswer::default()));
    let logged = vec![first];
    let second = fleet.memory(ONE).unwrap().due.at().unwrap();
    probe(&mut fleet, second, Ok(ProbeAnswer::default()));
    // T is longer now, so the log is read. The second probe ended after that.
    change(&mut fleet, hourly(Span::from_days(1)), Moved::Same, logged, second);
    assert_eq!(fleet.budget_left(ONE, second), Some(22));
    let until = second + Span::from_mins(30);
    let refused = fleet.request(ONE, second + Span::from_mins(1));
    assert_eq!(refused, Err(Refusal::Until { constraint: Constraint::Spacing, until }));
}

#[test]
fn hints_of_a_feed_apply_longer_than_the_log_of_probes() {
    let weekly = FeedHints { update_period: Some(Span::from_days(7)), ..FeedHints::default() };
    let answer = ProbeAnswer { hints: Some(weekly), ..ProbeAnswer::default() };
    let (fleet, at) = probed(Policy::Uniform, Ok(answer));
    let memory = fleet.memory(ONE).unwrap().clone();
    // Days later no probe is within T, neither at a start nor when the source is added again.
    let (now, until) = (at + Span::from_days(3), at + Span::from_days(7));
    let mut again =
        ByHand::new(FleetParams::default(), 7, now, vec![known(Policy::Uniform, memory.clone())]);
    let refused = again.request(ONE, now);
    assert_eq!(refused, Err(Refusal::Until { constraint: Constraint::UpdatePeriod, until }));
    again.reconfigure(Vec::new(), Vec::new(), &[ONE], now);
    let back = SourceMemory { due: Due::Unscheduled, ..memory };
    again.reconfigure(vec![known(Policy::Uniform, back)], Vec::new(), &[], now);
    assert_eq!(again.memory(ONE).unwrap().due, Due::At(until));
}

#[test]
fn a_gone_source_is_probed_only_on_request() {
    let failures = [
        Failure::Interrupted,
        Failure::Refused,
        Failure::Unreachable,
        Failure::Throttled { retry_after: None },
        Failure::Gone,
    ];
    for failure in failures {
        let (mut fleet, at) = probed(Policy::Uniform, Err(Failure::Gone));
        let later = at + Span::from_days(2);
        assert_eq!(fleet.request(ONE, later), Ok(()));
        probe(&mut fleet, later, Err(failure));
        assert_eq!(fleet.next_step(later), None, "{failure:?}");
        let memory = fleet.memory(ONE).unwrap();
        assert_eq!((memory.state, memory.due), (SourceState::Resting, Due::Stopped), "{failure:?}");
    }
    // A source that answers is active again.
    let (mut fleet, at) = probed(Policy::Uniform, Err(Failure::Gone));
    let later = at + Span::from_days(2);
    assert_eq!(fleet.request(ONE, later), Ok(()));
    probe(&mut fleet, later, Ok(ProbeAnswer::default()));
    assert!(fleet.next_step(later).is_some());
}

#[test]
fn a_gone_source_is_planned_again_at_its_new_address() {
    let (mut fleet, at) = probed(Policy::Plan, Err(Failure::Gone));
    fleet.rates_fitted(&[ONE], at);
    change(&mut fleet, hourly(Span::from_hours(2)), Moved::Elsewhere, Vec::new(), at);
    let orders = fleet.plan_orders();
    assert_eq!(Due::At(orders[0].input.not_before), fleet.memory(ONE).unwrap().due);
    // The same if it answers again.
    let (mut fleet, at) = probed(Policy::Plan, Err(Failure::Gone));
    fleet.rates_fitted(&[ONE], at);
    let later = at + Span::from_days(2);
    assert_eq!(fleet.request(ONE, later), Ok(()));
    probe(&mut fleet, later, Ok(ProbeAnswer::default()));
    assert_eq!(fleet.plan_orders()[0].input.not_before, later);
}
