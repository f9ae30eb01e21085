//! Counts the updates that rules wait for, and derives matches and notifications.
//!
//! A rule that waits for its own sources counts the updates of each. Every X-th update sends a notification
//! of all matches since the last one. Other rules count the updates of all their trigger sources together.
//! Every X-th update makes such a rule *executable* (Venu Gopal et al., §2.2): until its lifetime ends,
//! matches at its target sources are notified, and each target needs a probe. Knows rules and counts. Must
//! not know the content of items, nor when sources are probed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::planning::execution::RuleId;
use crate::planning::prediction::Lifetime;
use crate::planning::rule::{RulePart, RuleTerms};
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

/// How long a past executable period is kept, so that late probes for it still count.
const KEPT_FOR: Span = Span::from_days(1);

/// All rules, and the sources that concern them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleSet {
    /// By rule number.
    pub terms: Vec<Arc<RuleTerms>>,
    /// The role of each source in rules.
    pub parts: BTreeMap<SourceId, Box<[RulePart]>>,
}

/// All rules and their progress.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct RuleRegistry {
    rules: Vec<Arc<RuleTerms>>,
    numbers: BTreeMap<Arc<str>, RuleId>,
    parts: BTreeMap<SourceId, Box<[RulePart]>>,
    /// The target sources of each rule.
    asked: BTreeMap<RuleId, Vec<SourceId>>,
    /// Updates since the last notification: by rule, and by source where each counts separately.
    counted: BTreeMap<(RuleId, Option<SourceId>), u32>,
    executable: BTreeMap<RuleId, Executable>,
}

/// The period in which a rule that waits for others is executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executable {
    /// Probes sent from this time on count.
    pub since: Timestamp,
    /// The end of the period.
    pub until: Timestamp,
}

/// The matches of one probe for one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMatches {
    /// The rule, by name: a reload may change numbers while a probe is in progress.
    pub rule: Arc<str>,
    /// Indices of the updates found that match.
    pub items: Vec<u32>,
    /// Times of the updates that the rule counts, in order.
    pub counts: Vec<Timestamp>,
}

/// Matches of a rule, and whether to notify now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMatch {
    /// The rule.
    pub rule: Arc<str>,
    /// Indices of the updates found.
    pub items: Vec<u32>,
    /// True: notify now, together with all pending matches. False: the matches stay pending.
    pub deliver_now: bool,
}

/// The progress of a rule, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleState {
    /// The rule's name.
    pub rule: Arc<str>,
    /// The source, where each counts separately.
    pub source: Option<SourceId>,
    /// Updates since the last notification.
    pub counted: u32,
    /// The executable period, if the rule waits for others and was triggered.
    pub executable: Option<Executable>,
}

impl RuleState {
    /// Moves its times after the clock was set.
    pub fn shift(&mut self, by: Span) {
        if let Some(executable) = &mut self.executable {
            (executable.since, executable.until) = (executable.since + by, executable.until + by);
        }
    }
}

/// A probe that was answered.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct AnsweredProbe {
    /// The source.
    pub source: SourceId,
    /// When it was sent.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// The expected time between two updates of the source.
    pub again_after: Span,
}

/// The effects of a probe on rules.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleEffects {
    /// Matches.
    pub notices: Vec<RuleMatch>,
    /// Progress to store.
    pub states: Vec<RuleState>,
    /// Rules that became executable, and until when.
    pub triggered: Vec<(RuleId, Timestamp)>,
    /// Updates that rules waited for.
    pub found: RuleOutcomes,
}

/// The X-th updates with known times that rules waited for at their own sources, and how many of them a probe
/// found within their lifetime. An update of unknown time cannot be judged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleOutcomes {
    /// Number of updates.
    pub updates: u32,
    /// The sum of the confidences of their rules: how many were to be found in time.
    pub confidence: f64,
    /// How many were found in time.
    pub in_time: u32,
}

impl RuleOutcomes {
    /// Counts the X-th ones of these updates, after `counted` earlier ones. They were found by a probe that
    /// `started` then.
    fn count(&mut self, terms: &RuleTerms, counted: u32, counts: &[Timestamp], started: Timestamp) {
        let every = terms.every.max(1) as usize;
        let nth = |&(index, _): &(usize, &Timestamp)| (counted as usize + index + 1).is_multiple_of(every);
        // An update without a date has the time of the answer.
        for (index, &at) in counts.iter().enumerate().filter(nth).filter(|(_, at)| **at < started) {
            let in_time = match terms.life {
                Lifetime::Window(span) => started <= at + span,
                Lifetime::Overwrite => index + 1 == counts.len(),
            };
            self.updates += 1;
            self.confidence += terms.confidence;
            self.in_time += u32::from(in_time);
        }
    }
}

impl RuleRegistry {
    /// A registry of these rules, without progress.
    pub fn new(RuleSet { terms: rules, parts }: RuleSet) -> Self {
        let mut asked: BTreeMap<RuleId, Vec<SourceId>> = BTreeMap::new();
        for (&source, parts) in &parts {
            for part in parts.iter().filter(|part| part.asked) {
                asked.entry(part.rule).or_default().push(source);
            }
        }
        let numbers =
            rules.iter().zip(0..).map(|(rule, at)| (Arc::clone(&rule.name), RuleId(at))).collect();
        Self { rules, numbers, parts, asked, ..Self::default() }
    }

    /// Restores stored progress; entries of unknown rules are skipped.
    pub fn resume(&mut self, states: &[RuleState]) {
        for state in states {
            let Some(&rule) = self.numbers.get(&state.rule) else { continue };
            let every = self.rules[rule.0 as usize].every;
            self.counted.insert((rule, state.source), state.counted.min(every.saturating_sub(1)));
            if let Some(executable) = state.executable {
                self.executable.insert(rule, executable);
            }
        }
    }

    /// Changes every rule, including its name.
    pub(super) fn rename(&mut self, change: impl FnMut(&mut Arc<RuleTerms>)) {
        self.rules.iter_mut().for_each(change);
        self.numbers =
            self.rules.iter().zip(0..).map(|(rule, at)| (Arc::clone(&rule.name), RuleId(at))).collect();
    }

    /// Drops executable periods that ended long ago, or that begin in the future after the clock was set.
    pub(super) fn drop_unlisted(&mut self, now: Timestamp) {
        self.executable.retain(|_, of| of.since <= now && now - of.until < KEPT_FOR);
    }

    /// The progress of all rules, for a registry that replaces this one.
    pub fn states(&self) -> Vec<RuleState> {
        let counted = self.counted.keys().copied();
        let waiting = self.executable.keys().map(|&rule| (rule, None));
        let mut all: Vec<_> = counted.chain(waiting).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().filter_map(|(rule, source)| self.state(rule, source)).collect()
    }

    fn state(&self, rule: RuleId, source: Option<SourceId>) -> Option<RuleState> {
        Some(RuleState {
            rule: Arc::clone(&self.terms(rule)?.name),
            source,
            counted: self.counted.get(&(rule, source)).copied().unwrap_or(0),
            executable: self.executable.get(&rule).copied().filter(|_| source.is_none()),
        })
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The terms of a rule.
    pub fn terms(&self, rule: RuleId) -> Option<&Arc<RuleTerms>> {
        self.rules.get(rule.0 as usize)
    }

    /// The role of a source in rules.
    pub fn parts(&self, source: SourceId) -> &[RulePart] {
        self.parts.get(&source).map_or(&[], |parts| parts)
    }

    /// All sources that concern rules.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> {
        self.parts.keys().copied()
    }

    /// The target sources of a rule.
    pub fn targets(&self, rule: RuleId) -> &[SourceId] {
        self.asked.get(&rule).map_or(&[], |sources| sources)
    }

    /// Executable periods by rule.
    pub fn executables(&self) -> Vec<(RuleId, Executable)> {
        let mut all: Vec<_> =
            self.executable.iter().map(|(&rule, &executable)| (rule, executable)).collect();
        all.sort_unstable_by_key(|&(rule, _)| rule);
        all
    }

    /// Updates of a source that a rule has counted since its last notification.
    pub fn counted(&self, rule: RuleId, source: SourceId) -> u32 {
        self.counted.get(&(rule, Some(source))).copied().unwrap_or(0)
    }

    /// Moves all times after the clock was set.
    pub fn shift(&mut self, by: Span) {
        for executable in self.executable.values_mut() {
            executable.since += by;
            executable.until += by;
        }
    }

    /// Applies an answered probe. `waits` returns whether the source still needs a probe for a rule, even a
    /// late one.
    pub fn apply_matches(
        &mut self,
        probe: AnsweredProbe,
        matches: &[RuleMatches],
        waits: impl Fn(RuleId) -> bool,
    ) -> RuleEffects {
        let mut follows = RuleEffects::default();
        for RuleMatches { rule: name, items, counts } in matches {
            // A rule removed since the probe was sent matches nothing.
            let Some(&rule) = self.numbers.get(name) else { continue };
            let Some(terms) = self.terms(rule).cloned() else { continue };
            let parts = self.parts(probe.source);
            let Some(&part) = parts.iter().find(|part| part.rule == rule) else { continue };
            let whose = terms.own.then_some(probe.source);
            if terms.own && part.asked && part.triggers {
                let before = self.counted(rule, probe.source);
                follows.found.count(&terms, before, counts, probe.started);
            }
            let reached = if part.triggers { self.count(rule, whose, &terms, counts) } else { None };
            if let Some(occurred) = reached.filter(|_| !terms.own) {
                let until = match terms.life {
                    Lifetime::Window(span) => occurred + span,
                    // The next update comes later than this with probability `confidence`.
                    Lifetime::Overwrite => occurred + probe.again_after.scaled(-terms.confidence.ln()),
                };
                let until = until.max(probe.ended);
                // Triggered again before the end: probes since the first trigger still count.
                let before = self.executable.get(&rule).filter(|before| before.until >= probe.started);
                let since = before.map_or(probe.started, |before| before.since);
                let lasts = before.map_or(until, |before| before.until.max(until));
                self.executable.insert(rule, Executable { since, until: lasts });
                follows.triggered.push((rule, until));
            }
            if part.triggers && !counts.is_empty() {
                follows.states.extend(self.state(rule, whose));
            }
            let heeded = terms.own || self.is_executable(rule, probe.started) || waits(rule);
            if part.asked && heeded && (!items.is_empty() || terms.own && reached.is_some()) {
                let notify = !terms.own || reached.is_some();
                follows.notices.push(RuleMatch {
                    rule: Arc::clone(name),
                    items: items.clone(),
                    deliver_now: notify,
                });
            }
        }
        follows
    }

    /// Adds to the count. Returns the time of the last update that completed X, if one did.
    fn count(
        &mut self,
        rule: RuleId,
        whose: Option<SourceId>,
        terms: &RuleTerms,
        counts: &[Timestamp],
    ) -> Option<Timestamp> {
        let every = terms.every.max(1) as usize;
        let counted = self.counted.entry((rule, whose)).or_default();
        let before = *counted as usize;
        let all = before + counts.len();
        *counted = u32::try_from(all % every).unwrap_or(0);
        let last = (all - all % every).checked_sub(before + 1)?;
        counts.get(last).copied()
    }

    fn is_executable(&self, rule: RuleId, at: Timestamp) -> bool {
        self.executable.get(&rule).is_some_and(|of| of.since <= at && at <= of.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::active::ActiveHours;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn terms(own: bool, every: u32) -> Arc<RuleTerms> {
        let (name, life) = ("p/r".into(), Lifetime::Window(Span::from_secs(100)));
        Arc::new(RuleTerms { name, own, every, life, confidence: 0.9, active: ActiveHours::default() })
    }

    fn rules(terms: Arc<RuleTerms>, parts: BTreeMap<SourceId, Box<[RulePart]>>) -> RuleSet {
        RuleSet { terms: vec![terms], parts }
    }

    fn answered(source: i64, secs: i64) -> AnsweredProbe {
        let (started, ended) = (at(secs), at(secs + 1));
        AnsweredProbe { source: SourceId(source), started, ended, again_after: Span::from_hours(1) }
    }

    fn matches(items: &[u32], counts: &[i64]) -> Vec<RuleMatches> {
        let counts = counts.iter().map(|&secs| at(secs)).collect();
        vec![RuleMatches { rule: "p/r".into(), items: items.to_vec(), counts }]
    }

    fn part(asked: bool, triggers: bool) -> Box<[RulePart]> {
        Box::new([RulePart { rule: RuleId(0), asked, triggers }])
    }

    #[test]
    fn updates_found_within_their_lifetime_are_counted() {
        let parts = BTreeMap::from([(SourceId(1), part(true, true))]);
        let found = |terms: Arc<RuleTerms>, started: i64, counts: &[i64]| {
            let mut registry = RuleRegistry::new(rules(terms, parts.clone()));
            // One update was counted before.
            registry.apply_matches(answered(1, 10), &matches(&[], &[5]), |_| false);
            let found =
                registry.apply_matches(answered(1, started), &matches(&[], counts), |_| false).found;
            (found.updates, found.in_time, (found.confidence * 10.0).round() as u32)
        };
        assert_eq!(found(terms(true, 1), 150, &[20, 60, 149]), (3, 2, 27), "a window of 100 seconds");
        assert_eq!(found(terms(true, 3), 150, &[20, 40, 140]), (1, 0, 9), "the third is at 40");
        assert_eq!(found(terms(true, 1), 150, &[150]), (0, 0, 0), "of unknown time");
        assert_eq!(found(terms(false, 1), 150, &[140]), (0, 0, 0), "waits for other sources");
        let overwritten = |every| {
            let life = Lifetime::Overwrite;
            Arc::new(RuleTerms { life, ..RuleTerms::clone(&terms(true, every)) })
        };
        assert_eq!(found(overwritten(1), 150, &[20, 60]), (2, 1, 18));
        assert_eq!(found(overwritten(2), 9000, &[20]), (1, 1, 9));
    }

    #[test]
    fn every_third_update_notifies_and_counts_survive_a_restart() {
        let parts = BTreeMap::from([(SourceId(1), part(true, true)), (SourceId(2), part(true, true))]);
        let mut registry = RuleRegistry::new(rules(terms(true, 3), parts.clone()));
        let notifies = |registry: &mut RuleRegistry, source, matches: &[RuleMatches]| {
            let follows = registry.apply_matches(answered(source, 10), matches, |_| false);
            follows.notices.iter().map(|notice| notice.deliver_now).collect::<Vec<_>>()
        };
        assert_eq!(notifies(&mut registry, 1, &matches(&[0, 1], &[5, 6])), [false]);
        assert_eq!(
            notifies(&mut registry, 2, &matches(&[0], &[5])),
            [false],
            "each source counts separately"
        );
        let mut again = RuleRegistry::new(rules(terms(true, 3), parts));
        again.resume(&registry.states());
        assert_eq!(again.counted(RuleId(0), SourceId(1)), 2);
        assert_eq!(notifies(&mut again, 1, &matches(&[], &[7])), [true], "with pending matches");
        assert_eq!(again.counted(RuleId(0), SourceId(1)), 0);
        assert_eq!(notifies(&mut again, 1, &matches(&[0], &[8, 9, 10, 11])), [true]);
        assert_eq!(again.counted(RuleId(0), SourceId(1)), 1);
    }

    #[test]
    fn a_triggered_rule_matches_only_while_executable() {
        let parts = BTreeMap::from([(SourceId(1), part(false, true)), (SourceId(2), part(true, false))]);
        let mut registry = RuleRegistry::new(rules(terms(false, 2), parts));
        let page = |registry: &mut RuleRegistry, secs, waits| {
            registry.apply_matches(answered(2, secs), &matches(&[0], &[]), |_| waits).notices.len()
        };
        assert_eq!(page(&mut registry, 10, false), 0, "not triggered");
        assert!(
            registry.apply_matches(answered(1, 20), &matches(&[], &[15]), |_| false).triggered.is_empty()
        );
        let follows = registry.apply_matches(answered(1, 30), &matches(&[], &[25]), |_| false);
        assert_eq!(follows.triggered, [(RuleId(0), at(125))], "from the time of the update");
        assert_eq!(follows.states[0].executable, Some(Executable { since: at(30), until: at(125) }));
        assert_eq!(page(&mut registry, 29, false), 0, "sent before the trigger");
        assert_eq!(page(&mut registry, 60, false), 1);
        assert_eq!(page(&mut registry, 120, false), 1, "a second time");
        assert_eq!(page(&mut registry, 126, false), 0, "after the end");
        assert_eq!(page(&mut registry, 126, true), 1, "after the end, but still pending");
    }
}
