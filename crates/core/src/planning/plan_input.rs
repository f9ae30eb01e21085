//! The next probes of a running source.
//!
//! A budget of n per T holds in *any* window of length T. So a probe within the last T still counts, until
//! it is older than T. A plan covers T from the first allowed probe: at most n probes are possible in it,
//! and the [`Horizon`]'s allowance subtracts those already spent. So a new plan neither wastes budget nor
//! spends it twice. Takes the state of one source. May not know the origin of its rate or the use of the
//! plan.
//!
//! A plan ignores the time after its end, which affects its last probes. So it should be replaced after half
//! of its length. With that, an office week cost 3.5 % more than days planned separately, which violate the
//! budget (`crates/core/tests/core/plan/rolling.rs`).
//!
//! A source with a new plan after every probe is planned *closely*: by the minute for the next few gaps,
//! coarsely afterwards. If it spends less than its budget, it is planned with more probes than the budget,
//! and the plan lists only the allowed number.
//!
//! *At a price* a probe is planned only if it saves that much: the plan of least C̄ + z·(number of probes),
//! a single pass. One price for all sources is the optimal split of any total between sources and between
//! times, since no probe saves more elsewhere. If the budget does not allow the plan of the price, the
//! budget decides.

use serde::{Deserialize, Serialize};

use crate::model::burst::excess::Excess;
use crate::model::habits::predict::Detail;
use crate::model::obsolescence::Obsolescence;
use crate::model::steps::Steps;
use crate::model::week::HOUR_MS;
use crate::observe::FeedHints;
use crate::time::{Span, Timestamp};

use super::budget::Budget;
use super::feed_overflow::{exceeds, most_expected};
use super::horizon::{Grid, Horizon, HorizonEnd, Schedule};
use super::optimal;
use super::policy::Policy;

/// The state of a source that a plan depends on.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanInput {
    /// The current time.
    pub now: Timestamp,
    /// n, T, δ.
    pub budget: Budget,
    /// End times of its probes, ascending; at least those of the last T.
    pub spent: Vec<Timestamp>,
    /// No probe before this time: backoff, `Retry-After`, a paused host.
    pub not_before: Timestamp,
    /// The minimum time between probes from responses: `max-age`.
    pub fresh_for: Span,
    /// The hints of its feed.
    pub hints: FeedHints,
    /// M: the number of items in its feed, if known.
    pub holds: Option<u32>,
    /// Variance over mean of its counts, at least 1.
    pub dispersion: f64,
    /// The additional rate of a burst, if there is one.
    pub excess: Option<Excess>,
    /// The latest update of a source that is overdue: fewer updates are expected of it.
    #[serde(default)]
    pub silent_since: Option<Timestamp>,
    /// In [0, 1): the offset of this source's grid, so that sources of equal rates are not all probed on the
    /// minute.
    pub phase: f64,
    /// Only the next probes matter: a new plan follows.
    pub closely: bool,
    /// z: the minimum expected saving of a probe, in update·hours times importance; 0 to spend the whole
    /// budget.
    pub price: f64,
    /// The maximum time between probes at a price, even if few updates are expected.
    pub at_least_every: Span,
    /// w: the maximum time between probes.
    pub max_gap: Option<Span>,
    /// The approximate time between its probes; it determines the resolution.
    pub gap: Span,
}

/// A plan for the time ahead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlannedTimes {
    /// The policy that these times follow.
    pub by: Policy,
    /// Probe times, ascending.
    pub times: Vec<Timestamp>,
    /// Start of the plan.
    pub starts: Timestamp,
    /// End of the plan.
    pub ends: Timestamp,
    /// C̄ over the plan, in update·hours times importance.
    pub expected_cost: f64,
    /// A lower bound on the cost of every plan with as many probes on its grid.
    pub lower_bound: f64,
    /// The approximate saving of one more probe.
    pub price: f64,
    /// The largest probability that more items arrive between two probes than the feed holds.
    pub overflow: Option<f64>,
}

/// The maximum probability that a feed loses items between two probes, if the budget allows.
pub const RISK: f64 = 0.01;

/// The grid step is a minute, or longer for long T, so that it has no more points than a week of minutes.
const GRID: Span = Span::from_mins(1);
const MOST_SLOTS: i64 = 7 * 24 * 60;
/// The minimum number of grid points for short T.
const FEWEST_SLOTS: i64 = 1440;

const WEEK: Span = Span::from_days(7);

/// The number of gaps planned by the minute if a new plan follows, and the resolution of the rest as a share
/// of a gap.
const CLOSELY: f64 = 4.0;
const COARSE: f64 = 1.0 / 12.0;
/// The share of the probes of such a plan that may remain unused, for speed.
const LEFT_OVER: f64 = 0.02;
/// The maximum factor on the budget in such a plan.
const MOST_MORE: f64 = 3.0;

/// The range of a plan at a price in gaps, some of them by the minute …
const REACH: f64 = 16.0;
/// … on a grid of at most this many points at the fine resolution …
const MOST_PRICED: f64 = 50_000.0;
const REACHES: (Span, Span) = (Span::from_days(2), Span::from_days(14));
const CLOSELY_PRICED: f64 = 5.0;

/// The maximum time between probes at a price, even if few updates are expected.
pub const AT_LEAST_EVERY: Span = Span::from_days(1);

/// The minimum time between two probes: the spacing, or a longer one that feed or responses require.
pub fn apart(min_spacing: Span, hints: &FeedHints, fresh_for: Span) -> Span {
    [hints.ttl, hints.update_period, Some(fresh_for)].into_iter().flatten().fold(min_spacing, Span::max)
}

/// Budgets over longer spans are spread evenly, not planned.
const LONGEST: Span = Span::from_days(3660);

/// The best plan from now on under this rate, in updates per hour, and importance. `None` if no plan is
/// possible: no probe helps, or every time is closed for all of T.
pub fn plan(input: &PlanInput, rate: &Steps, importance: &Steps) -> Option<PlannedTimes> {
    let rates = |from, until| {
        let rates = rate.over(from, until);
        match input.excess {
            Some(excess) => excess.added_to(&rates, from, until),
            None => rates,
        }
    };
    plan_under(input, rates, importance)
}

/// The same under any rate: `rates` returns the pieces of a span, like [`Steps::over`].
pub fn plan_under(
    input: &PlanInput,
    rates: impl Fn(Timestamp, Timestamp) -> Vec<(i64, f64)>,
    importance: &Steps,
) -> Option<PlannedTimes> {
    let within = plan_within(input, &rates, importance);
    // If no schedule satisfies the maximum gap, the best without it is used.
    let otherwise = || {
        let unbound = PlanInput { max_gap: None, ..input.clone() };
        plan_within(&unbound, &rates, importance)
    };
    within.or_else(|| input.max_gap.and_then(|_| otherwise()))
}

fn plan_within(
    input: &PlanInput,
    rates: impl Fn(Timestamp, Timestamp) -> Vec<(i64, f64)>,
    importance: &Steps,
) -> Option<PlannedTimes> {
    let budget = &input.budget;
    if budget.per > LONGEST {
        return None;
    }
    if input.price > 0.0
        && let Some(ahead) = at_price(input, &rates, importance)
    {
        return Some(ahead);
    }
    let ends = input.allowed_from() + budget.per;
    let starts = input.starts();
    let horizon = input.horizon(&rates(starts, ends), importance, ends);
    let grid = input.grid(starts);
    let mut best = match input.closely {
        true => optimal::solve_about(&horizon, grid, LEFT_OVER).ok()?,
        false => optimal::solve_fast(&horizon, grid).ok()?,
    };
    let certificate = Certificate::new(&best, horizon.probes);
    let mut overflow =
        input.holds.map(|holds| exceeds(longest(&horizon, &best.times), holds, input.dispersion));
    if let Some(holds) = input.holds.filter(|_| overflow > Some(RISK))
        && let Some(complete) = complete(&horizon, grid, most_expected(holds, RISK, input.dispersion))
    {
        best = complete;
        overflow = Some(exceeds(longest(&horizon, &best.times), holds, input.dispersion));
    }
    if best.times.is_empty() {
        return None;
    }
    // Probes beyond the budget affect the plan but are not listed.
    best.times.truncate(budget.probes as usize);
    certificate.apply(&horizon, &mut best);
    Some(PlannedTimes::new(best, starts, ends, overflow))
}

/// What is known of the best schedules on a grid: L(z) = min over k of f(k) + z·k. So f(k) is at least
/// L(z) − z·k for every number of probes k.
struct Certificate {
    price: f64,
    /// L(z).
    with_prices: f64,
}

impl Certificate {
    /// From the best schedule of this number of probes.
    fn new(best: &Schedule, probes: u32) -> Self {
        Self { price: best.price, with_prices: best.lower_bound + best.price * f64::from(probes) }
    }

    /// Sets the cost of a changed schedule, and the bound for its number of probes.
    fn apply(&self, horizon: &Horizon, schedule: &mut Schedule) {
        schedule.expected_cost = horizon.cost.cost_of(&schedule.times);
        let bound = self.with_prices - self.price * schedule.times.len() as f64;
        schedule.lower_bound = bound.clamp(0.0, schedule.expected_cost.max(0.0));
    }
}

/// The plan in which every probe saves at least its price; `None` if the budget does not allow it.
fn at_price(
    input: &PlanInput,
    rates: impl Fn(Timestamp, Timestamp) -> Vec<(i64, f64)>,
    importance: &Steps,
) -> Option<PlannedTimes> {
    let (starts, ends) = (input.starts(), input.allowed_from() + input.reach());
    let horizon = input.horizon(&rates(starts, ends), importance, ends);
    let grid = input.grid(starts);
    let mut best = optimal::at_price(&horizon, grid, input.price, None).ok()?;
    let certificate = Certificate::new(&best, u32::try_from(best.times.len()).unwrap_or(u32::MAX));
    let overflow = |best: &Schedule| {
        input.holds.map(|holds| exceeds(longest(&horizon, &best.times), holds, input.dispersion))
    };
    if let Some(holds) = input.holds.filter(|_| overflow(&best) > Some(RISK)) {
        let most = Some(most_expected(holds, RISK, input.dispersion));
        // If no schedule satisfies the limit, the price decides.
        best = optimal::at_price(&horizon, grid, input.price, most).unwrap_or(best);
    }
    // A minimum frequency applies even if few updates are expected.
    let last = input.spent.last().copied().unwrap_or(input.now);
    let latest = (last + input.at_least_every).max(input.allowed_from()) - starts;
    let latest = horizon.open_from(latest.max(horizon.min_spacing));
    if best.times.first().is_none_or(|&first| first > latest) && latest < horizon.length() {
        best.times.retain(|&at| at - latest >= horizon.min_spacing.max(Span::from_millis(1)));
        best.times.insert(0, latest);
    }
    let overflow = overflow(&best);
    let times: Vec<Timestamp> = best.times.iter().map(|&at| starts + at).collect();
    let allowed = input.may_be_spent(&times);
    if let Some(&refused) = times.get(allowed) {
        // Times beyond T are planned later, with the spending up to then.
        if refused < input.allowed_from() + input.budget.per {
            return None;
        }
        best.times.truncate(allowed);
    }
    certificate.apply(&horizon, &mut best);
    (!best.times.is_empty()).then(|| PlannedTimes::new(best, starts, ends, overflow))
}

impl PlannedTimes {
    fn new(best: Schedule, starts: Timestamp, ends: Timestamp, overflow: Option<f64>) -> Self {
        Self {
            by: Policy::Plan,
            times: best.times.into_iter().map(|at| starts + at).collect(),
            starts,
            ends,
            expected_cost: best.expected_cost,
            lower_bound: best.lower_bound,
            price: best.price,
            overflow,
        }
    }
}

impl PlanInput {
    /// A source without probes or hints.
    pub fn new(now: Timestamp, budget: Budget) -> Self {
        Self {
            now,
            budget,
            spent: Vec::new(),
            not_before: now,
            fresh_for: Span::ZERO,
            hints: FeedHints::default(),
            holds: None,
            dispersion: 1.0,
            excess: None,
            silent_since: None,
            phase: 0.0,
            closely: false,
            price: 0.0,
            at_least_every: AT_LEAST_EVERY,
            max_gap: None,
            gap: budget.even_gap(),
        }
    }

    /// The start of the horizon: the last probe, since undetected updates accumulate from there; at most T
    /// ago.
    fn starts(&self) -> Timestamp {
        let longest =
            if self.price > 0.0 { self.budget.per.max(self.at_least_every) } else { self.budget.per };
        self.spent.last().map_or(self.now, |&last| last.clamp(self.now - longest, self.now))
    }

    fn horizon(&self, rates: &[(i64, f64)], importance: &Steps, ends: Timestamp) -> Horizon {
        let starts = self.starts();
        Horizon {
            cost: Obsolescence::of_pieces(rates, &importance.over(starts, ends)),
            probes: self.probes(),
            min_spacing: apart(self.budget.min_spacing, &self.hints, self.fresh_for),
            closed: self.closed(starts, ends),
            allowance: self.allowance(starts),
            longest_gap: self.max_gap,
            end: HorizonEnd::Open,
        }
    }

    /// The number of these times, from the first, that the budget allows.
    fn may_be_spent(&self, times: &[Timestamp]) -> usize {
        let Budget { probes, per, .. } = self.budget;
        let all: Vec<Timestamp> = self.spent.iter().chain(times).copied().collect();
        let n = probes.max(1) as usize;
        let kept = |&last: &usize| last < n || all[last] - all[last - n] >= per;
        (self.spent.len()..all.len()).take_while(kept).count()
    }

    /// Sets the gap at which the mean probe saves its price: C̄ = λa·gap²/2.
    pub fn paced(&self, rate: &Steps, importance: &Steps) -> Self {
        let ends = self.now + WEEK;
        let mean = |steps: &Steps| {
            let mut before = 0;
            let parts = steps.over(self.now, ends).into_iter().map(|(end, value)| {
                let length = (end - std::mem::replace(&mut before, end)) as f64;
                value * length
            });
            parts.sum::<f64>() / WEEK.as_millis() as f64
        };
        let mut paced = self.clone();
        if self.price > 0.0 {
            let hours = (2.0 * self.price / (mean(rate) * mean(importance)).max(1e-9)).sqrt();
            let worth = Span::from_hours(1).scaled(hours.min(1e4));
            paced.gap =
                worth.clamp(self.budget.even_gap(), self.at_least_every.max(self.budget.even_gap()));
        }
        paced
    }

    /// The range of a plan at a price.
    fn reach(&self) -> Span {
        self.gap.scaled(REACH).clamp(REACHES.0, REACHES.1)
    }

    /// The number of probes to plan with. Frequent replanning defers probes from quiet to busy times that
    /// rarely use them. So a source that spends less than its budget is planned with more. The budget still
    /// limits the plan.
    fn probes(&self) -> u32 {
        let Budget { probes, per, .. } = self.budget;
        let lately = self.spent.len() - self.spent.partition_point(|&at| at + per <= self.now);
        if !self.closely || self.price > 0.0 || self.spent.len() < probes as usize || lately == 0 {
            return probes;
        }
        let short = f64::from(probes) / lately as f64;
        // A share of the additional probes is deferred too, so the factor is larger than the shortfall.
        (f64::from(probes) * (short * short).clamp(1.0, MOST_MORE)) as u32
    }

    /// The earliest allowed probe. Planning starts there, and at most n probes are possible within T of it.
    pub(super) fn allowed_from(&self) -> Timestamp {
        let nth = self.spent.len().checked_sub(self.budget.probes.max(1) as usize);
        let budget = nth.map_or(Timestamp::MIN, |nth| self.spent[nth] + self.budget.per);
        self.now.max(self.not_before).max(budget)
    }

    /// Closed times within the horizon: before the first allowed probe, and skipped hours and days (UTC).
    fn closed(&self, starts: Timestamp, ends: Timestamp) -> Vec<(Span, Span)> {
        let (hours, days) = (self.hints.skip_hours, self.hints.skip_days);
        let mut closed = vec![(Span::ZERO, self.now.max(self.not_before) - starts)];
        if hours == 0 && days == 0 {
            return closed;
        }
        let first = starts.as_millis().div_euclid(HOUR_MS);
        let last = ends.as_millis().div_euclid(HOUR_MS);
        for at in (first..=last).map(|hour| Timestamp::from_millis(hour * HOUR_MS)) {
            if hours >> at.utc_hour() & 1 == 0 && days >> at.utc_weekday() & 1 == 0 {
                continue;
            }
            let (from, until) = (at - starts, at - starts + Span::from_hours(1));
            match closed.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => closed.push((from, until)),
            }
        }
        closed
    }

    /// The remaining allowance: each probe of the last T counts until it is older than T.
    fn allowance(&self, starts: Timestamp) -> Vec<(Span, u32)> {
        let Budget { probes, per, .. } = self.budget;
        let counting = self.spent.partition_point(|&at| at + per <= self.now);
        let still = &self.spent[counting..];
        let mut allowance: Vec<(Span, u32)> = Vec::with_capacity(still.len());
        for (index, &at) in still.iter().enumerate() {
            let spent = u32::try_from(still.len() - index).unwrap_or(u32::MAX);
            let (until, most) = (at + per - starts, probes.saturating_sub(spent));
            match allowance.last_mut() {
                Some(last) if last.0 == until => {}
                _ => allowance.push((until, most)),
            }
        }
        allowance
    }

    /// The start and the step of the coarser part: a new plan replaces it before it is reached.
    pub fn coarser(&self) -> Option<(Timestamp, Span)> {
        let gap = self.gap;
        let fine = if self.price > 0.0 { gap.scaled(CLOSELY_PRICED) } else { gap.scaled(CLOSELY) };
        self.closely.then(|| (self.allowed_from() + fine, gap.scaled(COARSE).max(GRID)))
    }

    /// The resolution of the rate for this plan.
    pub fn detail(&self) -> Detail {
        Detail { fine: self.step(), coarser: self.coarser() }
    }

    /// γ: the step of the grid.
    fn step(&self) -> Span {
        let per = self.budget.per.as_millis();
        let finest = (per / FEWEST_SLOTS).clamp(1, GRID.as_millis());
        let step = Span::from_millis((per - 1).div_euclid(MOST_SLOTS).div_euclid(finest) * finest + finest);
        if self.price > 0.0 { step.max(self.reach().scaled(MOST_PRICED.recip())) } else { step }
    }

    /// The grid with the offset of this source.
    fn grid(&self, starts: Timestamp) -> Grid {
        let step = self.step().as_millis();
        let begins = Timestamp::from_millis(self.now.as_millis().div_euclid(step) * step);
        let mut first = begins + Span::from_millis(step).scaled(self.phase);
        if first < self.now {
            first += Span::from_millis(step);
        }
        let coarser = self.coarser().map(|(from, wide)| (from - starts, wide.max(Span::from_millis(step))));
        Grid { step: Span::from_millis(step), first: first - starts, coarser }
    }
}

/// The maximum of expected updates between two of these probes, or before the first.
fn longest(horizon: &Horizon, times: &[Span]) -> f64 {
    let mut last = Span::ZERO;
    times.iter().fold(0.0, |most: f64, &at| {
        let gap = horizon.cost.expected_updates(last, at);
        last = at;
        most.max(gap)
    })
}

/// The best schedule with at most `wanted` expected items between two probes. If the budget is too small, the
/// one with the smallest maximum of expected items.
fn complete(horizon: &Horizon, grid: Grid, wanted: f64) -> Option<Schedule> {
    let slots = horizon.slots(grid).ok()?;
    let updates: Vec<f64> = horizon.cost.sums_at(slots.iter().copied()).map(|sums| sums.updates).collect();
    let first = slots.iter().position(|&at| horizon.may_be_sent(at) > 0)?;
    let all = horizon.cost.sums(horizon.length()).updates;
    let (mut low, mut high) = (wanted, all.max(wanted));
    if reaches_the_end(horizon, &slots, &updates, low) {
        high = low;
    }
    // A precision of one per mille is sufficient.
    while high - low > 1e-3 * high {
        let middle = f64::midpoint(low, high);
        if reaches_the_end(horizon, &slots, &updates, middle) { high = middle } else { low = middle }
    }
    optimal::solve_within(horizon, grid, high, updates[first]).ok()
}

/// Whether probes as late as possible, with at most `longest` updates expected between two, cover the
/// horizon.
fn reaches_the_end(horizon: &Horizon, slots: &[Span], updates: &[f64], longest: f64) -> bool {
    let all = horizon.cost.sums(horizon.length()).updates;
    let mut seen = 0.0;
    let mut last = Span::ZERO;
    for number in 0..horizon.probes as usize {
        if all - seen <= longest {
            return true;
        }
        let soonest = (last + horizon.min_spacing).max(horizon.earliest(number));
        let first = slots.partition_point(|&at| at < soonest);
        let mut latest = updates.partition_point(|&at| at <= seen + longest);
        if number == 0 {
            // The time before the first slot is exempt.
            latest = latest.max(first + 1);
        }
        if latest <= first || latest > slots.len() {
            return false;
        }
        (last, seen) = (slots[latest - 1], updates[latest - 1]);
    }
    all - seen <= longest
}
