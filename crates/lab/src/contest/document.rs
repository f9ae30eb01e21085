//! Contests as JSON.
//!
//! The key names are stable. Must not compute results.

use std::io;

use serde::Serialize;
use serde_json::Number;

use tidewatch_core::time::{Span, Timestamp};

use crate::calibration::{Calibration, OVERFLOW_CLASSES};
use crate::compare::ConfidenceInterval;
use crate::score::Score;
use crate::simulated_rules::RuleScore;

use super::contest_terms::Matching;
use super::deadline_score::DeadlineScore;
use super::question::ContestQuestion;
use super::results::{Results, probes_per_week, runs, useful};

/// With several budgets, the keys besides `budgets` are those of the first.
#[derive(Serialize)]
struct ContestDocument<'r> {
    #[serde(flatten)]
    first: Option<ContestEntry<'r>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    budgets: Vec<ContestEntry<'r>>,
}

/// One contest.
#[derive(Serialize)]
struct ContestEntry<'r> {
    policies: Vec<PolicyEntry>,
    sources: Vec<SourceEntry<'r>>,
    kinds: Vec<KindEntry<'r>>,
    baseline: Option<&'static str>,
    probes: u32,
    per_s: f64,
    min_spacing_s: f64,
    matched: Option<&'static str>,
    as_shipped: bool,
    caps: Option<CapsEntry>,
    seed: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_gap_s: Option<f64>,
    /// Only where there are profiles.
    #[serde(skip_serializing_if = "Option::is_none")]
    rules: Option<Vec<RuleEntry<'r>>>,
}

/// The limits of a source that every policy keeps.
#[derive(Serialize)]
struct CapsEntry {
    probes: u32,
    per_s: f64,
    min_spacing_s: f64,
}

/// How well deadlines were met.
#[derive(Serialize)]
pub struct DeadlineEntry {
    deadlines: usize,
    deadlines_missed: usize,
    mean_late_s: Option<f64>,
    worst_late_s: Option<f64>,
}

/// How well one policy met one rule.
#[derive(Serialize)]
pub struct RuleEntry<'r> {
    rule: &'r str,
    policy: &'r str,
    waited_for: usize,
    in_time: usize,
    /// The share that the rule's confidence states.
    stated: f64,
    share: Option<f64>,
    /// Probes sent because of the rule.
    probes: Option<usize>,
}

/// The measures of a score, for one source or several.
#[derive(Serialize)]
struct Figures {
    updates: usize,
    probes: usize,
    mean_delay_s: Option<f64>,
    p50_delay_s: Option<f64>,
    p95_delay_s: Option<f64>,
    worst_delay_s: Option<f64>,
    /// In update·hours times importance.
    obsolescence: f64,
    /// The share of probes that found an update.
    useful: Option<f64>,
    /// The number of such probes.
    useful_probes: usize,
    /// The share of the time with an update that is not yet found.
    missed: f64,
    /// The share of the time without such an update.
    fresh_share: f64,
    /// The mean over time of the harmonic number of the count of such updates.
    harmonic: f64,
    /// Updates that the source no longer showed at the next probe.
    gaps: usize,
}

#[derive(Serialize)]
struct PolicyEntry {
    policy: &'static str,
    #[serde(flatten)]
    figures: Figures,
    probes_per_source_week: Option<f64>,
    compared_sources: usize,
    geometric_mean_ratio: Option<f64>,
    geometric_mean_ratio_low: Option<f64>,
    geometric_mean_ratio_high: Option<f64>,
    mean_ratio: Option<f64>,
    mean_ratio_low: Option<f64>,
    mean_ratio_high: Option<f64>,
    #[serde(flatten)]
    deadlines: Option<DeadlineEntry>,
    /// Only for policies with a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    calibration: Option<CalibrationEntry>,
}

/// Stated probabilities and what came of them, training included.
#[derive(Serialize)]
struct CalibrationEntry {
    updates: usize,
    expected: f64,
    burst_alarms: usize,
    kept_out: usize,
    false_quiet: usize,
    overflow: Vec<OverflowEntry>,
}

/// Gaps with a stated probability of an overflow of at least `least`, below the next class.
#[derive(Serialize)]
struct OverflowEntry {
    least: f64,
    gaps: usize,
    stated: f64,
    overflowed: usize,
}

#[derive(Serialize)]
struct SourceEntry<'r> {
    source: &'r str,
    kind: &'r str,
    policy: &'static str,
    test_from: Option<Number>,
    test_to: Option<Number>,
    #[serde(flatten)]
    figures: Figures,
    knob: f64,
}

#[derive(Serialize)]
struct KindEntry<'r> {
    kind: &'r str,
    policy: &'static str,
    sources: usize,
    updates: usize,
    mean_delay_s: Option<f64>,
    geometric_mean_ratio: Option<f64>,
}

/// All contests as one document.
pub fn to_json(question: &ContestQuestion, all: &[Results]) -> io::Result<String> {
    let first = all.first().map(|results| part(question, results));
    let several = if all.len() > 1 { all } else { &[] };
    let budgets = several.iter().map(|results| part(question, results)).collect();
    Ok(serde_json::to_string_pretty(&ContestDocument { first, budgets })?)
}

fn part<'r>(question: &'r ContestQuestion, results: &'r Results) -> ContestEntry<'r> {
    ContestEntry {
        policies: policies(results),
        sources: sources(question, results),
        kinds: kinds(results),
        baseline: results.baseline.map(|policy| policy.name()),
        probes: results.budget.probes,
        per_s: results.budget.per.as_secs_f64(),
        min_spacing_s: results.budget.min_spacing.as_secs_f64(),
        matched: match question.rules.matching {
            Matching::Nothing => None,
            Matching::Probes => Some("probes"),
            Matching::Total => Some("total"),
        },
        as_shipped: question.rules.as_shipped,
        caps: question.rules.caps.map(|caps| CapsEntry {
            probes: caps.probes,
            per_s: caps.per.as_secs_f64(),
            min_spacing_s: caps.min_spacing.as_secs_f64(),
        }),
        seed: question.rules.seed,
        max_gap_s: question.rules.max_gap.map(Span::as_secs_f64),
        rules: question.rules.profiles.as_ref().map(|_| {
            let rule_scores = results.policies.iter().map(|one| (one.policy.name(), &one.rules[..]));
            rule_scores.flat_map(|(policy, rules)| rule_documents(policy, rules)).collect()
        }),
    }
}

/// How well one policy met each rule.
pub fn rule_documents<'r>(policy: &'r str, rules: &'r [RuleScore]) -> impl Iterator<Item = RuleEntry<'r>> {
    rules.iter().map(move |score| RuleEntry {
        rule: &score.rule,
        policy,
        waited_for: score.waited_for,
        in_time: score.in_time,
        stated: score.stated,
        share: score.share(),
        probes: score.probes,
    })
}

/// How well deadlines were met.
pub fn deadlines(lateness: &DeadlineScore) -> DeadlineEntry {
    let worst = Some(lateness.worst).filter(|_| lateness.missed > 0);
    DeadlineEntry {
        deadlines: lateness.deadlines,
        deadlines_missed: lateness.missed,
        mean_late_s: lateness.mean_late().map(Span::as_secs_f64),
        worst_late_s: worst.map(Span::as_secs_f64),
    }
}

fn policies(results: &Results) -> Vec<PolicyEntry> {
    let documents = results.policies.iter().map(|result| {
        let geometric = result.versus.map(|versus| versus.geometric);
        let mean = result.versus.map(|versus| versus.ratio);
        let end = |interval: Option<ConfidenceInterval>, end: fn(&ConfidenceInterval) -> f64| {
            interval.as_ref().map(end)
        };
        PolicyEntry {
            policy: result.policy.name(),
            figures: figures(&result.score),
            probes_per_source_week: probes_per_week(&result.score),
            compared_sources: result.versus.map_or(0, |versus| versus.sources),
            geometric_mean_ratio: end(geometric, |interval| interval.value),
            geometric_mean_ratio_low: end(geometric, |interval| interval.low),
            geometric_mean_ratio_high: end(geometric, |interval| interval.high),
            mean_ratio: end(mean, |interval| interval.value),
            mean_ratio_low: end(mean, |interval| interval.low),
            mean_ratio_high: end(mean, |interval| interval.high),
            deadlines: result.lateness.as_ref().map(deadlines),
            calibration: calibration(&result.calibration),
        }
    });
    documents.collect()
}

fn calibration(of: &Calibration) -> Option<CalibrationEntry> {
    let overflow = OVERFLOW_CLASSES.iter().zip(&of.overflow).map(|(&least, class)| OverflowEntry {
        least,
        gaps: class.gaps,
        stated: class.stated,
        overflowed: class.overflowed,
    });
    (of.updates > 0).then(|| CalibrationEntry {
        updates: of.updates,
        expected: of.expected,
        burst_alarms: of.alarms,
        kept_out: of.kept_out,
        false_quiet: of.false_quiet,
        overflow: overflow.collect(),
    })
}

fn sources<'r>(question: &'r ContestQuestion, results: &'r Results) -> Vec<SourceEntry<'r>> {
    let contest = &results.contest;
    let all = contest.entrants.iter().flat_map(|entrant| runs(entrant).map(|run| (entrant.policy, run)));
    let documents = all.filter_map(|(policy, (index, run))| {
        let (trace, test_span) = (question.traces.get(index)?, contest.test_spans.get(index)?);
        Some(SourceEntry {
            source: &trace.name,
            kind: &trace.kind,
            policy: policy.name(),
            test_from: seconds(test_span.from),
            test_to: seconds(test_span.to),
            figures: figures(&run.score),
            knob: run.knob,
        })
    });
    documents.collect()
}

fn kinds(results: &Results) -> Vec<KindEntry<'_>> {
    let documents = results.kinds.iter().flat_map(|kind| {
        kind.shares.iter().map(|share| KindEntry {
            kind: &kind.name,
            policy: share.policy.name(),
            sources: share.sources,
            updates: share.score.updates,
            mean_delay_s: share.score.mean_delay(),
            geometric_mean_ratio: share.ratio,
        })
    });
    documents.collect()
}

fn figures(score: &Score) -> Figures {
    Figures {
        updates: score.updates,
        probes: score.probes,
        mean_delay_s: score.mean_delay(),
        p50_delay_s: score.quantile(0.5),
        p95_delay_s: score.quantile(0.95),
        worst_delay_s: score.worst(),
        obsolescence: score.obsolescence,
        useful: useful(score),
        useful_probes: score.useful,
        missed: score.missed(),
        fresh_share: score.fresh_share(),
        harmonic: score.harmonic(),
        gaps: score.gaps,
    }
}

/// Unix seconds; whole seconds as integers.
fn seconds(at: Timestamp) -> Option<Number> {
    match at.as_millis() % 1000 {
        0 => Some(Number::from(at.as_millis() / 1000)),
        _ => Number::from_f64(at.as_millis() as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::super::results::tests::{question, results};
    use super::*;
    use tidewatch_core::planning::budget::Budget;

    #[test]
    fn document_has_the_stable_keys() {
        let (traces, few) = results(&[("auto", 600), ("uniform", 3600), ("oracle", 1)]);
        let (_, more) = results(&[("auto", 300), ("uniform", 1800), ("oracle", 1)]);
        let question = question(traces);
        let read =
            |all: &[Results]| -> Value { serde_json::from_str(&to_json(&question, all).unwrap()).unwrap() };
        let both = read(&[few, more]);
        assert_eq!(both["budgets"].as_array().unwrap().len(), 2);
        for key in ["policies", "sources", "kinds", "probes", "per_s", "baseline"] {
            assert_eq!(both[key], both["budgets"][0][key], "{key}");
        }
        // The oracle has no runs.
        assert_eq!(both["sources"].as_array().unwrap().len(), 6);
        assert_eq!(both["policies"][2]["mean_delay_s"], Value::Null);
        let source = &both["sources"][0];
        assert_eq!((&source["source"], &source["policy"]), (&Value::from("a<b>"), &Value::from("auto")));
        assert!(source["test_to"].is_i64() && source["knob"] == 600.0, "{source}");
        let share = source["useful_probes"].as_f64().unwrap() / source["probes"].as_f64().unwrap();
        assert_eq!(source["useful"].as_f64(), Some(share));
        assert_eq!(both["policies"][1]["geometric_mean_ratio"], 1.0);
        assert_eq!((&both["as_shipped"], &both["caps"]), (&Value::Bool(false), &Value::Null));
        let (_, alone) = results(&[("uniform", 600)]);
        let mut capped = super::super::results::tests::question(Vec::new());
        capped.rules.caps = Some(Budget::default());
        capped.rules.as_shipped = true;
        let text = to_json(&capped, std::slice::from_ref(&alone)).unwrap();
        let one: Value = serde_json::from_str(&text).unwrap();
        let caps = serde_json::json!({ "probes": 48, "per_s": 86_400.0, "min_spacing_s": 900.0 });
        assert_eq!((&one["as_shipped"], &one["caps"]), (&Value::Bool(true), &caps));
        assert!(read(&[alone]).get("budgets").is_none());
    }
}
