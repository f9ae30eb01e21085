//! One source as the engine sees it: what must survive a restart, and the pace that follows from it.
//!
//! Knows the phases of a source's life. Must not know other sources.

use serde::{Deserialize, Serialize};

use crate::model::burst::excess::Excess;
use crate::model::pulse::HourlyProfile;
use crate::planning::ask::{self, Knowledge};
use crate::planning::budget::Spent;
use crate::planning::plan::Revision;
use crate::planning::policy::Policy;
use crate::rng::Stream;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::condition::ProbeHosts;
use super::deadline::Deadline;
use super::hosts::HostIx;
use super::memory::{Due, SourceMemory};
use super::params::{BurstTerms, Terms};
use super::plan_state::PlanState;
use super::reason::{Reason, SourceState};
use super::serving::PendingIntervals;
use super::urgency::Urgency;
use super::waiting::WaitState;

/// A source that has shown this many updates has a rhythm to speak of; until then it is probed
/// hourly unless its section says otherwise.
const KNOWN_AFTER: u64 = 10;

/// The pace of a source whose rhythm is not known.
const CAUTIOUS_GAP: Span = Span::from_hours(1);

/// What is expected of a source before anything is known of it.
const NEWCOMER_PER_HOUR: f64 = 1.0 / 12.0;
/// However dear a probe is, a source that is not known is looked at so often.
const LONGEST_WAIT_HOURS: f64 = 24.0;

/// Who serves only rules, and is not asked for anything, is looked at so often.
const UNASKED_GAP: Span = Span::from_days(1);

/// A source in the engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Source {
    pub id: SourceId,
    /// Its place among those that may wait for a slot.
    pub place: u32,
    /// What it waits for.
    pub waiting: WaitState,
    /// What makes its next probe urgent.
    pub urgency: Urgency,
    /// Since when nothing but slots kept it from being probed.
    pub ready_at: Timestamp,
    /// How busy it is at which hour, where that is known.
    pub pulse: Option<Box<HourlyProfile>>,
    pub terms: Terms,
    pub host: HostIx,
    pub memory: SourceMemory,
    pub spent: Spent,
    pub plan: PlanState,
    /// What a burst adds to its rhythm, where plans are to follow that.
    pub excess: Option<Box<Excess>>,
    /// What it owes to rules, where they have to do with it.
    pub serving: Option<Box<PendingIntervals>>,
    /// By when it must be looked at, where that is bound.
    pub bed: Option<Box<Deadline>>,
    pub revision: Revision,
    /// Another host group that its redirects lead to: it bears our requests as well.
    pub also: Option<HostIx>,
}

impl Source {
    /// The gap between probes while the budget is spread evenly. Cautious while little is known,
    /// also when it fails meanwhile.
    pub fn gap(&self) -> Span {
        let even = self.terms.budget.even_gap();
        if self.is_cautious() { even.max(self.cautious_gap()) } else { even }
    }

    /// The same, whatever its section says of how long it may go unseen.
    pub fn patient_gap(&self) -> Span {
        let even = self.terms.budget.even_gap();
        if self.is_cautious() { even.max(CAUTIOUS_GAP) } else { even }
    }

    /// The pace of care; where its section says that it must not go unseen for as long, that.
    pub fn cautious_gap(&self) -> Span {
        self.terms.max_gap.map_or(CAUTIOUS_GAP, |gap| gap.min(CAUTIOUS_GAP))
    }

    /// At a price, how long a wait is worth a probe while its rhythm is not known: π·ℓ²/2 = z. Only who
    /// would plan goes by that.
    fn worth_a_probe(&self) -> Span {
        if !matches!(self.terms.policy, Policy::Auto | Policy::Plan) {
            return Span::ZERO;
        }
        let price = self.terms.worth();
        let rate = self.memory.estimate.known_rate().unwrap_or(NEWCOMER_PER_HOUR);
        Span::from_hours(1).scaled((2.0 * price / rate.max(1e-9)).sqrt().min(LONGEST_WAIT_HOURS))
    }

    /// Who serves only rules and is asked for nothing is looked at now and then all the same, to know what
    /// is new when somebody asks. While it cannot be foretold, it is looked at like others.
    fn unasked(&self) -> Span {
        let blind = self.serving.as_ref().is_some_and(|serving| serving.own && !serving.foretold);
        if self.terms.policy == Policy::Profile && !blind { UNASKED_GAP } else { Span::ZERO }
    }

    /// Whether little is known of it, and nobody said that it need not be treated with care.
    pub fn is_cautious(&self) -> bool {
        !self.is_known() && !self.terms.own_budget
    }

    fn is_known(&self) -> bool {
        self.memory.known_updates >= KNOWN_AFTER
    }

    /// The settled state by what is known.
    pub fn settled(&self) -> SourceState {
        if self.is_known() { SourceState::Planned } else { SourceState::Learning }
    }

    /// The host groups that a probe of it asks.
    pub fn hosts(&self) -> ProbeHosts {
        (self.host, self.also.filter(|also| *also != self.host))
    }

    /// A number in [0, 1) that belongs to this source, this purpose and this instant, so that
    /// jitter is the same whoever drives the engine and in whatever order.
    pub fn chance(&self, seed: u64, purpose: &str, at: Timestamp) -> f64 {
        Stream::new(seed, format!("{purpose}/{}/{}", self.id.0, at.as_millis())).unit()
    }

    /// What is wanted after a probe that ended at `last`: by its policy, by a rule or because it may go unseen for no
    /// longer, whichever is sooner.
    pub fn wish(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> ProbeWish {
        self.by_max_gap(self.rule_wish(self.own_wish(last, seed, terms)))
    }

    /// What its policy wants, sooner where a burst is chased.
    pub fn own_wish(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> ProbeWish {
        let calm = self.calm_wish(last, seed, terms);
        let chased = self.chase(last, calm.at, terms).filter(|&at| at <= calm.at);
        chased.map_or(calm, |at| ProbeWish { at, because: Reason::Burst, by: Policy::Ttl })
    }

    /// The same as if no burst were on.
    pub fn calm_wish(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> ProbeWish {
        let (at, by) = match ask::next(self.terms.policy, &self.knowledge(last, seed, terms), last, last) {
            ask::NextProbe::At { at, asked_by } => (at, asked_by),
            ask::NextProbe::Sampled { from } => (from, Policy::Adaptive),
        };
        let because = if by == Policy::Plan { Reason::Plan } else { Reason::Policy };
        ProbeWish { at, because, by }
    }

    /// What its policy is told. Rates and what they promise are known to whoever makes plans.
    fn knowledge(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> Knowledge<'_> {
        let budget = self.terms.budget;
        let gap = self.gap().max(self.worth_a_probe()).max(self.unasked());
        let least_gap = if self.is_cautious() { self.cautious_gap() } else { Span::ZERO };
        Knowledge {
            rate: None,
            aggregate: None,
            importance: None,
            plan: self.plan.current().filter(|_| self.policy_plans()),
            last_modified: self.memory.life.newest,
            budget,
            gap,
            least_gap: least_gap.max(budget.min_spacing),
            late: match self.memory.due {
                Due::At(due) => (last - due).max(Span::ZERO),
                Due::Stopped => Span::ZERO,
                Due::Unscheduled => gap,
            },
            freshness_threshold: terms.freshness_threshold,
            ttl_factor: terms.ttl_factor,
            ttl_form: terms.ttl_form,
            jitter: self.chance(seed, "spread", last),
        }
    }

    /// What is wanted at the latest, if that comes before what its policy and its rules want.
    pub fn by_max_gap(&self, otherwise: ProbeWish) -> ProbeWish {
        match &self.bed {
            Some(bed) if bed.look_at < otherwise.at => {
                ProbeWish { at: bed.look_at, because: Reason::MaxGap, by: otherwise.by }
            }
            _ => otherwise,
        }
    }
}

/// What a source wants: a probe, when, and on whose word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProbeWish {
    pub at: Timestamp,
    pub because: Reason,
    pub by: Policy,
}
