//! Read access to an engine.

use std::sync::Arc;

use crate::model::hourly_profile;
use crate::planning::budget::Budget;
use crate::planning::plan::{Plan, Revision};
use crate::planning::policy::Policy;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::constraint::Constraint;
use super::deadline_index::DeadlineStats;
use super::event::Pardon;
use super::fleet_price::Spending;
use super::gate;
use super::params::{FleetParams, HostGroup};
use super::reason::Reason;
use super::rule_counts::RuleState;
use super::slot_stats::SlotStats;
use super::source::Source;
use super::source_memory::{Due, SourceMemory};
use super::source_phase::Reserve;
use super::state::Engine;
use super::undiscovered_lower_bounds::SourceRate;

/// The explanation of a due time.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// The time by the policy.
    pub wanted: Due,
    /// The policy that requested it.
    pub asking: Policy,
    /// The reserve for bursts.
    pub reserve: Reserve,
    /// When it is due.
    pub due: Due,
    /// The reason.
    pub reason: Reason,
    /// The rule that needs it, if any.
    pub rule: Option<Arc<str>>,
    /// Its deadline, if there is one.
    pub deadline: Option<Timestamp>,
    /// Constraints and when they end; `None`: when a probe is requested.
    pub constraints: Vec<(Constraint, Option<Timestamp>)>,
    /// Its budget.
    pub budget: Budget,
    /// z, in hours that an update would wait.
    pub price: f32,
    /// Probes left in the window that ends now.
    pub left: u32,
    /// Whether the source would follow the given plan.
    pub follows_plan: bool,
}

impl Engine {
    /// The number of sources.
    pub fn len(&self) -> usize {
        self.sources.len()
    }

    /// Whether there are no sources.
    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Probes in progress: from their start until their end is committed.
    pub fn in_progress(&self) -> usize {
        self.in_progress
    }

    /// The next tick that the engine requested.
    pub fn wake_at(&self) -> Option<Timestamp> {
        self.wake
    }

    /// When slots are next assigned.
    pub fn next_start(&self) -> Option<Timestamp> {
        self.step_due
    }

    /// Limits for all sources.
    pub fn params(&self) -> &FleetParams {
        &self.params
    }

    /// The stored state of a source.
    pub fn memory(&self, id: SourceId) -> Option<&SourceMemory> {
        self.sources.get(&id).map(|source| &source.memory)
    }

    /// The host group of a source.
    pub fn host(&self, id: SourceId) -> Option<HostGroup> {
        self.sources.get(&id).map(|source| self.hosts.group(source.host, source.public))
    }

    /// The revision that a plan for this source must name.
    pub fn revision(&self, id: SourceId) -> Option<Revision> {
        self.sources.get(&id).map(|source| source.revision)
    }

    /// Probes that a source has left in the window that ends now.
    pub fn budget_left(&self, id: SourceId, now: Timestamp) -> Option<u32> {
        self.sources.get(&id).map(|source| source.spent.left(&source.terms.budget, now))
    }

    /// The end of the pause that the source's server asked for, if there is one.
    pub fn pause_asked_for(&self, id: SourceId) -> Option<Timestamp> {
        let source = self.sources.get(&id)?;
        source.memory.retry_until.max(self.hosts.paused_until(source.host))
    }

    /// What has to be pardoned to end that pause: the source, its site, or both.
    pub fn pardons_needed(&self, id: SourceId) -> Vec<Pardon> {
        let Some(source) = self.sources.get(&id) else { return Vec::new() };
        let end = self.pause_asked_for(id);
        let own = (source.memory.retry_until, Pardon::Source(id));
        let site =
            (self.hosts.paused_until(source.host), Pardon::Host(Arc::clone(self.hosts.key(source.host))));
        // One that ends much earlier need not be lifted.
        let is_needed =
            |until: Option<Timestamp>| until.is_some() && until.map(|at| at + Span::from_days(1)) > end;
        [own, site].into_iter().filter(|(until, _)| is_needed(*until)).map(|(_, whom)| whom).collect()
    }

    /// The progress of all rules.
    pub fn rule_states(&self) -> Vec<RuleState> {
        self.rule_registry.states()
    }

    /// Slot statistics since they were last stored.
    pub fn slot_stats(&self) -> &SlotStats {
        &self.slot_stats
    }

    /// The spending of all sources.
    pub fn spending(&self) -> Spending {
        self.prices.spending(self.params.pricing)
    }

    /// Statistics of all deadlines.
    pub fn deadlines(&self) -> DeadlineStats {
        let sources = self.sources.values().filter(|source| source.deadline.is_some()).count() as u64;
        DeadlineStats { sources, tardy: self.deadlines.tardy, omega: self.deadlines.omega() }
    }

    /// The deadline of a source's next probe, if it has one.
    pub fn deadline(&self, id: SourceId) -> Option<Timestamp> {
        self.sources.get(&id)?.deadline.as_ref().map(|deadline| deadline.by)
    }

    /// The cost of a probe of a source relative to the mean probe.
    pub fn cost(&self, id: SourceId) -> Option<f64> {
        self.sources.get(&id).map(|source| self.deadlines.cost(source, self.params.cost_by))
    }

    /// The rates of all sources that can be probed: weighted, per step, as estimated from their probes, with
    /// the limits of their budgets.
    pub fn source_rates(&self) -> Vec<SourceRate> {
        let (prior, step_hours) = (self.fleet_mean.prior(), self.step_length().hours());
        let well = self.sources.values().filter(|source| source.is_well());
        well.map(|source| SourceRate {
            rate: f64::from(source.terms.weight) * source.memory.estimate.rate(prior) * step_hours,
            least_gap: source.terms.budget.even_gap().as_secs_f64() / 3600.0 / step_hours,
        })
        .collect()
    }

    /// The expected number of undiscovered updates, by weight, of all sources that can be probed: π for
    /// every step since the last answered probe, and for half of the current one.
    pub fn undiscovered(&self, now: Timestamp) -> f64 {
        let (prior, half_step) = (self.fleet_mean.prior(), self.step_length().hours() / 2.0);
        let well = self.sources.values().filter(|source| source.is_well());
        let expected = |source: &Source| {
            let last_success = source.memory.last_success?;
            let hours =
                hourly_profile::hours(source.profile.as_deref(), last_success, now.max(last_success))
                    + half_step;
            Some(f64::from(source.terms.weight) * source.memory.estimate.rate(prior) * hours)
        };
        well.filter_map(|source| expected(source)).sum()
    }

    /// The next probe of a source as known now, and the reason: its due time, or a constraint that defers
    /// it.
    pub fn outlook(&self, id: SourceId, now: Timestamp) -> Option<(Due, Reason)> {
        self.sources.get(&id).map(|source| self.outlook_of(source, now))
    }

    fn outlook_of(&self, source: &Source, now: Timestamp) -> (Due, Reason) {
        let Due::At(due) = source.memory.due else {
            return (source.memory.due, Reason::Constraint(Constraint::Resting));
        };
        let verdict = source.ask_gate(&self.hosts, due.max(now));
        match verdict.binding {
            Some(constraint) => (Due::At(verdict.at), Reason::Constraint(constraint)),
            None => (source.memory.due, source.memory.reason),
        }
    }

    /// The time by the policy, every constraint with its end, and the resulting due time. `plan` is the
    /// stored plan of the source, if the engine has none.
    pub fn explain(&self, id: SourceId, plan: Option<Plan>, now: Timestamp) -> Option<Explanation> {
        let mut source = Source::clone(self.sources.get(&id)?);
        let follows_plan = plan.as_ref().is_some_and(|plan| source.would_follow(plan, now));
        if let Some(plan) = plan.filter(|_| follows_plan) {
            source.plan.follow(plan);
        }
        let terms = &self.params.burst;
        let due = source.memory.due;
        let wanted = match source.spent.last().map(|last| source.proposal(last, self.seed, terms)) {
            // A due time by the policy is the proposal made after the last probe, so it is used as it is. The
            // same holds in a burst and for rules and deadlines: the store does not contain all their
            // inputs.
            Some(proposal)
                if proposal.because == Reason::Policy && source.memory.reason == Reason::Policy =>
            {
                due
            }
            Some(_) if matches!(source.memory.reason, Reason::Burst | Reason::Rule | Reason::MaxGap) => due,
            Some(proposal) => Due::At(proposal.at),
            None => due,
        };
        let (due, reason) = self.outlook_of(&source, now);
        Some(Explanation {
            wanted,
            asking: source.memory.burst.asked_by,
            reserve: source.reserve(terms, now),
            due,
            reason,
            rule: source.memory.rule.clone(),
            deadline: source.deadline.as_ref().map(|deadline| deadline.by),
            constraints: self.constraints(&source, now),
            budget: source.terms.budget,
            price: source.price.hours,
            left: source.spent.left(&source.terms.budget, now),
            follows_plan,
        })
    }

    fn constraints(&self, source: &Source, now: Timestamp) -> Vec<(Constraint, Option<Timestamp>)> {
        let mut constraints = gate::constraints(&source.memory, &source.spent, &source.terms.budget);
        let paused = self.hosts.paused_until(source.host).map(|until| (Constraint::HostPause, until));
        let held = self.hosts.closed_until_known(source.host).map(|until| (Constraint::HostSpacing, until));
        constraints.extend(paused.into_iter().chain(held));
        let hints = &source.memory.hints;
        if hints.skip_hours != 0 || hints.skip_days != 0 {
            let from = constraints.iter().map(|&(_, until)| until).max().unwrap_or(now).max(now);
            constraints.push((Constraint::Skip, gate::past_skips(from, hints)));
        }
        let stopped = (source.memory.due == Due::Stopped).then_some((Constraint::Resting, None));
        let constraints = constraints.into_iter().map(|(constraint, until)| (constraint, Some(until)));
        constraints.chain(stopped).collect()
    }
}

impl Source {
    /// Whether the source would follow a stored plan.
    fn would_follow(&self, plan: &Plan, now: Timestamp) -> bool {
        let by = match self.terms.policy {
            Policy::Auto => matches!(plan.by, Policy::Plan | Policy::AggHist),
            Policy::IndHistTtl => plan.by == Policy::IndHist,
            Policy::IndHistAggHist => matches!(plan.by, Policy::IndHist | Policy::AggHist),
            policy => plan.by == policy,
        };
        by && self.policy_plans() && plan.ends > now
    }
}
