//! Matches the updates of a probe against rules.
//!
//! The engine counts matches and does not read items; this module evaluates the queries. The daemon and the
//! simulator share it. An edit of a known item is not an update for a rule.

use std::sync::Arc;

use crate::engine::rule_counts::RuleMatches;
use crate::observe::query::QueryCondition;
use crate::observe::{Occurred, Update, UpdateKind};
use crate::planning::execution::RuleId;
use crate::planning::rule::{RulePart, RuleTerms};
use crate::time::Timestamp;

/// A rule's terms and its conditions on updates; `None` matches all.
#[derive(Debug, Clone, Copy)]
pub struct RuleQuery<'q> {
    /// Its terms.
    pub terms: &'q RuleTerms,
    /// The updates it queries.
    pub wanted: Option<&'q QueryCondition>,
    /// The updates that trigger it.
    pub counts: Option<&'q QueryCondition>,
}

/// The matches of these updates for each rule of the source. Rules without a match are omitted.
pub fn match_rules<'q>(
    parts: &[RulePart],
    query: impl Fn(RuleId) -> Option<RuleQuery<'q>>,
    updates: &[Update],
) -> Vec<RuleMatches> {
    let matched = parts.iter().filter_map(|part| Some(match_rule(*part, query(part.rule)?, updates)));
    matched.filter(|matches| !matches.items.is_empty() || !matches.counts.is_empty()).collect()
}

fn match_rule(part: RulePart, query: RuleQuery<'_>, updates: &[Update]) -> RuleMatches {
    let rule = Arc::clone(&query.terms.name);
    let mut matches = RuleMatches { rule, items: Vec::new(), counts: Vec::new() };
    for (index, update) in updates.iter().enumerate() {
        let at = latest(update);
        if update.kind == UpdateKind::Edited || !query.terms.active.holds(at) {
            continue;
        }
        if part.asked && holds(query.wanted, update) {
            matches.items.push(u32::try_from(index).unwrap_or(u32::MAX));
        }
        if part.triggers && holds(query.counts, update) {
            matches.counts.push(at);
        }
    }
    matches.counts.sort_unstable();
    matches
}

/// The latest possible time of the update: the lifetime of a match begins no earlier.
fn latest(update: &Update) -> Timestamp {
    match update.occurred {
        Occurred::At(at) | Occurred::Between(_, at) => at,
    }
}

fn holds(condition: Option<&QueryCondition>, update: &Update) -> bool {
    condition.is_none_or(|condition| condition.holds(&update.fields()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::active::ActiveHours;
    use crate::planning::prediction::Lifetime;
    use crate::time::Span;

    fn update(kind: UpdateKind, secs: i64, title: Option<&str>) -> Update {
        let bare = Update::bare(kind, Occurred::At(Timestamp::from_secs(secs)), "k");
        Update { title: title.map(str::to_owned), ..bare }
    }

    #[test]
    fn matches_depend_on_conditions_hours_and_parts() {
        let active = ActiveHours { from: Some(Timestamp::from_secs(10)), ..ActiveHours::default() };
        let life = Lifetime::Window(Span::from_mins(5));
        let terms = RuleTerms { name: "p/r".into(), own: true, every: 1, life, confidence: 0.9, active };
        let release = QueryCondition::parse("title contains \"release\"").unwrap();
        let updates = [
            update(UpdateKind::New, 30, Some("a release")),
            update(UpdateKind::New, 20, None),
            update(UpdateKind::Edited, 25, Some("a release")),
            update(UpdateKind::New, 5, Some("a release")),
        ];
        let matches = |asked, triggers, wanted| {
            let part = RulePart { rule: RuleId(0), asked, triggers };
            let query = |_| Some(RuleQuery { terms: &terms, wanted, counts: None });
            match_rules(&[part], query, &updates)
        };
        let found = matches(true, true, Some(&release));
        assert_eq!((&found[0].items[..], found[0].counts.len()), (&[0][..], 2));
        assert!(found[0].counts.is_sorted());
        assert_eq!(matches(true, false, None)[0].items, [0, 1]);
        assert!(matches(false, false, None).is_empty());
    }
}
