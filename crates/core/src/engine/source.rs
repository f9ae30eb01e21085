//! One source in the engine: its stored state, and the pace that follows from it.
//!
//! Knows the phases of a source. Must not know other sources.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::burst::excess::Excess;
use crate::model::hourly_profile::{self, HourlyProfile};
use crate::model::probe_forecast::{FittedLevel, ProbeForecast};
use crate::planning::budget::Spent;
use crate::planning::next_probe::{self, Knowledge};
use crate::planning::plan::Revision;
use crate::planning::policy::Policy;
use crate::rng::Stream;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::deadline::Deadline;
use super::fleet_price::{CountedDemand, PriceInForce};
use super::hosts::HostIx;
use super::params::BurstTerms;
use super::plan_state::PlanState;
use super::reason::{Reason, SourceState};
use super::shared_limits::SourceLimits;
use super::source_memory::{Due, SourceMemory};
use super::source_rule_intervals::PendingIntervals;
use super::urgent_cause::Urgency;
use super::wait_state::{ProbeHosts, WaitState};

/// A source with this many updates has a known pattern.
const KNOWN_AFTER: u64 = 10;

/// The rate assumed for a source without an estimate.
pub(super) const NEWCOMER_PER_HOUR: f64 = 1.0 / 12.0;

/// The gap for a source that is probed only for rules and currently has no interval.
const UNASKED_GAP: Span = Span::from_days(1);

/// A source in the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Source {
    pub id: SourceId,
    /// Its index in the slot queue.
    pub place: u32,
    /// What it waits for.
    pub waiting: WaitState,
    /// Why its next probe is urgent, if it is.
    pub urgency: Urgency,
    /// Since when only the lack of slots has delayed its probe.
    pub ready_at: Timestamp,
    /// Its hourly profile, if known.
    pub profile: Option<Box<HourlyProfile>>,
    /// The level of its fitted rate, if that has enough updates.
    pub level: Option<FittedLevel>,
    pub terms: Arc<SourceLimits>,
    /// The price that its next probe goes by.
    pub price: PriceInForce,
    /// Its demand as counted, if it is probed.
    pub demand: Option<CountedDemand>,
    pub host: HostIx,
    /// The name of its host is public.
    pub public: bool,
    pub memory: SourceMemory,
    pub spent: Spent,
    pub plan: PlanState,
    /// The excess rate of a burst, if there is one.
    pub excess: Option<Box<Excess>>,
    /// Its intervals for rules, if rules concern it.
    pub pending_intervals: Option<Box<PendingIntervals>>,
    /// Its deadline, if it has a longest allowed gap.
    pub deadline: Option<Box<Deadline>>,
    pub revision: Revision,
    /// The time reserved for its next early probe, if it is new.
    pub early_at: Option<Timestamp>,
    /// Another host group that its redirects lead to: its limits apply as well.
    pub redirect_host: Option<HostIx>,
}

impl Source {
    /// The gap between probes with the budget spread evenly.
    pub fn gap(&self) -> Span {
        self.terms.budget.even_gap()
    }

    /// The gap between probes while there is no plan, at the last probe's end `last`: the budget spread
    /// evenly, or by the price if the policy has one.
    fn unplanned_gap(&self, last: Timestamp) -> Span {
        let even = self.gap();
        let price = self.worth();
        if price <= 0.0 || !self.terms.policy.has_price() {
            return even;
        }
        // A probe is worth its price after ℓ with π·ℓ²/2 = z.
        let rate = self.memory.estimate.known_rate().unwrap_or(NEWCOMER_PER_HOUR);
        let hours = (2.0 * price / rate.max(1e-9)).sqrt();
        let longest = self.price.at_least_every.as_secs_f64() / 3600.0;
        // Not faster than evenly as the budget is used up; otherwise it would be spent at once, and the
        // source would then wait for the rest of T.
        let budget = &self.terms.budget;
        let used = 1.0 - f64::from(self.spent.left(budget, last)) / f64::from(budget.probes.max(1));
        Span::from_hours(1).scaled(hours.min(longest)).max(even.scaled(used))
    }

    /// The price in force divided by the weight, in update·hours: with half the weight a probe must save
    /// twice the wait.
    pub fn worth(&self) -> f64 {
        (f64::from(self.price.hours) / f64::from(self.terms.weight).max(1e-9)).min(1e6)
    }

    /// The gap for a source that is probed only for rules: it is still probed at times, so that its state is
    /// current when a rule needs it. Zero while its updates cannot be predicted.
    fn idle_gap(&self) -> Span {
        let blind =
            self.pending_intervals.as_ref().is_some_and(|pending| pending.own && !pending.is_predicted);
        if self.terms.policy == Policy::Profile && !blind { UNASKED_GAP } else { Span::ZERO }
    }

    /// What a probe that starts now is expected to find; `None` before an answer and without a rate.
    pub fn forecast(&self, now: Timestamp) -> Option<ProbeForecast> {
        let (level, last) = (self.level?, self.memory.last_success.filter(|&last| last < now)?);
        let hours = hourly_profile::hours(self.profile.as_deref(), last, now);
        Some(level.forecast(hours, self.memory.holds))
    }

    /// The policy that decides now: of `ind_hist_ttl` one of its halves, otherwise the configured one.
    pub fn deciding_policy(&self) -> Policy {
        match (self.terms.policy.goes_by_ratio(), self.memory.burst.follows) {
            (true, Policy::Ttl) => Policy::Ttl,
            (true, _) => Policy::IndHist,
            (false, _) => self.terms.policy,
        }
    }

    fn is_known(&self) -> bool {
        self.memory.known_updates >= KNOWN_AFTER
    }

    /// The state outside bursts and failures.
    pub fn state_when_well(&self) -> SourceState {
        if self.is_known() { SourceState::Planned } else { SourceState::Learning }
    }

    /// The host groups of its probes.
    pub fn hosts(&self) -> ProbeHosts {
        (self.host, self.redirect_host.filter(|also| *also != self.host))
    }

    /// A number in [0, 1) derived from the seed, the source, the purpose and the time, so that jitter does
    /// not depend on the order of calls.
    pub fn unit_random(&self, seed: u64, purpose: &str, at: Timestamp) -> f64 {
        Stream::new(seed, format!("{purpose}/{}/{}", self.id.0, at.as_millis())).unit()
    }

    /// The next probe after one that ended at `last`: by its policy, a rule or the longest allowed gap,
    /// whichever is first.
    pub fn proposal(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> ProbeProposal {
        self.by_max_gap(self.rule_proposal(self.policy_proposal(last, seed, terms)))
    }

    /// The next probe by its policy, sooner in a burst or while it is new.
    pub fn policy_proposal(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> ProbeProposal {
        let calm = self.proposal_without_burst(last, seed, terms);
        let by_burst = self.burst_probe_at(last, calm.at, terms).filter(|&at| at <= calm.at);
        let wanted =
            by_burst.map_or(calm, |at| ProbeProposal { at, because: Reason::Burst, by: Policy::Ttl });
        match self.early_at.filter(|&at| at < wanted.at) {
            Some(at) => ProbeProposal { at, because: Reason::Early, by: wanted.by },
            None => wanted,
        }
    }

    /// The same without a burst.
    pub fn proposal_without_burst(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> ProbeProposal {
        let (at, by) = match next_probe::next(
            self.deciding_policy(),
            &self.knowledge(last, seed, terms),
            last,
            last,
        ) {
            next_probe::NextProbe::At { at, asked_by } => (at, asked_by),
            next_probe::NextProbe::Sampled { from } => (from, Policy::Adaptive),
        };
        let because = if by == Policy::Plan { Reason::Plan } else { Reason::Policy };
        ProbeProposal { at, because, by }
    }

    /// The policy's input. Rates are known only to the planner.
    fn knowledge(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> Knowledge<'_> {
        let budget = self.terms.budget;
        let gap = self.unplanned_gap(last).max(self.idle_gap());
        Knowledge {
            rate: None,
            aggregate: None,
            importance: None,
            plan: self.plan.current().filter(|_| self.policy_plans()),
            last_modified: self.memory.burst.newest,
            budget,
            gap,
            least_gap: budget.min_spacing,
            late: match self.memory.due {
                Due::At(due) => (last - due).max(Span::ZERO),
                Due::Stopped => Span::ZERO,
                Due::Unscheduled => gap,
            },
            freshness_threshold: terms.freshness_threshold,
            ttl_factor: terms.ttl_factor,
            ttl_form: terms.ttl_form,
            jitter: self.unit_random(seed, "spread", last),
        }
    }

    /// The probe by the longest allowed gap, if it is due before `otherwise`.
    pub fn by_max_gap(&self, otherwise: ProbeProposal) -> ProbeProposal {
        match &self.deadline {
            Some(deadline) if deadline.probe_at < otherwise.at => {
                ProbeProposal { at: deadline.probe_at, because: Reason::MaxGap, by: otherwise.by }
            }
            _ => otherwise,
        }
    }
}

/// A wanted probe: when, the reason, and the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProbeProposal {
    pub at: Timestamp,
    pub because: Reason,
    pub by: Policy,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<S, T>(_: fn(&S) -> &T) -> usize {
        size_of::<T>()
    }

    /// The fields of a type, with their sizes in bytes.
    macro_rules! sizes {
        ($type:ident { $($field:ident: $bytes:literal),* $(,)? } total $total:literal) => {
            $(assert_eq!(size(|it: &$type| &it.$field), $bytes, stringify!($field));)*
            // What is missing fills up to whole words.
            assert_eq!(size_of::<$type>(), $total);
        };
    }

    /// A million sources are a million of these. Each byte that is added costs a megabyte.
    #[test]
    fn a_source_takes_few_bytes() {
        sizes!(Source {
            id: 8,
            place: 4,
            waiting: 16,
            urgency: 1,
            ready_at: 8,
            profile: 8,
            level: 12,
            terms: 8,
            price: 16,
            demand: 16,
            host: 4,
            public: 1,
            memory: 256,
            spent: 24,
            plan: 24,
            excess: 8,
            pending_intervals: 8,
            deadline: 8,
            revision: 8,
            early_at: 8,
            redirect_host: 8,
        } total 456);
        sizes!(SourceMemory {
            state: 1,
            due: 16,
            reason: 1,
            last_probe: 8,
            last_success: 8,
            estimate: 48,
            last_update: 8,
            error_streak: 4,
            known_updates: 8,
            fresh_until: 8,
            retry_until: 8,
            backoff_until: 8,
            hints: 24,
            holds: 8,
            moving: 8,
            adopted_url: 16,
            rule: 16,
            cost: 8,
            root_rate: 4,
            early_probes: 1,
            burst: 40,
        } total 256);
    }
}
