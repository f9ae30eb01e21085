//! The life of a source: new, known, suddenly different, itself again.
//!
//! Keeps what of that must survive a restart, and says what follows from what a look heard: which
//! policy `auto` follows, how fast a burst is chased, since when a source is silent.
//!
//! *The reserve.* A budget that holds in any window and is spent to the end has nothing left for a
//! surprise: what a burst may cost must lie idle before it, and that costs all other updates. With a
//! share ρ idle, a share f of the updates in bursts, and bursts that fill a share h of the time T that
//! the reserve comes back in, waits are in proportion to (1 − f)/(1 − ρ) + f/(1 − ρ + ρ/h): it is worth
//! something only where f > h. So plans leave as much of the reserve alone as the share f of the
//! source's last updates that came in bursts; one that keeps its rhythm keeps its budget, and a false
//! alarm, being a few updates, costs next to nothing. While a burst is on, what is left is spread over
//! the time that it will probably go on: a few probes a little sooner each serve more updates than as
//! many at once. What it took, which is by how much it looked sooner than otherwise, comes back evenly
//! over T.
//!
//! Must not know other sources, nor how a burst is recognised.

use crate::model::beliefs::ModelUpdate;
use crate::model::burst::excess::Excess;
use crate::planning::ask::YOUNG;
use crate::planning::policy::Policy;
use crate::planning::ttl::Ttl;
use crate::time::{Span, Timestamp};

use super::note::{Note, Why};
use super::params::{BurstTerms, Response};
use super::reason::SourceState;
use super::source::Source;

/// How long a burst goes on of which nothing is known but that it is on, as after a restart.
const MODEST: Span = Span::from_hours(2);

/// What is left of a source's reserve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reserve {
    /// Probes per T that bursts may cost.
    pub probes: u32,
    /// How many of them may be taken now.
    pub left: u32,
    /// How many of them plans leave alone now.
    pub kept: u32,
}

impl Source {
    /// Whether a burst is chased: by `auto` only, for whoever names another policy wants that.
    pub fn is_chasing(&self, terms: &BurstTerms) -> bool {
        self.answers_bursts(terms, Response::Ttl)
            && self.memory.life.burst_since.is_some()
            && self.reserve_probes(terms) > 0
    }

    /// How many probes per T bursts may cost. At a price nothing is kept: what a burst is worth is planned
    /// for like anything else.
    fn reserve_probes(&self, terms: &BurstTerms) -> u32 {
        let share = if self.terms.price > 0.0 { 0.0 } else { terms.reserve };
        (f64::from(self.terms.budget.probes) * share) as u32
    }

    fn answers_bursts(&self, terms: &BurstTerms, with: Response) -> bool {
        self.terms.policy == Policy::Auto && terms.response == with
    }

    /// The reserve as it stands.
    pub fn reserve(&self, terms: &BurstTerms, now: Timestamp) -> Reserve {
        if self.terms.policy != Policy::Auto {
            return Reserve { probes: 0, left: 0, kept: 0 };
        }
        let (budget, life) = (&self.terms.budget, &self.memory.life);
        let probes = self.reserve_probes(terms);
        let used = life.used(probes, budget.per, now);
        // Whether the budget allows them is for the gate to say, when the time comes.
        let left = (f64::from(probes) - used + 1e-9).max(0.0) as u32;
        let wanted = (f64::from(probes) * life.bursty() - used).max(0.0).round() as u32;
        let kept = match (life.burst_since, terms.response) {
            // While it is on, plans give up nothing that is spent already.
            (Some(_), Response::Ttl) => wanted.min(self.spent.left(budget, now)),
            // It is what plans are to spend.
            (Some(_), Response::Replan) => 0,
            (None, _) => wanted,
        };
        Reserve { probes, left, kept }
    }

    /// What plans are to follow beside the rhythm. At a price nothing is answered, whatever the response.
    pub fn planned_excess(&self, terms: &BurstTerms) -> Option<Excess> {
        let answers = self.terms.price <= 0.0 && self.answers_bursts(terms, Response::Replan);
        self.excess.as_deref().copied().filter(|_| answers)
    }

    /// When time to live wants the next probe after one at `last`, where a burst is chased and the
    /// reserve allows it. Without it the next one would be at `otherwise`.
    pub fn chase(&self, last: Timestamp, otherwise: Timestamp, terms: &BurstTerms) -> Option<Timestamp> {
        let newest = self.memory.life.newest.filter(|_| self.is_chasing(terms))?;
        let left = self.reserve(terms, last).left;
        let lasts = self.excess.as_ref().map_or(MODEST, |excess| excess.lasts());
        let usual = (otherwise - last).max(YOUNG);
        // As many more as there are, over the time that it will probably go on.
        let more = left.min(self.spent.left(&self.terms.budget, last));
        let per_second = usual.as_secs_f64().recip() + f64::from(more) / lasts.as_secs_f64();
        let pace = Span::from_secs(1).scaled(per_second.recip());
        let BurstTerms { ttl_form: form, ttl_factor: factor, freshness_threshold, .. } = *terms;
        let least = self.terms.budget.min_spacing.max(YOUNG);
        let ttl = Ttl { form, factor, freshness_threshold, least, most: usual };
        (left > 0).then(|| ttl.next(last, newest, last).max(last + pace))
    }

    /// A probe that a burst asked for has ended, where the one before did at `last` and the next would
    /// have been at `otherwise`: by the share of that wait which it did not wait, it was one too many.
    pub fn pay(&mut self, last: Timestamp, otherwise: Timestamp, ended: Timestamp, terms: &BurstTerms) {
        let probes = self.reserve_probes(terms);
        if probes > 0 && self.memory.life.asked_by == Policy::Ttl && self.is_chasing(terms) {
            let waited = (ended - last).as_secs_f64() / (otherwise - last).max(YOUNG).as_secs_f64();
            let sooner = 1.0 - waited.clamp(0.0, 1.0);
            let whole = self.memory.life.reserve_whole_at.map_or(ended, |whole| whole.max(ended));
            let back = self.terms.budget.per.scaled(sooner / f64::from(probes));
            self.memory.life.reserve_whole_at = Some(whole + back);
        }
    }

    /// A burst is over. What is spent of what plans would leave alone was taken from the reserve, and comes
    /// back by and by: plans are not to make up for it at once.
    fn settle_up(&mut self, ended: Timestamp, terms: &BurstTerms) {
        let (probes, life) = (f64::from(self.reserve_probes(terms)), &self.memory.life);
        let free = f64::from(self.spent.left(&self.terms.budget, ended));
        let used = life.used(self.reserve_probes(terms), self.terms.budget.per, ended);
        let missing = (probes * life.bursty() - free).max(used);
        if probes > 0.0 && self.terms.policy == Policy::Auto {
            self.memory.life.reserve_whole_at =
                Some(ended + self.terms.budget.per.scaled(missing / probes));
        }
    }

    /// What a look heard of the rhythm.
    pub fn hear(
        &mut self,
        heard: &ModelUpdate,
        updates: u32,
        ended: Timestamp,
        terms: &BurstTerms,
    ) -> Vec<Note> {
        let mut notes = Vec::new();
        let life = &mut self.memory.life;
        life.count(updates, heard.on.is_some() || heard.burst.is_some());
        if heard.for_good.is_some() {
            life.in_bursts = 0;
        }
        let news = heard.newest > life.newest;
        life.newest = heard.newest.or(life.newest);
        let before = life.burst_since;
        life.burst_since = heard.on.map(|burst| before.unwrap_or(burst.since));
        notes.extend(heard.burst.map(Note::Burst));
        if before.is_some() && heard.on.is_none() && heard.burst.is_none() {
            notes.push(Note::BurstForgotten);
        }
        if heard.for_good.is_some() {
            notes.push(Note::RhythmChanged);
        }
        match (life.quiet_since, heard.overdue) {
            (None, Some(expected)) => {
                life.quiet_since = Some(ended);
                notes.push(Note::WentQuiet { since: life.newest, expected });
            }
            // Not because less is expected of it since.
            (Some(_), None) if news || heard.on.is_some() => {
                life.quiet_since = None;
                notes.push(Note::SpokeAgain);
            }
            _ => {}
        }
        let on = self.memory.life.burst_since.is_some();
        if !on && (before.is_some() || heard.burst.is_some()) {
            self.settle_up(ended, terms);
        }
        if on && self.memory.state != SourceState::Removed {
            self.memory.state = SourceState::Burst;
        }
        // A burst that began, ended or passed leaves nothing as it was planned.
        self.plan.outdate_if(heard.burst.is_some() || heard.for_good.is_some());
        let planned = self.planned_excess(terms);
        self.excess = heard.excess.map(Box::new);
        self.plan.outdate_if(planned.is_some() || self.planned_excess(terms).is_some());
        notes.extend(self.weigh_burst(heard, terms));
        notes
    }

    /// Goes over to time to live when a burst is to be chased, and back when it is over.
    fn weigh_burst(&mut self, heard: &ModelUpdate, terms: &BurstTerms) -> Option<Note> {
        let follows = self.memory.life.follows;
        match (self.is_chasing(terms), follows) {
            (true, Policy::Ttl) => None,
            (true, _) => self.switch_to(Policy::Ttl, heard.on.map_or(Why::Burst, Why::BurstOf)),
            (false, Policy::Ttl) if heard.for_good.is_some() => {
                self.switch_to(self.calm_policy(), Why::Changed)
            }
            (false, Policy::Ttl) => self.switch_to(self.calm_policy(), Why::BurstOver),
            (false, _) => None,
        }
    }

    /// What `auto` follows when no burst is on.
    fn calm_policy(&self) -> Policy {
        let usual = if self.settled() == SourceState::Planned { Policy::Plan } else { Policy::Adaptive };
        self.plan.current().map_or(usual, |plan| plan.by)
    }

    /// What follows from a plan that was adopted.
    pub fn weigh_adoption(&mut self) -> Option<Note> {
        let by = self.plan.current()?.by;
        let why = if by == Policy::AggHist { Why::Borrowed } else { Why::Known };
        if self.memory.life.follows == Policy::Ttl { None } else { self.switch_to(by, why) }
    }

    fn switch_to(&mut self, to: Policy, why: Why) -> Option<Note> {
        let from = std::mem::replace(&mut self.memory.life.follows, to);
        let switched = self.terms.policy == Policy::Auto && from != to;
        switched.then_some(Note::PolicySwitched { from, to, why })
    }
}
