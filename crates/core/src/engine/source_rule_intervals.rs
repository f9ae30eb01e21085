//! The intervals of one source that still need a probe for rules, and the next such probe.
//!
//! Intervals of rules that wait for the source itself are predicted from its rate after every probe
//! (fbSUP). The rate is corrected by the drift of recent probes until it is fitted again (SUP(λ)).
//! Intervals of other rules open when those are triggered. SUP computes the next probe from all of them;
//! the policy may request an earlier one, and the gate decides last. An interval that cannot be satisfied is
//! reported as soon as that is predictable. Must not know the content of rules, nor rates.

use serde::{Deserialize, Serialize};
use std::sync::Arc;

use crate::model::drift::Drift;
use crate::planning::execution::{Interval, Obstacle, OpenIntervals, RuleId};
use crate::time::{Span, Timestamp};

use super::note::Note;
use super::rule_counts::RuleRegistry;
use super::slot_reservations::Reservation;

/// The intervals of a source for rules.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct PendingIntervals {
    /// Intervals that need a probe.
    pub open: OpenIntervals,
    /// The recent deviation from its rate.
    pub drift: Drift,
    /// Whether a rule waits for its own updates.
    pub own: bool,
    /// Whether intervals were predicted from its rate.
    pub is_predicted: bool,
    /// The next probe for rules.
    pub next: Option<NextInterval>,
    /// The slot reserved for it.
    pub slot: Option<Reservation>,
    /// Obstacles reported per rule, and when.
    pub unmet: Vec<(RuleId, Obstacle, Timestamp)>,
}

/// A probe that a rule needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct NextInterval {
    /// The due time, as late as possible.
    pub at: Timestamp,
    /// Not before.
    pub from: Timestamp,
    /// The earliest end of the intervals that it satisfies.
    pub until: Timestamp,
    /// The rule of that interval.
    pub rule: RuleId,
    /// The rule's name.
    pub name: Arc<str>,
}

/// The same obstacle of the same rule is reported again after this time.
const REPORTED_AGAIN_AFTER: Span = Span::from_days(1);

impl PendingIntervals {
    /// Moves all times after the clock was set.
    pub(super) fn shift(&mut self, by: Span) {
        self.open.shift(by);
        if let Some(next) = &mut self.next {
            (next.at, next.from, next.until) = (next.at + by, next.from + by, next.until + by);
        }
        self.slot = None;
        self.unmet.clear();
    }

    /// An event for an obstacle, unless it was reported recently.
    pub(super) fn trouble(
        &mut self,
        span: &Interval,
        why: Obstacle,
        registry: &RuleRegistry,
        now: Timestamp,
    ) -> Option<Note> {
        self.unmet.retain(|&(_, _, reported)| reported <= now && now - reported < REPORTED_AGAIN_AFTER);
        if self.unmet.iter().any(|&(rule, known, _)| (rule, known) == (span.rule, why)) {
            return None;
        }
        self.unmet.push((span.rule, why, now));
        let rule = Arc::clone(&registry.terms(span.rule)?.name);
        Some(Note::RuleUnmet { rule, until: span.until, why })
    }
}
