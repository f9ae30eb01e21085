//! How the entrants of a contest are tested and matched.

use std::sync::Arc;

use crate::learned_feed::Watching;
use crate::simulated_rules::SimulatedRules;
use crate::trace::{TestSpan, Trace};
use tidewatch_core::engine::params::BurstTerms;
use tidewatch_core::model::aggregate::INDIVIDUAL_THRESHOLD;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::rule::RulePart;
use tidewatch_core::time::{Span, Timestamp};

/// How the numbers of probes are matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// Not matched: each at its default, ours with the budget.
    #[default]
    Nothing,
    /// Each entrant sends the budget's probes to each source.
    Probes,
    /// Each entrant sends as many in total as the budgets of all sources together.
    Total,
}

/// How entrants are tested.
#[derive(Debug, Clone)]
pub struct ContestTerms {
    /// The probe budget of a source.
    pub budget: Budget,
    /// Length of the training span.
    pub train: Span,
    /// Length of the test span after it.
    pub test: Span,
    /// a: the importance over time.
    pub importance: Steps,
    /// M: the number of items that a feed shows.
    pub holds: usize,
    /// True if sources are pages, which show neither dates nor counts.
    pub pages: bool,
    /// The duration of a probe.
    pub latency: Span,
    /// The share of probes that fail.
    pub errors: f64,
    /// How the numbers of probes are matched.
    pub matching: Matching,
    /// The limits of a source that every entrant keeps while a total is shared; `None` for no limits.
    pub caps: Option<Budget>,
    /// Each entrant as its users get it: ours with the budget and the price, the peers with their own limits.
    pub as_shipped: bool,
    /// The interval between fits of the rates.
    pub refit_every: Span,
    /// Burst settings.
    pub burst: BurstTerms,
    /// z: the minimum value of a probe, in hours of delay of one update, if no knob sets it.
    pub price: f32,
    /// θ of the policies that use one, if no knob sets it.
    pub freshness_threshold: f64,
    /// T_ind of the policy that switches to its group's history by it.
    pub individual_threshold: f64,
    /// How probes are evaluated, except for the fields that other rules or the policy set: kind, `holds`,
    /// `echoes`, and the policy's own.
    pub watching: Watching,
    /// Whether the self-exciting predictor is used.
    pub echoes: bool,
    /// The maximum interval between probes for our policies, unless a source has its own.
    pub max_gap: Option<Span>,
    /// The rules that our policies also have. With rules, all sources run in one engine.
    pub profiles: Option<Arc<SimulatedRules>>,
    /// The seed. Equal seeds give equal runs.
    pub seed: u64,
}

impl ContestTerms {
    /// The default rules with this budget.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            train: Span::from_days(56),
            test: Span::from_days(28),
            importance: Steps::from(&Rate::constant(1.0)),
            holds: 50,
            pages: false,
            latency: Span::ZERO,
            errors: 0.0,
            matching: Matching::default(),
            caps: None,
            as_shipped: false,
            refit_every: Span::from_days(1),
            burst: BurstTerms::default(),
            price: 0.0,
            freshness_threshold: 1.0,
            individual_threshold: INDIVIDUAL_THRESHOLD,
            watching: Watching::default(),
            echoes: true,
            max_gap: None,
            profiles: None,
            seed: 1,
        }
    }

    /// The maximum interval between probes of a source.
    pub(super) fn max_gap(&self, trace: &Trace) -> Option<Span> {
        trace.max_gap.or(self.max_gap)
    }

    /// A source's part in each rule.
    pub(super) fn parts(&self, trace: &Trace) -> &[RulePart] {
        self.profiles.as_ref().map_or(&[], |rules| rules.parts(&trace.name))
    }

    /// The training and test span of a source; without updates, an empty one at the epoch.
    pub(super) fn test_span(&self, trace: &Trace) -> TestSpan {
        let never = Timestamp::default();
        trace.test_span(self.train, self.test).unwrap_or(TestSpan { begins: never, from: never, to: never })
    }

    /// The probe budget of a source.
    pub(super) fn budget(&self, trace: &Trace) -> Budget {
        trace.budget.unwrap_or(self.budget)
    }

    /// The wanted number of probes of a source in the test span.
    pub(super) fn wanted(&self, trace: &Trace) -> f64 {
        let (Budget { probes, per, .. }, TestSpan { from, to, .. }) =
            (self.budget(trace), self.test_span(trace));
        f64::from(probes) * (to - from).as_secs_f64() / per.as_secs_f64().max(1e-3)
    }
}
