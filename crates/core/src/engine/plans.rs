//! Who wants a plan, and what it is to be made from.
//!
//! A source asks for one when it lands, or when its rate was fitted anew; orders wait here until
//! somebody has time for them, and are made out only then, from the source as it stands. So
//! nothing is counted per step, and what waits costs a few bytes. Knows when a plan no longer fits;
//! must not know how plans are made, nor rates.

use std::sync::Arc;

use crate::model::drift::Drift;
use crate::model::estimate::ChangePointRate;
use crate::planning::budget::Budget;
use crate::planning::build::{PlanOrder, Wants};
use crate::planning::plan::Plan;
use crate::planning::policy::Policy;
use crate::planning::prediction::Want;
use crate::planning::rolling::{self, Standing};
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::action::{Action, AdoptedPlan, Persist};
use super::book::RuleRegistry;
use super::event::{MadePlan, PlansReady, SourceProfile};
use super::memory::Due;
use super::note::Note;
use super::params::BurstTerms;
use super::reason::{Reason, SourceState};
use super::source::{ProbeWish, Source};
use super::state::Engine;

/// Plans that may be requested and not be there yet: enough to keep a planner busy.
const MOST_REQUESTS: usize = 512;

/// What a source asks to be kept to by every plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Asks {
    /// Between two probes. The spacing δ counts in, so that a `max-age` below it, which may be
    /// another with every answer, changes nothing.
    apart: Span,
    skip_hours: u32,
    skip_days: u8,
}

/// Whether a plan still fits after a probe that ended at `ended`, where the one before ended at
/// `last`, and the source asked for what it asked `before` and, if it answered, asks `after`.
fn fits(plan: &Plan, last: Timestamp, ended: Timestamp, before: Asks, after: Option<Asks>) -> bool {
    // None passed: it came out of turn. Several: it came so late that one was skipped.
    let in_turn = plan.between(last, ended) == 1;
    let goes_on = plan.next_after(ended).is_some() && plan.ends - ended >= ended - plan.starts;
    let same = after.is_some_and(|after| {
        after.apart <= before.apart
            && (after.skip_hours, after.skip_days) == (before.skip_hours, before.skip_days)
    });
    in_turn && goes_on && same
}

impl Engine {
    /// Requests plans, as many as may be on their way; the others wait. Sources that cannot be planned for at the
    /// moment are dropped: they ask again when their probe ends.
    pub(super) fn request_plans(&mut self, now: Timestamp, actions: &mut Vec<Action>) {
        while !self.stopping
            && self.plans_requested < MOST_REQUESTS
            && let Some(id) = self.unplanned.pop_front()
        {
            let Some(member) = self.members.get_mut(&id) else { continue };
            let not_before = member.plan.take_request();
            let wants = member.wants(&self.book);
            if !member.is_plannable() && member.terms.policy != Policy::Adaptive && wants.is_none() {
                continue;
            }
            let not_before = self.hosts.paused_until(member.host).max(not_before);
            let standing = member.standing(now, not_before, self.seed, &self.params.burst);
            let (policy, made_from) = (member.policy_to_plan_by(), member.revision);
            self.plans_requested += 1;
            actions.push(Action::BuildPlan(Box::new(PlanOrder {
                source: id,
                policy,
                made_from,
                standing,
                wants,
            })));
        }
    }

    /// Takes what was planned. In this order: what a plan changes is changed before rules look at it.
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
                    self.tell(source, now, note, actions);
                    // The later of two: the other was never followed.
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
                engine.members.get(&source).map(|member| (member.memory.due, member.memory.rule.clone()))
            };
            let before = due(self);
            match self.adopt_intervals(&predicted, now) {
                Err(StalePlan) => actions.push(Action::Log { source, note: Note::PlanStale }),
                Ok(notes) => self.tell(source, now, notes, actions),
            }
            if before != due(self) {
                moved.push(source);
            }
        }
        self.persist_due(&moved, actions);
    }

    fn take_profile(&mut self, SourceProfile { source, pulse, per_hour, updates }: SourceProfile) {
        if let Some(member) = self.members.get_mut(&source) {
            member.pulse = Some(Box::new(pulse));
            // Once it has learned from its own probes it knows better what has changed since.
            if member.memory.estimate.known_rate().is_none() {
                let span = f64::from(updates.max(1)) / per_hour;
                member.memory.estimate = ChangePointRate::seeded(per_hour, span);
            }
        }
    }

    /// These have a new rate: their plans are made anew, and those of sources under way or in
    /// backoff when they have landed.
    pub(super) fn rates_fitted(&mut self, ids: &[SourceId]) {
        for id in ids {
            let Some(member) = self.members.get_mut(id) else { continue };
            let serves = member.serving.as_mut().is_some_and(|serving| {
                // What it was faster or slower by is in the rate now.
                serving.drift = Drift::default();
                serving.own
            });
            if member.terms.policy == Policy::Adaptive || serves {
                // It is sampled, and counts with the hour; or rules wait for it.
                if member.plan.request() {
                    self.unplanned.push_back(*id);
                }
            }
            let has_plan = member.plan.current().is_some();
            if member.policy_plans() && !(member.terms.policy == Policy::Auto && has_plan) {
                // `auto` plans anew whenever its probe ends.
                member.plan.outdate_if(true);
                if let (false, Due::At(due)) = (has_plan, member.memory.due) {
                    // It is due as it was before a restart, or before anything was known of it.
                    member.plan.begin_no_sooner(due);
                }
                if member.is_plannable() && member.plan.request() {
                    self.unplanned.push_back(*id);
                }
            }
        }
    }

    /// Takes a plan, unless the source has changed since it was requested. Says what is worth an event.
    fn adopt(&mut self, made: MadePlan, now: Timestamp) -> Result<(AdoptedPlan, Option<Note>), StalePlan> {
        let MadePlan { source: id, made_from, at: made_at, ahead } = made;
        let member =
            self.members.get_mut(&id).filter(|member| member.revision == made_from).ok_or(StalePlan)?;
        if member.condition().is_in_progress() {
            // It was made for this probe as well, and that is not where it was planned to be.
            return Err(StalePlan);
        }
        member.plan.follow(Plan::new(made_from, &ahead));
        let asked_by_hand = member.memory.reason == Reason::Manual;
        let switched = member.weigh_adoption();
        if !asked_by_hand && member.is_well() {
            member.withdraw(&mut self.hosts, &mut self.turns);
            let last = member.spent.last().unwrap_or(now);
            let wish = member.wish(last, self.seed, &self.params.burst);
            let chasing = wish.because == Reason::Burst && member.memory.life.asked_by == Policy::Ttl;
            // A plan is for when the burst is over, and makes none of the probes that follow it sooner.
            let sooner =
                member.urgency.keeps_its_time() && member.memory.due.at().is_some_and(|due| due <= wish.at);
            if !chasing && !sooner {
                member.set_due(&self.hosts, ProbeWish { at: wish.at.max(now), ..wish });
            }
            member.enqueue(&mut self.hosts);
        }
        let (follows, passing) = (member.memory.life.follows, member.terms.policy == Policy::Auto);
        Ok((AdoptedPlan { made_at, plan: ahead, passing, due: member.due_change(), follows }, switched))
    }

    /// Something that all plans follow has changed: they are made anew as their sources land.
    pub(super) fn replan_all(&mut self) {
        for member in self.members.values_mut() {
            member.plan.outdate_if(true);
            // What is being made follows what has changed.
            member.revision.0 += 1;
        }
    }

    /// The source is stored as it stands: it asks for a plan if it wants one and has none that fits.
    pub(super) fn ask_for_plan(&mut self, id: SourceId, not_before: Option<Timestamp>) {
        if let Some(member) = self.members.get_mut(&id)
            && (member.plan.is_wanting() && member.is_plannable() || member.wants(&self.book).is_some())
        {
            if let Some(at) = not_before {
                member.plan.begin_no_sooner(at);
            }
            if member.plan.request() {
                // Before those that were merely fitted anew, which have a plan to go on with.
                self.unplanned.push_front(id);
            }
        }
    }
}

/// A plan that was made from a state the source is no longer in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StalePlan;

impl Source {
    /// Whether its policy goes by its rate, which only whoever makes plans knows.
    pub fn policy_plans(&self) -> bool {
        // Without an update there is neither a rhythm nor a share of its group's.
        let known = self.terms.policy != Policy::Auto || self.memory.known_updates > 0;
        known && self.terms.policy.goes_by_rate()
    }

    fn is_plannable(&self) -> bool {
        self.policy_plans() && !self.condition().is_in_progress() && self.is_well()
    }

    /// The policy that a plan is to follow; `auto` leaves that to whatever knows the rate.
    fn policy_to_plan_by(&self) -> Policy {
        // It borrows no more once it had a rhythm of its own: what is thin comes and goes.
        let follows = self.memory.life.follows;
        let settled = self.terms.policy == Policy::Auto
            && (follows == Policy::Plan
                || follows == Policy::Ttl && self.settled() == SourceState::Planned);
        // Where only intervals of rules are to be predicted, no plan is made.
        let fits = self.plan.fits() && self.terms.policy != Policy::Adaptive;
        match settled {
            _ if fits => Policy::Profile,
            true => Policy::Plan,
            false => self.terms.policy,
        }
    }

    /// What is to be predicted of a source for rules that wait for it, if it can be.
    fn wants(&self, book: &RuleRegistry) -> Option<Box<Wants>> {
        let serving = self.serving.as_ref().filter(|serving| serving.own && self.is_well())?;
        let looked = self.memory.looked.filter(|_| !self.condition().is_in_progress())?;
        let own = book.parts(self.id).iter().filter(|part| part.asked);
        let of = own.filter_map(|part| {
            let terms = book.terms(part.rule).filter(|terms| terms.own)?;
            let (every, life, confidence) = (terms.every, terms.life, terms.confidence);
            let counted = book.counted(part.rule, self.id);
            Some((Want { rule: part.rule, every, counted, life, confidence }, Arc::clone(terms)))
        });
        Some(Box::new(Wants { looked, factor: serving.drift.factor(), of: of.collect() }))
    }

    /// Whether it answers and may be asked.
    pub(super) fn is_well(&self) -> bool {
        matches!(self.memory.state, SourceState::Learning | SourceState::Planned | SourceState::Burst)
    }

    /// What it asks to be kept to.
    pub(super) fn asks(&self) -> Asks {
        let hints = &self.memory.hints;
        let apart = rolling::apart(self.terms.budget.min_spacing, hints, self.fresh_for());
        Asks { apart, skip_hours: hints.skip_hours, skip_days: hints.skip_days }
    }

    /// Notes whether the plan still fits after a probe.
    pub(super) fn weigh_plan(
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

    /// `max-age` as the last answer had it.
    pub(super) fn fresh_for(&self) -> Span {
        match (self.memory.fresh_until, self.memory.last_probe) {
            (Some(until), Some(ended)) => (until - ended).max(Span::ZERO),
            _ => Span::ZERO,
        }
    }

    /// What plans may spend: not what is kept for bursts, and, as the gap does, no more than a probe an
    /// hour while little is known.
    fn planning_budget(&self, terms: &BurstTerms, now: Timestamp) -> Budget {
        let kept = self.reserve(terms, now).kept;
        let budget = self.terms.budget;
        let budget = Budget { probes: budget.probes.saturating_sub(kept).max(1), ..budget };
        if !self.is_cautious() {
            return budget;
        }
        let gap = self.cautious_gap();
        let per = budget.per.max(gap);
        let hourly = u32::try_from(per.as_millis() / gap.as_millis().max(1)).unwrap_or(u32::MAX);
        let min_spacing = budget.min_spacing.max(gap);
        Budget { probes: budget.probes.min(hourly), per, min_spacing }
    }

    fn standing(
        &self,
        now: Timestamp,
        not_before: Option<Timestamp>,
        seed: u64,
        terms: &BurstTerms,
    ) -> Standing {
        let memory = &self.memory;
        let one_off = [memory.retry_until, memory.backoff_until, memory.fresh_until, not_before];
        let budget = self.planning_budget(terms, now);
        Standing {
            now,
            budget,
            spent: self.spent.times().collect(),
            not_before: one_off.into_iter().flatten().fold(now, Timestamp::max),
            fresh_for: self.fresh_for(),
            hints: memory.hints,
            holds: memory.holds,
            excess: self.planned_excess(terms),
            phase: self.chance(seed, "phase", Timestamp::default()),
            closely: self.terms.policy == Policy::Auto,
            price: self.terms.worth(),
            max_gap: self.bed.as_ref().map(|bed| bed.apart),
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
    fn a_probe_in_turn_leaves_a_plan_as_it_is() {
        let late = Span::from_mins(3);
        assert!(fits(&plan(), hour(0), hour(2) + late, ASKS, Some(ASKS)));
        assert!(fits(&plan(), hour(2) + late, hour(4), ASKS, Some(ASKS)));
    }

    #[test]
    fn a_probe_out_of_turn_or_too_late_ends_it() {
        assert!(!fits(&plan(), hour(2), hour(3), ASKS, Some(ASKS)), "none was planned");
        assert!(!fits(&plan(), hour(2), hour(6), ASKS, Some(ASKS)), "one was skipped");
    }

    #[test]
    fn so_do_failures_and_other_wishes() {
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, None));
        let longer = Asks { apart: Span::from_mins(40), ..ASKS };
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, Some(longer)));
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, Some(Asks { skip_days: 1, ..ASKS })));
        assert!(!fits(&plan(), hour(2), hour(4), ASKS, Some(Asks { skip_hours: 1, ..ASKS })));
    }

    #[test]
    fn and_its_own_second_half() {
        let short = Plan { ends: hour(8), ..plan() };
        assert!(fits(&short, hour(2), hour(4), ASKS, Some(ASKS)), "half is left");
        assert!(!fits(&short, hour(4), hour(6), ASKS, Some(ASKS)), "less than half");
        let used_up = Plan { ends: hour(100), ..plan() };
        assert!(!fits(&used_up, hour(8), hour(14), ASKS, Some(ASKS)), "no time left");
    }
}
