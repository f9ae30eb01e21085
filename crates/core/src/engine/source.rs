//! One source as the fleet sees it: what must survive a restart, and the pace that follows from it.
//!
//! Knows the phases of a source's life. Must not know other sources.

use std::sync::Arc;

use crate::model::burst::excess::Excess;
use crate::observe::FeedHints;
use crate::planning::budget::Spent;
use crate::planning::plan::{Plan, Revision};
use crate::planning::policy::Policy;
use crate::planning::spread;
use crate::rng::Stream;
use crate::time::{Span, Timestamp};

use super::frontier::HostIx;
use super::gate::Constraint;
use super::life::Life;
use super::params::{BurstTerms, Terms};
use super::serving::Serving;
use super::tardiness::{Bed, Toll};
use super::turns::Waits;
use crate::model::estimate::Forgetting;
use crate::model::pulse::Pulse;
use crate::source_id::SourceId;

/// The phase a source is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum State {
    /// Its rhythm is not known yet.
    #[default]
    Learning,
    /// Its rhythm is known.
    Planned,
    /// Its rhythm is broken by a burst.
    Burst,
    /// It fails; we come back later and later.
    Backoff,
    /// It asked not to be probed: gone for good, or closed to us by robots.txt.
    Resting,
    /// No longer in the configuration.
    Removed,
}

impl State {
    const ALL: [Self; 6] =
        [Self::Learning, Self::Planned, Self::Burst, Self::Backoff, Self::Resting, Self::Removed];

    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::Learning => "learning",
            Self::Planned => "planned",
            Self::Burst => "burst",
            Self::Backoff => "backoff",
            Self::Resting => "resting",
            Self::Removed => "removed",
        }
    }

    /// The state of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

/// Why the next probe is when it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reason {
    /// Never probed before.
    #[default]
    FirstContact,
    /// The policy's own choice.
    Policy,
    /// The source's plan.
    Plan,
    /// A burst is chased.
    Burst,
    /// Items may have been lost; sooner than the policy would.
    Gap,
    /// A rule.
    Rule,
    /// It has not been looked at for as long as it may go unseen.
    MaxGap,
    /// Someone asked by hand.
    Manual,
    /// The gate: this constraint came last.
    Constraint(Constraint),
}

impl Reason {
    /// The name in the store.
    pub fn name(self) -> &'static str {
        match self {
            Self::FirstContact => "first contact",
            Self::Policy => "policy",
            Self::Plan => "plan",
            Self::Burst => "burst",
            Self::Gap => "gap",
            Self::Rule => "rule",
            Self::MaxGap => "max gap",
            Self::Manual => "manual",
            Self::Constraint(constraint) => constraint.name(),
        }
    }

    /// The reason of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::FirstContact, Self::Policy, Self::Plan, Self::Burst, Self::Gap, Self::Rule, Self::MaxGap]
            .into_iter()
            .chain([Self::Manual])
            .chain(Constraint::ALL.into_iter().map(Self::Constraint))
            .find(|reason| reason.name() == name)
    }
}

/// Repeated proof that a source has moved for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MoveProof {
    /// Where to.
    pub target: String,
    /// How often in a row.
    pub times: u32,
    /// Since when.
    pub since: Timestamp,
}

/// What must survive a restart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Memory {
    /// Its phase.
    pub state: State,
    /// When it is due. `MAX`: not until someone says so; `Timestamp::default()`: not set yet.
    pub due: Timestamp,
    /// Why then.
    pub reason: Reason,
    /// End of the last probe, good or bad.
    pub last_probe: Option<Timestamp>,
    /// End of the last probe that was answered.
    pub looked: Option<Timestamp>,
    /// What is believed of its rate by what its probes found.
    pub estimate: Forgetting,
    /// End of the last probe that found an update.
    pub last_update: Option<Timestamp>,
    /// Failures in a row.
    pub error_streak: u32,
    /// Updates known, those in its history at first contact included.
    pub known_updates: u64,
    /// `max-age` or `Expires`: not before.
    pub fresh_until: Option<Timestamp>,
    /// `Retry-After` and its kin: not before.
    pub retry_until: Option<Timestamp>,
    /// Our own backoff: not before.
    pub backoff_until: Option<Timestamp>,
    /// What its feed asks.
    pub hints: FeedHints,
    /// M: how many items its feed held when it was last read.
    pub holds: Option<u32>,
    /// Proof so far that it moved.
    pub moving: Option<Box<MoveProof>>,
    /// The address adopted after such proof.
    pub adopted_url: Option<Box<str>>,
    /// The rule behind the probe that is due, if one is.
    pub rule: Option<Arc<str>>,
    /// What its probes cost.
    pub toll: Toll,
    /// The phases of its life.
    pub life: Life,
}

impl Memory {
    /// Moves every instant when the clock was found to have been set.
    pub fn shift(&mut self, by: Span) {
        if self.due != Timestamp::MAX {
            self.due += by;
        }
        for at in [
            &mut self.last_probe,
            &mut self.looked,
            &mut self.last_update,
            &mut self.fresh_until,
            &mut self.retry_until,
            &mut self.backoff_until,
        ]
        .into_iter()
        .flatten()
        {
            *at += by;
        }
        if let Some(moving) = &mut self.moving {
            moving.since += by;
        }
        self.life.shift(by);
    }
}

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

/// Lateness up to this share of a gap is made up for when the budget is spread evenly.
const MADE_UP: f64 = 0.1;

/// The host groups that a probe of a source asks: its own, and the one its redirects lead to.
pub(super) type Hosts = (HostIx, Option<HostIx>);

/// A source in the fleet.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub id: SourceId,
    /// Its place among those that may wait for a slot.
    pub place: u32,
    /// How it waits.
    pub waits: Waits,
    /// It is not to be left to slots to spare: a first contact, items that may have been lost, somebody
    /// who asked by hand; whatever puts it off meanwhile.
    pub pressing: bool,
    /// Since when nothing but slots kept it from being probed.
    pub ready_at: Timestamp,
    /// How busy it is at which hour, where that is known.
    pub pulse: Option<Box<Pulse>>,
    pub terms: Terms,
    pub host: HostIx,
    pub memory: Memory,
    pub spent: Spent,
    pub plan: Option<Box<Plan>>,
    /// What a burst adds to its rhythm, where plans are to follow that.
    pub excess: Option<Box<Excess>>,
    /// Its plan, if it has one, no longer fits.
    pub replan: bool,
    /// What it owes to rules, where they have to do with it.
    pub serving: Option<Box<Serving>>,
    /// By when it must be looked at, where that is bound.
    pub bed: Option<Box<Bed>>,
    /// It waits for a plan.
    pub queued: bool,
    /// Its next plan may not begin before.
    pub plan_from: Timestamp,
    /// Items may have been lost, so it is due sooner than its policy wants; no plan changes that.
    pub hurried: bool,
    /// It was gone when someone asked for a probe by hand.
    pub was_gone: bool,
    pub revision: Revision,
    /// Another host group that its redirects lead to: it bears our requests as well.
    pub also: Option<HostIx>,
    /// The hosts that are busy with its probe.
    pub in_flight: Option<Hosts>,
}

impl Member {
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
    pub fn settled(&self) -> State {
        if self.is_known() { State::Planned } else { State::Learning }
    }

    /// The host groups that a probe of it asks.
    pub fn hosts(&self) -> Hosts {
        (self.host, self.also.filter(|also| *also != self.host))
    }

    /// A number in [0, 1) that belongs to this source, this purpose and this instant, so that
    /// jitter is the same whoever drives the fleet and in whatever order.
    pub fn chance(&self, seed: u64, purpose: &str, at: Timestamp) -> f64 {
        Stream::new(seed, format!("{purpose}/{}/{}", self.id.0, at.as_millis())).unit()
    }

    /// What is wanted after a probe that ended at `last`: by its policy, by a rule or because it may go unseen for no
    /// longer, whichever is sooner.
    pub fn wish(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> Wish {
        self.by_max_gap(self.rule_wish(self.own_wish(last, seed, terms)))
    }

    /// What its policy wants.
    pub fn own_wish(&self, last: Timestamp, seed: u64, terms: &BurstTerms) -> Wish {
        if let Some(at) = self.by_age(last, terms) {
            return Wish { at, because: Reason::Policy, by: Policy::Ttl };
        }
        let calm = self.calm_wish(last, seed);
        let chased = self.chase(last, calm.at, terms).filter(|&at| at <= calm.at);
        chased.map_or(calm, |at| Wish { at, because: Reason::Burst, by: Policy::Ttl })
    }

    /// The same as if no burst were on.
    pub fn calm_wish(&self, last: Timestamp, seed: u64) -> Wish {
        self.planned_after(last).unwrap_or_else(|| self.spread_after(last, seed))
    }

    fn spread_after(&self, last: Timestamp, seed: u64) -> Wish {
        let gap = self.gap().max(self.worth_a_probe()).max(self.unasked());
        let due = self.memory.due;
        // From when it was due, lest the time that answers take be lost every time. Not by
        // much, though: who answers slowly is not asked the sooner for it.
        let from = if due <= last { due.max(last - gap.scaled(MADE_UP)) } else { last };
        let unit = self.chance(seed, "spread", last);
        let at = spread::next(from, gap, &self.terms.budget, unit);
        let at = at.max(last + self.terms.budget.min_spacing);
        Wish { at, because: Reason::Policy, by: self.by_default() }
    }

    /// Who asks while there is no plan: who is sampled leaves it to the allocator, whether its policy says
    /// so or `auto` while nothing is known.
    pub fn by_default(&self) -> Policy {
        match self.terms.policy {
            Policy::Adaptive | Policy::Auto => Policy::Adaptive,
            _ => Policy::Uniform,
        }
    }

    fn planned_after(&self, last: Timestamp) -> Option<Wish> {
        let plan = self.plan.as_ref().filter(|_| self.policy_plans())?;
        let because = if plan.by == Policy::Plan { Reason::Plan } else { Reason::Policy };
        plan.next_after(last).map(|at| Wish { at, because, by: plan.by })
    }
}

/// What a source wants: a probe, when, and on whose word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wish {
    pub at: Timestamp,
    pub because: Reason,
    pub by: Policy,
}
