//! The phases of a source: learning, known, in a burst, back to normal.
//!
//! Keeps the part of that state that survives a restart. Derives from each probe the policy that `auto`
//! or an adaptive policy follows, the pace of burst probes, and since when a source is silent. Must not know other sources, nor
//! how a burst is detected.
//!
//! *The reserve.* A budget that holds in any window and is fully used has no probes left for a burst. So a
//! reserve must stay unused before the burst, at the expense of all other updates. Let ρ be the unused
//! share, f the share of updates in bursts, and h the share of T, the refill time of the reserve, that
//! bursts fill. Waits are then proportional to (1 − f)/(1 − ρ) + f/(1 − ρ + ρ/h), so a reserve helps only if
//! f > h. Plans therefore leave unused the share f of the reserve, with f taken from the source's last
//! updates. A source without bursts keeps its budget, and a false alarm of a few updates costs little.
//! During a burst the rest of the reserve is spread over the expected rest of the burst: several probes,
//! each slightly sooner, find more updates than as many at once. Each probe is charged by how much sooner
//! it came. The charge is refunded evenly over T.

use crate::model::burst::excess::Excess;
use crate::model::source_model::ModelUpdate;
use crate::planning::next_probe::{YOUNG, fallback};
use crate::planning::policy::Policy;
use crate::planning::ttl::Ttl;
use crate::time::{Span, Timestamp};

use super::note::{Note, Why};
use super::params::BurstTerms;
use super::reason::SourceState;
use super::source::Source;

/// The assumed duration of a burst without further data, as after a restart.
const MODEST: Span = Span::from_hours(2);

/// The reserve of a source.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reserve {
    /// Probes per T that bursts may use.
    pub probes: u32,
    /// How many of them are left now.
    pub left: u32,
    /// How many of them plans must leave unused now.
    pub kept: u32,
}

impl Source {
    /// Whether a burst causes extra probes. Only under `auto`: any other policy was chosen by the user.
    pub fn answers_burst_by_ttl(&self, terms: &BurstTerms) -> bool {
        self.terms.policy == Policy::Auto
            && self.memory.burst.burst_since.is_some()
            && self.reserve_probes(terms) > 0
    }

    /// Probes per T that bursts may use. With a price there is no reserve: plans include the value of
    /// bursts.
    fn reserve_probes(&self, terms: &BurstTerms) -> u32 {
        let share = if self.price.hours > 0.0 { 0.0 } else { terms.reserve };
        (f64::from(self.terms.budget.probes) * share) as u32
    }

    /// The current reserve.
    pub fn reserve(&self, terms: &BurstTerms, now: Timestamp) -> Reserve {
        if self.terms.policy != Policy::Auto {
            return Reserve { probes: 0, left: 0, kept: 0 };
        }
        let (budget, burst_state) = (&self.terms.budget, &self.memory.burst);
        let probes = self.reserve_probes(terms);
        let used = burst_state.used(probes, budget.per, now);
        // The gate checks later whether the budget allows them.
        let left = (f64::from(probes) - used + 1e-9).max(0.0) as u32;
        let wanted = (f64::from(probes) * burst_state.bursty() - used).max(0.0).round() as u32;
        let kept = match burst_state.burst_since {
            // During a burst, plans do not give up probes that are already used.
            Some(_) => wanted.min(self.spent.left(budget, now)),
            None => wanted,
        };
        Reserve { probes, left, kept }
    }

    /// The burst's excess rate that plans must include: only with a price, because a plan is then the
    /// response.
    pub fn planned_excess(&self) -> Option<Excess> {
        let priced = self.price.hours > 0.0 && self.terms.policy == Policy::Auto;
        self.excess.as_deref().copied().filter(|_| priced)
    }

    /// The time of the next probe by time to live after one at `last`, during a burst and if the reserve
    /// allows it. Without it the next probe would be at `otherwise`.
    pub fn burst_probe_at(
        &self,
        last: Timestamp,
        otherwise: Timestamp,
        terms: &BurstTerms,
    ) -> Option<Timestamp> {
        let newest = self.memory.burst.newest.filter(|_| self.answers_burst_by_ttl(terms))?;
        let left = self.reserve(terms, last).left;
        let lasts = self.excess.as_ref().map_or(MODEST, |excess| excess.lasts());
        let usual = (otherwise - last).max(YOUNG);
        // All remaining probes, spread over the expected rest of the burst.
        let more = left.min(self.spent.left(&self.terms.budget, last));
        let per_second = usual.as_secs_f64().recip() + f64::from(more) / lasts.as_secs_f64();
        let pace = Span::from_secs(1).scaled(per_second.recip());
        let BurstTerms { ttl_form: form, ttl_factor: factor, freshness_threshold, .. } = *terms;
        let least = self.terms.budget.min_spacing.max(YOUNG);
        let ttl = Ttl { form, factor, freshness_threshold, least, most: usual };
        (left > 0).then(|| ttl.next(last, newest, last).max(last + pace))
    }

    /// Charges the reserve for a burst probe that ended. The probe before ended at `last`; without the
    /// burst this one would have been at `otherwise`. The charge is the share of that gap by which it came
    /// sooner.
    pub fn charge_reserve(
        &mut self,
        last: Timestamp,
        otherwise: Timestamp,
        ended: Timestamp,
        terms: &BurstTerms,
    ) {
        let probes = self.reserve_probes(terms);
        if probes > 0 && self.memory.burst.asked_by == Policy::Ttl && self.answers_burst_by_ttl(terms) {
            let waited = (ended - last).as_secs_f64() / (otherwise - last).max(YOUNG).as_secs_f64();
            let sooner = 1.0 - waited.clamp(0.0, 1.0);
            let whole = self.memory.burst.reserve_whole_at.map_or(ended, |whole| whole.max(ended));
            let back = self.terms.budget.per.scaled(sooner / f64::from(probes));
            self.memory.burst.reserve_whole_at = Some(whole + back);
        }
    }

    /// Settles the reserve when a burst is over. Used probes that plans would have left unused are charged
    /// to it and refunded over time, so that plans do not make up for them at once.
    fn end_burst_charge(&mut self, ended: Timestamp, terms: &BurstTerms) {
        let (probes, burst_state) = (f64::from(self.reserve_probes(terms)), &self.memory.burst);
        let free = f64::from(self.spent.left(&self.terms.budget, ended));
        let used = burst_state.used(self.reserve_probes(terms), self.terms.budget.per, ended);
        let missing = (probes * burst_state.bursty() - free).max(used);
        if probes > 0.0 && self.terms.policy == Policy::Auto {
            self.memory.burst.reserve_whole_at =
                Some(ended + self.terms.budget.per.scaled(missing / probes));
        }
    }

    /// Applies the model's update after a probe.
    pub fn apply_model_update(
        &mut self,
        learned: &ModelUpdate,
        updates: u32,
        ended: Timestamp,
        terms: &BurstTerms,
    ) -> Vec<Note> {
        let mut notes = Vec::new();
        let burst_state = &mut self.memory.burst;
        burst_state.count(updates, learned.on.is_some() || learned.burst.is_some());
        if learned.became_the_rhythm.is_some() {
            burst_state.in_bursts = 0;
            // The fitted rate is from before the change.
            self.level = None;
        }
        let news = learned.newest > burst_state.newest;
        burst_state.newest = learned.newest.or(burst_state.newest);
        let before = burst_state.burst_since;
        burst_state.burst_since = learned.on.map(|burst| before.unwrap_or(burst.since));
        notes.extend(learned.burst.map(Note::Burst));
        if before.is_some() && learned.on.is_none() && learned.burst.is_none() {
            notes.push(Note::BurstForgotten);
        }
        if learned.became_the_rhythm.is_some() {
            notes.push(Note::RhythmChanged);
        }
        notes.extend(learned.rhythm.map(Note::RhythmRelearned));
        match (burst_state.quiet_since, learned.overdue) {
            (None, Some(expected)) => {
                burst_state.quiet_since = Some(ended);
                notes.push(Note::WentQuiet { since: burst_state.newest, expected });
            }
            // Not if only the expectation fell.
            (Some(_), None) if news || learned.on.is_some() => {
                burst_state.quiet_since = None;
                notes.push(Note::SpokeAgain);
            }
            _ => {}
        }
        let on = self.memory.burst.burst_since.is_some();
        if !on && (before.is_some() || learned.burst.is_some()) {
            self.end_burst_charge(ended, terms);
        }
        if on && self.memory.state != SourceState::Removed {
            self.memory.state = SourceState::Burst;
        }
        // A burst that began, ended or passed outdates the plan, and so does a changed rhythm.
        self.plan.outdate_if(
            learned.burst.is_some() || learned.became_the_rhythm.is_some() || learned.rhythm.is_some(),
        );
        let planned = self.planned_excess();
        self.excess = learned.excess.map(Box::new);
        self.plan.outdate_if(planned.is_some() || self.planned_excess().is_some());
        notes.extend(self.switch_for_burst(learned, terms));
        notes
    }

    /// Switches to time to live during a burst, and back after it.
    fn switch_for_burst(&mut self, learned: &ModelUpdate, terms: &BurstTerms) -> Option<Note> {
        let follows = self.memory.burst.follows;
        if self.terms.policy.goes_by_ratio() {
            return match (learned.above_ratio, follows) {
                (Some(_), Policy::Ttl) => None,
                (Some(window), _) => self.switch_to(Policy::Ttl, Why::BurstOf(window)),
                (None, Policy::Ttl) => {
                    // The probes of the burst were not planned.
                    self.plan.outdate_if(true);
                    self.switch_to(Policy::IndHist, Why::BurstOver)
                }
                (None, _) => None,
            };
        }
        match (self.answers_burst_by_ttl(terms), follows) {
            (true, Policy::Ttl) => None,
            (true, _) => self.switch_to(Policy::Ttl, learned.on.map_or(Why::Burst, Why::BurstOf)),
            (false, Policy::Ttl) if learned.became_the_rhythm.is_some() => {
                self.switch_to(self.calm_policy(), Why::Changed)
            }
            (false, Policy::Ttl) => self.switch_to(self.calm_policy(), Why::BurstOver),
            (false, _) => None,
        }
    }

    /// The policy that it follows outside bursts.
    fn calm_policy(&self) -> Policy {
        let usual = match (self.terms.policy, self.state_when_well()) {
            (Policy::Auto, SourceState::Planned) => Policy::Plan,
            (policy, _) => fallback(policy),
        };
        self.plan.current().map_or(usual, |plan| plan.by)
    }

    /// Switches to the policy of an adopted plan.
    pub fn switch_for_plan(&mut self) -> Option<Note> {
        let by = self.plan.current()?.by;
        let why = if by == Policy::AggHist { Why::Borrowed } else { Why::Known };
        if self.memory.burst.follows == Policy::Ttl { None } else { self.switch_to(by, why) }
    }

    fn switch_to(&mut self, to: Policy, why: Why) -> Option<Note> {
        let from = std::mem::replace(&mut self.memory.burst.follows, to);
        let switched = self.terms.policy.switches() && from != to;
        switched.then_some(Note::PolicySwitched { from, to, why })
    }
}
