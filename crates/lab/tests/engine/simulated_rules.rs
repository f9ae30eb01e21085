//! Deadlines and rules in the simulator, on small made-up worlds.

use std::collections::BTreeMap;
use std::sync::Arc;

use tidewatch_core::planning::active::ActiveHours;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::execution::RuleId;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::prediction::Lifetime;
use tidewatch_core::planning::rule::{RulePart, RuleTerms};
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::contest::contest_terms::{ContestTerms, Matching};
use tidewatch_lab::contest::entrant::SourceRun;
use tidewatch_lab::contest::entrant_policy::EntrantPolicy;
use tidewatch_lab::contest::{Contest, hold};
use tidewatch_lab::simulated_rules::{RuleScore, SimulatedRule, SimulatedRules};
use tidewatch_lab::trace::Trace;

/// Four weeks in which a source publishes about six times each working day.
fn office(name: &str, minute: i64) -> Trace {
    let start = Timestamp::parse_iso("2026-11-02T00:00:00Z").unwrap();
    let at = |day: i64, n: i64| {
        let minutes = 540 + n * 83 + (day * 37 + n * n * 29 + minute) % 80;
        start + Span::from_days(day) + Span::from_mins(minutes)
    };
    let days = (0..28).filter(|day| day % 7 < 5);
    Trace::new(name, "office", days.flat_map(|day| (0..6).map(move |n| at(day, n))).collect())
}

fn setting(probes: u32) -> ContestTerms {
    let budget = Budget { probes, per: Span::from_days(1), min_spacing: Span::ZERO };
    ContestTerms {
        train: Span::from_days(14),
        test: Span::from_days(7),
        price: 1.0,
        ..ContestTerms::new(budget)
    }
}

fn contest(traces: &[Trace], policies: &[Policy], rules: &ContestTerms) -> Contest {
    let entrants: Vec<EntrantPolicy> = policies.iter().copied().map(EntrantPolicy::Ours).collect();
    hold(traces, &entrants, rules, &|| {})
}

/// One rule, and the parts of the sources in it: requested, counted.
fn rule(own: bool, every: u32, life: Lifetime, sources: &[(&str, bool, bool)]) -> Arc<SimulatedRules> {
    let (name, active) = ("p/r".into(), ActiveHours::default());
    let terms = Arc::new(RuleTerms { name, own, every, life, confidence: 0.9, active });
    let part = |&(name, asked, triggers): &(&str, bool, bool)| {
        (name.to_owned(), Box::from([RulePart { rule: RuleId(0), asked, triggers }]))
    };
    let parts: BTreeMap<_, _> = sources.iter().map(part).collect();
    Arc::new(SimulatedRules { rules: vec![SimulatedRule { terms, wanted: None, counts: None }], parts })
}

/// How well the first policy's probes met the rule.
fn rule_score(contest: &Contest, traces: &[Trace], rules: &SimulatedRules) -> RuleScore {
    contest.rule_scores(&contest.entrants[0], traces, rules).remove(0)
}

#[test]
fn deadlines_are_kept_if_there_are_slots() {
    let traces = [office("a", 0)];
    let policies = [Policy::Auto, Policy::Plan, Policy::IndHist, Policy::Uniform];
    let missed = |max_gap| {
        let rules = ContestTerms { max_gap, ..setting(24) };
        let tested = contest(&traces, &policies, &rules);
        let of = |run: &Option<SourceRun>| run.as_ref().unwrap().lateness;
        tested.entrants.iter().map(|entrant| of(&entrant.runs[0])).collect::<Vec<_>>()
    };
    assert!(missed(None).iter().all(Option::is_none));
    for (policy, lateness) in policies.iter().zip(missed(Some(Span::from_hours(2)))) {
        let lateness = lateness.unwrap();
        assert!(lateness.deadlines >= 7 * 12, "{}: {lateness:?}", policy.name());
        assert_eq!(lateness.missed, 0, "{}: {lateness:?}", policy.name());
    }
    // Without the deadline, there are few probes at night.
    let free = contest(&traces, &[Policy::Auto], &setting(24));
    let probes = &free.entrants[0].runs[0].as_ref().unwrap().probes;
    assert!(probes.windows(2).any(|pair| pair[1] - pair[0] > Span::from_hours(3)));
}

#[test]
fn a_rule_with_a_short_window_is_met_more_often_if_the_policy_has_it() {
    let traces = [office("a", 0), office("b", 40)];
    let rules = rule(true, 1, Lifetime::Window(Span::from_mins(10)), &[("a", true, true)]);
    let setting = ContestTerms { price: 3.0, ..setting(200) };
    let without = contest(&traces, &[Policy::Auto], &setting);
    let with =
        contest(&traces, &[Policy::Auto], &ContestTerms { profiles: Some(Arc::clone(&rules)), ..setting });
    let (before, after) = (rule_score(&without, &traces, &rules), rule_score(&with, &traces, &rules));
    assert_eq!((before.waited_for, after.waited_for), (30, 30));
    assert!(after.in_time >= 25 && after.in_time >= before.in_time + 10, "{before:?} {after:?}");
    assert_eq!(before.probes, Some(0));
    assert!(after.probes > Some(30), "{after:?}");
}

#[test]
fn a_rule_triggered_by_another_source_is_met_after_it() {
    let traces = [office("feed", 0), office("page", 40)];
    let life = Lifetime::Window(Span::from_mins(40));
    let rules = rule(false, 2, life, &[("feed", false, true), ("page", true, false)]);
    let mut setting = ContestTerms { profiles: Some(Arc::clone(&rules)), ..setting(150) };
    let tested = contest(&traces, &[Policy::Profile], &setting);
    let seldom = rule_score(&tested, &traces, &rules);
    assert_eq!(seldom.waited_for, 15, "every other update, in one source");
    assert_eq!(seldom.probes, Some(probes_for_rules(&tested)), "{seldom:?}");
    // The trigger is known too late, because `profile` probes the feed once a day.
    assert!(seldom.in_time < 5, "{seldom:?}");
    let often = rule_score(&contest(&traces, &[Policy::Uniform], &setting), &traces, &rules);
    assert!(often.in_time >= 14, "{often:?}");
    setting.matching = Matching::Total;
    let total = contest(&traces, &[Policy::Plan], &setting);
    assert!(rule_score(&total, &traces, &rules).waited_for == 15);
}

/// Probes of the test span that were sent for rules.
fn probes_for_rules(contest: &Contest) -> usize {
    let runs = contest.entrants[0].runs.iter().flatten().zip(&contest.test_spans);
    runs.map(|(run, test_span)| {
        run.for_rules.iter().filter(|(at, _)| *at > test_span.from && *at <= test_span.to).count()
    })
    .sum()
}
