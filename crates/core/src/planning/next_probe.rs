//! The time of the next probe of a source, for every policy.
//!
//! The result names the policy that determined it: a policy without the required evidence falls back to the
//! even spread. May not know what the gate allows: the time may be too early for it.

use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

use super::budget::Budget;
use super::expected::Forecast;
use super::plan::Plan;
use super::policy::Policy;
use super::ttl::{Ttl, TtlForm};
use super::{cost_accumulator, level, spread};

/// The knowledge on a source.
#[derive(Debug, Clone, Copy)]
pub struct Knowledge<'k> {
    /// λ: its own updates per hour.
    pub rate: Option<&'k Steps>,
    /// The updates per hour of its group, and f_o, the share of the source in them.
    pub aggregate: Option<(&'k Steps, f64)>,
    /// Its own date of last modification.
    pub last_modified: Option<Timestamp>,
    /// n, T, δ.
    pub budget: Budget,
    /// The time between two probes of an even spread: the even gap of the budget, or longer.
    pub gap: Span,
    /// The minimum time between two probes by age: δ, or longer.
    pub least_gap: Span,
    /// The delay of the last probe. An even spread compensates a part of it.
    pub late: Span,
    /// a, if known.
    pub importance: Option<&'k Steps>,
    /// Its plan, if there is one: the times of a policy in advance.
    pub plan: Option<&'k Plan>,
    /// θ.
    pub freshness_threshold: f64,
    /// α.
    pub ttl_factor: f64,
    /// The form of the time to live.
    pub ttl_form: TtlForm,
    /// In [0, 1), drawn for the last refresh: the jitter of the even spread.
    pub jitter: f64,
}

/// The next probe of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextProbe {
    /// A probe at a time, as soon as possible if that has passed.
    At {
        /// The time; not before `now`.
        at: Timestamp,
        /// The policy that determined it.
        asked_by: Policy,
    },
    /// A probe when the allocator samples it.
    Sampled {
        /// The earliest time; not before `now`.
        from: Timestamp,
    },
}

/// The maximum time between probes if the budget allows, even if few updates are expected: without probes
/// there is no new evidence.
const SELDOM: Span = Span::from_days(7);

/// The maximum time between probes by age, unless the gap is longer.
const OLD: Span = Span::from_days(1);

/// Modification dates have a resolution of a second, so a smaller age is unknown.
pub(crate) const YOUNG: Span = Span::from_secs(1);

/// The maximum delay that an even spread compensates, as a share of a gap.
const MADE_UP: f64 = 0.1;

/// The next probe of this policy after one at `last_refresh`.
///
/// ```
/// # use tidewatch_core::model::steps::Steps;
/// # use tidewatch_core::planning::next_probe::{Knowledge, NextProbe, next};
/// # use tidewatch_core::planning::{budget::Budget, policy::Policy};
/// # use tidewatch_core::time::{Span, Timestamp};
/// let (two_an_hour, even) = (Steps::constant(2.0).unwrap(), Steps::constant(1.0).unwrap());
/// let known = Knowledge { rate: Some(&two_an_hour), ..Knowledge::nothing(Budget::default(), &even) };
/// let now = Timestamp::from_secs(0);
/// let probe = next(Policy::IndHist, &known, now, now);
/// assert_eq!(probe, NextProbe::At { at: now + Span::from_mins(30), asked_by: Policy::IndHist });
/// ```
pub fn next(policy: Policy, known: &Knowledge<'_>, last_refresh: Timestamp, now: Timestamp) -> NextProbe {
    let own = || match policy {
        Policy::Auto => known.auto(last_refresh),
        _ => known.by(policy, last_refresh).map(|at| (at, policy)),
    };
    match known.planned(policy, last_refresh).or_else(own) {
        Some((at, asked_by)) => NextProbe::At { at: at.max(now), asked_by },
        None => {
            let at = known.spread(last_refresh).max(now);
            match fallback(policy) {
                Policy::Adaptive => NextProbe::Sampled { from: at },
                asked_by => NextProbe::At { at, asked_by },
            }
        }
    }
}

/// The fallback of a policy without the required evidence. `auto` falls back to the allocator.
pub fn fallback(policy: Policy) -> Policy {
    match policy {
        Policy::Adaptive | Policy::Auto => Policy::Adaptive,
        _ => Policy::Uniform,
    }
}

impl<'k> Knowledge<'k> {
    /// A source that was just added. θ is 1, α 0.2, and the jitter is neutral.
    pub fn nothing(budget: Budget, importance: &'k Steps) -> Self {
        Self {
            rate: None,
            aggregate: None,
            last_modified: None,
            budget,
            gap: budget.even_gap(),
            least_gap: budget.min_spacing,
            late: Span::ZERO,
            importance: Some(importance),
            plan: None,
            freshness_threshold: 1.0,
            ttl_factor: 0.2,
            ttl_form: TtlForm::default(),
            jitter: 0.5,
        }
    }

    /// The next time of its plan and the policy of the plan, if the policy uses plans.
    fn planned(&self, policy: Policy, last: Timestamp) -> Option<(Timestamp, Policy)> {
        let plan = self.plan.filter(|_| policy.goes_by_rate())?;
        plan.next_after(last).map(|at| (at, plan.by))
    }

    /// The history of the group while there is no own rate; otherwise `None`.
    fn auto(&self, last: Timestamp) -> Option<(Timestamp, Policy)> {
        let by = Policy::AggHist;
        self.rate.is_none().then(|| self.by(by, last)).flatten().map(|at| (at, by))
    }

    /// The time of a policy itself, if the evidence is sufficient.
    fn by(&self, policy: Policy, last: Timestamp) -> Option<Timestamp> {
        let in_time = |at: Option<Timestamp>| self.in_time(at, last);
        match policy {
            Policy::Auto | Policy::Adaptive | Policy::Plan | Policy::Profile => None,
            // The engine or the planner resolves them to one of their halves.
            Policy::IndHistTtl | Policy::IndHistAggHist => None,
            Policy::Uniform => Some(self.spread(last)),
            // Computed at the last refresh: otherwise repeated calls would defer the time.
            Policy::Ttl => Some(self.ttl().next(last, self.last_modified?, last)),
            Policy::IndHist | Policy::AggHist => {
                Some(in_time(self.forecast(policy)?.reaches(self.freshness_threshold, last)))
            }
            Policy::Threshold => {
                let (rate, importance) = (self.rate?, self.importance?);
                let level = level::threshold(rate, importance, &self.budget, last);
                let reached =
                    |level| cost_accumulator::reaches(rate, importance, level, last, self.seldom());
                Some(in_time(level.and_then(reached)))
            }
            Policy::FirstArrival => {
                let rate = self.rate?;
                let level = level::first_arrival(rate, &self.budget, last);
                Some(in_time(level.and_then(|level| Forecast::individual(rate).reaches(level, last))))
            }
        }
    }

    /// The forecast of a history policy; `None` without a rate or with a zero share.
    pub fn forecast(&self, policy: Policy) -> Option<Forecast<'k>> {
        match policy {
            Policy::IndHist => self.rate.map(Forecast::individual),
            Policy::AggHist => self
                .aggregate
                .filter(|&(_, share)| share > 0.0)
                .map(|(rate, share)| Forecast::aggregate(rate, share)),
            _ => None,
        }
    }

    fn ttl(&self) -> Ttl {
        let Self { ttl_form: form, ttl_factor: factor, freshness_threshold, .. } = *self;
        let least = self.least_gap.max(YOUNG);
        Ttl { form, factor, freshness_threshold, least, most: self.gap.max(OLD) }
    }

    fn spread(&self, last: Timestamp) -> Timestamp {
        // From the due time of the last probe, so that response times do not add up. The compensation is
        // limited: a slow response does not advance the next probe much.
        let from = last - self.late.min(self.gap.scaled(MADE_UP));
        spread::next(from, self.gap, &self.budget, self.jitter).max(last + self.budget.min_spacing)
    }

    fn seldom(&self) -> Span {
        self.gap.max(SELDOM)
    }

    /// The latest next probe of a history policy.
    pub fn latest(&self, last: Timestamp) -> Timestamp {
        last + self.seldom()
    }

    fn in_time(&self, at: Option<Timestamp>, last: Timestamp) -> Timestamp {
        at.map_or(self.latest(last), |at| at.min(self.latest(last)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planning::plan::Revision;

    fn hours(hours: i64) -> Timestamp {
        Timestamp::from_secs(1_000_000) + Span::from_hours(hours)
    }

    fn asked(policy: Policy, known: &Knowledge<'_>) -> (Timestamp, Policy) {
        match next(policy, known, hours(0), hours(0)) {
            NextProbe::At { at, asked_by } => (at, asked_by),
            NextProbe::Sampled { from } => (from, Policy::Adaptive),
        }
    }

    #[test]
    fn without_evidence_every_policy_spreads_evenly() {
        let even = Steps::constant(1.0).unwrap();
        let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::ZERO };
        let known = Knowledge::nothing(budget, &even);
        for policy in Policy::ALL {
            let sampled = matches!(policy, Policy::Adaptive | Policy::Auto);
            let by = if sampled { Policy::Adaptive } else { Policy::Uniform };
            assert_eq!(asked(policy, &known), (hours(1), by), "{policy:?}");
        }
        // A longer gap than the budget requires.
        let slow = Knowledge { gap: Span::from_hours(3), ..known };
        assert_eq!(asked(Policy::Auto, &slow), (hours(3), Policy::Adaptive));
        // Two minutes late, and two hours late: six minutes are compensated at most.
        for (late, made_up) in [(2, 2), (120, 6)] {
            let late = Knowledge { late: Span::from_mins(late), ..known };
            assert_eq!(asked(Policy::Uniform, &late).0, hours(1) - Span::from_mins(made_up));
        }
        assert_eq!(
            asked(Policy::AggHist, &Knowledge { aggregate: Some((&even, 0.0)), ..known }).0,
            hours(1)
        );
    }

    #[test]
    fn each_policy_uses_its_evidence() {
        let even = Steps::constant(1.0).unwrap();
        let (own, group) = (Steps::constant(0.25).unwrap(), Steps::constant(50.0).unwrap());
        let budget = Budget { probes: 8, per: Span::from_days(1), min_spacing: Span::ZERO };
        let plan = Plan {
            made_from: Revision(0),
            by: Policy::Plan,
            times: vec![hours(-1), hours(5), hours(9)],
            starts: hours(-2),
            ends: hours(22),
        };
        let known = Knowledge {
            rate: Some(&own),
            aggregate: Some((&group, 0.01)),
            last_modified: Some(hours(-10)),
            ..Knowledge::nothing(budget, &even)
        };
        assert_eq!(asked(Policy::IndHist, &known), (hours(4), Policy::IndHist));
        assert_eq!(asked(Policy::AggHist, &known), (hours(2), Policy::AggHist));
        assert_eq!(asked(Policy::Ttl, &known), (hours(2), Policy::Ttl));
        let prefetching = Knowledge { ttl_form: TtlForm::Prefetching, ..known };
        assert_eq!(asked(Policy::Ttl, &prefetching), (hours(12), Policy::Ttl));
        assert_eq!(asked(Policy::FirstArrival, &known), (hours(3), Policy::FirstArrival));
        let (at, asked_by) = asked(Policy::Threshold, &known);
        assert!((at - hours(3)).as_millis().abs() <= 1 && asked_by == Policy::Threshold, "{at}");
        // The rate is known, but there is no plan yet.
        assert_eq!(asked(Policy::Auto, &known), (hours(3), Policy::Adaptive));
        assert_eq!(asked(Policy::Auto, &Knowledge { rate: None, ..known }), (hours(2), Policy::AggHist));
        let planned = Knowledge { plan: Some(&plan), ..known };
        assert_eq!(asked(Policy::Auto, &planned), (hours(5), Policy::Plan));
        assert_eq!(asked(Policy::Plan, &planned), (hours(5), Policy::Plan));
        assert_eq!(asked(Policy::Uniform, &planned).1, Policy::Uniform, "uniform ignores plans");
        let patient = Knowledge { least_gap: Span::from_hours(6), ..known };
        assert_eq!(asked(Policy::Ttl, &patient), (hours(6), Policy::Ttl));
        // A plan that is over, and a time in the past.
        let late = |last, now| next(Policy::Plan, &planned, hours(last), hours(now));
        assert_eq!(late(9, 9), NextProbe::At { at: hours(12), asked_by: Policy::Uniform });
        assert_eq!(late(0, 6), NextProbe::At { at: hours(6), asked_by: Policy::Plan });
    }

    #[test]
    fn a_source_without_expected_updates_is_probed_once_a_week() {
        let (even, never) = (Steps::constant(1.0).unwrap(), Steps::constant(0.0).unwrap());
        let known = Knowledge { rate: Some(&never), ..Knowledge::nothing(Budget::default(), &even) };
        for policy in [Policy::IndHist, Policy::Threshold, Policy::FirstArrival] {
            assert_eq!(asked(policy, &known), (hours(7 * 24), policy));
        }
        let monthly = Budget { probes: 1, per: Span::from_days(30), min_spacing: Span::ZERO };
        let known = Knowledge { rate: Some(&never), ..Knowledge::nothing(monthly, &even) };
        assert_eq!(asked(Policy::IndHist, &known).0, hours(30 * 24));
    }
}
