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

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::drift::Drift;
use crate::planning::execution::{Interval, Obstacle, Open, RuleId};
use crate::time::{Span, Timestamp};

use super::book::RuleRegistry;
use super::calendar::Reservation;
use super::note::Note;

/// What a source owes to rules.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PendingIntervals {
    /// Spans that want a probe.
    pub open: Open,
    /// By how much it differs from its rate lately.
    pub drift: Drift,
    /// Some rule waits for its own updates.
    pub own: bool,
    /// Spans were foretold from its rate.
    pub foretold: bool,
    /// When the next probe is due for rules, and for which.
    pub next: Option<NextInterval>,
    /// The slot that is kept for it.
    pub slot: Option<Reservation>,
    /// What was said to be in the way of a rule, and when.
    pub unmet: Vec<(RuleId, Obstacle, Timestamp)>,
}

/// A probe that a rule wants.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NextInterval {
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

impl PendingIntervals {
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
        book: &RuleRegistry,
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
