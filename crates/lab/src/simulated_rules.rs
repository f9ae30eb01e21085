//! The rules of profiles in a simulation: their matches on traces, and how well probes met them.
//!
//! A trace has times and no text, so conditions are evaluated on updates with empty title, link and text.
//! Must not know the policy, nor where rules are written.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidewatch_core::engine::rule_counts::RuleMatches;
use tidewatch_core::observe::query::QueryCondition;
use tidewatch_core::observe::{Occurred, Update, UpdateKind};
use tidewatch_core::planning::execution::RuleId;
use tidewatch_core::planning::prediction::Lifetime;
use tidewatch_core::planning::rule::{RulePart, RuleTerms};
use tidewatch_core::rule_matching::{RuleQuery, match_rules};
use tidewatch_core::time::Timestamp;

use crate::trace::{TestSpan, Trace};

/// A rule of a profile.
#[derive(Debug, Clone)]
pub struct SimulatedRule {
    /// Its terms.
    pub terms: Arc<RuleTerms>,
    /// The updates it requests; `None`: all.
    pub wanted: Option<QueryCondition>,
    /// The updates it counts; `None`: all.
    pub counts: Option<QueryCondition>,
}

/// All rules by number, and the sources they concern.
#[derive(Debug, Clone, Default)]
pub struct SimulatedRules {
    /// The rules.
    pub rules: Vec<SimulatedRule>,
    /// The parts of each source, by its name.
    pub parts: BTreeMap<String, Box<[RulePart]>>,
}

/// How well a rule was met by the probes of one policy.
#[derive(Debug, Clone, PartialEq)]
pub struct RuleScore {
    /// The rule's name.
    pub rule: Arc<str>,
    /// Updates it requested. A rule triggered by other sources counts one for each source to be probed.
    pub waited_for: usize,
    /// Those of them that a probe found before they expired.
    pub in_time: usize,
    /// The share that is stated: the confidence of the rule.
    pub stated: f64,
    /// Probes that were sent because of it; `None` if the policy has no rules.
    pub probes: Option<usize>,
}

impl RuleScore {
    /// The share found in time.
    pub fn share(&self) -> Option<f64> {
        (self.waited_for > 0).then(|| self.in_time as f64 / self.waited_for as f64)
    }
}

/// The probes of one source.
#[derive(Debug, Clone, Copy)]
pub struct SourceProbes<'p> {
    /// Probe times, ascending.
    pub times: &'p [Timestamp],
    /// The probes sent because of a rule; `None` if the policy has no rules.
    pub for_rules: Option<&'p [(Timestamp, Arc<str>)]>,
}

impl SimulatedRules {
    /// The parts of the source of that name.
    pub fn parts(&self, source: &str) -> &[RulePart] {
        self.parts.get(source).map_or(&[], |parts| parts)
    }

    /// The rules that updates of a source match.
    pub fn matches(&self, parts: &[RulePart], updates: &[Update]) -> Vec<RuleMatches> {
        let query = |RuleId(number): RuleId| {
            let SimulatedRule { terms, wanted, counts } = self.rules.get(number as usize)?;
            Some(RuleQuery { terms, wanted: wanted.as_ref(), counts: counts.as_ref() })
        };
        match_rules(parts, query, updates)
    }

    /// How well each rule was met, from update and probe times. Updates count in the order of publication;
    /// those that expire after the test span are left out.
    pub fn scores(
        &self,
        traces: &[Trace],
        test_spans: &[TestSpan],
        probes: &[SourceProbes<'_>],
    ) -> Vec<RuleScore> {
        let sources: Vec<ScoredSource<'_>> = traces
            .iter()
            .zip(test_spans)
            .zip(probes)
            .map(|((trace, &test_span), &probes)| ScoredSource { trace, test_span, probes })
            .collect();
        let numbered = self.rules.iter().zip(0..);
        numbered.map(|(rule, number)| self.score(&rule.terms, RuleId(number), &sources)).collect()
    }

    fn score(&self, terms: &RuleTerms, rule: RuleId, sources: &[ScoredSource<'_>]) -> RuleScore {
        let part = |source: &ScoredSource<'_>| {
            self.parts(&source.trace.name).iter().find(|part| part.rule == rule).copied()
        };
        let requested: Vec<&ScoredSource<'_>> =
            sources.iter().filter(|source| part(source).is_some_and(|part| part.asked)).collect();
        let counted = |source: &ScoredSource<'_>| match part(source).filter(|part| part.triggers) {
            Some(part) => self.counted(part, source),
            None => Vec::new(),
        };
        let every = terms.every.max(1) as usize;
        let nth = |n: &usize| (n + 1).is_multiple_of(every);
        let mut score = RuleScore {
            rule: Arc::clone(&terms.name),
            waited_for: 0,
            in_time: 0,
            stated: terms.confidence,
            probes: sources.iter().map(|source| source.spent_on(&terms.name)).sum(),
        };
        let mut count = |due: Timestamp, since: Option<Timestamp>, source: &ScoredSource<'_>| {
            if due <= source.test_span.to {
                score.waited_for += 1;
                let found = since.and_then(|since| source.probed_since(since));
                score.in_time += usize::from(found.is_some_and(|at| at <= due));
            }
        };
        if terms.own {
            for source in &requested {
                let times = counted(source).into_iter().enumerate().filter(|(n, _)| nth(n));
                for (_, at) in times.filter(|&(_, at)| at > source.test_span.from) {
                    count(source.expires(at, terms.life), Some(at), source);
                }
            }
            return score;
        }
        let all = sources.iter().flat_map(|source| counted(source).into_iter().map(move |at| (at, source)));
        let mut all: Vec<(Timestamp, &ScoredSource<'_>)> = all.collect();
        all.sort_by_key(|&(at, _)| at);
        let triggers = all.into_iter().enumerate().filter(|(n, _)| nth(n)).map(|(_, trigger)| trigger);
        for (at, by) in triggers.filter(|(at, by)| *at > by.test_span.from) {
            // The trigger is unknown before its source was probed.
            let (known, due) = (by.probed_since(at), by.expires(at, terms.life));
            for source in requested.iter().filter(|source| source.trace.name != by.trace.name) {
                count(due, known, source);
            }
        }
        score
    }

    /// The times of the updates that a rule counts, after the start of training.
    fn counted(&self, part: RulePart, source: &ScoredSource<'_>) -> Vec<Timestamp> {
        let kind = if source.trace.page { UpdateKind::Changed } else { UpdateKind::New };
        let watched = source.trace.events.iter().filter(|&&at| at > source.test_span.begins);
        let updates: Vec<Update> =
            watched.map(|&at| Update::bare(kind, Occurred::At(at), at.as_millis().to_string())).collect();
        self.matches(&[part], &updates).into_iter().flat_map(|matches| matches.counts).collect()
    }
}

/// A source whose probes are scored.
struct ScoredSource<'s> {
    trace: &'s Trace,
    test_span: TestSpan,
    probes: SourceProbes<'s>,
}

impl ScoredSource<'_> {
    /// The first probe at or after that time.
    fn probed_since(&self, at: Timestamp) -> Option<Timestamp> {
        let times = self.probes.times;
        times.get(times.partition_point(|&probe| probe < at)).copied()
    }

    /// The time until which a probe finds the update of that time.
    fn expires(&self, at: Timestamp, life: Lifetime) -> Timestamp {
        let events = &self.trace.events;
        match life {
            Lifetime::Window(span) => at + span,
            Lifetime::Overwrite => {
                let next = events.get(events.partition_point(|&event| event <= at));
                next.copied().unwrap_or(Timestamp::MAX)
            }
        }
    }

    /// Probes of the test span that were sent because of a rule.
    fn spent_on(&self, rule: &str) -> Option<usize> {
        let TestSpan { from, to, .. } = self.test_span;
        let sent = self.probes.for_rules?.iter();
        Some(sent.filter(|(at, because)| **because == *rule && *at > from && *at <= to).count())
    }
}
