//! The plan of one source, and whether it needs another.

use serde::{Deserialize, Serialize};

use crate::planning::plan::Plan;
use crate::time::{Span, Timestamp};

/// The plan of a source.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PlanState {
    current: Option<Box<Plan>>,
    /// The plan, if any, no longer fits.
    outdated: bool,
    /// The source is in the queue for plans.
    requested: bool,
    /// The earliest start of the next plan.
    not_before: Option<Timestamp>,
}

impl PlanState {
    /// The plan, even if it is outdated.
    pub fn current(&self) -> Option<&Plan> {
        self.current.as_deref()
    }

    /// Adopts this plan.
    pub fn follow(&mut self, mut plan: Plan) {
        plan.times.shrink_to_fit();
        (self.current, self.outdated) = (Some(Box::new(plan)), false);
    }

    /// Drops the plan.
    pub fn clear(&mut self) {
        self.current = None;
    }

    /// Marks the plan as outdated if the condition holds.
    pub fn outdate_if(&mut self, outdated: bool) {
        self.outdated |= outdated;
    }

    /// Whether there is no plan, or an outdated one.
    pub fn is_wanting(&self) -> bool {
        self.current.is_none() || self.outdated
    }

    /// Whether there is a plan that is not outdated.
    pub fn fits(&self) -> bool {
        self.current.is_some() && !self.outdated
    }

    /// Sets the earliest start of the next plan.
    pub fn begin_no_sooner(&mut self, at: Timestamp) {
        self.not_before = self.not_before.max(Some(at));
    }

    /// Removes the earliest start of the next plan.
    pub fn begin_any_time(&mut self) {
        self.not_before = None;
    }

    /// Requests a plan. False if one is requested already.
    pub fn request(&mut self) -> bool {
        !std::mem::replace(&mut self.requested, true)
    }

    /// Takes the request. Returns the earliest start of the plan.
    pub fn take_request(&mut self) -> Option<Timestamp> {
        self.requested = false;
        self.not_before.take()
    }

    /// Moves all times after the clock was set.
    pub fn shift(&mut self, by: Span) {
        if let Some(plan) = &mut self.current {
            plan.shift(by);
        }
        self.not_before = self.not_before.map(|at| at + by);
        self.outdated = true;
    }
}
