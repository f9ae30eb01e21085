//! The fleet's state and the moves that do not depend on an answer: step, reconfigure.

use std::collections::{HashMap, VecDeque};

use std::sync::Arc;

use crate::planning::budget::Spent;
use crate::planning::plan::Revision;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::book::Book;
use super::calendar::Calendar;
use super::frontier::Frontier;
use super::gate::{self, Constraint, Verdict};
use super::life::Reserve;
use super::load::Load;
use super::outage::Outage;
use super::params::{FleetParams, HostGroup, Terms};
use super::source::{Member, Memory, Reason, State, Wish};
use super::spacing::Spacing;
use super::step::Mean;
use super::tardiness::{self, Tardiness};
use super::turns::{Turns, Waits};
use crate::source_id::SourceId;

/// All sources and all that is known of them.
#[derive(Debug)]
pub struct Fleet {
    pub(super) params: FleetParams,
    pub(super) seed: u64,
    /// Boxed, because a table of a million is half empty and twice as large while it grows.
    pub(super) members: HashMap<SourceId, Box<Member>>,
    pub(super) frontier: Frontier,
    pub(super) outage: Outage,
    /// Who waits for a plan, and from when on it may hold probes.
    pub(super) unplanned: VecDeque<SourceId>,
    /// How many sources were ever taken in.
    taken_in: u64,
    pub(super) spacing: Spacing,
    /// The step that slots were last taken from, and how many.
    pub(super) slots: (i64, u32),
    /// Those that wait for a slot.
    pub(super) turns: Turns,
    /// What is to be expected of a source of which nothing is known.
    pub(super) mean: Mean,
    pub(super) load: Load,
    /// What rules wait for.
    pub(super) book: Book,
    /// Slots that are kept for probes that rules want.
    pub(super) kept: Calendar,
    /// Who must be looked at by when.
    pub(super) tardiness: Tardiness,
    /// What the probes of the step cost so far.
    pub(super) work: f64,
}

/// A source as it comes from the store and the configuration.
#[derive(Debug, Clone)]
pub struct Known {
    /// Its number.
    pub id: SourceId,
    /// What the user grants it.
    pub terms: Terms,
    /// What is remembered of it. A due time of `Timestamp::default()` means that none was set yet.
    pub memory: Memory,
    /// When its logged probes ended.
    pub probes: Vec<Timestamp>,
    /// Who answered last, where redirects led to another host group than its own.
    pub answered_by: Option<HostGroup>,
}

/// A probe to be sent now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Order {
    /// Whom.
    pub source: SourceId,
    /// When it was due.
    pub due: Timestamp,
    /// Who asked.
    pub policy: Policy,
    /// Why then.
    pub reason: Reason,
}

/// A probe asked for by hand that the gate does not allow now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No such source.
    #[error("no such source")]
    Unknown,
    /// One is under way.
    #[error("a probe is under way")]
    InFlight,
    /// Not before this time.
    #[error("{} forbids it until {until}", .constraint.name())]
    Until {
        /// What forbids it.
        constraint: Constraint,
        /// Until when.
        until: Timestamp,
    },
}

/// A plan that was made from a state the source is no longer in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plan is stale: the source has moved on since it was made")]
pub struct Stale;

/// First contacts at a start follow one another at this pace.
const FIRST_CONTACT_PACE: Span = Span::from_secs(3);

impl Fleet {
    /// An empty fleet. Equal seeds give equal jitter.
    pub fn new(params: FleetParams, seed: u64, now: Timestamp) -> Self {
        let spacing = Spacing::new(params.host_spacing, now);
        let turns = Turns::new(&params, seed, now);
        Self {
            turns,
            mean: Mean::default(),
            load: Load::new(now),
            book: Book::default(),
            kept: Calendar::default(),
            tardiness: Tardiness::new(&params, now.as_millis().div_euclid(params.step.as_millis().max(1))),
            work: 0.0,
            params,
            seed,
            members: HashMap::new(),
            frontier: Frontier::default(),
            outage: Outage::default(),
            unplanned: VecDeque::new(),
            taken_in: 0,
            spacing,
            slots: (i64::MIN, 0),
        }
    }

    /// Takes in sources at a start. Those with a due time keep it; first contacts follow one
    /// another at a gentle pace, within their spacing δ.
    pub fn load(&mut self, known: Vec<Known>, now: Timestamp) {
        let new = known.iter().filter(|known| known.memory.due == Timestamp::default()).count();
        let pace = FIRST_CONTACT_PACE.scaled(new as f64);
        let bound = tardiness::bound(&known);
        for known in known {
            let within = pace.min(known.terms.budget.min_spacing);
            self.take_in(known, now, within);
        }
        self.settle_deadlines(&bound, now);
    }

    /// What a host group asked for before a restart.
    pub fn load_host(&mut self, host: &HostGroup, paused_until: Timestamp, crawl_delay: Span) {
        let ix = self.frontier.host(&host.key);
        self.frontier.pause(ix, paused_until);
        self.frontier.set_crawl_delay(ix, crawl_delay);
    }

    fn take_in(&mut self, known: Known, now: Timestamp, first_within: Span) {
        let host = self.frontier.host(&known.terms.host.key);
        // Taken off the list and put back while its answer is awaited: it is queued when that is
        // stored, and not twice.
        let in_flight = self.members.get(&known.id).and_then(|member| member.in_flight);
        let mut spent = Spent::default();
        for at in known.probes {
            spent.note(at, &known.terms.budget);
        }
        if let Some(last) = spent.last() {
            // What the host was promised before a restart.
            let apart = self.params.host_spacing.max(self.frontier.crawl_delay(host));
            self.frontier.hold(host, last + apart);
        }
        let also = known.answered_by.map(|group| self.frontier.host(&group.key));
        self.taken_in += 1;
        if let Some(per_hour) = known.memory.estimate.known_rate() {
            // As if each had told of its last day.
            self.mean.learn(24.0 * per_hour, 24.0);
        }
        // One that comes back while its answer is awaited has its place still.
        let place = self.members.get_mut(&known.id).map(|member| {
            Self::withdraw(member, &mut self.frontier, &mut self.turns);
            member.place
        });
        let place = place.unwrap_or_else(|| self.turns.place(known.id));
        let mut member = Member {
            id: known.id,
            place,
            waits: Waits::Not,
            pressing: false,
            ready_at: now,
            pulse: None,
            terms: known.terms,
            host,
            memory: known.memory,
            spent,
            plan: None,
            excess: None,
            replan: false,
            serving: None,
            bed: None,
            queued: false,
            plan_from: Timestamp::MIN,
            hurried: false,
            was_gone: false,
            // A source that comes back is another than the one that plans are still being made for.
            revision: Revision(self.taken_in << 32),
            also,
            in_flight,
        };
        if member.memory.due == Timestamp::default() {
            let wait = first_within.scaled(member.chance(self.seed, "first", Timestamp::default()));
            let (at, because, by) = (now + wait, Reason::FirstContact, member.by_default());
            Self::set_due(&mut member, &self.frontier, Wish { at, because, by });
        }
        if in_flight.is_none() {
            Self::queue(&mut member, &mut self.frontier);
        }
        let id = member.id;
        self.tardiness.count_toll(member.memory.toll, true);
        if let Some(mut before) = self.members.insert(id, Box::new(member)) {
            self.tardiness.forget(&mut before);
            self.tardiness.count_toll(before.memory.toll, false);
        }
        self.tend(id);
        self.note_tardy(id, now);
        self.bring_forward(id, now);
    }

    /// Whether an ordered probe may still be sent: time may have passed since, into a skipped hour.
    pub fn may_go(&self, id: SourceId, now: Timestamp) -> bool {
        self.members.get(&id).is_some_and(|member| Self::ask_gate(member, &self.frontier, now).at <= now)
    }

    /// An ordered probe was not sent after all: the source is due as before, if the gate allows.
    pub fn recall(&mut self, id: SourceId) {
        if let Some(member) = self.members.get_mut(&id)
            && let Some((host, also)) = member.in_flight.take()
        {
            for host in [Some(host), also].into_iter().flatten() {
                self.frontier.release(host, Timestamp::MIN);
            }
            if member.memory.state == State::Removed {
                self.let_go(id);
            } else {
                Self::queue(member, &mut self.frontier);
                self.tend(id);
            }
        }
    }

    /// It is gone for good.
    pub(super) fn let_go(&mut self, id: SourceId) {
        if let Some(mut member) = self.members.remove(&id) {
            self.turns.leave(member.place);
            self.tardiness.forget(&mut member);
            self.tardiness.count_toll(member.memory.toll, false);
        }
    }

    /// When the source will be probed next as far as is known now, and why then: its due time, or
    /// what has come up against it since.
    pub fn outlook(&self, id: SourceId, now: Timestamp) -> Option<(Timestamp, Reason)> {
        let member = self.members.get(&id)?;
        if member.memory.due == Timestamp::MAX {
            return Some((Timestamp::MAX, Reason::Constraint(Constraint::Resting)));
        }
        let verdict = Self::ask_gate(member, &self.frontier, member.memory.due.max(now));
        match verdict.binding {
            Some(constraint) => Some((verdict.at, Reason::Constraint(constraint))),
            None => Some((member.memory.due, member.memory.reason)),
        }
    }

    /// Someone asks for a probe by hand. It is as polite as any other.
    pub fn request(&mut self, id: SourceId, now: Timestamp) -> Result<(), Refusal> {
        let member = self.members.get_mut(&id).ok_or(Refusal::Unknown)?;
        if member.in_flight.is_some() {
            return Err(Refusal::InFlight);
        }
        let verdict = Self::ask_gate(member, &self.frontier, now);
        if let Some(constraint) = verdict.binding {
            return Err(Refusal::Until { constraint, until: verdict.at });
        }
        Self::withdraw(member, &mut self.frontier, &mut self.turns);
        member.was_gone |= member.memory.due == Timestamp::MAX;
        member.memory.due = now;
        (member.memory.reason, member.memory.rule) = (Reason::Manual, None);
        member.pressing = true;
        Self::queue(member, &mut self.frontier);
        Ok(())
    }

    /// The state that a plan for this source must name.
    pub fn revision(&self, id: SourceId) -> Option<Revision> {
        self.members.get(&id).map(|member| member.revision)
    }

    /// Changes limits that hold for all.
    pub fn set_params(&mut self, params: FleetParams, now: Timestamp) {
        if params.host_spacing != self.params.host_spacing {
            self.spacing = Spacing::new(params.host_spacing, now);
        }
        let otherwise = params.step != self.params.step || params.allocator != self.params.allocator;
        let changed = std::mem::replace(&mut self.params, params) != self.params;
        if changed {
            self.tend_all(now);
        }
        if otherwise {
            self.kept.clear();
            self.start_lines_anew(now);
        }
    }

    /// Those who wait for a slot line up again, by another rule or another clock.
    pub(super) fn start_lines_anew(&mut self, now: Timestamp) {
        for member in self.members.values_mut() {
            if matches!(member.waits, Waits::Ends | Waits::Due | Waits::Spare) {
                Self::queue(member, &mut self.frontier);
            }
        }
        self.turns.reset(&self.params, self.seed, now);
    }

    /// Follows a changed source list: `added` may start anywhere within their spacing, `changed`
    /// keep what was learned, `removed` are forgotten here (the store keeps them). Nothing becomes
    /// due at once because of it.
    pub fn reconfigure(
        &mut self,
        added: Vec<Known>,
        changed: Vec<Changed>,
        removed: &[SourceId],
        now: Timestamp,
    ) {
        for &id in removed {
            self.remove(id);
        }
        for change in changed {
            self.change(change, now);
        }
        for known in added {
            let within = known.terms.budget.min_spacing;
            self.take_in(known, now, within);
        }
        self.settle_deadlines(&[], now);
    }

    fn remove(&mut self, id: SourceId) {
        let Some(member) = self.members.get_mut(&id) else { return };
        if member.in_flight.is_some() {
            // Its answer is still awaited; it goes when that has been stored.
            member.memory.state = State::Removed;
            return;
        }
        Self::withdraw(member, &mut self.frontier, &mut self.turns);
        self.kept.release(member.serving.as_mut().and_then(|serving| serving.slot.take()));
        self.let_go(id);
    }

    fn change(&mut self, change: Changed, now: Timestamp) {
        let Changed { id, terms, moved, probes } = change;
        let host = self.frontier.host(&terms.host.key);
        let Some(member) = self.members.get_mut(&id) else { return };
        Self::withdraw(member, &mut self.frontier, &mut self.turns);
        let repaced = terms.budget != member.terms.budget || terms.own_budget != member.terms.own_budget;
        let otherwise = terms.policy != member.terms.policy;
        let revalued = terms.price != member.terms.price || terms.weight != member.terms.weight;
        member.host = host;
        member.terms = terms;
        if let Some(&read_until) = probes.iter().max() {
            let before = std::mem::take(&mut member.spent);
            // What ended after the log was read is known here only.
            let since = before.times().filter(|&at| at > read_until);
            probes.into_iter().chain(since).for_each(|at| member.spent.note(at, &member.terms.budget));
        }
        member.revision.0 += 1;
        if moved == Moved::Elsewhere {
            self.tardiness.count_toll(member.memory.toll, false);
            member.memory = Memory {
                last_probe: member.memory.last_probe,
                last_update: member.memory.last_update,
                known_updates: member.memory.known_updates,
                ..Memory::default()
            };
            member.memory.state = member.settled();
            (member.also, member.was_gone, member.plan_from) = (None, false, Timestamp::MIN);
            member.pulse = None;
            self.tardiness.forget(member);
        }
        if moved == Moved::Elsewhere || repaced || otherwise || revalued {
            member.plan = None;
        }
        if otherwise {
            (member.memory.life.follows, member.excess) = (Policy::Adaptive, None);
            member.memory.life.asked_by = member.by_default();
        }
        if moved == Moved::Elsewhere || repaced {
            // Never at once: a reload must not make anyone fetch.
            let soon = now + member.gap().scaled(member.chance(self.seed, "changed", now));
            let spread = Wish { at: soon, because: Reason::Policy, by: member.by_default() };
            let last = member.spent.last();
            let wish = last.map_or(spread, |last| member.wish(last, self.seed, &self.params.burst));
            if member.memory.due != Timestamp::MAX {
                Self::set_due(member, &self.frontier, Wish { at: wish.at.max(soon), ..wish });
            }
        }
        if member.in_flight.is_none() {
            let due = member.memory.due;
            Self::queue(member, &mut self.frontier);
            // Nor may the plan that follows make anyone fetch.
            self.ask_for_plan(id, due);
        }
        self.tend(id);
        self.bring_forward(id, now);
    }

    /// A source now lives on another host: its moved address was adopted.
    pub fn rehost(&mut self, id: SourceId, host: HostGroup) {
        let ix = self.frontier.host(&host.key);
        let Some(member) = self.members.get_mut(&id) else { return };
        Self::withdraw(member, &mut self.frontier, &mut self.turns);
        member.host = ix;
        member.also = None;
        member.terms.host = host;
        if member.in_flight.is_none() {
            Self::queue(member, &mut self.frontier);
        }
    }

    /// The clock was set while we ran: everything moves with it, so that what was promised in
    /// real time is kept in real time.
    pub fn shift(&mut self, by: Span) {
        self.turns.shift(by);
        self.load.shift(by);
        self.frontier.shift(by);
        self.spacing.shift(by);
        self.slots = (i64::MIN, 0);
        self.shift_rules(by);
        for member in self.members.values_mut() {
            member.memory.shift(by);
            member.spent.shift(by);
            if let Some(plan) = &mut member.plan {
                plan.shift(by);
            }
            if let Some(excess) = &mut member.excess {
                excess.at += by;
            }
            if let Some(serving) = &mut member.serving {
                serving.shift(by);
            }
            if let Some(bed) = &mut member.bed {
                bed.seen += by;
            }
            member.plan_from += by;
            member.ready_at += by;
            // What is being planned was made out by the clock as it was.
            member.revision.0 += 1;
            member.replan = true;
        }
        self.tend_all(self.load.since);
    }

    /// Forgets what no longer matters. Cheap enough to call now and then.
    pub fn tidy(&self) {
        self.spacing.tidy();
    }

    /// How many sources there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// What is remembered of a source.
    pub fn memory(&self, id: SourceId) -> Option<&Memory> {
        self.members.get(&id).map(|member| &member.memory)
    }

    /// How many probes a source has left in the window that ends now.
    pub fn budget_left(&self, id: SourceId, now: Timestamp) -> Option<u32> {
        self.members.get(&id).map(|member| member.spent.left(&member.terms.budget, now))
    }

    /// The policy's wish, every constraint with its time, and the verdict.
    pub fn explain(&self, id: SourceId, now: Timestamp) -> Option<Explanation> {
        let member = self.members.get(&id)?;
        let mut constraints = gate::constraints(&member.memory, &member.spent, &member.terms.budget);
        for (constraint, until) in [
            (Constraint::HostPause, self.frontier.paused_until(member.host)),
            (Constraint::HostSpacing, self.frontier.held_until(member.host)),
        ] {
            if until > Timestamp::MIN {
                constraints.push((constraint, until));
            }
        }
        let hints = &member.memory.hints;
        if hints.skip_hours != 0 || hints.skip_days != 0 {
            let from = constraints.iter().map(|&(_, until)| until).max().unwrap_or(now).max(now);
            constraints.push((Constraint::Skip, gate::past_skips(from, hints)));
        }
        if member.memory.due == Timestamp::MAX {
            constraints.push((Constraint::Resting, Timestamp::MAX));
        }
        let terms = &self.params.burst;
        let wanted = match member.spent.last().map(|last| member.wish(last, self.seed, terms)) {
            // Where the due time is its wish, that was made when the probe before was known to be due.
            // So it is in a chase: what it went by is not all known to who looks at the store.
            Some(wish) if wish.because == Reason::Policy && member.memory.reason == Reason::Policy => {
                member.memory.due
            }
            Some(_) if matches!(member.memory.reason, Reason::Burst | Reason::Rule | Reason::MaxGap) => {
                member.memory.due
            }
            Some(wish) => wish.at,
            None => member.memory.due,
        };
        let (due, reason) = self.outlook(id, now)?;
        Some(Explanation {
            wanted,
            asking: member.memory.life.asked_by,
            reserve: member.reserve(terms, now),
            due,
            reason,
            rule: member.memory.rule.clone(),
            look_by: member.bed.as_ref().map(|bed| bed.by),
            constraints,
            budget: member.terms.budget,
            price: member.terms.price,
            left: member.spent.left(&member.terms.budget, now),
        })
    }

    pub(super) fn ask_gate(member: &Member, frontier: &Frontier, wanted: Timestamp) -> Verdict {
        let paused = frontier.paused_until(member.host);
        gate::verdict(wanted, &member.memory, &member.spent, &member.terms.budget, paused)
    }

    /// Sets a source's due time to the first that the gate allows at or after what it wishes.
    pub(super) fn set_due(member: &mut Member, frontier: &Frontier, wish: Wish) {
        let verdict = Self::ask_gate(member, frontier, wish.at);
        member.memory.due = verdict.at;
        member.memory.reason = verdict.binding.map_or(wish.because, Reason::Constraint);
        member.memory.life.asked_by = wish.by;
        let next = member.serving.as_ref().and_then(|serving| serving.next.as_ref());
        member.memory.rule =
            next.filter(|_| wish.because == Reason::Rule).map(|next| Arc::clone(&next.name));
        member.pressing = matches!(wish.because, Reason::FirstContact | Reason::Gap);
    }
}

/// A source whose terms changed.
#[derive(Debug, Clone)]
pub struct Changed {
    /// Which.
    pub id: SourceId,
    /// What the user grants it now.
    pub terms: Terms,
    /// Whether it is still at the same address.
    pub moved: Moved,
    /// When its logged probes ended, read again from the store because the new budget looks
    /// further back than the old one; empty where it does not.
    pub probes: Vec<Timestamp>,
}

/// Whether a changed source is still at the same address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moved {
    /// Yes.
    Same,
    /// No: validators, hints and errors of the old one say nothing of the new.
    Elsewhere,
}

/// Why the next probe is when it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    /// When the policy wants it.
    pub wanted: Timestamp,
    /// Which policy asked.
    pub asking: Policy,
    /// What bursts may cost.
    pub reserve: Reserve,
    /// When it is due.
    pub due: Timestamp,
    /// Why then.
    pub reason: Reason,
    /// The rule that asks for it, if one does.
    pub rule: Option<Arc<str>>,
    /// By when it must be looked at, where that is bound.
    pub look_by: Option<Timestamp>,
    /// What forbids it until when.
    pub constraints: Vec<(Constraint, Timestamp)>,
    /// Its budget.
    pub budget: crate::planning::budget::Budget,
    /// z, in hours that an update would wait.
    pub price: f32,
    /// Probes left in the window that ends now.
    pub left: u32,
}
