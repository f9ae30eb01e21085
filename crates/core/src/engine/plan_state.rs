//! The plan that one source follows, and whether it wants another.

use serde::{Deserialize, Serialize};

use crate::planning::plan::Plan;
use crate::time::{Span, Timestamp};

/// The plan of a source.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PlanState {
    current: Option<Box<Plan>>,
    /// The plan, if there is one, no longer fits.
    outdated: bool,
    /// It is in the queue of those that want a plan.
    requested: bool,
    /// The next plan may not begin before.
    not_before: Option<Timestamp>,
}

impl PlanState {
    /// The plan, also one that no longer fits.
    pub fn current(&self) -> Option<&Plan> {
        self.current.as_deref()
    }

    /// Follows this plan.
    pub fn follow(&mut self, mut plan: Plan) {
        plan.times.shrink_to_fit();
        (self.current, self.outdated) = (Some(Box::new(plan)), false);
    }

    /// Follows none.
    pub fn clear(&mut self) {
        self.current = None;
    }

    /// The plan no longer fits if this holds.
    pub fn outdate_if(&mut self, outdated: bool) {
        self.outdated |= outdated;
    }

    /// Whether there is no plan, or one that no longer fits.
    pub fn is_wanting(&self) -> bool {
        self.current.is_none() || self.outdated
    }

    /// Whether there is a plan that fits.
    pub fn fits(&self) -> bool {
        self.current.is_some() && !self.outdated
    }

    /// The next plan may not begin before.
    pub fn begin_no_sooner(&mut self, at: Timestamp) {
        self.not_before = self.not_before.max(Some(at));
    }

    /// The next plan may begin at any time.
    pub fn begin_any_time(&mut self) {
        self.not_before = None;
    }

    /// Requests a plan. False if one is requested already.
    pub fn request(&mut self) -> bool {
        !std::mem::replace(&mut self.requested, true)
    }

    /// Takes the request out. Returns when the plan may begin.
    pub fn take_request(&mut self) -> Option<Timestamp> {
        self.requested = false;
        self.not_before.take()
    }

    /// Moves with the clock when that was set.
    pub fn shift(&mut self, by: Span) {
        if let Some(plan) = &mut self.current {
            plan.shift(by);
        }
        self.not_before = self.not_before.map(|at| at + by);
        self.outdated = true;
    }
}
