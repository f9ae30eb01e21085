//! How the entrants of a contest are tried and matched.

use std::sync::Arc;

use crate::feed::Watching;
use crate::served_rules::SimulatedRules;
use crate::trace::{Exam, Trace};
use tidewatch_core::engine::params::BurstTerms;
use tidewatch_core::model::cyclic::Rate;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::rule::Part;
use tidewatch_core::time::{Span, Timestamp};

/// What all are matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Matching {
    /// Nothing: each as it is by default, ours with the budget.
    #[default]
    Nothing,
    /// Each spends the budget's probes on each source.
    Probes,
    /// Each spends as many in all as the budgets of all sources amount to.
    Total,
}

/// How they are tried.
#[derive(Debug, Clone)]
pub struct Rules {
    /// What may be spent on a source.
    pub budget: Budget,
    /// How long it is learned.
    pub train: Span,
    /// How long it is judged, after that.
    pub test: Span,
    /// When it matters that news is fresh.
    pub importance: Steps,
    /// M: how many items a feed shows.
    pub holds: usize,
    /// Sources are pages: they show neither dates nor counts.
    pub pages: bool,
    /// How long an answer takes.
    pub latency: Span,
    /// The share of probes that fail.
    pub errors: f64,
    /// What all are matched by.
    pub matching: Matching,
    /// How often rates are fitted.
    pub refit_every: Span,
    /// What is done about bursts.
    pub burst: BurstTerms,
    /// z: what a probe must be worth, in hours that an update would wait, where no knob turns it.
    pub price: f32,
    /// θ of the policies that go by one, where no knob turns it.
    pub freshness_threshold: f64,
    /// How sources are watched, but for what the other rules say of it: kind, `holds`, `echoes`, and what
    /// a policy brings with it.
    pub watching: Watching,
    /// Whether updates are taken to bring others.
    pub echoes: bool,
    /// Our policies must probe each source at least this often, unless it has a deadline of its own.
    pub max_gap: Option<Span>,
    /// The rules that our policies serve beside; they watch all sources in one engine then.
    pub profiles: Option<Arc<SimulatedRules>>,
    /// Equal seeds give equal runs.
    pub seed: u64,
}

impl Rules {
    /// The usual rules with this budget.
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
            refit_every: Span::from_days(1),
            burst: BurstTerms::default(),
            price: 0.0,
            freshness_threshold: 1.0,
            watching: Watching::default(),
            echoes: true,
            max_gap: None,
            profiles: None,
            seed: 1,
        }
    }

    /// How often a source must be probed.
    pub(super) fn max_gap(&self, trace: &Trace) -> Option<Span> {
        trace.max_gap.or(self.max_gap)
    }

    /// What a source is to rules.
    pub(super) fn parts(&self, trace: &Trace) -> &[Part] {
        self.profiles.as_ref().map_or(&[], |rules| rules.parts(&trace.name))
    }

    /// When a source is judged; one that never published, at the beginning of time.
    pub(super) fn exam(&self, trace: &Trace) -> Exam {
        let never = Timestamp::default();
        trace.exam(self.train, self.test).unwrap_or(Exam { begins: never, from: never, to: never })
    }

    /// What may be spent on a source.
    pub(super) fn budget(&self, trace: &Trace) -> Budget {
        trace.budget.unwrap_or(self.budget)
    }

    /// Probes of a source in the time that is judged.
    pub(super) fn wanted(&self, trace: &Trace) -> f64 {
        let (Budget { probes, per, .. }, Exam { from, to, .. }) = (self.budget(trace), self.exam(trace));
        f64::from(probes) * (to - from).as_secs_f64() / per.as_secs_f64().max(1e-3)
    }
}
