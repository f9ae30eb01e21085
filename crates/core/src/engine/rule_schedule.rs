//! Rules in the engine: which source needs a probe for a rule, and by when.
//!
//! Works on all sources, because a probe of one may require probes of others. With c probes per step,
//! intervals that end first go first; for probes of one slot each this satisfies the largest number (Glover
//! 1967). SUP schedules at the last moment, so a slot is reserved (`slot_reservations`). If a step or a host has
//! none left, the probe comes earlier within its interval. If there is none at all, that is reported in
//! advance. Must not know the content of rules, nor where notifications go.

use crate::planning::execution::{Interval, Obstacle, RuleId};
use crate::source_id::SourceId;
use crate::time::Timestamp;

use super::event::PredictedIntervals;
use super::note::Note;
use super::plan_requests::StalePlan;
use super::reason::Reason;
use super::rule_counts::RuleRegistry;
use super::slot_reservations::NoReservation;
use super::source::{ProbeProposal, Source};
use super::source_memory::Due;
use super::source_rule_intervals::PendingIntervals;
use super::state::Engine;

impl Engine {
    /// Replaces the rules. No probe becomes due at once because of it.
    pub(super) fn set_rules(&mut self, registry: RuleRegistry, now: Timestamp) {
        self.rule_registry = registry;
        self.rule_registry.drop_unlisted(now);
        self.reservations.clear();
        for source in self.sources.values_mut() {
            let parts = self.rule_registry.parts(source.id);
            let is_target = parts.iter().any(|part| part.asked);
            if is_target || source.pending_intervals.is_some() {
                // Predictions in progress name rules by their old numbers.
                source.revision.0 += 1;
            }
            if !is_target {
                source.pending_intervals = None;
                continue;
            }
            let own = parts.iter().any(|part| {
                part.asked && self.rule_registry.terms(part.rule).is_some_and(|terms| terms.own)
            });
            // The drift is kept when rules change.
            let drift = source.pending_intervals.as_ref().map(|pending| pending.drift).unwrap_or_default();
            source.pending_intervals =
                Some(Box::new(PendingIntervals { own, drift, ..PendingIntervals::default() }));
            if own && source.plan.request() {
                self.to_plan.push_back(source.id);
                if let Due::At(due) = source.memory.due {
                    // The plan that follows causes no request.
                    source.plan.begin_no_sooner(due);
                }
            }
        }
        for (rule, executable) in self.rule_registry.executables() {
            // A source probed since then needs no probe for the rule after a restart or a reload.
            let was_probed =
                |source: &Source| source.memory.last_success.is_some_and(|at| at >= executable.since);
            let targets = self.rule_registry.targets(rule).iter().copied();
            let unprobed =
                targets.filter(|id| self.sources.get(id).is_some_and(|source| !was_probed(source)));
            for id in unprobed.collect::<Vec<_>>() {
                self.open_span(id, rule, executable.until, now);
            }
        }
    }

    /// A rule became executable: each of its target sources needs a probe by then. Returns the sources
    /// concerned and the obstacles.
    pub(super) fn open_spans(
        &mut self,
        rule: RuleId,
        until: Timestamp,
        except: SourceId,
        now: Timestamp,
    ) -> Vec<(SourceId, Vec<Note>)> {
        let targets: Vec<SourceId> =
            self.rule_registry.targets(rule).iter().copied().filter(|&id| id != except).collect();
        targets.into_iter().filter_map(|id| Some((id, self.open_span(id, rule, until, now)?))).collect()
    }

    /// Opens the interval of one source.
    fn open_span(
        &mut self,
        id: SourceId,
        rule: RuleId,
        until: Timestamp,
        now: Timestamp,
    ) -> Option<Vec<Note>> {
        let source = self.sources.get_mut(&id)?;
        let pending = source.pending_intervals.as_mut()?;
        // Triggered again before it was probed: one probe satisfies both, by the end of the first.
        let open = pending.open.intervals().iter().find(|span| span.rule == rule && span.until >= now);
        let until = open.map_or(until, |open| open.until.min(until));
        pending.open.withdraw(rule);
        // An interval that is over has no deadline, but a later probe still counts.
        pending.open.add(Interval { rule, from: now.min(until), until });
        let paused = self.hosts.paused_until(source.host);
        let mut notes = source.recompute_next(&self.rule_registry, now, paused, self.params.step);
        notes.extend(self.recompute_due(id, now));
        Some(notes)
    }

    /// Adopts the intervals in which updates are predicted for rules; `None` if they cannot be predicted.
    /// Returns obstacles.
    pub(super) fn adopt_intervals(
        &mut self,
        predicted: &PredictedIntervals,
        now: Timestamp,
    ) -> Result<Vec<Note>, StalePlan> {
        let (id, margin) = (predicted.source, self.params.step);
        let source = self.sources.get_mut(&id);
        let source = source.filter(|source| source.revision == predicted.made_from).ok_or(StalePlan)?;
        let idle = !source.condition().is_in_progress();
        let Some(pending) = source.pending_intervals.as_mut().filter(|_| idle) else {
            return Err(StalePlan);
        };
        pending.is_predicted = predicted.intervals.is_some();
        for part in self.rule_registry.parts(id) {
            if self.rule_registry.terms(part.rule).is_some_and(|terms| terms.own) {
                pending.open.withdraw(part.rule);
            }
        }
        predicted.intervals.iter().flatten().for_each(|&span| pending.open.add(span));
        let paused = self.hosts.paused_until(source.host);
        let mut notes = source.recompute_next(&self.rule_registry, now, paused, margin);
        notes.extend(self.recompute_due(id, now));
        Ok(notes)
    }

    /// Updates a source's due time after its intervals changed.
    fn recompute_due(&mut self, id: SourceId, now: Timestamp) -> Option<Note> {
        let source = self.sources.get_mut(&id)?;
        let settled = !source.condition().is_in_progress()
            && source.is_well()
            && !matches!(source.memory.reason, Reason::Manual | Reason::FirstContact);
        if !settled {
            return None;
        }
        let for_rules = source.memory.rule.is_some();
        let at = source.memory.due.at()?;
        let due = ProbeProposal { at, because: source.memory.reason, by: source.memory.burst.asked_by };
        let proposal =
            match for_rules || source.pending_intervals.as_ref().is_some_and(|pending| pending.own) {
                // The interval that it was due for may no longer exist.
                true => source.proposal(source.spent.last().unwrap_or(now), self.seed, &self.params.burst),
                false => source.rule_proposal(due),
            };
        // Rules do not delay a probe for items that may have been lost. A probe that no rule needs is not
        // moved forward.
        let later = source.urgency.keeps_its_time() && due.at < proposal.at;
        let sooner = !for_rules && proposal.because != Reason::Rule && proposal.at < due.at;
        let proposal = if later || sooner { due } else { proposal };
        if proposal != due {
            source.withdraw(&mut self.hosts, &mut self.slot_queue);
            source.set_due(&self.hosts, ProbeProposal { at: proposal.at.max(now), ..proposal });
            source.enqueue(&mut self.hosts);
        }
        self.reserve_slot(id, now)
    }

    /// Reserves a slot for a probe that a rule needs, in the last step that has one.
    pub(super) fn reserve_slot(&mut self, id: SourceId, now: Timestamp) -> Option<Note> {
        let length = self.step_length();
        self.reservations.forget_before(length.step_of(now));
        let source = self.sources.get_mut(&id)?;
        let (host, waits) = (source.host, source.memory.reason == Reason::Rule);
        let pending = source.pending_intervals.as_mut()?;
        self.reservations.release(pending.slot.take());
        let next = pending.next.clone().filter(|_| waits)?;
        let due = source.memory.due.at()?;
        let from = next.from.max(now);
        let kept = match self.reservations.reserve(host, (from, due), &self.params) {
            Ok(kept) => kept,
            Err(full) => {
                let why = if full == NoReservation::Host { Obstacle::Host } else { Obstacle::Slots };
                let span = Interval { rule: next.rule, from: next.from, until: next.until };
                return pending.trouble(&span, why, &self.rule_registry, now);
            }
        };
        pending.slot = Some(kept);
        if kept.0 < length.step_of(due) {
            let at = length.start_of(kept.0).max(from);
            // Only if the gate allows it.
            if source.ask_gate(&self.hosts, at).at == at {
                source.withdraw(&mut self.hosts, &mut self.slot_queue);
                source.memory.due = Due::At(at);
                source.enqueue(&mut self.hosts);
            }
        }
        None
    }
}
