//! Our own policies on a trace.

use std::cell::RefCell;
use std::sync::Arc;

use crate::fleet::making::{PlanParams, ahead};
use crate::fleet::params::{HostGroup, SourceId, Terms};
use crate::fleet::source::Memory;
use crate::fleet::{BurstTerms, Fleet, FleetParams, Known, PlanOrder};
use crate::rate::steps::Steps;
use crate::schedule::budget::Budget;
use crate::schedule::plan::Plan;
use crate::schedule::policy::Policy;
use crate::time::{Span, Timestamp};

use super::driver;
use super::feed::{Feed, Watching};

/// How a source is watched.
#[derive(Debug, Clone)]
pub struct Setup {
    /// By whom.
    pub policy: Policy,
    /// n, T, δ.
    pub budget: Budget,
    /// What is done about bursts.
    pub burst: BurstTerms,
    /// θ.
    pub freshness_threshold: f64,
    /// a.
    pub importance: Steps,
    /// How it is looked at.
    pub watching: Watching,
    /// How often rates are fitted.
    pub refit_every: Span,
    /// For jitter.
    pub seed: u64,
}

const ONE: SourceId = SourceId(1);

/// Every probe of a source.
pub fn watch(events: &[Timestamp], setup: &Setup, from: Timestamp, until: Timestamp) -> Vec<driver::Sent> {
    let mut fleet =
        Fleet::new(FleetParams { burst: setup.burst, ..FleetParams::default() }, setup.seed, from);
    let host = HostGroup { key: Arc::from("a.example"), public: true };
    let known = Known {
        id: ONE,
        terms: Terms { budget: setup.budget, own_budget: true, policy: setup.policy, weight: 1.0, host },
        memory: Memory::default(),
        probes: Vec::new(),
        answered_by: None,
    };
    fleet.load(vec![known], from);
    let feed = RefCell::new(Feed::new(events.to_vec(), setup.watching.clone(), from));
    let params = PlanParams {
        importance: setup.importance.clone(),
        freshness_threshold: setup.freshness_threshold,
        switches: false,
    };
    let planner = |order: &PlanOrder| {
        let rhythm = feed.borrow().rhythm()?;
        Some(Plan::new(order.made_from, &ahead(order, &rhythm, &params)?))
    };
    let (mut sent, mut now) = (Vec::new(), from);
    while now < until {
        let stop = (now + setup.refit_every).min(until);
        let last = stop - Span::from_millis(1);
        let look = |_: &_, at| (Span::ZERO, Ok(feed.borrow_mut().look(at)));
        sent.extend(driver::run_planned(&mut fleet, look, planner, now, last));
        feed.borrow_mut().refit(stop);
        fleet.refitted(&[ONE]);
        now = stop;
    }
    sent
}
