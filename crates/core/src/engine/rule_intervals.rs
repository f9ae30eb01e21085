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
use super::rule_pending::NextInterval;
use super::rule_registry::RuleRegistry;
use super::source::{ProbeWish, Source};

/// At most this many intervals are scheduled, those that end first.
const LOOKED_AT: usize = 256;

/// How far ahead skipped hours are computed.
const CLOSED_AHEAD: Span = Span::from_days(8);

impl Source {
    /// The probe that rules need, if it is due no later than `otherwise`.
    pub(super) fn rule_wish(&self, otherwise: ProbeWish) -> ProbeWish {
        let next = self.pending_intervals.as_ref().and_then(|serving| serving.next.as_ref());
        match next.filter(|next| next.at <= otherwise.at) {
            Some(next) => ProbeWish { at: next.at, because: Reason::Rule, by: Policy::Profile },
            None => otherwise,
        }
    }

    /// Rules whose intervals had begun by this time and still need a probe.
    pub(super) fn rules_owed(&self, started: Timestamp) -> Vec<RuleId> {
        let spans = self.pending_intervals.iter().flat_map(|serving| serving.open.intervals());
        spans.filter(|span| span.from <= started).map(|span| span.rule).collect()
    }

    /// Updates the drift: a probe found this many updates, and the rate predicted `expected`.
    pub(super) fn learn_drift(&mut self, found: u32, expected: Option<f64>) {
        if let (Some(serving), Some(expected)) = (self.pending_intervals.as_mut(), expected) {
            serving.drift.learn(found, expected);
        }
    }

    /// Closes the intervals that an answered probe served. Returns events for missed intervals of rules
    /// that wait for other sources.
    pub(super) fn mark_served(&mut self, started: Timestamp, book: &RuleRegistry) -> Vec<Note> {
        let Some(serving) = self.pending_intervals.as_mut() else { return Vec::new() };
        let probed = serving.open.probed(started);
        let mut notes = Vec::new();
        for missed in probed.missed {
            if let Some(terms) = book.terms(missed.rule).filter(|terms| !terms.own) {
                notes.push(Note::RuleMissed { rule: Arc::clone(&terms.name), until: missed.until });
            }
        }
        notes
    }

    /// Recomputes the next probe for rules. It is scheduled at least `margin` before an interval ends.
    pub(super) fn recompute_next(
        &mut self,
        book: &RuleRegistry,
        now: Timestamp,
        paused: Option<Timestamp>,
        margin: Span,
    ) -> Vec<Note> {
        let Some(serving) = &self.pending_intervals else { return Vec::new() };
        let all = serving.open.intervals();
        let limits = self.limits(all.last().map_or(now, |last| last.until), now, paused);
        let some: Vec<Interval> = all.iter().take(LOOKED_AT).map(|&span| sooner(span, margin)).collect();
        let served = satisfy(&some, &limits);
        let next = served.probes.first().and_then(|&at| {
            let first = some.iter().filter(|span| span.is_served_at(at)).min_by_key(|span| span.until)?;
            let name = Arc::clone(&book.terms(first.rule)?.name);
            Some(NextInterval { at, from: first.from, until: first.until + margin, rule: first.rule, name })
        });
        let Some(serving) = self.pending_intervals.as_mut() else { return Vec::new() };
        serving.next = next;
        let dropped = served.dropped.into_iter();
        dropped.filter_map(|(span, why)| serving.trouble(&span, why, book, now)).collect()
    }

    /// The limits of its probes up to this time.
    fn limits(&self, until: Timestamp, now: Timestamp, paused: Option<Timestamp>) -> Limits {
        let memory = &self.memory;
        let apart = plan_input::apart(self.terms.budget.min_spacing, &memory.hints, self.fresh_for());
        // Hourly while little is known, as for plans.
        let apart = if self.is_cautious() { apart.max(self.cautious_gap()) } else { apart };
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
