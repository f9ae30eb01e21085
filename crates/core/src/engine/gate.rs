//! The politeness gate: from when a probe is allowed, and what defers it.
//!
//! Every rule is one [`Constraint`] with the time until which it holds; the latest one binds. The daemon
//! and `tidewatch explain` use the same list. A refusal is always a deferral with a time. Knows one source
//! and its host's pause; must not know how a probe is sent.

use crate::observe::FeedHints;
use crate::planning::budget::{Budget, Spent};
use crate::time::{Span, Timestamp};

use super::constraint::Constraint;
use super::source_memory::SourceMemory;

/// From when a probe is allowed, and the constraint that defers it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GateVerdict {
    /// The first allowed time.
    pub at: Timestamp,
    /// The constraint that defers it beyond the requested time, if any.
    pub binding: Option<Constraint>,
}

/// Every constraint that applies to this source, with the time until which it holds.
pub fn constraints(memory: &SourceMemory, spent: &Spent, budget: &Budget) -> Vec<(Constraint, Timestamp)> {
    let mut list = Vec::new();
    let mut say = |constraint, until: Option<Timestamp>| {
        if let Some(until) = until.filter(|&until| until > Timestamp::MIN) {
            list.push((constraint, until));
        }
    };
    // Spent probes are kept for T only, and a feed may ask for a longer gap.
    let last = spent.last().max(memory.last_probe);
    let since_last = |span: Option<Span>| Some(last? + span?);
    // Also after a probe that is not charged.
    say(Constraint::Spacing, since_last(Some(budget.min_spacing)));
    say(Constraint::Budget, Some(spent.budget_allows(budget)));
    for (constraint, until) in memory.not_before() {
        say(constraint, until);
    }
    say(Constraint::Ttl, since_last(memory.hints.ttl));
    say(Constraint::UpdatePeriod, since_last(memory.hints.update_period));
    list
}

/// The first allowed time at or after `wanted`.
pub fn verdict(
    wanted: Timestamp,
    memory: &SourceMemory,
    spent: &Spent,
    budget: &Budget,
    host_paused_until: Option<Timestamp>,
) -> GateVerdict {
    let mut verdict = GateVerdict { at: wanted, binding: None };
    let pause = host_paused_until.map(|until| (Constraint::HostPause, until));
    for (constraint, until) in constraints(memory, spent, budget).into_iter().chain(pause) {
        if until > verdict.at {
            verdict = GateVerdict { at: until, binding: Some(constraint) };
        }
    }
    // Last, because it is the only one that is not a simple "not before".
    let open = past_skips(verdict.at, &memory.hints);
    if open > verdict.at {
        verdict = GateVerdict { at: open, binding: Some(Constraint::Skip) };
    }
    verdict
}

/// Milliseconds.
const HOUR: i64 = 3_600_000;

/// The skipped spans between two times, ascending, disjoint and half-open.
pub fn skipped(from: Timestamp, until: Timestamp, hints: &FeedHints) -> Vec<(Timestamp, Timestamp)> {
    let mut spans = Vec::new();
    let mut at = from;
    while (hints.skip_hours != 0 || hints.skip_days != 0) && at < until {
        let open = past_skips(at, hints);
        if open > at {
            spans.push((at, open));
        }
        at = Timestamp::from_millis((open.as_millis().div_euclid(HOUR) + 1).saturating_mul(HOUR));
    }
    spans
}

/// The first time at or after `at` outside all skipped hours and days (UTC, as in RSS).
pub fn past_skips(at: Timestamp, hints: &FeedHints) -> Timestamp {
    if (hints.skip_hours == 0 && hints.skip_days == 0) || at == Timestamp::MAX {
        return at;
    }
    let skipped = |t: Timestamp| {
        hints.skip_hours >> t.utc_hour() & 1 == 1 || hints.skip_days >> t.utc_weekday() & 1 == 1
    };
    if !skipped(at) {
        return at;
    }
    let next_hour = at.as_millis().div_euclid(HOUR) + 1;
    // A week of hours covers every combination. If all are skipped, the hints are ignored.
    (next_hour..next_hour + 7 * 24)
        .map(|hour| Timestamp::from_millis(hour * HOUR))
        .find(|&t| !skipped(t))
        .unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp::parse_iso(text).expect("valid")
    }

    #[test]
    fn the_latest_constraint_binds_and_skips_come_last() {
        let budget = Budget { probes: 2, per: Span::from_hours(4), min_spacing: Span::from_mins(15) };
        let mut spent = Spent::default();
        spent.note(at("2026-11-16T08:00:00Z"), &budget);
        spent.note(at("2026-11-16T09:00:00Z"), &budget);
        let mut memory = SourceMemory::default();
        let wanted = at("2026-11-16T09:05:00Z");
        let ask = |memory: &SourceMemory, pause| verdict(wanted, memory, &spent, &budget, pause);

        let by_budget = ask(&memory, None);
        assert_eq!(by_budget.at, at("2026-11-16T12:00:00Z"));
        assert_eq!(by_budget.binding, Some(Constraint::Budget));

        memory.hints = FeedHints { skip_hours: 1 << 12 | 1 << 13, ..FeedHints::default() };
        let by_skip = ask(&memory, None);
        assert_eq!(by_skip.at, at("2026-11-16T14:00:00Z"));
        assert_eq!(by_skip.binding, Some(Constraint::Skip));

        memory.hints.skip_days = 1;
        assert_eq!(ask(&memory, None).at, at("2026-11-17T00:00:00Z"));

        let by_host = ask(&memory, Some(at("2026-11-18T00:30:00Z")));
        assert_eq!(by_host.at, at("2026-11-18T00:30:00Z"));
        assert_eq!(by_host.binding, Some(Constraint::HostPause));
    }

    #[test]
    fn hints_that_skip_every_hour_are_ignored() {
        let hints = FeedHints { skip_hours: 0xFF_FFFF, ..FeedHints::default() };
        let t = at("2026-11-16T09:05:00Z");
        assert_eq!(past_skips(t, &hints), t);
    }
}
