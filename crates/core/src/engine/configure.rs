//! Applies changes of the source list and its limits.
//!
//! No source becomes due at once because of a change, and learned state is kept.

use crate::planning::budget::Spent;
use crate::planning::next_probe::fallback;
use crate::planning::plan::Revision;
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::action::{Action, Persist};
use super::event::{Changed, Configuration, KnownSource, Moved};
use super::params::{FleetParams, HostGroup};
use super::plan_state::PlanState;
use super::reason::{Reason, SourceState};
use super::rule_counts::RuleRegistry;
use super::source::{ProbeProposal, Source};
use super::source_memory::{Due, SourceMemory};
use super::state::Engine;
use super::urgent_cause::Urgency;
use super::wait_state::{InProgress, WaitState};

impl Engine {
    /// Applies a changed configuration.
    pub(super) fn configure(&mut self, new: Configuration, now: Timestamp, actions: &mut Vec<Action>) {
        self.set_params(new.params, now);
        for id in new.removed {
            self.remove(id, actions);
        }
        for change in new.changed {
            self.change(change, now);
        }
        let added: Vec<SourceId> = new.added.iter().map(|known| known.id).collect();
        for known in new.added {
            let within = known.terms.budget.min_spacing;
            self.add_source(known, now, within);
        }
        self.recompute_deadlines(&[], now);
        self.prices.recompute(self.params.pricing, now);
        if let Some(rules) = new.rules {
            let states = self.rule_registry.states();
            let mut registry = RuleRegistry::new(rules);
            registry.resume(&states);
            self.set_rules(registry, now);
        }
        if new.replan {
            self.replan_all();
        }
        self.forget_unused_hosts(now);
        let due = |id: SourceId| Some((id, self.sources.get(&id)?.memory.due.at()?));
        let first_due: Vec<(SourceId, Timestamp)> = added.into_iter().filter_map(due).collect();
        if !first_due.is_empty() {
            actions.push(Action::Persist(Persist::FirstDue(first_due)));
        }
    }

    /// Adds a source. A first contact is due within `first_within`.
    pub(super) fn add_source(&mut self, known: KnownSource, now: Timestamp, first_within: Span) {
        let host = self.hosts.host(&known.terms.host.key);
        // Removed and added again while a probe is in progress: the source is queued once, when the end of
        // that probe is committed.
        let probe = self.sources.get(&known.id).and_then(|source| source.condition().in_progress());
        let probe = probe
            .map(|probe| InProgress { moved: probe.moved || known.moved == Moved::Elsewhere, ..probe });
        let mut spent = Spent::default();
        for at in known.probes {
            spent.note(at, &known.terms.budget);
        }
        if let Some(last) = spent.last() {
            self.hosts.resume_after(host, self.params.host_spacing, last);
        }
        if known.memory.answers() {
            self.outage.known_to_answer(host);
        }
        let also = known.answered_by.map(|group| self.hosts.host(&group.key));
        self.taken_in += 1;
        if let Some(per_hour) = known.memory.estimate.known_rate() {
            // Counts as one day of observation.
            self.fleet_mean.learn(24.0 * per_hour, 24.0);
        }
        // A source that returns while its probe is in progress keeps its index.
        let place = self.sources.get_mut(&known.id).map(|source| {
            source.withdraw(&mut self.hosts, &mut self.slot_queue);
            source.place
        });
        let mut source = Source {
            id: known.id,
            place: place.unwrap_or_else(|| self.slot_queue.place(known.id)),
            waiting: WaitState::resumed(probe),
            urgency: Urgency::Usual,
            ready_at: now,
            profile: None,
            level: None,
            price: self.prices.of(known.terms.price),
            demand: None,
            terms: self.limits.share(&known.terms),
            host,
            public: known.terms.host.public,
            memory: known.memory,
            spent,
            plan: PlanState::default(),
            excess: None,
            pending_intervals: None,
            deadline: None,
            // Plans still in progress for an earlier source with this id become stale.
            revision: Revision(self.taken_in << 32),
            early_at: None,
            redirect_host: also,
        };
        // An early probe of before a restart keeps its time.
        source.early_at = source.memory.due.at().filter(|_| source.memory.reason == Reason::Early);
        if source.memory.due == Due::Unscheduled {
            let wait = first_within.scaled(source.unit_random(self.seed, "first", Timestamp::default()));
            let (at, because, by) = (now + wait, Reason::FirstContact, fallback(source.terms.policy));
            if source.memory.last_probe.is_none() {
                source.memory.burst.follows = by;
            }
            source.set_due(&self.hosts, ProbeProposal { at, because, by });
        }
        source.enqueue(&mut self.hosts);
        let id = source.id;
        self.deadlines.count_cost(source.memory.cost, true);
        if let Some(mut before) = self.sources.insert(id, Box::new(source)) {
            self.deadlines.forget(&mut before);
            self.deadlines.count_cost(before.memory.cost, false);
            self.prices.replace(before.demand, None);
        }
        self.reindex_deadline(id);
        if let Some(source) = self.sources.get_mut(&id) {
            source.recount_demand(&mut self.prices);
            self.deadlines.mark_if_passed(source, now);
        }
        self.bring_forward(id, now);
    }

    fn set_params(&mut self, params: FleetParams, now: Timestamp) {
        if params.host_spacing != self.params.host_spacing {
            self.hosts.forget_starts();
        }
        let otherwise = params.step != self.params.step || params.allocator != self.params.allocator;
        let changed = std::mem::replace(&mut self.params, params) != self.params;
        if changed {
            self.reindex_deadlines(now);
        }
        if otherwise {
            self.reservations.clear();
            self.requeue_for_slots(now);
        }
    }

    /// Queues sources that wait for a slot again, after the allocator or the step changed.
    pub(super) fn requeue_for_slots(&mut self, now: Timestamp) {
        for source in self.sources.values_mut().filter(|source| source.condition().waits_for_slot()) {
            source.enqueue(&mut self.hosts);
        }
        self.slot_queue.reset(&self.params, self.seed, now);
    }

    fn remove(&mut self, id: SourceId, actions: &mut Vec<Action>) {
        let Some(source) = self.sources.get_mut(&id) else { return };
        if source.condition().is_in_progress() {
            // The source is removed when the end of its probe is committed.
            source.memory.state = SourceState::Removed;
            return;
        }
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        self.reservations
            .release(source.pending_intervals.as_mut().and_then(|pending| pending.slot.take()));
        self.drop_source(id);
        actions.push(Action::Forget(id));
    }

    fn change(&mut self, change: Changed, now: Timestamp) {
        let Changed { id, terms, moved, probes } = change;
        let host = self.hosts.host(&terms.host.key);
        let Some(source) = self.sources.get_mut(&id) else { return };
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        let repaced = terms.budget != source.terms.budget;
        let otherwise = terms.policy != source.terms.policy;
        let revalued = terms.price != source.terms.price || terms.weight != source.terms.weight;
        (source.host, source.public) = (host, terms.host.public);
        source.price = self.prices.of(terms.price);
        source.terms = self.limits.share(&terms);
        source.recount(probes);
        source.revision.0 += 1;
        if moved == Moved::Elsewhere {
            self.deadlines.count_cost(source.memory.cost, false);
            source.forget_address();
            self.deadlines.forget(source);
        }
        if moved == Moved::Elsewhere || repaced || otherwise || revalued {
            source.plan.clear();
        }
        if !source.terms.policy.has_price() {
            source.early_at = None;
        }
        if otherwise {
            let by = fallback(source.terms.policy);
            (source.memory.burst.follows, source.memory.burst.asked_by) = (by, by);
            source.excess = None;
        }
        if moved == Moved::Elsewhere || repaced {
            // Not at once: a reload must not cause a request.
            let soon = now + source.gap().scaled(source.unit_random(self.seed, "changed", now));
            let spread =
                ProbeProposal { at: soon, because: Reason::Policy, by: fallback(source.terms.policy) };
            let last = source.spent.last();
            let proposal = last.map_or(spread, |last| source.proposal(last, self.seed, &self.params.burst));
            if source.memory.due != Due::Stopped {
                source.set_due(&self.hosts, ProbeProposal { at: proposal.at.max(soon), ..proposal });
            }
        }
        if !source.condition().is_in_progress() {
            let due = source.memory.due.at();
            source.enqueue(&mut self.hosts);
            // The plan that follows must not cause a request either.
            self.ask_for_plan(id, due);
        }
        if let Some(source) = self.sources.get_mut(&id) {
            source.recount_demand(&mut self.prices);
        }
        self.reindex_deadline(id);
        self.bring_forward(id, now);
    }

    /// Moves a source to another host after its new address was adopted.
    pub(super) fn rehost(&mut self, id: SourceId, host: HostGroup) {
        let ix = self.hosts.host(&host.key);
        let Some(source) = self.sources.get_mut(&id) else { return };
        source.withdraw(&mut self.hosts, &mut self.slot_queue);
        (source.host, source.public) = (ix, host.public);
        source.redirect_host = None;
        source.enqueue(&mut self.hosts);
    }

    /// Moves all times after the clock was set to `now`, so that promised intervals hold in real time.
    pub(super) fn shift(&mut self, by: Span, now: Timestamp) {
        self.slot_queue.shift(by);
        self.slot_stats.shift(by);
        self.stats_at += by;
        self.prices.shift(by);
        self.hosts.shift(by);
        self.outage.shift(by);
        self.crash_suspects.shift(by);
        self.early_probes.clear();
        self.slots = (crate::step::Step::FIRST, 0);
        self.rule_registry.shift(by);
        self.reservations.clear();
        for source in self.sources.values_mut() {
            source.shift(by, now);
        }
        (self.step_due, self.wake) = (None, None);
        self.reindex_deadlines(self.slot_stats.since);
    }
}

impl Source {
    /// Replaces the counted probes by those read from the log.
    fn recount(&mut self, probes: Vec<Timestamp>) {
        if let Some(&read_until) = probes.iter().max() {
            let before = std::mem::take(&mut self.spent);
            // Probes that ended after the log was read are known only here.
            let since = before.times().filter(|&at| at > read_until);
            probes.into_iter().chain(since).for_each(|at| self.spent.note(at, &self.terms.budget));
        }
    }

    /// Drops state that belongs to the old address.
    fn forget_address(&mut self) {
        self.memory = SourceMemory {
            last_probe: self.memory.last_probe,
            last_update: self.memory.last_update,
            known_updates: self.memory.known_updates,
            ..SourceMemory::default()
        };
        self.memory.state = self.state_when_well();
        self.memory.burst.follows = fallback(self.terms.policy);
        (self.redirect_host, self.urgency) = (None, Urgency::Usual);
        (self.profile, self.level) = (None, None);
        self.early_at = None;
        self.plan.begin_any_time();
        if let Some(probe) = self.probe_mut() {
            probe.moved = true;
        }
    }

    /// Moves every time.
    fn shift(&mut self, by: Span, now: Timestamp) {
        self.memory.shift(by, now);
        self.spent.shift(by);
        if let Some(InProgress { attempt, .. }) = self.probe_mut() {
            (attempt.due, attempt.started) = (attempt.due + by, attempt.started + by);
        }
        if let Some(excess) = &mut self.excess {
            excess.at += by;
        }
        if let Some(pending) = &mut self.pending_intervals {
            pending.shift(by);
        }
        if let Some(deadline) = &mut self.deadline {
            deadline.seen += by;
        }
        self.plan.shift(by);
        self.ready_at += by;
        self.early_at = self.early_at.map(|at| at + by);
        // Plans in progress were requested by the old clock.
        self.revision.0 += 1;
    }
}
