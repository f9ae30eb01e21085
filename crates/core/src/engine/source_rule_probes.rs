//! The probes that rules need of one source.
//!
//! Must not know the content of rules, nor rates.

use std::sync::Arc;

use crate::planning::budget::Budget;
use crate::planning::execution::{Interval, Limits, RuleId, satisfy};
use crate::planning::plan_input;
use crate::planning::policy::Policy;
use crate::time::{Span, Timestamp};

use super::gate;
use super::note::Note;
use super::reason::Reason;
use super::rule_counts::RuleRegistry;
use super::source::{ProbeProposal, Source};
use super::source_rule_intervals::NextInterval;

/// At most this many intervals are scheduled, those that end first.
const MOST_SCHEDULED: usize = 256;

/// How far ahead skipped hours are computed.
const CLOSED_AHEAD: Span = Span::from_days(8);

impl Source {
    /// The probe that rules need, if it is due no later than `otherwise`.
    pub(super) fn rule_proposal(&self, otherwise: ProbeProposal) -> ProbeProposal {
        let next = self.pending_intervals.as_ref().and_then(|pending| pending.next.as_ref());
        match next.filter(|next| next.at <= otherwise.at) {
            Some(next) => ProbeProposal { at: next.at, because: Reason::Rule, by: Policy::Profile },
            None => otherwise,
        }
    }

    /// Rules whose intervals had begun by this time and still need a probe.
    pub(super) fn rules_pending(&self, started: Timestamp) -> Vec<RuleId> {
        let spans = self.pending_intervals.iter().flat_map(|pending| pending.open.intervals());
        spans.filter(|span| span.from <= started).map(|span| span.rule).collect()
    }

    /// Updates the drift: a probe found this many updates, and the rate predicted `expected`.
    pub(super) fn learn_drift(&mut self, found: u32, expected: Option<f64>) {
        if let (Some(pending), Some(expected)) = (self.pending_intervals.as_mut(), expected) {
            pending.drift.learn(found, expected);
        }
    }

    /// Closes the intervals that an answered probe satisfied. Returns events for missed intervals of rules
    /// that wait for other sources.
    pub(super) fn close_satisfied(&mut self, started: Timestamp, registry: &RuleRegistry) -> Vec<Note> {
        let Some(pending) = self.pending_intervals.as_mut() else { return Vec::new() };
        let probed = pending.open.probed(started);
        let mut notes = Vec::new();
        for missed in probed.missed {
            if let Some(terms) = registry.terms(missed.rule).filter(|terms| !terms.own) {
                notes.push(Note::RuleMissed { rule: Arc::clone(&terms.name), until: missed.until });
            }
        }
        notes
    }

    /// Recomputes the next probe for rules. It is scheduled at least `margin` before an interval ends.
    pub(super) fn recompute_next(
        &mut self,
        registry: &RuleRegistry,
        now: Timestamp,
        paused: Option<Timestamp>,
        margin: Span,
    ) -> Vec<Note> {
        let Some(pending) = &self.pending_intervals else { return Vec::new() };
        let all = pending.open.intervals();
        let limits = self.limits(all.last().map_or(now, |last| last.until), now, paused);
        let some: Vec<Interval> =
            all.iter().take(MOST_SCHEDULED).map(|&span| sooner(span, margin)).collect();
        let satisfied = satisfy(&some, &limits);
        let next = satisfied.probes.first().and_then(|&at| {
            let first =
                some.iter().filter(|span| span.is_satisfied_at(at)).min_by_key(|span| span.until)?;
            let name = Arc::clone(&registry.terms(first.rule)?.name);
            Some(NextInterval { at, from: first.from, until: first.until + margin, rule: first.rule, name })
        });
        let Some(pending) = self.pending_intervals.as_mut() else { return Vec::new() };
        pending.next = next;
        let dropped = satisfied.dropped.into_iter();
        dropped.filter_map(|(span, why)| pending.trouble(&span, why, registry, now)).collect()
    }

    /// The limits of its probes up to this time.
    fn limits(&self, until: Timestamp, now: Timestamp, paused: Option<Timestamp>) -> Limits {
        let memory = &self.memory;
        let apart = plan_input::apart(self.terms.budget.min_spacing, &memory.hints, self.fresh_for());
        Limits {
            budget: Budget { min_spacing: apart, ..self.terms.budget },
            spent: self.spent.times().collect(),
            not_before: memory.allowed_from(now, paused),
            closed: gate::skipped(now, until.min(now + CLOSED_AHEAD), &memory.hints),
        }
    }
}

/// The same interval with its end moved forward by the margin.
fn sooner(span: Interval, margin: Span) -> Interval {
    Interval { until: (span.until - margin).max(span.from), ..span }
}
