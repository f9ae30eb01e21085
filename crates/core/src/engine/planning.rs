//! Who wants a plan, and what it is to be made from.
//!
//! A source asks for one when it lands, or when its rate was fitted anew; orders wait here until
//! somebody has time for them, and are made out only then, from the source as it stands. So
//! nothing is counted per step, and what waits costs a few bytes. Knows when a plan no longer fits;
//! must not know how plans are made, nor rates.

use crate::model::drift::Drift;
use crate::planning::budget::Budget;
use crate::planning::build::PlanOrder;
use crate::planning::plan::Plan;
use crate::planning::policy::Policy;
use crate::planning::rolling::{self, Standing};
use crate::time::{Span, Timestamp};

use super::absorb::Note;
use super::params::BurstTerms;
use super::source::{Member, Reason, State, Wish};
use super::state::{Fleet, Stale};
use crate::source_id::SourceId;

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

impl Fleet {
    /// Plans to be made, at most so many; the others wait. Those of sources that cannot be planned
    /// for at the moment are dropped: they ask again when they land.
    pub fn plan_orders(&mut self, now: Timestamp, most: usize) -> Vec<PlanOrder> {
        let mut orders = Vec::new();
        while orders.len() < most
            && let Some(id) = self.unplanned.pop_front()
        {
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.queued = false;
            let not_before = std::mem::replace(&mut member.plan_from, Timestamp::MIN);
            let wants = Self::wants(&self.book, member);
            if !member.is_plannable() && member.terms.policy != Policy::Adaptive && wants.is_none() {
                continue;
            }
            let paused = self.frontier.paused_until(member.host);
            let standing = member.standing(now, paused.max(not_before), self.seed, &self.params.burst);
            // It borrows no more once it had a rhythm of its own: what is thin comes and goes.
            let follows = member.memory.life.follows;
            let settled = member.terms.policy == Policy::Auto
                && (follows == Policy::Plan
                    || follows == Policy::Ttl && member.settled() == State::Planned);
            // Where only rules are to be foretold, no plan is made.
            let fits = member.plan.is_some() && !member.replan && member.terms.policy != Policy::Adaptive;
            let policy = match settled {
                _ if fits => Policy::Profile,
                true => Policy::Plan,
                false => member.terms.policy,
            };
            orders.push(PlanOrder { source: id, policy, made_from: member.revision, standing, wants });
        }
        orders
    }

    /// These have a new rate: their plans are made anew, and those of sources under way or in
    /// backoff when they have landed.
    pub fn refitted(&mut self, ids: &[SourceId]) {
        for id in ids {
            let Some(member) = self.members.get_mut(id) else { continue };
            let serves = member.serving.as_mut().is_some_and(|serving| {
                // What it was faster or slower by is in the rate now.
                serving.drift = Drift::default();
                serving.own
            });
            if member.terms.policy == Policy::Adaptive || serves {
                // It is sampled, and counts with the hour; or rules wait for it.
                if !std::mem::replace(&mut member.queued, true) {
                    self.unplanned.push_back(*id);
                }
            }
            if member.policy_plans() && !(member.terms.policy == Policy::Auto && member.plan.is_some()) {
                // `auto` plans anew whenever it lands.
                member.replan = true;
                if member.plan.is_none() && member.memory.due != Timestamp::MAX {
                    // It is due as it was before a restart, or before anything was known of it.
                    member.plan_from = member.plan_from.max(member.memory.due);
                }
                if member.is_plannable() && !std::mem::replace(&mut member.queued, true) {
                    self.unplanned.push_back(*id);
                }
            }
        }
    }

    /// Takes a plan, unless the source has moved on since it was made. Says what is worth an event.
    pub fn adopt(&mut self, id: SourceId, mut plan: Plan, now: Timestamp) -> Result<Option<Note>, Stale> {
        let member = self.members.get_mut(&id).filter(|m| m.revision == plan.made_from).ok_or(Stale)?;
        if member.in_flight.is_some() {
            // It was made for this probe as well, and that is not where it was planned to be.
            return Err(Stale);
        }
        plan.times.shrink_to_fit();
        member.plan = Some(Box::new(plan));
        member.replan = false;
        let asked_by_hand = member.memory.reason == Reason::Manual;
        let switched = member.weigh_adoption();
        if !asked_by_hand && member.is_well() {
            Self::withdraw(member, &mut self.frontier, &mut self.turns);
            let last = member.spent.last().unwrap_or(now);
            let wish = member.wish(last, self.seed, &self.params.burst);
            let chasing = wish.because == Reason::Burst && member.memory.life.asked_by == Policy::Ttl;
            // A plan is for when the chase is over, and makes none of its probes sooner.
            let hurried = member.hurried && member.memory.due <= wish.at;
            if !chasing && !hurried {
                Self::set_due(member, &self.frontier, Wish { at: wish.at.max(now), ..wish });
            }
            Self::queue(member, &mut self.frontier);
        }
        Ok(switched)
    }

    /// Gives back the plan that a source had when it was last heard of, so that it can be
    /// explained. Its due time stays. Says whether it is a plan that the source would follow.
    pub fn resume_plan(&mut self, id: SourceId, plan: Plan, now: Timestamp) -> bool {
        let Some(member) = self.members.get_mut(&id) else { return false };
        let by = match member.terms.policy {
            Policy::Auto => matches!(plan.by, Policy::Plan | Policy::AggHist),
            policy => plan.by == policy,
        };
        let follows = by && member.policy_plans() && plan.ends > now;
        if follows {
            member.plan = Some(Box::new(plan));
        }
        follows
    }

    /// Something that all plans follow has changed: they are made anew as their sources land.
    pub fn replan_all(&mut self) {
        for member in self.members.values_mut() {
            member.replan = true;
            // What is being made follows what has changed.
            member.revision.0 += 1;
        }
    }

    /// The source is stored as it stands: it asks for a plan if it wants one and has none that fits.
    pub(super) fn ask_for_plan(&mut self, id: SourceId, not_before: Timestamp) {
        if let Some(member) = self.members.get_mut(&id)
            && ((member.plan.is_none() || member.replan) && member.is_plannable()
                || Self::wants(&self.book, member).is_some())
        {
            member.plan_from = member.plan_from.max(not_before);
            if !std::mem::replace(&mut member.queued, true) {
                // Before those that were merely fitted anew, which have a plan to go on with.
                self.unplanned.push_front(id);
            }
        }
    }
}

impl Member {
    /// Whether its policy goes by its rate, which only whoever makes plans knows.
    pub fn policy_plans(&self) -> bool {
        match self.terms.policy {
            Policy::Plan | Policy::IndHist | Policy::AggHist | Policy::Threshold | Policy::FirstArrival => {
                true
            }
            // Without an update there is neither a rhythm nor a share of its group's.
            Policy::Auto => self.memory.known_updates > 0,
            Policy::Ttl | Policy::Adaptive | Policy::Uniform | Policy::Profile => false,
        }
    }

    fn is_plannable(&self) -> bool {
        self.policy_plans() && self.in_flight.is_none() && self.is_well()
    }

    /// Whether it answers and may be asked.
    pub(super) fn is_well(&self) -> bool {
        matches!(self.memory.state, State::Learning | State::Planned | State::Burst)
    }

    /// What it asks to be kept to.
    pub(super) fn asks(&self) -> Asks {
        let hints = &self.memory.hints;
        let apart = rolling::apart(self.terms.budget.min_spacing, hints, self.fresh_for());
        Asks { apart, skip_hours: hints.skip_hours, skip_days: hints.skip_days }
    }

    /// Notes whether the plan still fits after a probe.
    pub(super) fn weigh_plan(&mut self, last: Timestamp, ended: Timestamp, before: Asks, answered: bool) {
        let after = answered.then(|| self.asks());
        self.replan |= self.terms.policy == Policy::Auto;
        self.replan |= self.plan.as_ref().is_some_and(|plan| !fits(plan, last, ended, before, after));
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

    fn standing(&self, now: Timestamp, not_before: Timestamp, seed: u64, terms: &BurstTerms) -> Standing {
        let memory = &self.memory;
        let one_off = [memory.retry_until, memory.backoff_until, memory.fresh_until];
        let budget = self.planning_budget(terms, now);
        Standing {
            now,
            budget,
            spent: self.spent.times().collect(),
            not_before: one_off.into_iter().flatten().fold(now.max(not_before), Timestamp::max),
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
