//! The results of a contest: per policy, per kind of source, and the largest gains and losses of a policy.
//!
//! Table, document and page share them. All policies are compared with one baseline. Must not know how
//! results are shown.

use crate::calibration::Calibration;
use crate::compare::{Comparison, FLOOR_SECS, Pair, compare, geometric_mean_ratio};
use crate::score::Score;
use crate::simulated_rules::RuleScore;
use crate::trace::Trace;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;

use super::Contest;
use super::contest_terms::ContestTerms;
use super::deadline_score::DeadlineScore;
use super::entrant::{Entrant, SourceRun};
use super::entrant_policy::EntrantPolicy;

const WEEK_MS: f64 = Span::from_days(7).as_millis() as f64;

/// Maximum number of sources in the lists of gains and of losses.
const MOST_LISTED: usize = 5;

/// A contest and its results.
#[derive(Debug)]
pub struct Results {
    /// The probe budget of a source.
    pub budget: Budget,
    /// The contest itself.
    pub contest: Contest,
    /// The baseline of all comparisons: uniform if it is an entrant, else the first.
    pub baseline: Option<EntrantPolicy>,
    /// Per policy, in the order of the contest.
    pub policies: Vec<PolicyResult>,
    /// Per kind, by name.
    pub kinds: Vec<KindResults>,
    /// The gains and losses of the first policy that is not the baseline.
    pub extremes: Option<Extremes>,
}

/// One policy on all sources together.
#[derive(Debug)]
pub struct PolicyResult {
    /// The policy.
    pub policy: EntrantPolicy,
    /// Pooled over all sources.
    pub score: Score,
    /// The comparison with the baseline.
    pub versus: Option<Comparison>,
    /// How well deadlines were met, if there are any.
    pub lateness: Option<DeadlineScore>,
    /// How well each rule was met.
    pub rules: Vec<RuleScore>,
    /// What its models stated, training included, and what came of it.
    pub calibration: Calibration,
}

/// The sources of one kind.
#[derive(Debug)]
pub struct KindResults {
    /// Its name.
    pub name: String,
    /// Per policy, in the order of the contest.
    pub shares: Vec<KindScore>,
}

/// One policy on the sources of one kind.
#[derive(Debug)]
pub struct KindScore {
    /// The policy.
    pub policy: EntrantPolicy,
    /// Number of sources it was tested on.
    pub sources: usize,
    /// Pooled over these sources.
    pub score: Score,
    /// The geometric mean of its mean delays relative to the baseline's.
    pub ratio: Option<f64>,
}

/// The sources where one policy differs most from the baseline.
#[derive(Debug)]
pub struct Extremes {
    /// The policy.
    pub policy: EntrantPolicy,
    /// The baseline.
    pub baseline: EntrantPolicy,
    /// Sources with a shorter delay, the largest difference first.
    pub gains: Vec<Extreme>,
    /// Sources with a longer delay, the largest difference first.
    pub losses: Vec<Extreme>,
}

/// One source with different results of two policies.
#[derive(Debug, Clone)]
pub struct Extreme {
    /// Its name.
    pub source: String,
    /// Its kind.
    pub kind: String,
    /// Both mean delays.
    pub pair: Pair,
}

impl Extreme {
    /// The first mean delay divided by the second.
    pub fn ratio(&self) -> f64 {
        self.pair.a.max(FLOOR_SECS) / self.pair.b.max(FLOOR_SECS)
    }
}

impl Results {
    /// The results of a contest on these traces.
    pub fn of(traces: &[Trace], contest: Contest, rules: &ContestTerms) -> Self {
        let (budget, seed) = (rules.budget, rules.seed);
        let uniform = EntrantPolicy::Ours(Policy::Uniform);
        let has = |policy: EntrantPolicy| contest.entrants.iter().find(|entrant| entrant.policy == policy);
        let baseline = has(uniform).or(contest.entrants.first());
        let policies = contest.entrants.iter().map(|entrant| PolicyResult {
            policy: entrant.policy,
            score: Score::pooled(runs(entrant).map(|(_, run)| &run.score)),
            versus: baseline.and_then(|baseline| {
                let pairs: Vec<Pair> = pairs(entrant, baseline).map(|(_, pair)| pair).collect();
                compare(&pairs, seed)
            }),
            lateness: lateness(entrant),
            calibration: Calibration::pooled(runs(entrant).map(|(_, run)| &run.calibration)),
            rules: rules
                .profiles
                .as_ref()
                .map(|rules| contest.rule_scores(entrant, traces, rules))
                .unwrap_or_default(),
        });
        let policies = policies.collect();
        let mut names: Vec<&str> = traces.iter().map(|trace| trace.kind.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let kinds = names.into_iter().map(|name| KindResults {
            name: name.to_owned(),
            shares: contest.entrants.iter().map(|entrant| share(traces, name, entrant, baseline)).collect(),
        });
        let kinds = kinds.collect();
        let extremes = baseline.and_then(|baseline| {
            let first = contest.entrants.iter().find(|entrant| entrant.policy != baseline.policy)?;
            Some(extremes(traces, first, baseline))
        });
        let baseline = baseline.map(|baseline| baseline.policy);
        Self { budget, baseline, policies, kinds, extremes, contest }
    }
}

/// How well an entrant met deadlines, on the sources that have any.
pub fn lateness(entrant: &Entrant) -> Option<DeadlineScore> {
    let all: Vec<&DeadlineScore> = runs(entrant).filter_map(|(_, run)| run.lateness.as_ref()).collect();
    (!all.is_empty()).then(|| DeadlineScore::pooled(all))
}

/// The runs of an entrant: index of the trace, and the run.
pub fn runs(entrant: &Entrant) -> impl Iterator<Item = (usize, &SourceRun)> {
    entrant.runs.iter().enumerate().filter_map(|(index, run)| Some((index, run.as_ref()?)))
}

/// The sources with updates on which both ran: index of the trace, and both mean delays.
fn pairs(one: &Entrant, other: &Entrant) -> impl Iterator<Item = (usize, Pair)> {
    let both = one.runs.iter().zip(&other.runs).enumerate();
    both.filter_map(|(index, (a, b))| Some((index, Pair::of(&a.as_ref()?.score, &b.as_ref()?.score)?)))
}

fn share(traces: &[Trace], kind: &str, entrant: &Entrant, baseline: Option<&Entrant>) -> KindScore {
    let is_of = |index: usize| traces.get(index).is_some_and(|trace| trace.kind == kind);
    let scores: Vec<&Score> =
        runs(entrant).filter(|&(index, _)| is_of(index)).map(|(_, run)| &run.score).collect();
    let ratio = baseline.and_then(|baseline| {
        let means = pairs(entrant, baseline).filter(|&(index, _)| is_of(index));
        geometric_mean_ratio(&means.map(|(_, pair)| (pair.a, pair.b)).collect::<Vec<_>>())
    });
    KindScore { policy: entrant.policy, sources: scores.len(), score: Score::pooled(scores), ratio }
}

fn extremes(traces: &[Trace], entrant: &Entrant, baseline: &Entrant) -> Extremes {
    let mut list: Vec<Extreme> = pairs(entrant, baseline)
        .filter_map(|(index, pair)| {
            let trace = traces.get(index)?;
            Some(Extreme { source: trace.name.clone(), kind: trace.kind.clone(), pair })
        })
        .collect();
    list.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let gains = list.iter().filter(|one| one.ratio() < 1.0).take(MOST_LISTED).cloned().collect();
    let losses = list.iter().rev().filter(|one| one.ratio() > 1.0).take(MOST_LISTED).cloned().collect();
    Extremes { policy: entrant.policy, baseline: baseline.policy, gains, losses }
}

/// The share of probes that found an update.
pub fn useful(score: &Score) -> Option<f64> {
    (score.probes > 0).then(|| score.useful as f64 / score.probes as f64)
}

/// Number of probes per source and week.
pub fn probes_per_week(score: &Score) -> Option<f64> {
    let weeks = score.span.as_millis() as f64 / WEEK_MS;
    (weeks > 0.0).then(|| score.probes as f64 / weeks)
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::contest_terms::ContestTerms;
    use super::super::question::ContestQuestion;
    use super::*;
    use crate::score::ScoredProbes;
    use tidewatch_core::model::steps::Steps;
    use tidewatch_core::time::Timestamp;

    /// Three sources of two kinds, two days, probed by each policy at its interval in seconds.
    pub fn contest(probed: &[(&str, i64)]) -> (Vec<Trace>, Contest) {
        let monday = Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap();
        let trace = |(name, kind, every): (&str, &str, i64)| {
            let at = |n: i64| monday + Span::from_secs(n * every + 7);
            Trace::new(name, kind, (1..172_800 / every).map(at).collect())
        };
        let traces: Vec<Trace> = [("a<b>", "news", 5000), ("c", "news", 9000), ("d", "rare", 40_000)]
            .into_iter()
            .map(trace)
            .collect();
        let test_span = |trace: &Trace| trace.test_span(Span::from_days(1), Span::from_days(1)).unwrap();
        let importance = Steps::constant(1.0).unwrap();
        let run = |trace: &Trace, every: i64| {
            let test_span = test_span(trace);
            let probes: Vec<Timestamp> = (1..)
                .map(|n| test_span.begins + Span::from_secs(n * every))
                .take_while(|&at| at < test_span.to)
                .collect();
            let score = Score::of(&ScoredProbes {
                events: &trace.events,
                probes: &probes,
                from: test_span.from,
                to: test_span.to,
                importance: &importance,
                holds: 50,
            });
            SourceRun {
                knob: every as f64,
                probes,
                score,
                lateness: None,
                for_rules: Vec::new(),
                calibration: Calibration::default(),
            }
        };
        let entrants = probed.iter().map(|&(name, every)| Entrant {
            policy: EntrantPolicy::from_name(name).unwrap(),
            runs: traces.iter().map(|trace| (name != "oracle").then(|| run(trace, every))).collect(),
        });
        let entrants = entrants.collect();
        let test_spans = traces.iter().map(test_span).collect();
        (traces, Contest { test_spans, entrants })
    }

    /// A question with these traces.
    pub fn question(traces: Vec<Trace>) -> ContestQuestion {
        let rules = ContestTerms::new(Budget::default());
        ContestQuestion {
            title: "a <folder>".to_owned(),
            traces,
            policies: Vec::new(),
            budgets: vec![rules.budget],
            around: Vec::new(),
            rules,
            notes: Vec::new(),
        }
    }

    /// The results of such a contest.
    pub fn results(probed: &[(&str, i64)]) -> (Vec<Trace>, Results) {
        let (traces, contest) = contest(probed);
        let results = Results::of(&traces, contest, &ContestTerms::new(Budget::default()));
        (traces, results)
    }

    #[test]
    fn uniform_is_the_baseline() {
        let (_, results) = results(&[("auto", 600), ("uniform", 3600), ("fixed", 7200), ("oracle", 1)]);
        assert_eq!(results.baseline, EntrantPolicy::from_name("uniform"));
        let ratios: Vec<Option<f64>> =
            results.policies.iter().map(|one| one.versus.map(|versus| versus.geometric.value)).collect();
        assert!(ratios[0].unwrap() < 1.0 && ratios[2].unwrap() > 1.0, "{ratios:?}");
        assert_eq!((ratios[1], ratios[3]), (Some(1.0), None));
        assert_eq!(
            results.kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>(),
            ["news", "rare"]
        );
        let news = &results.kinds[0].shares;
        assert_eq!((news[0].sources, news[3].sources, news[3].ratio), (2, 0, None));
        let extremes = results.extremes.unwrap();
        assert_eq!(extremes.policy.name(), "auto");
        assert!(!extremes.gains.is_empty() && extremes.gains.iter().all(|one| one.pair.a < one.pair.b));
        assert!(extremes.gains.is_sorted_by(|a, b| a.ratio() <= b.ratio()));
        let probes = probes_per_week(&results.policies[1].score).unwrap();
        assert!((probes - 168.0).abs() < 1e-9, "{probes}");
    }

    #[test]
    fn first_policy_is_the_baseline_without_uniform() {
        let (_, results) = results(&[("ttl", 600), ("auto", 700)]);
        assert_eq!(results.baseline, EntrantPolicy::from_name("ttl"));
        assert_eq!(results.extremes.unwrap().policy.name(), "auto");
        let (_, alone) = super::tests::results(&[("ttl", 600)]);
        assert!(alone.extremes.is_none() && alone.baseline.is_some());
        let (_, empty) = super::tests::results(&[]);
        assert!(empty.baseline.is_none() && empty.policies.is_empty());
    }
}
