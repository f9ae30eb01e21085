//! Requests plans for sources, and adopts finished ones.
//!
//! A source requests a plan when its probe ends, or when its rate was fitted again. Requests are queued
//! here and are filled in from the source's current state when they are sent. So a step has no cost for
//! them, and a queued request takes a few bytes. Knows when a plan no longer fits; must not know how plans
//! are built, nor rates.

use std::sync::Arc;

use crate::model::change_point_rate::ChangePointRate;
use crate::model::drift::Drift;
use crate::model::probe_forecast::FittedLevel;
use crate::model::source_model::WELL_FOUNDED;
use crate::planning::budget::Budget;
use crate::planning::build::{PlanOrder, PredictionOrder};
use crate::planning::plan::Plan;
use crate::planning::plan_input::{self, PlanInput};
use crate::planning::policy::Policy;
use crate::planning::prediction::Want;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::action::{Action, AdoptedPlan, Persist};
use super::event::{MadePlan, PlansReady, SourceProfile};
use super::note::Note;
use super::params::BurstTerms;
use super::reason::{Reason, SourceState};
use super::rule_counts::RuleRegistry;
use super::source::{ProbeProposal, Source};
use super::source_memory::Due;
use super::state::Engine;

/// The most plans requested but not finished: enough to keep a planner busy.
const MOST_REQUESTS: usize = 512;

/// The limits that a source sets for every plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asks {
    /// The least gap between two probes. It includes the spacing δ, so that changes of a shorter `max-age`
    /// have no effect.
    apart: Span,
    skip_hours: u32,
    skip_days: u8,
}

/// Whether a plan still fits after a probe that ended at `ended`. The probe before ended at `last`.
/// `before` are the source's limits before the probe, `after` those of its answer, if it answered.
fn fits(plan: &Plan, last: Timestamp, ended: Timestamp, before: Asks, after: Option<Asks>) -> bool {
    // 0: the probe was not planned. More than 1: it came so late that one was skipped.
    let in_order = plan.between(last, ended) == 1;
    let goes_on = plan.next_after(ended).is_some() && plan.ends - ended >= ended - plan.starts;
    let same = after.is_some_and(|after| {
        after.apart <= before.apart
            && (after.skip_hours, after.skip_days) == (before.skip_hours, before.skip_days)
    });
    in_order && goes_on && same
}

impl Engine {
    /// Requests plans up to the limit; the other sources stay queued. Sources that cannot be planned now
    /// are dropped; they request again when their probe ends.
    pub(super) fn request_plans(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        while !self.stopping
            && self.plans_requested < MOST_REQUESTS
            && let Some(id) = self.to_plan.pop_front()
        {
            let Some(source) = self.sources.get_mut(&id) else { continue };
            let not_before = source.plan.take_request();
            source.price = self.prices.of(source.terms.price);
            let wants = source.wants(&self.rule_registry);
            if !source.is_plannable() && source.terms.policy != Policy::Adaptive && wants.is_none() {
                continue;
            }
            let not_before = self.hosts.paused_until(source.host).max(not_before);
            let input = source.plan_input(now, not_before, self.seed, &self.params.burst);
            let (policy, made_from) = (source.policy_to_plan_by(), source.revision);
            self.plans_requested += 1;
            actions.push(Action::BuildPlan(Box::new(PlanOrder {
                source: id,
                policy,
                made_from,
                input,
                predictions: wants,
            })));
        }
    }

    /// Adopts results. Plans come before intervals, because intervals depend on them.
    pub(super) fn take_plans(&mut self, ready: PlansReady, now: Timestamp, actions: &mut Vec<Action>) {
        self.plans_requested = self.plans_requested.saturating_sub(ready.requests);
        for profile in ready.profiles {
            self.take_profile(profile);
        }
        let mut adopted: Vec<AdoptedPlan> = Vec::new();
        for made in ready.plans {
            let source = made.source;
            match self.adopt(made, now) {
                Err(StalePlan) => actions.push(Action::Log { source, note: Note::PlanStale }),
                Ok((plan, note)) => {
                    self.persist_notes(source, now, note, actions);
                    // The later of two: the other was never used.
                    adopted.retain(|before| before.due.source != source);
                    adopted.push(plan);
                }
            }
        }
        if !adopted.is_empty() {
            actions.push(Action::Persist(Persist::Plans(adopted)));
        }
        let mut moved = Vec::new();
        for predicted in ready.intervals {
            let source = predicted.source;
            let due = |engine: &Self| {
                engine.sources.get(&source).map(|source| (source.memory.due, source.memory.rule.clone()))
            };
            let before = due(self);
            match self.adopt_intervals(&predicted, now) {
                Err(StalePlan) => actions.push(Action::Log { source, note: Note::PlanStale }),
                Ok(notes) => self.persist_notes(source, now, notes, actions),
            }
            if before != due(self) {
                moved.push(source);
            }
        }
        self.persist_due(&moved, actions);
    }

    fn take_profile(&mut self, profile: SourceProfile) {
        let SourceProfile { source, profile, per_hour, updates, dispersion } = profile;
        if let Some(source) = self.sources.get_mut(&source) {
            let level = FittedLevel { per_hour: per_hour as f32, dispersion: dispersion as f32 };
            source.level = Some(level).filter(|_| updates >= WELL_FOUNDED);
            source.memory.root_rate = (per_hour.sqrt() * profile.mean_root()) as f32;
            source.profile = Some(Box::new(profile));
            source.recount_demand(&mut self.prices);
            // An estimate from its own probes is newer than the profile.
            if source.memory.estimate.known_rate().is_none() {
                let span = f64::from(updates.max(1)) / per_hour;
                source.memory.estimate = ChangePointRate::seeded(per_hour, span);
            }
        }
    }

    /// These sources have a new rate: their plans are built again. For sources with a probe in progress or
    /// in backoff that happens when a probe ends.
    pub(super) fn rates_fitted(&mut self, ids: &[SourceId]) {
        for id in ids {
            let Some(source) = self.sources.get_mut(id) else { continue };
            let has_own_rules = source.pending_intervals.as_mut().is_some_and(|pending| {
                // The fitted rate now includes the drift.
                pending.drift = Drift::default();
                pending.own
            });
            if source.terms.policy == Policy::Adaptive || has_own_rules {
                // It is sampled, with hourly weights; or rules wait for its updates.
                if source.plan.request() {
                    self.to_plan.push_back(*id);
                }
            }
            let has_plan = source.plan.current().is_some();
            if source.policy_plans() && !(source.terms.policy == Policy::Auto && has_plan) {
                // `auto` plans again whenever its probe ends.
                source.plan.outdate_if(true);
                if let (false, Due::At(due)) = (has_plan, source.memory.due) {
                    // The due time is from before a restart, or from before any data.
                    source.plan.begin_no_sooner(due);
                }
                if source.is_plannable() && source.plan.request() {
                    self.to_plan.push_back(*id);
                }
            }
        }
    }

    /// Adopts a plan, unless the source changed since the request. Returns an event worth storing.
    fn adopt(&mut self, made: MadePlan, now: Timestamp) -> Result<(AdoptedPlan, Option<Note>), StalePlan> {
        let MadePlan { source: id, made_from, at: made_at, ahead } = made;
        let source =
            self.sources.get_mut(&id).filter(|source| source.revision == made_from).ok_or(StalePlan)?;
        if source.condition().is_in_progress() {
            // The plan includes the probe in progress, which did not start at its planned time.
            return Err(StalePlan);
        }
        source.plan.follow(Plan::new(made_from, &ahead));
        let asked_by_hand = source.memory.reason == Reason::Manual;
        let switched = source.switch_for_plan();
        if !asked_by_hand && source.is_well() {
            source.withdraw(&mut self.hosts, &mut self.slot_queue);
            let last = source.spent.last().unwrap_or(now);
            let proposal = source.proposal(last, self.seed, &self.params.burst);
            let in_burst = proposal.because == Reason::Burst && source.memory.burst.asked_by == Policy::Ttl;
            // The plan applies after the burst. It moves none of the burst's probes forward.
            let sooner = source.urgency.keeps_its_time()
                && source.memory.due.at().is_some_and(|due| due <= proposal.at);
            if !in_burst && !sooner {
                source.set_due(&self.hosts, ProbeProposal { at: proposal.at.max(now), ..proposal });
            }
            source.enqueue(&mut self.hosts);
        }
        let (follows, passing) = (source.memory.burst.follows, source.terms.policy == Policy::Auto);
        Ok((AdoptedPlan { made_at, plan: ahead, passing, due: source.due_change(), follows }, switched))
    }

    /// Outdates all plans after a common input changed: they are built again as probes end.
    pub(super) fn replan_all(&mut self) {
        for source in self.sources.values_mut() {
            source.plan.outdate_if(true);
            // Plans in progress use the old input.
            source.revision.0 += 1;
        }
    }

    /// Requests a plan for a source that was stored, if it needs one.
    pub(super) fn ask_for_plan(&mut self, id: SourceId, not_before: Option<Timestamp>) {
        if let Some(source) = self.sources.get_mut(&id)
            && (source.plan.is_wanting() && source.is_plannable()
                || source.wants(&self.rule_registry).is_some())
        {
            if let Some(at) = not_before {
                source.plan.begin_no_sooner(at);
            }
            if source.plan.request() {
                // Before sources with only a new rate: those still have a plan.
                self.to_plan.push_front(id);
            }
        }
    }
}

/// A plan built from an outdated revision of the source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StalePlan;

impl Source {
    /// Whether its policy uses its rate. Only the planner has the rate.
    pub fn policy_plans(&self) -> bool {
        // Without an update there is neither a pattern of its own nor a share of its group's.
        let known = self.terms.policy != Policy::Auto || self.memory.known_updates > 0;
        known && self.deciding_policy().goes_by_rate()
    }

    fn is_plannable(&self) -> bool {
        self.policy_plans() && !self.condition().is_in_progress() && self.is_well()
    }

    /// The policy that a plan is to follow; under `auto` the planner may choose it.
    fn policy_to_plan_by(&self) -> Policy {
        // A source with a pattern of its own does not go back to its group's.
        let follows = self.memory.burst.follows;
        let settled = self.terms.policy == Policy::Auto
            && (follows == Policy::Plan
                || follows == Policy::Ttl && self.state_when_well() == SourceState::Planned);
        // If only intervals for rules are needed, no plan is built.
        let fits = self.plan.fits() && self.terms.policy != Policy::Adaptive;
        match settled {
            _ if fits => Policy::Profile,
            true => Policy::Plan,
            false => self.deciding_policy(),
        }
    }

    /// The predictions that rules need of this source, if they can be made.
    fn wants(&self, registry: &RuleRegistry) -> Option<Box<PredictionOrder>> {
        let pending = self.pending_intervals.as_ref().filter(|pending| pending.own && self.is_well())?;
        let last_success = self.memory.last_success.filter(|_| !self.condition().is_in_progress())?;
        let own = registry.parts(self.id).iter().filter(|part| part.asked);
        let of = own.filter_map(|part| {
            let terms = registry.terms(part.rule).filter(|terms| terms.own)?;
            let (every, life, confidence) = (terms.every, terms.life, terms.confidence);
            let counted = registry.counted(part.rule, self.id);
            Some((Want { rule: part.rule, every, counted, life, confidence }, Arc::clone(terms)))
        });
        Some(Box::new(PredictionOrder {
            known_until: last_success,
            factor: pending.drift.factor(),
            of: of.collect(),
        }))
    }

    /// Whether it answers and may be probed.
    pub(super) fn is_well(&self) -> bool {
        matches!(self.memory.state, SourceState::Learning | SourceState::Planned | SourceState::Burst)
    }

    /// The limits that it sets for plans.
    pub(super) fn asks(&self) -> Asks {
        let hints = &self.memory.hints;
        let apart = plan_input::apart(self.terms.budget.min_spacing, hints, self.fresh_for());
        Asks { apart, skip_hours: hints.skip_hours, skip_days: hints.skip_days }
    }

    /// Marks the plan as outdated if it no longer fits after a probe.
    pub(super) fn outdate_plan_if_unfit(
        &mut self,
        last: Option<Timestamp>,
        ended: Timestamp,
        before: Asks,
        answered: bool,
    ) {
        let after = answered.then(|| self.asks());
        self.plan.outdate_if(self.terms.policy == Policy::Auto);
        let last = last.unwrap_or(Timestamp::MIN);
        let fits = self.plan.current().is_none_or(|plan| fits(plan, last, ended, before, after));
        self.plan.outdate_if(!fits);
    }

    /// `max-age` of the last answer.
    pub(super) fn fresh_for(&self) -> Span {
        match (self.memory.fresh_until, self.memory.last_probe) {
            (Some(until), Some(ended)) => (until - ended).max(Span::ZERO),
            _ => Span::ZERO,
        }
    }

    /// The budget for plans: without the reserve for bursts.
    fn planning_budget(&self, terms: &BurstTerms, now: Timestamp) -> Budget {
        let kept = self.reserve(terms, now).kept;
        let budget = self.terms.budget;
        Budget { probes: budget.probes.saturating_sub(kept).max(1), ..budget }
    }

    fn plan_input(
        &self,
        now: Timestamp,
        not_before: Option<Timestamp>,
        seed: u64,
        terms: &BurstTerms,
    ) -> PlanInput {
        let memory = &self.memory;
        let budget = self.planning_budget(terms, now);
        PlanInput {
            now,
            budget,
            spent: self.spent.times().collect(),
            not_before: memory.allowed_from(now, not_before),
            fresh_for: self.fresh_for(),
            hints: memory.hints,
            holds: memory.holds,
            // Known to the planner.
            dispersion: 1.0,
            excess: self.planned_excess(),
            silent_since: memory.burst.quiet_since.and(memory.burst.newest),
            phase: self.unit_random(seed, "phase", Timestamp::default()),
            closely: self.terms.policy == Policy::Auto,
            price: self.worth(),
            at_least_every: self.price.at_least_every,
            max_gap: self.deadline.as_ref().map(|deadline| deadline.apart),
            gap: budget.even_gap(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::plan::Revision;

    fn hour(n: i64) -> Timestamp {
        Timestamp::from_secs(3_600 * n)
    }

    fn plan() -> Plan {
        let times = [2, 4, 6, 8, 14].map(hour).to_vec();
        Plan { made_from: Revision(1), by: Policy::Plan, times, starts: hour(0), ends: hour(24) }
    }

    const ASKS: Asks = Asks { apart: Span::from_mins(15), skip_hours: 0, skip_days: 0 };

    #[test]
    fn a_plan_fits_after_a_planned_probe() {
        let late = Span::from_mins(3);
        assert!(fits(&plan(), hour(0), hour(2) + late, ASKS, Some(ASKS)));
        assert!(fits(&plan(), hour(2) + late, hour(4), ASKS, Some(ASKS)));
    }

    #[test]
    fn a_plan_is_outdated_by_an_unplanned_or_late_probe() {
        assert!(!fits(&plan(), hour(2), hour(3), ASKS, Some(ASKS)), "none was planned");
        assert!(!fits(&plan(), hour(2), hour(6), ASKS, Some(ASKS)), "one was skipped");
    }

    #[test]
    fn a_plan_is_outdated_by_a_failure_or_changed_limits() {
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, None));
        let longer = Asks { apart: Span::from_mins(40), ..ASKS };
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, Some(longer)));
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, Some(Asks { skip_days: 1, ..ASKS })));
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, Some(Asks { skip_hours: 1, ..ASKS })));
    }

    #[test]
    fn a_plan_is_outdated_in_its_second_half() {
        let short = Plan { ends: hour(8), ..plan() };
        assert!(fits(&short, hour(2), hour(4), ASKS, Some(ASKS)), "half is left");
        assert!(!fits(&short, hour(4), hour(6), ASKS, Some(ASKS)), "less than half");
        let used_up = Plan { ends: hour(100), ..plan() };
        assert!(!fits(&used_up, hour(8), hour(14), ASKS, Some(ASKS)), "no planned time left");
    }
}
