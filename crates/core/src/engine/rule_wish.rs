//! What rules want of one source, and what a probe of it means to them.
//!
//! Must not know what rules ask for, nor rates.

use std::sync::Arc;

use crate::planning::budget::Budget;
use crate::planning::execution::{Interval, Limits, RuleId, satisfy};
use crate::planning::policy::Policy;
use crate::planning::rolling;
use crate::time::{Span, Timestamp};

use super::book::RuleRegistry;
use super::gate;
use super::note::Note;
use super::reason::Reason;
use super::serving::NextInterval;
use super::source::{ProbeWish, Source};

/// Of so many spans, those that end first, it is looked how they can be served.
const LOOKED_AT: usize = 256;

/// The look ahead for closed hours.
const CLOSED_AHEAD: Span = Span::from_days(8);

impl Source {
    /// What rules want, if that comes before what its policy does.
    pub(super) fn rule_wish(&self, otherwise: ProbeWish) -> ProbeWish {
        let next = self.serving.as_ref().and_then(|serving| serving.next.as_ref());
        match next.filter(|next| next.at <= otherwise.at) {
            Some(next) => ProbeWish { at: next.at, because: Reason::Rule, by: Policy::Profile },
            None => otherwise,
        }
    }

    /// Rules that it owes a probe at that time, or did before.
    pub(super) fn owed(&self, started: Timestamp) -> Vec<RuleId> {
        let spans = self.serving.iter().flat_map(|serving| serving.open.intervals());
        spans.filter(|span| span.from <= started).map(|span| span.rule).collect()
    }

    /// A look found so many updates, where its rate foretold so many.
    pub(super) fn drifts(&mut self, found: u32, expected: Option<f64>) {
        if let (Some(serving), Some(expected)) = (self.serving.as_mut(), expected) {
            serving.drift.learn(found, expected);
        }
    }

    /// A look was answered: what it served is served. What was not foretold and came too late is told.
    pub(super) fn serve(&mut self, started: Timestamp, book: &RuleRegistry) -> Vec<Note> {
        let Some(serving) = self.serving.as_mut() else { return Vec::new() };
        let probed = serving.open.probed(started);
        let mut notes = Vec::new();
        for missed in probed.missed {
            if let Some(terms) = book.terms(missed.rule).filter(|terms| !terms.own) {
                notes.push(Note::RuleMissed { rule: Arc::clone(&terms.name), until: missed.until });
            }
        }
        notes
    }

    /// Looks anew when the next probe is due for rules. `margin` before a span ends is early enough.
    pub(super) fn settle(
        &mut self,
        book: &RuleRegistry,
        now: Timestamp,
        paused: Option<Timestamp>,
        margin: Span,
    ) -> Vec<Note> {
        let Some(serving) = &self.serving else { return Vec::new() };
        let all = serving.open.intervals();
        let limits = self.limits(all.last().map_or(now, |last| last.until), now, paused);
        let some: Vec<Interval> = all.iter().take(LOOKED_AT).map(|&span| sooner(span, margin)).collect();
        let served = satisfy(&some, &limits);
        let next = served.probes.first().and_then(|&at| {
            let first = some.iter().filter(|span| span.is_served_at(at)).min_by_key(|span| span.until)?;
            let name = Arc::clone(&book.terms(first.rule)?.name);
            Some(NextInterval { at, from: first.from, until: first.until + margin, rule: first.rule, name })
        });
        let Some(serving) = self.serving.as_mut() else { return Vec::new() };
        serving.next = next;
        let dropped = served.dropped.into_iter();
        dropped.filter_map(|(span, why)| serving.trouble(&span, why, book, now)).collect()
    }

    /// What forbids its probes, up to then.
    fn limits(&self, until: Timestamp, now: Timestamp, paused: Option<Timestamp>) -> Limits {
        let memory = &self.memory;
        let apart = rolling::apart(self.terms.budget.min_spacing, &memory.hints, self.fresh_for());
        // Hourly until something is known of it, as for plans.
        let apart = if self.is_cautious() { apart.max(self.cautious_gap()) } else { apart };
        let one_off = [memory.retry_until, memory.backoff_until, memory.fresh_until, paused];
        Limits {
            budget: Budget { min_spacing: apart, ..self.terms.budget },
            spent: self.spent.times().collect(),
            not_before: one_off.into_iter().flatten().fold(now, Timestamp::max),
            closed: gate::skipped(now, until.min(now + CLOSED_AHEAD), &memory.hints),
        }
    }
}

/// The same span, with time to spare at its end.
fn sooner(span: Interval, margin: Span) -> Interval {
    Interval { until: (span.until - margin).max(span.from), ..span }
}
