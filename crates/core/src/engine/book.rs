//! What rules wait for, and what follows when it comes.
//!
//! A rule that waits for its own sources counts the updates of each; with every X-th one somebody is told
//! of all that was caught since the last time. A rule that waits for others counts theirs all together;
//! with every X-th one it becomes *executable* (Venu Gopal et al., §2.2): for as long as its life lasts,
//! what is caught at the sources that it asks about is told, and each of them wants a probe.
//!
//! Knows rules and counts. Must not know what items say, nor when anyone is probed.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::planning::execution::RuleId;
use crate::planning::prediction::Life;
use crate::planning::rule::{Part, RuleTerms};
use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

/// For so long it is remembered that a rule was executable: who still owes it a look is heard.
const REMEMBERED: Span = Span::from_days(1);

/// All rules, and which sources concern them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RuleSet {
    /// By their numbers.
    pub terms: Vec<Arc<RuleTerms>>,
    /// What sources are to rules.
    pub parts: BTreeMap<SourceId, Box<[Part]>>,
}

/// All rules and how far they are.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct RuleRegistry {
    rules: Vec<Arc<RuleTerms>>,
    numbers: BTreeMap<Arc<str>, RuleId>,
    parts: BTreeMap<SourceId, Box<[Part]>>,
    /// Whom rules ask about.
    asked: BTreeMap<RuleId, Vec<SourceId>>,
    /// Since somebody was last told: by rule, and by source where each counts for itself.
    counted: BTreeMap<(RuleId, Option<SourceId>), u32>,
    executable: BTreeMap<RuleId, Executable>,
}

/// When a rule that waits for others is executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Executable {
    /// Probes that are sent from then on count.
    pub since: Timestamp,
    /// Until then.
    pub until: Timestamp,
}

/// What a look means to a rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMatches {
    /// To which, by name: a reload may change the numbers while a probe is in progress.
    pub rule: Arc<str>,
    /// Which of the updates found it asks for.
    pub caught: Vec<u32>,
    /// When those occurred that it waits for, in their order.
    pub counts: Vec<Timestamp>,
}

/// What was caught, and whether somebody is to be told now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleMatch {
    /// By which rule.
    pub rule: Arc<str>,
    /// Which of the updates found.
    pub caught: Vec<u32>,
    /// Now, with all that waits to be told; else it waits too.
    pub tells: bool,
}

/// How far a rule is, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleState {
    /// As people know it.
    pub rule: Arc<str>,
    /// For which of its sources, where each counts for itself.
    pub source: Option<SourceId>,
    /// Updates since somebody was last told.
    pub counted: u32,
    /// When it is executable, if it waits for others and they came.
    pub executable: Option<Executable>,
}

/// A look at a source.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct AnsweredProbe {
    /// Whom.
    pub source: SourceId,
    /// When it was sent.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Timestamp,
    /// After how long the source is updated again in the mean.
    pub again_after: Span,
}

/// What follows from a look.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleEffects {
    /// What was caught.
    pub notices: Vec<RuleMatch>,
    /// What is to be remembered.
    pub states: Vec<RuleState>,
    /// Rules that became executable, and until when.
    pub triggered: Vec<(RuleId, Timestamp)>,
}

impl RuleRegistry {
    /// These rules.
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

    /// Goes on from what is remembered; what is of no rule any more is left out.
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

    /// Changes every rule, its name included.
    pub(super) fn rename(&mut self, change: impl FnMut(&mut Arc<RuleTerms>)) {
        self.rules.iter_mut().for_each(change);
        self.numbers =
            self.rules.iter().zip(0..).map(|(rule, at)| (Arc::clone(&rule.name), RuleId(at))).collect();
    }

    /// Forgets when rules were executable that have long not been, or will be by a clock that was set.
    pub(super) fn tidy(&mut self, now: Timestamp) {
        self.executable.retain(|_, of| of.since <= now && now - of.until < REMEMBERED);
    }

    /// How far all rules are, for a book that takes this one's place.
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

    /// What a rule asks.
    pub fn terms(&self, rule: RuleId) -> Option<&Arc<RuleTerms>> {
        self.rules.get(rule.0 as usize)
    }

    /// What a source is to rules.
    pub fn parts(&self, source: SourceId) -> &[Part] {
        self.parts.get(&source).map_or(&[], |parts| parts)
    }

    /// Sources that have to do with rules.
    pub fn sources(&self) -> impl Iterator<Item = SourceId> {
        self.parts.keys().copied()
    }

    /// Whom a rule asks about.
    pub fn asked(&self, rule: RuleId) -> &[SourceId] {
        self.asked.get(&rule).map_or(&[], |sources| sources)
    }

    /// Rules that are executable, and when.
    pub fn executables(&self) -> Vec<(RuleId, Executable)> {
        let mut all: Vec<_> =
            self.executable.iter().map(|(&rule, &executable)| (rule, executable)).collect();
        all.sort_unstable_by_key(|&(rule, _)| rule);
        all
    }

    /// How many of a source's updates a rule that waits for them has counted since it last told.
    pub fn counted(&self, rule: RuleId, source: SourceId) -> u32 {
        self.counted.get(&(rule, Some(source))).copied().unwrap_or(0)
    }

    /// Moves with the clock.
    pub fn shift(&mut self, by: Span) {
        for executable in self.executable.values_mut() {
            executable.since += by;
            executable.until += by;
        }
    }

    /// Takes in a look. `waits` says whether the source still owes a rule a probe, however late.
    pub fn hear(
        &mut self,
        look: AnsweredProbe,
        told: &[RuleMatches],
        waits: impl Fn(RuleId) -> bool,
    ) -> RuleEffects {
        let mut follows = RuleEffects::default();
        for RuleMatches { rule: name, caught, counts } in told {
            // A rule that is gone since the probe was sent matches nothing.
            let Some(&rule) = self.numbers.get(name) else { continue };
            let Some(terms) = self.terms(rule).cloned() else { continue };
            let parts = self.parts(look.source);
            let Some(&part) = parts.iter().find(|part| part.rule == rule) else { continue };
            let whose = terms.own.then_some(look.source);
            let reached = if part.triggers { self.count(rule, whose, &terms, counts) } else { None };
            if let Some(occurred) = reached.filter(|_| !terms.own) {
                let until = match terms.life {
                    Life::Window(span) => occurred + span,
                    // With that chance there is none before.
                    Life::Overwrite => occurred + look.again_after.scaled(-terms.confidence.ln()),
                };
                let until = until.max(look.ended);
                // Set off again before it was over: what was sent for the first time still counts.
                let before = self.executable.get(&rule).filter(|before| before.until >= look.started);
                let since = before.map_or(look.started, |before| before.since);
                let lasts = before.map_or(until, |before| before.until.max(until));
                self.executable.insert(rule, Executable { since, until: lasts });
                follows.triggered.push((rule, until));
            }
            if part.triggers && !counts.is_empty() {
                follows.states.extend(self.state(rule, whose));
            }
            let heeded = terms.own || self.is_executable(rule, look.started) || waits(rule);
            if part.asked && heeded && (!caught.is_empty() || terms.own && reached.is_some()) {
                let tells = !terms.own || reached.is_some();
                follows.notices.push(RuleMatch { rule: Arc::clone(name), caught: caught.clone(), tells });
            }
        }
        follows
    }

    /// Counts; says when the last one occurred with which X were reached, if so.
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
    use crate::planning::active::Active;

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_secs(secs)
    }

    fn terms(own: bool, every: u32) -> Arc<RuleTerms> {
        let (name, life) = ("p/r".into(), Life::Window(Span::from_secs(100)));
        Arc::new(RuleTerms { name, own, every, life, confidence: 0.9, active: Active::default() })
    }

    fn rules(terms: Arc<RuleTerms>, parts: BTreeMap<SourceId, Box<[Part]>>) -> RuleSet {
        RuleSet { terms: vec![terms], parts }
    }

    fn look(source: i64, secs: i64) -> AnsweredProbe {
        let (started, ended) = (at(secs), at(secs + 1));
        AnsweredProbe { source: SourceId(source), started, ended, again_after: Span::from_hours(1) }
    }

    fn told(caught: &[u32], counts: &[i64]) -> Vec<RuleMatches> {
        let counts = counts.iter().map(|&secs| at(secs)).collect();
        vec![RuleMatches { rule: "p/r".into(), caught: caught.to_vec(), counts }]
    }

    fn part(asked: bool, triggers: bool) -> Box<[Part]> {
        Box::new([Part { rule: RuleId(0), asked, triggers }])
    }

    #[test]
    fn every_third_update_tells_of_all_since_and_a_restart_forgets_nothing() {
        let parts = BTreeMap::from([(SourceId(1), part(true, true)), (SourceId(2), part(true, true))]);
        let mut book = RuleRegistry::new(rules(terms(true, 3), parts.clone()));
        let tells = |book: &mut RuleRegistry, source, told: &[RuleMatches]| {
            let follows = book.hear(look(source, 10), told, |_| false);
            follows.notices.iter().map(|notice| notice.tells).collect::<Vec<_>>()
        };
        assert_eq!(tells(&mut book, 1, &told(&[0, 1], &[5, 6])), [false]);
        assert_eq!(tells(&mut book, 2, &told(&[0], &[5])), [false], "each counts for itself");
        let mut again = RuleRegistry::new(rules(terms(true, 3), parts));
        again.resume(&book.states());
        assert_eq!(again.counted(RuleId(0), SourceId(1)), 2);
        assert_eq!(tells(&mut again, 1, &told(&[], &[7])), [true], "with what waits");
        assert_eq!(again.counted(RuleId(0), SourceId(1)), 0);
        assert_eq!(tells(&mut again, 1, &told(&[0], &[8, 9, 10, 11])), [true]);
        assert_eq!(again.counted(RuleId(0), SourceId(1)), 1);
    }

    #[test]
    fn a_rule_that_waits_for_others_hears_only_while_it_is_executable() {
        let parts = BTreeMap::from([(SourceId(1), part(false, true)), (SourceId(2), part(true, false))]);
        let mut book = RuleRegistry::new(rules(terms(false, 2), parts));
        let page = |book: &mut RuleRegistry, secs, waits| {
            book.hear(look(2, secs), &told(&[0], &[]), |_| waits).notices.len()
        };
        assert_eq!(page(&mut book, 10, false), 0, "nothing has set it off");
        assert!(book.hear(look(1, 20), &told(&[], &[15]), |_| false).triggered.is_empty());
        let follows = book.hear(look(1, 30), &told(&[], &[25]), |_| false);
        assert_eq!(follows.triggered, [(RuleId(0), at(125))], "from when it occurred");
        assert_eq!(follows.states[0].executable, Some(Executable { since: at(30), until: at(125) }));
        assert_eq!(page(&mut book, 29, false), 0, "sent before");
        assert_eq!(page(&mut book, 60, false), 1);
        assert_eq!(page(&mut book, 120, false), 1, "and again");
        assert_eq!(page(&mut book, 126, false), 0, "too late");
        assert_eq!(page(&mut book, 126, true), 1, "but owed");
    }
}
