//! Tests policies on the same sources, with the same number of probes, by the same score.
//!
//! A policy that sends more probes finds more, so only results at equal numbers of probes are comparable.
//! Each policy has one knob (a budget, a threshold, a factor) that is tuned to the common number. Must not
//! know how traces are read.
//!
//! A [`question`] has [`results`]; [`tables`], [`document`], [`curve`] and [`page`] show them, [`emit`]
//! writes the times of all probes.

mod contest_input;
pub mod contest_terms;
pub mod curve;
pub mod deadline_score;
pub mod document;
pub mod emit;
pub mod entrant;
pub mod entrant_policy;
mod group_rates;
pub mod knobs;
pub mod page;
pub mod question;
pub mod results;
pub mod tables;

use crate::simulated_rules::{RuleScore, SimulatedRules, SourceProbes};
use crate::trace::{TestSpan, Trace};

use contest_input::ContestInput;
use contest_terms::Matching;
use entrant::Entrant;

pub use contest_terms::ContestTerms;
pub use entrant_policy::EntrantPolicy;

/// A finished contest.
#[derive(Debug, Clone, PartialEq)]
pub struct Contest {
    /// The test span of each source, in the order of the traces.
    pub test_spans: Vec<TestSpan>,
    /// The entrants, in the requested order.
    pub entrants: Vec<Entrant>,
}

/// Tests every entrant on every source, on all cores. `done` is called for every source that an entrant has
/// finished, on any thread.
///
/// ```
/// # use tidewatch_core::planning::{budget::Budget, policy::Policy};
/// # use tidewatch_lab::{contest::{ContestTerms, EntrantPolicy, hold}, trace::Trace};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let daily = (0..30).map(|day| Timestamp::from_secs(86_400 * day + 40_000)).collect();
/// let traces = [Trace::new("a", "all", daily)];
/// let budget = Budget { probes: 4, per: Span::from_days(1), min_spacing: Span::ZERO };
/// let (train, test) = (Span::from_days(14), Span::from_days(7));
/// let rules = ContestTerms { train, test, ..ContestTerms::new(budget) };
/// let policies = [EntrantPolicy::Ours(Policy::Auto), EntrantPolicy::Ours(Policy::Uniform)];
/// let contest = hold(&traces, &policies, &rules, &|| {});
/// let delay = |n: usize| contest.entrants[n].runs[0].as_ref().unwrap().score.mean_delay().unwrap();
/// assert!(delay(0) < delay(1));
/// ```
pub fn hold(
    traces: &[Trace],
    entrants: &[EntrantPolicy],
    rules: &ContestTerms,
    done: &(dyn Fn() + Sync),
) -> Contest {
    let group_rates = group_rates::over_time(traces, rules);
    let stage = ContestInput { traces, rules, group_rates };
    let entrants = match rules.matching {
        Matching::Nothing | Matching::Probes => stage.one_by_one(entrants, done),
        Matching::Total => entrants.iter().map(|&policy| stage.together(policy, done)).collect(),
    };
    Contest { test_spans: traces.iter().map(|trace| rules.test_span(trace)).collect(), entrants }
}

impl Contest {
    /// How well an entrant's probes met each rule; empty if it has no run on some source.
    pub fn rule_scores(
        &self,
        entrant: &Entrant,
        traces: &[Trace],
        rules: &SimulatedRules,
    ) -> Vec<RuleScore> {
        let knows_rules = !matches!(
            entrant.policy,
            EntrantPolicy::Peer(_) | EntrantPolicy::Paper(_) | EntrantPolicy::Clairvoyant
        );
        let probes: Option<Vec<SourceProbes<'_>>> = entrant
            .runs
            .iter()
            .map(|run| {
                let run = run.as_ref()?;
                let for_rules = knows_rules.then_some(&run.for_rules[..]);
                Some(SourceProbes { times: &run.probes, for_rules })
            })
            .collect();
        probes.map(|probes| rules.scores(traces, &self.test_spans, &probes)).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::paper_rules::paper_rule::PaperRule;
    use crate::peers::peer::Peer;
    use tidewatch_core::planning::budget::Budget;
    use tidewatch_core::time::{Span, Timestamp};

    /// A source with an update about every `mins` minutes for eight weeks.
    fn every(name: &str, mins: i64) -> Trace {
        let last = Span::from_days(56).as_millis() / Span::from_mins(mins).as_millis();
        let at = |n: i64| Timestamp::from_secs(0) + Span::from_mins(n * mins + n * n % 17);
        Trace::new(name, "all", (0..last).map(at).collect())
    }

    /// Checks the number of probes also where the default setting is far off, in either direction.
    #[test]
    fn every_peer_and_paper_is_tuned_to_the_number_of_probes_on_fast_and_slow_sources() {
        let traces = [every("fast", 20), every("slow", 4000)];
        let peers = Peer::ALL.into_iter().map(EntrantPolicy::Peer);
        let papers = PaperRule::ALL.into_iter().map(EntrantPolicy::Paper);
        let entrants: Vec<EntrantPolicy> = peers.chain(papers).collect();
        for probes in [14, 168] {
            let budget = Budget { probes, per: Span::from_days(7), min_spacing: Span::ZERO };
            let rules = ContestTerms {
                train: Span::from_days(28),
                matching: Matching::Probes,
                ..ContestTerms::new(budget)
            };
            for entrant in hold(&traces, &entrants, &rules, &|| {}).entrants {
                // Its value hardly grows after some updates: no price gives it few probes of a fast source.
                let is_greedy = entrant.policy == EntrantPolicy::Paper(PaperRule::GreedyCrawl);
                let without_fast = usize::from(is_greedy && probes == 14);
                for run in entrant.runs.iter().skip(without_fast).flatten() {
                    let (spent, wanted) = (run.score.probes as f64, 4.0 * f64::from(probes));
                    let off = (spent / wanted - 1.0).abs();
                    assert!(off < 0.1, "{}: {spent} instead of {wanted}", entrant.policy.name());
                }
            }
        }
    }

    #[test]
    fn papers_share_a_total_within_the_caps() {
        let traces = [every("fast", 20), every("daily", 1440), every("slow", 4000)];
        let entrants: Vec<EntrantPolicy> = PaperRule::ALL.into_iter().map(EntrantPolicy::Paper).collect();
        let caps = Budget { probes: 12, per: Span::from_days(1), min_spacing: Span::from_mins(30) };
        let rules = ContestTerms {
            train: Span::from_days(28),
            matching: Matching::Total,
            caps: Some(caps),
            ..ContestTerms::new(Budget { probes: 4, per: Span::from_days(1), min_spacing: Span::ZERO })
        };
        for entrant in hold(&traces, &entrants, &rules, &|| {}).entrants {
            let name = entrant.policy.name();
            let runs: Vec<_> = entrant.runs.iter().flatten().collect();
            let spent: usize = runs.iter().map(|run| run.score.probes).sum();
            assert!((spent as f64 / (3.0 * 4.0 * 28.0) - 1.0).abs() < 0.1, "{name}: {spent}");
            for run in &runs {
                let within = |window: &[Timestamp]| window[12] - window[0] >= caps.per;
                assert!(run.probes.windows(13).all(within), "{name}");
                assert!(run.probes.windows(2).all(|pair| pair[1] - pair[0] >= caps.min_spacing), "{name}");
                // The price is the same for all, and at least one probe a day is sent.
                assert!((run.knob / runs[0].knob - 1.0).abs() < 1e-12 && run.score.probes >= 27, "{name}");
            }
        }
    }
}
