//! The reasons for the next probe as text: slot, rule, plan, burst, quiet period.
//!
//! [`super::explain`] loads the values and orders the lines. Must not know the store's connection or
//! the clock.

use jiff::tz::TimeZone;
use serde::Serialize;

use crate::config::profile::RulesConfig;
use crate::store::plans::PlanRow;
use tidewatch_core::engine::event::{CrashEvidence, CrashSuspect};
use tidewatch_core::engine::params::{BurstTerms, FleetParams};
use tidewatch_core::engine::reason::Reason;
use tidewatch_core::engine::source_memory::BurstState;
use tidewatch_core::engine::source_phase::Reserve;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::policy::Policy;
use tidewatch_core::planning::prediction;
use tidewatch_core::planning::rule::RuleTerms;
use tidewatch_core::planning::ttl::TtlForm;
use tidewatch_core::time::{Span, Timestamp};

/// Smallest probability of feed overflow to report.
const SMALLEST_OVERFLOW: f64 = 0.01;

/// Number of planned times to show.
const SHOWN: usize = 3;

/// The current burst: start, observed updates, expected updates.
pub type OpenBurst = (Timestamp, u32, f64);

/// Inputs that determine the response to a burst.
#[derive(Debug, Clone, Copy)]
pub struct BurstInputs<'s> {
    /// Configured policy.
    pub policy: Policy,
    /// Configured response to bursts.
    pub terms: &'s BurstTerms,
    /// Budget of the source.
    pub budget: Budget,
    /// Waiting time that a probe must save, in hours.
    pub price: f32,
    /// Part of the budget that bursts may use.
    pub reserve: Reserve,
    /// Current state of the source.
    pub burst_state: &'s BurstState,
}

/// What is done about a source that was in progress when the daemon died.
pub fn crash_suspect(suspect: &CrashSuspect) -> String {
    let CrashSuspect { deaths, evidence, .. } = suspect;
    let times = if *deaths == 1 { "once".to_owned() } else { format!("{deaths} times in a row") };
    let died = format!("tidewatch died {times} while this source was probed");
    match evidence {
        CrashEvidence::BackedOff => {
            format!("{died}, the last time alone: it is backed off, and probed while nothing else is")
        }
        CrashEvidence::Beside | CrashEvidence::Alone => {
            format!("{died}: it is probed again one at a time with other such sources, or alone")
        }
    }
}

/// The half of an adaptive policy that decides now, and why; `None` for the other policies.
pub fn deciding_half(policy: Policy, follows: Policy) -> Option<String> {
    let half = match (policy, follows) {
        (Policy::IndHistTtl, Policy::Ttl) => "ttl while the burst lasts",
        (Policy::IndHistTtl, Policy::IndHist) => "ind_hist, as there is no burst",
        (Policy::IndHistAggHist, Policy::AggHist) => "agg_hist while its own history is thin",
        (Policy::IndHistAggHist, Policy::IndHist) => "ind_hist by its own history",
        (Policy::IndHistTtl | Policy::IndHistAggHist, _) => "uniform until its rate is known",
        _ => return None,
    };
    Some(format!("{}: {half}", policy.name()))
}

/// How the source gets a slot, if it is sampled or overdue by more than a step.
pub fn slot(
    burst_state: &BurstState,
    reason: Reason,
    due_for: Span,
    params: &FleetParams,
) -> Option<String> {
    let FleetParams { step, probes_per_step, allocator, .. } = params;
    let late = due_for > *step;
    match burst_state.asked_by {
        Policy::Adaptive if reason != Reason::FirstContact => Some(format!(
            "sampled: from then on it is probed when one of the {probes_per_step} slots per {step} is free; when slots \
             are short, the allocator `{}` chooses the source",
            allocator.name()
        )),
        _ if late => Some(format!(
            "overdue by {due_for}: the daemon is not running, or more urgent sources use the {probes_per_step} slots \
             per {step}"
        )),
        _ => None,
    }
}

/// The rule behind a probe: which updates it covers, and how soon.
pub fn rule(rules: &RulesConfig, name: &str) -> Option<String> {
    let rule = rules.all().iter().find(|rule| *rule.terms.name == *name)?;
    let RuleTerms { own, every, life, confidence, .. } = &*rule.terms;
    let soon = match life {
        prediction::Lifetime::Window(span) => format!("within {span} of"),
        prediction::Lifetime::Overwrite => "before what follows".to_owned(),
    };
    let nth = match every {
        1 => "each update".to_owned(),
        every => format!("one in {every} updates"),
    };
    let whose = if *own { "of this source" } else { "of the sources that it waits for" };
    let sure = match own {
        true => format!(", in {} of 100 cases", (confidence * 100.0).round()),
        false => String::new(),
    };
    Some(format!("`{name}` needs a probe {soon} {nth} {whose}{sure}"))
}

/// A burst: the counts, and the response.
pub fn burst(
    (since, observed, expected): OpenBurst,
    inputs: &BurstInputs<'_>,
    zone: &TimeZone,
) -> Vec<String> {
    vec![
        format!("since {}: {observed} updates, {} expected", since.iso_in(zone), short(expected)),
        response(inputs, zone),
    ]
}

fn response(inputs: &BurstInputs<'_>, zone: &TimeZone) -> String {
    let BurstInputs { policy, terms, budget, price, reserve: Reserve { probes, left, .. }, burst_state } =
        *inputs;
    let reserve_left = format!("{left} of {probes} reserve probes left");
    match (policy, burst_state.newest) {
        (Policy::Auto, ..) if price > 0.0 => {
            "no extra probes, because `price` is set; the plan counts on the burst".to_owned()
        }
        (Policy::Auto, _) if probes == 0 => {
            let why = match terms.reserve <= 0.0 {
                true => "[burst] reserve is 0".to_owned(),
                false => {
                    format!(
                        "[burst] reserve of {} probes per {} is less than one",
                        budget.probes, budget.per
                    )
                }
            };
            format!("no extra probes: {why}; the plan continues")
        }
        (Policy::Auto, Some(newest)) if burst_state.asked_by == Policy::Ttl => {
            let share = match terms.ttl_form {
                TtlForm::Caches => terms.ttl_factor,
                TtlForm::Prefetching => terms.freshness_threshold * (1.0 + terms.ttl_factor),
            };
            format!(
                "extra probes: the next one after {} of the age of the last update ({}), at least {} apart, as far \
                 as the reserve lasts; {reserve_left}",
                percent(share),
                newest.iso_in(zone),
                budget.min_spacing
            )
        }
        (Policy::Auto, _) if left == 0 => {
            format!(
                "no extra probes for the burst now: {reserve_left}; they return evenly over the next {}",
                budget.per
            )
        }
        (Policy::Auto, _) => {
            format!(
                "extra probes: the policy {} is due earlier this time; {reserve_left}",
                burst_state.asked_by.name()
            )
        }
        (Policy::IndHistTtl, ..) => {
            "ind_hist_ttl goes by its own test: [burst] threshold times the expected updates in window"
                .to_owned()
        }
        (policy, ..) => {
            format!("no extra probes: the policy is {}, and only auto sends them", policy.name())
        }
    }
}

/// The part of the budget that plans leave free for bursts; `None` during a burst or if it is zero.
pub fn reserve(inputs: &BurstInputs<'_>) -> Option<String> {
    let Reserve { probes, left, kept } = inputs.reserve;
    let waits = kept > 0 && inputs.burst_state.burst_since.is_none();
    waits.then(|| {
        format!(
            "{left} of {probes} reserve probes left; plans keep {kept} free, because {:.0} % of the last updates \
             came in bursts",
            100.0 * inputs.burst_state.bursty()
        )
    })
}

/// A quiet period. `expected` is the number of updates expected since the last one, if known; `priced` is
/// whether a price decides on the source's probes.
pub fn quiet(
    burst_state: &BurstState,
    expected: Option<f64>,
    priced: bool,
    zone: &TimeZone,
) -> Option<String> {
    let since = burst_state.quiet_since?.iso_in(zone);
    let none = match burst_state.newest {
        Some(newest) => format!("no update since {}", newest.iso_in(zone)),
        None => "no update".to_owned(),
    };
    let expected = expected.map_or_else(String::new, |count| format!(", {} expected", short(count)));
    let probed = if priced { "; probed less until it updates" } else { "" };
    Some(format!("since {since}: {none}{expected}{probed}"))
}

fn ahead(plan: &PlanRow, now: Timestamp) -> impl Iterator<Item = Timestamp> {
    plan.times.iter().copied().filter(move |&at| at > now).take(SHOWN)
}

/// A plan in a few lines: origin, quality, next times, and the risk of feed overflow.
pub fn plan(
    plan: &PlanRow,
    policy: Policy,
    holds: Option<u32>,
    zone: &TimeZone,
    now: Timestamp,
) -> Vec<String> {
    let made = format!(
        "made {} ago for {}: {} probes",
        now - plan.made_at,
        plan.ends_at - plan.made_at,
        plan.probes
    );
    let mut lines = vec![match (plan.by, policy) {
        (Policy::Plan, _) => format!("{made}, {}", worth(plan)),
        (Policy::AggHist, Policy::Auto | Policy::IndHistAggHist) => {
            format!("{made}, by the update pattern of its group, until its own history suffices")
        }
        (by, _) => format!("{made}, by the policy {}", by.name()),
    }];
    let next: Vec<String> = ahead(plan, now).map(|at| at.iso_in(zone)).collect();
    if !next.is_empty() {
        lines.push(format!("next: {}", next.join(", ")));
    }
    if let (Some(chance), Some(holds)) = (plan.overflow.filter(|&chance| chance > SMALLEST_OVERFLOW), holds)
    {
        lines.push(format!(
            "its feed holds {holds} items: up to {} chance that some are lost in the longest gap; budget, \
             spacing and the feed's hints allow no better",
            percent(chance)
        ));
    }
    lines
}

/// Quality of a plan that was optimised.
fn worth(plan: &PlanRow) -> String {
    let above = match plan.expected_cost - plan.lower_bound {
        more if more > 0.0 && plan.lower_bound > 0.0 => {
            format!("at most {} above the best possible", percent(more / plan.lower_bound))
        }
        more if more > 0.0 => {
            "no lower bound is known, so neither is the distance from the best plan".to_owned()
        }
        _ => "none is better".to_owned(),
    };
    let (cost, price) = (short(plan.expected_cost), short(plan.price));
    format!("expected cost {cost} ({above}); one probe more would save {price} at most")
}

/// A plan in the JSON document of `explain`.
#[derive(Debug, Serialize)]
pub struct PlanDocument {
    by: &'static str,
    made_at: String,
    starts_at: String,
    ends_at: String,
    probes: u32,
    expected_cost: f64,
    lower_bound: f64,
    price: f64,
    overflow: Option<f64>,
    next: Vec<String>,
}

impl PlanDocument {
    /// With the next planned times.
    pub fn new(plan: &PlanRow, now: Timestamp) -> Self {
        Self {
            by: plan.by.name(),
            made_at: plan.made_at.iso(),
            starts_at: plan.starts_at.iso(),
            ends_at: plan.ends_at.iso(),
            probes: plan.probes,
            expected_cost: plan.expected_cost,
            lower_bound: plan.lower_bound,
            price: plan.price,
            overflow: plan.overflow,
            next: ahead(plan, now).map(Timestamp::iso).collect(),
        }
    }
}

/// A number with two significant digits.
fn short(number: f64) -> String {
    let digits = if number > 0.0 { (1.0 - number.log10().floor()).clamp(0.0, 6.0) } else { 0.0 };
    format!("{number:.*}", digits as usize)
}

fn percent(share: f64) -> String {
    format!("{} %", short(100.0 * share))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidewatch_core::time::Span;

    fn noon() -> Timestamp {
        Timestamp::parse_iso("2026-11-16T12:00:00Z").expect("valid")
    }

    fn some_plan() -> PlanRow {
        let made_at = noon() - Span::from_hours(2);
        PlanRow {
            by: Policy::Plan,
            made_at,
            starts_at: made_at,
            ends_at: made_at + Span::from_days(1),
            probes: 48,
            expected_cost: 3.1003,
            lower_bound: 3.1,
            price: 0.0412,
            overflow: Some(0.12),
            times: (0..48).map(|n| made_at + Span::from_mins(15 + 30 * n)).collect(),
        }
    }

    #[test]
    fn adaptive_policies_name_the_half_that_decides() {
        let half = |policy, follows| deciding_half(policy, follows).unwrap_or_default();
        assert_eq!(half(Policy::IndHistTtl, Policy::Ttl), "ind_hist_ttl: ttl while the burst lasts");
        assert_eq!(
            half(Policy::IndHistTtl, Policy::IndHist),
            "ind_hist_ttl: ind_hist, as there is no burst"
        );
        assert_eq!(
            half(Policy::IndHistAggHist, Policy::AggHist),
            "ind_hist_agg_hist: agg_hist while its own history is thin"
        );
        assert_eq!(
            half(Policy::IndHistAggHist, Policy::Uniform),
            "ind_hist_agg_hist: uniform until its rate is known"
        );
        assert_eq!(deciding_half(Policy::Auto, Policy::Ttl), None);
    }

    #[test]
    fn sampled_or_late_sources_get_a_line_about_slots() {
        let params = FleetParams::default();
        let sampled = BurstState::default();
        let slot_line = |burst_state: &BurstState, reason, late| {
            slot(burst_state, reason, Span::from_secs(late), &params)
        };
        assert_eq!(slot_line(&sampled, Reason::FirstContact, 3), None);
        let burst_state = BurstState { asked_by: Policy::Adaptive, ..sampled };
        let line = slot_line(&burst_state, Reason::Policy, -50).unwrap();
        assert!(line.contains("20 slots per 10s") && line.contains("`adaptive`"), "{line}");
        let planned = BurstState { asked_by: Policy::Plan, ..burst_state };
        assert_eq!(slot_line(&planned, Reason::Plan, -50), None);
        assert!(
            slot_line(&planned, Reason::Plan, 50)
                .unwrap()
                .starts_with("overdue by 50s: the daemon is not running")
        );
    }

    #[test]
    fn a_plan_is_described_in_a_few_lines() {
        let mut row = some_plan();
        let lines = plan(&row, Policy::Auto, Some(20), &TimeZone::UTC, noon());
        assert_eq!(
            lines[0],
            "made 2h ago for 1d: 48 probes, expected cost 3.1 (at most 0.0097 % above the best possible); one \
             probe more would save 0.041 at most"
        );
        assert_eq!(lines[1].matches("2026-11-16 1").count(), SHOWN, "{}", lines[1]);
        assert!(lines[2].starts_with("its feed holds 20 items: up to 12 % chance"), "{}", lines[2]);
        row.overflow = Some(0.001);
        assert_eq!(plan(&row, Policy::Auto, Some(20), &TimeZone::UTC, noon()).len(), 2);
        assert_eq!(short(0.0), "0");
        assert_eq!(short(1234.5), "1234");
    }

    #[test]
    fn only_an_optimised_plan_shows_its_quality() {
        for (by, policy, expected) in [
            (Policy::IndHist, Policy::IndHist, "by the policy ind_hist"),
            (Policy::AggHist, Policy::AggHist, "by the policy agg_hist"),
            (
                Policy::AggHist,
                Policy::Auto,
                "by the update pattern of its group, until its own history suffices",
            ),
        ] {
            let row = PlanRow { by, overflow: None, ..some_plan() };
            let lines = plan(&row, policy, Some(20), &TimeZone::UTC, noon());
            assert_eq!(lines[0], format!("made 2h ago for 1d: 48 probes, {expected}"));
            assert!(lines[1].starts_with("next: 2026-11-16 1"), "{}", lines[1]);
            assert_eq!(PlanDocument::new(&row, noon()).by, by.name());
        }
    }

    #[test]
    fn a_burst_is_described_with_the_response() {
        let burst_state = BurstState {
            asked_by: Policy::Ttl,
            follows: Policy::Ttl,
            newest: Some(noon() - Span::from_mins(50)),
            burst_since: Some(noon() - Span::from_hours(2)),
            ..BurstState::default()
        };
        let budget = Budget { probes: 96, per: Span::from_days(1), min_spacing: Span::from_mins(10) };
        let terms = BurstTerms::default();
        let reserve = Reserve { probes: 19, left: 17, kept: 17 };
        let inputs = BurstInputs {
            policy: Policy::Auto,
            terms: &terms,
            budget,
            price: 0.0,
            reserve,
            burst_state: &burst_state,
        };
        let described = |inputs: &BurstInputs<'_>| {
            burst((noon() - Span::from_hours(2), 23, 1.24), inputs, &TimeZone::UTC)
        };
        let lines = described(&inputs);
        assert!(lines[0].starts_with("since 2026-11-16 10:00"), "{lines:?}");
        assert!(lines[0].ends_with(": 23 updates, 1.2 expected"), "{lines:?}");
        assert!(
            lines[1].starts_with(
                "extra probes: the next one after 20 % of the age of the last update (2026-11-16 11:10"
            ),
            "{lines:?}"
        );
        assert!(
            lines[1]
                .ends_with("at least 10m apart, as far as the reserve lasts; 17 of 19 reserve probes left"),
            "{lines:?}"
        );

        let prefetching = BurstTerms { ttl_form: TtlForm::Prefetching, freshness_threshold: 0.5, ..terms };
        let lines = described(&BurstInputs { terms: &prefetching, ..inputs });
        assert!(lines[1].contains("after 60 % of the age"), "{lines:?}");

        let by_plan = BurstState { asked_by: Policy::Plan, ..burst_state.clone() };
        let inputs = BurstInputs { burst_state: &by_plan, ..inputs };
        let lines = described(&inputs);
        assert_eq!(
            lines[1],
            "extra probes: the policy plan is due earlier this time; 17 of 19 reserve probes left"
        );
        let lines = described(&BurstInputs { reserve: Reserve { left: 0, ..reserve }, ..inputs });
        assert_eq!(
            lines[1],
            "no extra probes for the burst now: 0 of 19 reserve probes left; they return evenly over the next 1d"
        );
        let none = BurstInputs { reserve: Reserve { probes: 0, left: 0, kept: 0 }, ..inputs };
        let few = BurstInputs { budget: Budget { probes: 3, ..budget }, ..none };
        assert_eq!(
            described(&few)[1],
            "no extra probes: [burst] reserve of 3 probes per 1d is less than one; the plan continues"
        );
        let lines = described(&BurstInputs { terms: &BurstTerms { reserve: 0.0, ..terms }, ..none });
        assert_eq!(lines[1], "no extra probes: [burst] reserve is 0; the plan continues");
        let lines = described(&BurstInputs { price: 0.3, ..none });
        assert_eq!(lines[1], "no extra probes, because `price` is set; the plan counts on the burst");
        let lines = described(&BurstInputs { policy: Policy::IndHistTtl, ..inputs });
        assert!(lines[1].starts_with("ind_hist_ttl goes by its own test"), "{lines:?}");
        let lines = described(&BurstInputs { policy: Policy::Uniform, ..inputs });
        assert_eq!(lines[1], "no extra probes: the policy is uniform, and only auto sends them");
    }

    #[test]
    fn the_reserve_and_quiet_periods_are_described() {
        let mut burst_state = BurstState { in_bursts: 440_000, ..BurstState::default() };
        let terms = BurstTerms::default();
        let budget = Budget::default();
        let inputs = |burst_state, kept| BurstInputs {
            policy: Policy::Auto,
            terms: &terms,
            budget,
            price: 0.0,
            reserve: Reserve { probes: 9, left: 9, kept },
            burst_state,
        };
        assert_eq!(
            reserve(&inputs(&burst_state, 7)).expect("something"),
            "9 of 9 reserve probes left; plans keep 7 free, because 44 % of the last updates came in bursts"
        );
        assert_eq!(reserve(&inputs(&burst_state, 0)), None, "plans use the whole budget");
        assert_eq!(quiet(&burst_state, None, true, &TimeZone::UTC), None);
        burst_state.quiet_since = Some(noon());
        assert!(
            quiet(&burst_state, None, false, &TimeZone::UTC)
                .is_some_and(|line| line.ends_with(": no update"))
        );
        burst_state.newest = Some(noon() - Span::from_days(3));
        let line = quiet(&burst_state, Some(9.21), true, &TimeZone::UTC).expect("something");
        assert!(
            line.starts_with("since 2026-11-16 12:00")
                && line.contains(": no update since 2026-11-13 12:00"),
            "{line}"
        );
        assert!(line.ends_with(", 9.2 expected; probed less until it updates"), "{line}");
    }
}
