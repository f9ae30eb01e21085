//! Planning in mid-flight: the next probes of a source that has been probed before.
//!
//! A budget of n per T holds in *any* window of length T, so what was spent within the last T is
//! still spent, and comes back probe by probe as it grows older than T. A plan therefore looks T
//! ahead, from when the first probe is allowed: within that at most n probes are possible, and of any
//! window that reaches back before now the spent ones are subtracted (the [`Horizon`]'s allowance). So
//! a plan that is made anew neither wastes budget nor spends it twice. It knows nothing of what comes
//! after its end, and its last probes are placed accordingly: it should be made anew when half of it is
//! over. Then an office week came out 3.5 % above days planned by themselves, which break the budget
//! (`tests/plan/rolling.rs`).
//!
//! A source whose plan is made anew at every landing is planned *closely*: by the minute for the next few
//! gaps, coarsely from then on, and with somewhat more probes than it may have if it spends less than
//! that, of which the plan then lists no more than it may have.
//!
//! *At a price* a probe is planned only if it saves as much: the plan of least C̄ + z·(number of probes), a
//! single pass. One price for all sources splits any total between them as well as can be, since at the
//! best split no probe would save more elsewhere, and between busy times and quiet ones of each. Where the
//! budget does not allow what the price would, the budget decides, as without a price.
//!
//! Knows one source as it stands. Must not know where its rate came from, nor who carries the plan
//! out.

use serde::{Deserialize, Serialize};

use crate::model::burst::excess::Excess;
use crate::model::habits::foretell::Detail;
use crate::model::obsolescence::Obsolescence;
use crate::model::steps::Steps;
use crate::model::week::HOUR_MS;
use crate::observe::FeedHints;
use crate::time::{Span, Timestamp};

use super::budget::Budget;
use super::complete::{exceeds, most_expected};
use super::horizon::{End, Grid, Horizon, Schedule};
use super::optimal;
use super::policy::Policy;

/// A source as it stands when a plan is made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// When.
    pub now: Timestamp,
    /// n, T, δ.
    pub budget: Budget,
    /// When its probes ended, ascending; those of the last T at least.
    pub spent: Vec<Timestamp>,
    /// Nothing is allowed before: backoff, `Retry-After`, a paused host.
    pub not_before: Timestamp,
    /// What every answer asks to keep until the next probe: `max-age`.
    pub fresh_for: Span,
    /// What its feed asks.
    pub hints: FeedHints,
    /// M: how many items its feed holds, where that is known.
    pub holds: Option<u32>,
    /// What a burst adds to its rhythm, if one is on or thought of.
    pub excess: Option<Excess>,
    /// In [0, 1): where between two times of the grid this source's own grid lies, so that sources
    /// of one rhythm are not all probed on the minute.
    pub phase: f64,
    /// Only what comes next matters: it will be planned anew.
    pub closely: bool,
    /// z: what a probe must be expected to save to be sent, in update·hours times importance; 0 if the
    /// budget is to be spent whole.
    pub price: f64,
    /// w: the longest that it may go unseen.
    pub max_gap: Option<Span>,
    /// About how far apart its probes are: what is much finer need not be told apart.
    pub gap: Span,
}

/// A plan for the time ahead.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ahead {
    /// The policy that these times follow.
    pub by: Policy,
    /// When to probe, ascending.
    pub times: Vec<Timestamp>,
    /// From when it was planned.
    pub starts: Timestamp,
    /// Until when.
    pub ends: Timestamp,
    /// C̄ over it, in update·hours times importance.
    pub expected_cost: f64,
    /// No allowed plan on its grid can cost less.
    pub lower_bound: f64,
    /// About what one probe more would save.
    pub price: f64,
    /// The largest probability that more items come between two probes than the feed holds.
    pub overflow: Option<f64>,
}

/// A feed may lose items between two probes with this probability at most, if the budget allows.
pub const RISK: f64 = 0.01;

/// A grid is a minute, or coarser where T is long, so that it has no more points than a week of them.
const GRID: Span = Span::from_mins(1);
const MOST_SLOTS: i64 = 7 * 24 * 60;
/// Where T is short, a grid still has this many.
const FEWEST_SLOTS: i64 = 1440;

const WEEK: Span = Span::from_days(7);

/// Gaps that are planned by the minute where the rest will be planned anew, and the share of one
/// that the rest is planned by.
const CLOSELY: f64 = 4.0;
const COARSE: f64 = 1.0 / 12.0;
/// The share of the probes of such a plan that may be left over for the sake of speed.
const LEFT_OVER: f64 = 0.02;
/// It is planned with at most so many times the budget.
const MOST_MORE: f64 = 3.0;

/// At a price so many gaps are looked ahead, some of them by the minute …
const REACH: f64 = 16.0;
/// … on a grid of no more points than that if it were as fine all along …
const MOST_PRICED: f64 = 50_000.0;
const REACHES: (Span, Span) = (Span::from_days(2), Span::from_days(14));
const CLOSELY_PRICED: f64 = 5.0;
/// … and however little a source is expected to bring, it is looked at so often.
const AT_LEAST_EVERY: Span = Span::from_days(1);

/// What is to be kept between two probes: the spacing, or what every answer asks for.
pub fn apart(min_spacing: Span, hints: &FeedHints, fresh_for: Span) -> Span {
    [hints.ttl, hints.update_period, Some(fresh_for)].into_iter().flatten().fold(min_spacing, Span::max)
}

/// Budgets over longer spans than this are spread, not planned.
const LONGEST: Span = Span::from_days(3660);

/// The best plan from now on under this rate, in updates per hour, and importance. `None` where
/// nothing can be planned: no probe helps, or every time is closed for all of T.
pub fn plan(standing: &Standing, rate: &Steps, importance: &Steps) -> Option<Ahead> {
    let rates = |from, until| {
        let rates = rate.over(from, until);
        match standing.excess {
            Some(excess) => excess.added_to(&rates, from, until),
            None => rates,
        }
    };
    plan_under(standing, rates, importance)
}

/// The same under any rate: `rates` gives the pieces of a span, as [`Steps::over`] does.
pub fn plan_under(
    standing: &Standing,
    rates: impl Fn(Timestamp, Timestamp) -> Vec<(i64, f64)>,
    importance: &Steps,
) -> Option<Ahead> {
    let within = plan_within(standing, &rates, importance);
    // Where no schedule keeps the longest gap, the best without it is better than none.
    let otherwise = || {
        let unbound = Standing { max_gap: None, ..standing.clone() };
        plan_within(&unbound, &rates, importance)
    };
    within.or_else(|| standing.max_gap.and_then(|_| otherwise()))
}

fn plan_within(
    standing: &Standing,
    rates: impl Fn(Timestamp, Timestamp) -> Vec<(i64, f64)>,
    importance: &Steps,
) -> Option<Ahead> {
    let budget = &standing.budget;
    if budget.per > LONGEST {
        return None;
    }
    if standing.price > 0.0
        && let Some(ahead) = at_price(standing, &rates, importance)
    {
        return Some(ahead);
    }
    let ends = standing.allowed_from() + budget.per;
    let starts = standing.starts();
    let horizon = standing.horizon(&rates(starts, ends), importance, ends);
    let grid = standing.grid(starts);
    let mut best = match standing.closely {
        true => optimal::solve_about(&horizon, grid, LEFT_OVER).ok()?,
        false => optimal::solve_fast(&horizon, grid).ok()?,
    };
    let mut overflow = standing.holds.map(|holds| exceeds(longest(&horizon, &best.times), holds));
    if let Some(holds) = standing.holds.filter(|_| overflow > Some(RISK))
        && let Some(complete) = complete(&horizon, grid, holds)
    {
        // The bound is still that of all plans, careful or not.
        best = Schedule { lower_bound: best.lower_bound.min(complete.expected_cost), ..complete };
        overflow = Some(exceeds(longest(&horizon, &best.times), holds));
    }
    if best.times.is_empty() {
        return None;
    }
    if best.times.len() > budget.probes as usize {
        // What it may not spend is planned with, not for.
        best.times.truncate(budget.probes as usize);
        best.expected_cost = horizon.cost.cost_of(&best.times);
    }
    Some(Ahead::new(best, starts, ends, overflow))
}

/// The plan in which every probe is worth its price; `None` where the budget does not allow that, and
/// decides.
fn at_price(
    standing: &Standing,
    rates: impl Fn(Timestamp, Timestamp) -> Vec<(i64, f64)>,
    importance: &Steps,
) -> Option<Ahead> {
    let (starts, ends) = (standing.starts(), standing.allowed_from() + standing.reach());
    let horizon = standing.horizon(&rates(starts, ends), importance, ends);
    let grid = standing.grid(starts);
    let mut best = optimal::at_price(&horizon, grid, standing.price, None).ok()?;
    let overflow =
        |best: &Schedule| standing.holds.map(|holds| exceeds(longest(&horizon, &best.times), holds));
    if let Some(holds) = standing.holds.filter(|_| overflow(&best) > Some(RISK)) {
        let most = Some(most_expected(holds, RISK));
        // Where too much comes in whenever probes are sent, the price decides.
        best = optimal::at_price(&horizon, grid, standing.price, most).unwrap_or(best);
    }
    // However little is expected, it is looked for at times.
    let last = standing.spent.last().copied().unwrap_or(standing.now);
    let latest = (last + AT_LEAST_EVERY).max(standing.allowed_from()) - starts;
    let latest = horizon.open_from(latest.max(horizon.min_spacing));
    if best.times.first().is_none_or(|&first| first > latest) && latest < horizon.length() {
        best.times.retain(|&at| at - latest >= horizon.min_spacing.max(Span::from_millis(1)));
        best.times.insert(0, latest);
        best.expected_cost = horizon.cost.cost_of(&best.times);
        best.lower_bound = best.lower_bound.min(best.expected_cost);
    }
    let overflow = overflow(&best);
    let mut ahead = Ahead::new(best, starts, ends, overflow);
    let allowed = standing.may_be_spent(&ahead.times);
    if let Some(&refused) = ahead.times.get(allowed) {
        // What lies further ahead than T will be planned anew, with what is spent by then.
        if refused < standing.allowed_from() + standing.budget.per {
            return None;
        }
        ahead.times.truncate(allowed);
    }
    (!ahead.times.is_empty()).then_some(ahead)
}

impl Ahead {
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

impl Standing {
    /// A source that has never been probed and asks for nothing.
    pub fn new(now: Timestamp, budget: Budget) -> Self {
        Self {
            now,
            budget,
            spent: Vec::new(),
            not_before: now,
            fresh_for: Span::ZERO,
            hints: FeedHints::default(),
            holds: None,
            excess: None,
            phase: 0.0,
            closely: false,
            price: 0.0,
            max_gap: None,
            gap: budget.even_gap(),
        }
    }

    /// From when updates count: what came in since the last probe waits for the next; further back than T
    /// it is all the same.
    fn starts(&self) -> Timestamp {
        let longest = if self.price > 0.0 { self.budget.per.max(AT_LEAST_EVERY) } else { self.budget.per };
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
            end: End::Open,
        }
    }

    /// How many of these times, from the first on, the budget allows.
    fn may_be_spent(&self, times: &[Timestamp]) -> usize {
        let Budget { probes, per, .. } = self.budget;
        let all: Vec<Timestamp> = self.spent.iter().chain(times).copied().collect();
        let n = probes.max(1) as usize;
        let kept = |&last: &usize| last < n || all[last] - all[last - n] >= per;
        (self.spent.len()..all.len()).take_while(kept).count()
    }

    /// At a price probes are about so far apart that the mean one is worth it: C̄ = λa·gap²/2.
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
            paced.gap = worth.clamp(self.budget.even_gap(), AT_LEAST_EVERY.max(self.budget.even_gap()));
        }
        paced
    }

    /// How far ahead a plan at a price looks.
    fn reach(&self) -> Span {
        self.gap.scaled(REACH).clamp(REACHES.0, REACHES.1)
    }

    /// How many probes to plan with. Who plans anew whenever more is known puts off in quiet times what
    /// busy ones seldom take: it is planned with more if it spends less than it may. What may not be
    /// spent is still not.
    fn probes(&self) -> u32 {
        let Budget { probes, per, .. } = self.budget;
        let lately = self.spent.len() - self.spent.partition_point(|&at| at + per <= self.now);
        if !self.closely || self.price > 0.0 || self.spent.len() < probes as usize || lately == 0 {
            return probes;
        }
        let short = f64::from(probes) / lately as f64;
        // Of what it is planned with more it puts off a share again, so it is more than what is missing.
        (f64::from(probes) * (short * short).clamp(1.0, MOST_MORE)) as u32
    }

    /// From when a probe is allowed as far as is known. Only from then on is there anything to plan, and
    /// within T of it no more than n.
    pub(super) fn allowed_from(&self) -> Timestamp {
        let nth = self.spent.len().checked_sub(self.budget.probes.max(1) as usize);
        let budget = nth.map_or(Timestamp::MIN, |nth| self.spent[nth] + self.budget.per);
        self.now.max(self.not_before).max(budget)
    }

    /// Times before anything is allowed, and hours and days to be skipped (UTC), as far as they lie
    /// within the horizon.
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

    /// What is still spent: each probe of the last T counts until it is older than that.
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

    /// From when on, and how far apart, times need not be told apart as finely: what lies there will be
    /// planned anew before it comes.
    pub fn coarser(&self) -> Option<(Timestamp, Span)> {
        let gap = self.gap;
        let fine = if self.price > 0.0 { gap.scaled(CLOSELY_PRICED) } else { gap.scaled(CLOSELY) };
        self.closely.then(|| (self.allowed_from() + fine, gap.scaled(COARSE).max(GRID)))
    }

    /// How finely a rate is worth knowing for that.
    pub fn detail(&self) -> Detail {
        Detail { fine: self.step(), coarser: self.coarser() }
    }

    /// γ: from one time of the grid to the next.
    fn step(&self) -> Span {
        let per = self.budget.per.as_millis();
        let finest = (per / FEWEST_SLOTS).clamp(1, GRID.as_millis());
        let step = Span::from_millis((per - 1).div_euclid(MOST_SLOTS).div_euclid(finest) * finest + finest);
        if self.price > 0.0 { step.max(self.reach().scaled(MOST_PRICED.recip())) } else { step }
    }

    /// Times at this source's own place between whole grid steps.
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

/// The most updates expected between two of these probes, or before the first.
fn longest(horizon: &Horizon, times: &[Span]) -> f64 {
    let mut last = Span::ZERO;
    times.iter().fold(0.0, |most: f64, &at| {
        let gap = horizon.cost.expected_updates(last, at);
        last = at;
        most.max(gap)
    })
}

/// The best schedule that seldom lets more than `holds` items come between two probes; where the
/// budget is too small for that, the one that lets the fewest be expected.
fn complete(horizon: &Horizon, grid: Grid, holds: u32) -> Option<Schedule> {
    let slots = horizon.slots(grid).ok()?;
    let updates: Vec<f64> = horizon.cost.sums_at(slots.iter().copied()).map(|sums| sums.updates).collect();
    let first = slots.iter().position(|&at| horizon.may_be_sent(at) > 0)?;
    let wanted = most_expected(holds, RISK);
    let all = horizon.cost.sums(horizon.length()).updates;
    let (mut low, mut high) = (wanted, all.max(wanted));
    if reaches_the_end(horizon, &slots, &updates, low) {
        high = low;
    }
    // A per mille of a gap more or less is not worth a search.
    while high - low > 1e-3 * high {
        let middle = f64::midpoint(low, high);
        if reaches_the_end(horizon, &slots, &updates, middle) { high = middle } else { low = middle }
    }
    optimal::solve_within(horizon, grid, high, updates[first]).ok()
}

/// Whether probes as late as they may be, with at most `longest` expected between two, keep going
/// until the horizon's end.
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
            // What has passed cannot be helped.
            latest = latest.max(first + 1);
        }
        if latest <= first || latest > slots.len() {
            return false;
        }
        (last, seen) = (slots[latest - 1], updates[latest - 1]);
    }
    all - seen <= longest
}
