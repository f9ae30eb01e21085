//! A source that serves rules: which spans still want a probe, when the next one is due for them, and what
//! is in the way.
//!
//! Spans are of two kinds. Those of rules that wait for the source itself are foretold from its rate by
//! whoever knows that, anew after every look (fbSUP), with the rate moved by what looks found more or less
//! than it foretells, until it is fitted again (SUP(λ)). Those of rules that wait for others come when
//! these come. Among all of them SUP says when the next probe is due; the source's own policy may ask for
//! one sooner, and the gate has the last word as ever. What cannot be served is said as soon as that is
//! foreseen.
//!
//! Must not know what rules ask for, nor rates.

use std::sync::Arc;

use crate::model::drift::Drift;
use crate::planning::budget::Budget;
use crate::planning::execution::{Interval, Limits, Obstacle, Open, RuleId, satisfy};
use crate::planning::policy::Policy;
use crate::planning::rolling;
use crate::time::{Span, Timestamp};

use super::absorb::Note;
use super::book::Book;
use super::calendar::Kept;
use super::gate;
use super::source::{Member, Reason, Wish};

/// What a source owes to rules.
#[derive(Debug, Clone, Default)]
pub(super) struct Serving {
    /// Spans that want a probe.
    pub open: Open,
    /// By how much it differs from its rate lately.
    pub drift: Drift,
    /// Some rule waits for its own updates.
    pub own: bool,
    /// Spans were foretold from its rate.
    pub foretold: bool,
    /// When the next probe is due for rules, and for which.
    pub next: Option<Next>,
    /// The slot that is kept for it.
    pub slot: Option<Kept>,
    /// What was said to be in the way of a rule, and when.
    pub unmet: Vec<(RuleId, Obstacle, Timestamp)>,
}

/// A probe that a rule wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Next {
    /// As late as may be.
    pub at: Timestamp,
    /// Not before.
    pub from: Timestamp,
    /// The span that ends first of those that it serves.
    pub until: Timestamp,
    /// Whose.
    pub rule: RuleId,
    /// As people know it.
    pub name: Arc<str>,
}

/// The same trouble of the same rule is told again after this.
const TOLD_AGAIN: Span = Span::from_days(1);

/// Of so many spans, those that end first, it is looked how they can be served.
const LOOKED_AT: usize = 256;

/// The look ahead for closed hours.
const CLOSED_AHEAD: Span = Span::from_days(8);

impl Member {
    /// What rules want, if that comes before what its policy does.
    pub(super) fn rule_wish(&self, otherwise: Wish) -> Wish {
        let next = self.serving.as_ref().and_then(|serving| serving.next.as_ref());
        match next.filter(|next| next.at <= otherwise.at) {
            Some(next) => Wish { at: next.at, because: Reason::Rule, by: Policy::Profile },
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
    pub(super) fn serve(&mut self, started: Timestamp, book: &Book) -> Vec<Note> {
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
        book: &Book,
        now: Timestamp,
        paused: Timestamp,
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
            Some(Next { at, from: first.from, until: first.until + margin, rule: first.rule, name })
        });
        let Some(serving) = self.serving.as_mut() else { return Vec::new() };
        serving.next = next;
        let dropped = served.dropped.into_iter();
        dropped.filter_map(|(span, why)| serving.trouble(&span, why, book, now)).collect()
    }

    /// What forbids its probes, up to then.
    fn limits(&self, until: Timestamp, now: Timestamp, paused: Timestamp) -> Limits {
        let memory = &self.memory;
        let apart = rolling::apart(self.terms.budget.min_spacing, &memory.hints, self.fresh_for());
        // Hourly until something is known of it, as for plans.
        let apart = if self.is_cautious() { apart.max(self.cautious_gap()) } else { apart };
        let one_off = [memory.retry_until, memory.backoff_until, memory.fresh_until];
        Limits {
            budget: Budget { min_spacing: apart, ..self.terms.budget },
            spent: self.spent.times().collect(),
            not_before: one_off.into_iter().flatten().fold(now.max(paused), Timestamp::max),
            closed: gate::skipped(now, until.min(now + CLOSED_AHEAD), &memory.hints),
        }
    }
}

/// The same span, with time to spare at its end.
fn sooner(span: Interval, margin: Span) -> Interval {
    Interval { until: (span.until - margin).max(span.from), ..span }
}

impl Serving {
    /// Moves with the clock.
    pub(super) fn shift(&mut self, by: Span) {
        self.open.shift(by);
        if let Some(next) = &mut self.next {
            (next.at, next.from, next.until) = (next.at + by, next.from + by, next.until + by);
        }
        self.slot = None;
        self.unmet.clear();
    }

    /// What is to be said of trouble, unless it was said lately.
    pub(super) fn trouble(
        &mut self,
        span: &Interval,
        why: Obstacle,
        book: &Book,
        now: Timestamp,
    ) -> Option<Note> {
        self.unmet.retain(|&(_, _, said)| said <= now && now - said < TOLD_AGAIN);
        if self.unmet.iter().any(|&(rule, known, _)| (rule, known) == (span.rule, why)) {
            return None;
        }
        self.unmet.push((span.rule, why, now));
        let rule = Arc::clone(&book.terms(span.rule)?.name);
        Some(Note::RuleUnmet { rule, until: span.until, why })
    }
}
