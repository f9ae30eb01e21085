//! The event loop of a simulated fleet.
//!
//! Does what the daemon's pilot does: steps the fleet when it is worth it, hands out orders, takes
//! reports when they are in, has plans made. The world that answers is a function, and so is whoever
//! plans.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tidewatch_core::engine::{Answered, Failure, Fleet, Order, Report};
use tidewatch_core::planning::build::PlanOrder;
use tidewatch_core::planning::plan::Plan;
use tidewatch_core::time::{Span, Timestamp};

/// How the world answers one probe: how long it takes, and with what.
pub type Reply = (Span, Result<Answered, Failure>);

/// A probe that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Timestamp,
    /// What was ordered.
    pub order: Order,
}

/// Runs the fleet from `from` until `until` against a world, and returns every probe sent. Answers
/// still under way at the end are awaited, as the daemon does when it drains. Nobody plans.
pub fn run(
    fleet: &mut Fleet,
    world: impl FnMut(&Order, Timestamp) -> Reply,
    from: Timestamp,
    until: Timestamp,
) -> Vec<Sent> {
    run_planned(fleet, world, |_| None, from, until)
}

/// The same with a planner, whose plans are there as soon as they are ordered.
pub fn run_planned(
    fleet: &mut Fleet,
    mut world: impl FnMut(&Order, Timestamp) -> Reply,
    mut planner: impl FnMut(&PlanOrder) -> Option<Plan>,
    from: Timestamp,
    until: Timestamp,
) -> Vec<Sent> {
    let mut now = from;
    let mut sent = Vec::new();
    let mut answers: BinaryHeap<Reverse<(Timestamp, usize)>> = BinaryHeap::new();
    let mut replies = Vec::new();
    loop {
        while let Some(&Reverse((at, index))) = answers.peek().filter(|answer| answer.0.0 <= now) {
            answers.pop();
            let Some((order, started, result)) = Option::take(&mut replies[index]) else { continue };
            let order: Order = order;
            let report = Report {
                source: order.source,
                started,
                finished: at,
                answered_by: None,
                crawl_delay: None,
                result,
            };
            if fleet.absorb(&report).is_some() {
                fleet.landed(order.source);
            }
        }
        for order in fleet.plan_orders(now, usize::MAX) {
            if let Some(plan) = planner(&order) {
                // Never stale: nothing happens between an order and its plan.
                let _ = fleet.adopt(order.source, plan, now);
            }
        }
        let orders = if now <= until { fleet.step(now) } else { Vec::new() };
        for order in orders {
            sent.push(Sent { at: now, order });
            let (took, result) = world(&order, now);
            answers.push(Reverse((now + took, replies.len())));
            replies.push(Some((order, now, result)));
        }
        let next_answer = answers.peek().map(|answer| answer.0.0);
        let next_step = fleet.next_step(now).filter(|&at| at <= until);
        let next = match (next_answer, next_step) {
            (Some(a), Some(b)) => a.min(b),
            (Some(at), None) | (None, Some(at)) => at,
            (None, None) => return sent,
        };
        now = now.max(next);
    }
}
