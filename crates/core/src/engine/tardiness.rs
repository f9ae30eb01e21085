//! Sources that must be looked at every so often, whatever their rhythm: the garden in the fleet.
//!
//! A source may state the longest that it may go unseen, w. That is a deadline beside any policy: its probe is due
//! at the latest in the last whole step before w is over, it then stands before all that are merely due, the one that
//! is late the longest first, and what comes sooner by its own policy counts as well. Slots are spent on it before
//! that only if the coming steps will not have enough for all deadlines, where that wastes least (MEDD, `garden`).
//! Politeness has the last word: the gate may make a source tardy, and never the other way round.
//!
//! A look counts from its start: what is published while an answer travels was not in it. Two starts are never more
//! than w apart while there is room, so tardiness is from the deadline until the start of the look that came too late.
//!
//! *Work.* A step has c slots and, where the user says so, a capacity k for the costs of its probes. Both are one
//! measure here: a probe takes max(1, cost·c/k) of c, so that whoever keeps within c keeps within both.
//!
//! Knows deadlines, costs and steps. Must not know how a probe is sent.

use std::collections::{BTreeSet, HashMap};

use crate::time::{Span, Timestamp};

use super::absorb::Note;
use super::frontier::HostIx;
use super::garden::medd::{Medd, SEEN};
use super::garden::{Plant, UNIT, Work};
use super::params::{CostBy, FleetParams};
use super::source::{Member, Reason, State, Wish};
use super::state::{Fleet, Known};
use super::turns::Waits;
use crate::source_id::SourceId;

/// A deadline of a source.
#[derive(Debug, Clone)]
pub(super) struct Bed {
    /// When its last look began.
    pub seen: Timestamp,
    /// The next must begin by then.
    pub by: Timestamp,
    /// The last step that is whole before that, …
    pub step: i64,
    /// … which begins then.
    pub look_at: Timestamp,
    /// From one look to the next, as plans are to have it.
    pub apart: Span,
    /// What it takes, and how many steps may pass.
    pub plant: Plant,
    /// Where it lives.
    host: HostIx,
    /// It was said that it is tardy.
    pub said: bool,
}

/// All deadlines.
#[derive(Debug)]
pub(super) struct Tardiness {
    garden: Medd,
    /// When each is due by its deadline, in steps: then it goes before others.
    bells: BTreeSet<(i64, SourceId)>,
    /// When each will be tardy.
    passing: BTreeSet<(Timestamp, SourceId)>,
    /// How many of a host have deadlines.
    hosts: HashMap<HostIx, u32>,
    /// How many are tardy now.
    pub tardy: u64,
    /// What is worth an event, and was not asked for yet.
    fell: Vec<(SourceId, Note)>,
    tolls: Tolls,
}

/// What probes cost in the mean over all sources.
#[derive(Debug, Clone, Copy, Default)]
struct Tolls {
    bytes: f64,
    millis: f64,
    sources: u32,
}

/// What probes of a source cost lately: zero where nothing is known.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Toll {
    /// Bytes of a body in the mean.
    pub bytes: f32,
    /// How long one took in the mean.
    pub millis: f32,
}

/// Of what probes cost, the last ones count for so much.
const LATELY: f32 = 0.2;
/// A mean of nothing is unknown, so something is the least.
const LEAST: f32 = 1e-3;
/// Learned costs lie between these, beside a mean probe.
const COSTS: (f64, f64) = (0.125, 16.0);
/// And are told apart in such steps, lest every answer move all that is foreseen.
const GRAIN: f64 = 8.0;

impl Toll {
    /// Whether anything is known.
    pub fn is_known(&self) -> bool {
        self.millis > 0.0
    }

    /// A probe cost so much.
    pub fn learn(&mut self, bytes: u64, took: Span) {
        let now = (bytes as f32, took.as_millis().max(0) as f32);
        let mix = |before: f32, now: f32| (before + (now - before) * LATELY).max(LEAST);
        *self = match self.is_known() {
            true => Self { bytes: mix(self.bytes, now.0), millis: mix(self.millis, now.1) },
            false => Self { bytes: now.0.max(LEAST), millis: now.1.max(LEAST) },
        };
    }
}

impl Tolls {
    fn count(&mut self, toll: Toll, sign: f64) {
        if toll.is_known() {
            self.bytes += sign * f64::from(toll.bytes);
            self.millis += sign * f64::from(toll.millis);
            self.sources = if sign > 0.0 { self.sources + 1 } else { self.sources - 1 };
        }
    }

    /// What such a probe costs beside a mean one.
    fn cost(&self, toll: Toll, by: CostBy) -> f64 {
        let (own, all) = match by {
            CostBy::Bytes => (toll.bytes, self.bytes),
            CostBy::Milliseconds => (toll.millis, self.millis),
        };
        if !toll.is_known() || all <= 0.0 {
            return 1.0;
        }
        let cost = f64::from(own) * f64::from(self.sources) / all;
        ((cost * GRAIN).round() / GRAIN).clamp(COSTS.0, COSTS.1)
    }
}

/// The deadlines of a fleet as they stand.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Deadlines {
    /// How many sources have one.
    pub sources: u64,
    /// How many of them are tardy.
    pub tardy: u64,
    /// Ω: what keeping all of them takes of a step, in slots.
    pub omega: f64,
}

impl Tardiness {
    pub fn new(params: &FleetParams, step: i64) -> Self {
        Self {
            garden: Medd::new(whole(params), step),
            bells: BTreeSet::new(),
            passing: BTreeSet::new(),
            hosts: HashMap::new(),
            tardy: 0,
            fell: Vec::new(),
            tolls: Tolls::default(),
        }
    }

    /// What a probe of this source costs beside a mean one.
    pub fn cost(&self, member: &Member, by: CostBy) -> f64 {
        member.terms.cost.map_or_else(|| self.tolls.cost(member.memory.toll, by), f64::from)
    }

    /// Counts what a source's probes cost, or no longer.
    pub fn count_toll(&mut self, toll: Toll, counts: bool) {
        self.tolls.count(toll, if counts { 1.0 } else { -1.0 });
    }

    /// What is left of a step that many slots and so much capacity are left of.
    fn left(slots: u32, room: Option<f64>, params: &FleetParams) -> Work {
        let slots = f64::from(slots);
        let of_room =
            |room: f64| room * f64::from(params.probes_per_step) / params.capacity.unwrap_or(room);
        let left = room.map_or(slots, |room| slots.min(of_room(room)));
        (left.max(0.0) * UNIT as f64) as Work
    }

    /// Nothing is known of a source's deadline any more.
    pub fn forget(&mut self, member: &mut Member) {
        self.garden.uproot(member.place as usize);
        self.strike(member);
    }

    /// Takes a deadline off the lists.
    fn strike(&mut self, member: &mut Member) {
        let Some(bed) = member.bed.take() else { return };
        self.bells.remove(&(bed.step, member.id));
        self.passing.remove(&(bed.by, member.id));
        self.tardy -= u64::from(bed.said);
        if let Some(count) = self.hosts.get_mut(&bed.host) {
            *count -= 1;
            if *count == 0 {
                self.hosts.remove(&bed.host);
            }
        }
    }

    /// A source was looked at from then on; says how late that was.
    pub fn seen(&mut self, member: &mut Member, started: Timestamp) -> Option<Span> {
        let bed = member.bed.as_deref_mut()?;
        bed.seen = bed.seen.max(started);
        self.tardy -= u64::from(std::mem::take(&mut bed.said));
        Some((started - bed.by).max(Span::ZERO))
    }

    /// Notes the deadline of a source that waits for its next probe and was last looked at then, if that is not
    /// noted yet; `allowed` says from when on one may be sent at or after a time.
    pub fn tend(
        &mut self,
        member: &mut Member,
        params: &FleetParams,
        looked: Option<Timestamp>,
        allowed: impl FnOnce(&Member, Timestamp) -> Timestamp,
    ) {
        let before = member.bed.as_ref().map(|bed| (bed.seen, bed.said));
        self.strike(member);
        let rests = member.memory.due == Timestamp::MAX || member.memory.state == State::Removed;
        let seen = before.map(|(seen, _)| seen).or(looked);
        let (Some(gap), Some(seen), false) = (member.terms.max_gap, seen, rests) else {
            self.garden.uproot(member.place as usize);
            return;
        };
        let step = params.step.as_millis().max(1);
        let step_of = |at: Timestamp| at.as_millis().div_euclid(step);
        let steps = u32::try_from((gap.as_millis() / step).max(2)).unwrap_or(u32::MAX) - 1;
        // Others at its host may be due at the same time, and are asked one after the other.
        let others = self.hosts.get(&member.host).copied().unwrap_or(0);
        let crowd = params.host_spacing.as_millis().saturating_mul(i64::from(others));
        let crowd = crowd.saturating_add(step - 1) / step;
        let crowd = u32::try_from(crowd).unwrap_or(u32::MAX).min(steps / 4);
        let window = (steps - crowd).max(1);
        let by = seen + gap;
        // No sooner than its budget grants for good, lest that be spent before the day is over.
        let even = member.terms.budget.even_gap().max(member.terms.budget.min_spacing);
        let granted = (step_of(seen + even) + 1).min(step_of(by) - 1);
        let due = (step_of(by) - 1 - i64::from(crowd)).max(granted).max(step_of(seen) + 1);
        let look_at = Timestamp::from_millis(due.saturating_mul(step));
        let slots = match params.capacity {
            Some(capacity) => {
                (self.cost(member, params.cost_by) * f64::from(params.probes_per_step) / capacity).max(1.0)
            }
            None => 1.0,
        };
        let plant = Plant::new(slots, window);
        let apart = Span::from_millis(step.saturating_mul(i64::from(window))).max(even.min(gap));
        let said = before.is_some_and(|(_, said)| said);
        let bed = Bed { seen, by, step: due, look_at, apart, plant, host: member.host, said };
        member.bed = Some(Box::new(bed));
        *self.hosts.entry(member.host).or_default() += 1;
        self.tardy += u64::from(said);
        // Not while something forbids it, nor further ahead than anything is foreseen.
        let from = step_of(allowed(member, look_at)).min(due.saturating_add(SEEN * i64::from(window)));
        self.garden.plant(member.place as usize, plant, due.max(from));
        self.bells.insert((due, member.id));
        if !said {
            self.passing.insert((by, member.id));
        }
    }

    /// A probe of a source is sent.
    pub fn sent(&mut self, member: &Member) {
        if let Some(bed) = &member.bed {
            self.garden.water(member.place as usize);
            self.bells.remove(&(bed.step, member.id));
            self.passing.remove(&(bed.by, member.id));
        }
    }
}

/// Those of them that may go unseen only for so long.
pub(super) fn bound(known: &[Known]) -> Vec<SourceId> {
    known.iter().filter(|known| known.terms.max_gap.is_some()).map(|known| known.id).collect()
}

/// A step's slots, as work.
fn whole(params: &FleetParams) -> Work {
    u64::from(params.probes_per_step) * UNIT
}

impl Member {
    /// What is wanted at the latest, if that comes before what its policy and its rules want.
    pub(super) fn by_max_gap(&self, otherwise: Wish) -> Wish {
        match &self.bed {
            Some(bed) if bed.look_at < otherwise.at => {
                Wish { at: bed.look_at, because: Reason::MaxGap, by: otherwise.by }
            }
            _ => otherwise,
        }
    }
}

impl Fleet {
    /// Notes the deadline of a source anew.
    pub(super) fn tend(&mut self, id: SourceId) {
        if let Some(member) = self.members.get_mut(&id) {
            let frontier = &self.frontier;
            let looked = member.memory.looked;
            self.tardiness
                .tend(member, &self.params, looked, |member, at| Self::ask_gate(member, frontier, at).at);
            if member.in_flight.is_some() {
                self.tardiness.sent(member);
            }
        }
    }

    /// Notes all of them anew: steps are others.
    pub(super) fn tend_all(&mut self, now: Timestamp) {
        let (tolls, fell) = (self.tardiness.tolls, std::mem::take(&mut self.tardiness.fell));
        self.tardiness = Tardiness { tolls, fell, ..Tardiness::new(&self.params, self.step_of(now)) };
        let mut all: Vec<SourceId> = self.members.keys().copied().collect();
        // The same whoever drives the fleet: what is noted first has a say in what follows.
        all.sort_unstable();
        for id in all {
            if let Some(member) = self.members.get_mut(&id).filter(|member| member.terms.max_gap.is_some())
            {
                // What it is noted as is gone with the old steps.
                let before = member.bed.take().map(|bed| (bed.seen, bed.said));
                self.tend(id);
                if let Some(member) = self.members.get_mut(&id)
                    && let (Some(bed), Some((seen, said))) = (member.bed.as_deref_mut(), before)
                {
                    bed.seen = seen;
                    if said && !bed.said {
                        bed.said = true;
                        self.tardiness.tardy += 1;
                    }
                    self.tend(id);
                }
            }
        }
        self.tardiness.garden.settle();
    }

    /// Many came or went. These were noted while it was not known yet who else there is at their hosts.
    pub(super) fn settle_deadlines(&mut self, came: &[SourceId], now: Timestamp) {
        for &id in came {
            self.tend(id);
            self.bring_forward(id, now);
        }
        self.tardiness.garden.settle();
    }

    /// A source that may now go unseen for less long than it would is due sooner, yet not at once.
    pub(super) fn bring_forward(&mut self, id: SourceId, now: Timestamp) {
        let Some(member) = self.members.get_mut(&id).filter(|member| member.in_flight.is_none()) else {
            return;
        };
        let Some(look_at) = member.bed.as_ref().map(|bed| bed.look_at) else { return };
        let soon = now + member.cautious_gap().scaled(0.1 * member.chance(self.seed, "changed", now));
        let look_at = look_at.max(soon);
        if member.memory.reason == Reason::FirstContact || member.memory.due <= look_at {
            return;
        }
        Self::withdraw(member, &mut self.frontier, &mut self.turns);
        let by = member.memory.life.asked_by;
        Self::set_due(member, &self.frontier, Wish { at: look_at, because: Reason::MaxGap, by });
        Self::queue(member, &mut self.frontier);
    }

    /// A source whose deadline had passed when it was taken in is tardy, and nobody is told again.
    pub(super) fn note_tardy(&mut self, id: SourceId, now: Timestamp) {
        if let Some(bed) = self.members.get_mut(&id).and_then(|member| member.bed.as_deref_mut())
            && bed.by < now
            && self.tardiness.passing.remove(&(bed.by, id))
        {
            bed.said = true;
            self.tardiness.tardy += 1;
        }
    }

    /// Whose deadlines have passed since this was last asked, with what is worth an event.
    pub fn fell_late(&mut self, now: Timestamp) -> Vec<(SourceId, Note)> {
        self.watch_deadlines(now);
        std::mem::take(&mut self.tardiness.fell)
    }

    fn watch_deadlines(&mut self, now: Timestamp) {
        while let Some(&(by, id)) = self.tardiness.passing.first().filter(|&&(by, _)| by < now) {
            self.tardiness.passing.remove(&(by, id));
            let Some(member) = self.members.get_mut(&id) else { continue };
            let why = Self::ask_gate(member, &self.frontier, by).binding;
            if let Some(bed) = member.bed.as_deref_mut() {
                bed.said = true;
                self.tardiness.tardy += 1;
                self.tardiness.fell.push((id, Note::Tardy { by, why }));
            }
        }
    }

    /// Lets those go before others whose deadlines have come, whatever else they waited for.
    pub(super) fn ring(&mut self, now: Timestamp) {
        // Before anybody is sent who is late already.
        self.watch_deadlines(now);
        let step = self.step_of(now);
        self.tardiness.garden.turn_to(step);
        while let Some(&(due, id)) = self.tardiness.bells.first().filter(|&&(due, _)| due <= step) {
            self.tardiness.bells.remove(&(due, id));
            let Some(member) = self.members.get_mut(&id) else { continue };
            if matches!(member.waits, Waits::Ends | Waits::Due | Waits::Spare) {
                Self::withdraw(member, &mut self.frontier, &mut self.turns);
                Self::stand(member, &mut self.turns, self.mean.prior(), now);
            }
        }
    }

    /// Whom to look at before its deadline comes, because the coming steps will not have enough for all.
    pub(super) fn early(&mut self, now: Timestamp) -> Vec<SourceId> {
        let slots = self.params.probes_per_step.saturating_sub(self.slots.1);
        let left = Tardiness::left(slots, self.room(), &self.params);
        let Self { tardiness, members, frontier, turns, .. } = self;
        let may = |place: usize| {
            let member = turns.who(place as u32).and_then(|id| members.get(&id));
            member.is_some_and(|member| {
                member.in_flight.is_none()
                    && member.waits != Waits::Parked
                    && member.is_well()
                    && member
                        .bed
                        .as_ref()
                        .is_some_and(|bed| now - bed.seen >= member.terms.budget.even_gap())
                    && Self::ask_gate(member, frontier, now).at <= now
                    && frontier.open_from(member.host).is_some_and(|from| from <= now)
            })
        };
        let places = tardiness.garden.early(left, may);
        places.into_iter().filter_map(|place| self.turns.who(place as u32)).collect()
    }

    /// How the deadlines stand.
    pub fn deadlines(&self) -> Deadlines {
        let sources = self.members.values().filter(|member| member.bed.is_some()).count() as u64;
        Deadlines { sources, tardy: self.tardiness.tardy, omega: self.tardiness.garden.omega() }
    }

    /// By when a source must be looked at, where that is bound.
    pub fn look_by(&self, id: SourceId) -> Option<Timestamp> {
        self.members.get(&id)?.bed.as_ref().map(|bed| bed.by)
    }

    /// What a probe of a source costs beside a mean one.
    pub fn cost(&self, id: SourceId) -> Option<f64> {
        self.members.get(&id).map(|member| self.tardiness.cost(member, self.params.cost_by))
    }
}
