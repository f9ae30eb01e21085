//! Plans of a running source. The budget holds in every window and is used, however much was spent and
//! however often plans are rebuilt.

use proptest::prelude::*;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::observe::FeedHints;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::feed_overflow::{exceeds, most_expected};
use tidewatch_core::planning::horizon::{Grid, Horizon, HorizonEnd};
use tidewatch_core::planning::optimal;
use tidewatch_core::planning::plan_input::{PlanInput, RISK, plan};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};

fn monday() -> Timestamp {
    Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
}

/// Six an hour in office hours, one in ten hours otherwise.
fn office() -> Steps {
    let hours = WeekWindow { days: 0b1_1111, from_minute: 540, until_minute: 1020 };
    Steps::windows(jiff::tz::TimeZone::UTC, 0.1, &[(hours, 6.0)]).unwrap()
}

fn even() -> Steps {
    Steps::constant(1.0).unwrap()
}

fn input(now: Timestamp, budget: Budget, spent: Vec<Timestamp>) -> PlanInput {
    PlanInput { spent, phase: 0.3, ..PlanInput::new(now, budget) }
}

fn check(probes: &[Timestamp], budget: &Budget) {
    for pair in probes.windows(2) {
        assert!(pair[1] - pair[0] >= budget.min_spacing, "{} then {}", pair[0], pair[1]);
    }
    for window in probes.windows(budget.probes as usize + 1) {
        let (first, last) = (window[0], window[window.len() - 1]);
        assert!(last - first >= budget.per, "{} probes from {first} to {last}", window.len());
    }
}

/// A quiet night has no gap longer than the configured maximum, at no lower cost than without it.
#[test]
fn no_gap_is_longer_than_the_maximum() {
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::from_mins(15) };
    let night = monday() + Span::from_hours(18);
    let longest = |made: &PlanInput| {
        let made = plan(made, &office(), &even()).unwrap();
        let all: Vec<Timestamp> = [night].into_iter().chain(made.times).chain([made.ends]).collect();
        (all.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap(), made.expected_cost)
    };
    for (closely, price) in [(false, 0.0), (true, 0.0), (false, 0.5)] {
        let free = PlanInput { closely, price, ..input(night, budget, vec![night]) };
        let bound = PlanInput { max_gap: Some(Span::from_hours(2)), ..free.clone() };
        let (one, other) = (longest(&free), longest(&bound));
        assert!(one.0 > Span::from_hours(3), "{}", one.0);
        assert!(other.0 <= Span::from_hours(2), "{} (closely {closely}, price {price})", other.0);
        // If fewer probes are planned than allowed, more of them cost less.
        assert!(price > 0.0 || closely || other.1 >= one.1, "{} against {}", other.1, one.1);
    }
    // A maximum that cannot be kept still gives a plan.
    let few = Budget { probes: 2, ..budget };
    let bound = PlanInput { max_gap: Some(Span::from_hours(2)), ..input(night, few, vec![night]) };
    assert!(!plan(&bound, &office(), &even()).unwrap().times.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Any allowed history of probes, any hints and any start time.
    #[test]
    fn a_plan_keeps_the_budget_together_with_earlier_probes(
        probes in 1_u32..40,
        per_h in 1_i64..72,
        spacing_min in 0_i64..40,
        waits in prop::collection::vec(0_i64..90, 0..60),
        since in 0_i64..600,
        not_before in 0_i64..300,
        skip_hours in prop_oneof![Just(0_u32), 0_u32..0xFF_FFFF],
        ttl in prop_oneof![Just(None), (1_i64..90).prop_map(Some)],
        phase in 0.0_f64..1.0,
        price in prop_oneof![Just(0.0), 1e-4_f64..3.0],
        closely in any::<bool>(),
    ) {
        let budget = Budget { probes, per: Span::from_hours(per_h), min_spacing: Span::from_mins(spacing_min) };
        let mut spent: Vec<Timestamp> = Vec::new();
        for wait in waits {
            let mut at = spent.last().map_or(monday(), |&last| last + budget.min_spacing.max(Span::from_mins(wait)));
            if let Some(&nth) = spent.len().checked_sub(probes as usize).and_then(|nth| spent.get(nth)) {
                at = at.max(nth + budget.per);
            }
            spent.push(at);
        }
        let now = spent.last().copied().unwrap_or(monday()) + Span::from_mins(since);
        let hints = FeedHints { skip_hours, ttl: ttl.map(Span::from_mins), ..FeedHints::default() };
        let not_before = now + Span::from_mins(not_before);
        let input = input(now, budget, spent.clone());
        let wanted = PlanInput { hints, not_before, phase, price, closely, ..input };
        let wanted = wanted.paced(&office(), &even());
        let Some(ahead) = plan(&wanted, &office(), &even()) else { return Ok(()) };
        for &at in &ahead.times {
            prop_assert!(at >= not_before && at <= ahead.ends);
            prop_assert!(skip_hours >> at.utc_hour() & 1 == 0);
        }
        let apart = hints.ttl.unwrap_or(Span::ZERO).max(budget.min_spacing);
        for pair in ahead.times.windows(2) {
            prop_assert!(pair[1] - pair[0] >= apart);
        }
        // The cost is that of the listed times, and no schedule with as many probes costs less than the bound.
        let cost = Obsolescence::new(&office(), &even(), ahead.starts, ahead.ends);
        let listed: Vec<Span> = ahead.times.iter().map(|&at| at - ahead.starts).collect();
        let real = cost.cost_of(&listed);
        prop_assert!((ahead.expected_cost - real).abs() <= 1e-9 * real, "{} is {real}", ahead.expected_cost);
        prop_assert!(ahead.lower_bound <= ahead.expected_cost);
        spent.extend(&ahead.times);
        check(&spent, &budget);
    }

    /// The bound is for as many probes as the plan lists, over the same span.
    #[test]
    fn no_schedule_of_as_many_probes_costs_less_than_the_bound(
        probes in 2_u32..60,
        spent in 0_usize..80,
        apart in 10_i64..60,
        price in prop_oneof![Just(0.0), 1e-3_f64..3.0],
        closely in any::<bool>(),
        holds in prop::option::of(2_u32..30),
    ) {
        let budget = Budget { probes, per: Span::from_days(1), min_spacing: Span::from_mins(10) };
        let now = monday() + Span::from_days(3);
        let spent: Vec<Timestamp> = (0..spent as i64).rev().map(|n| now - Span::from_mins(apart * n)).collect();
        let wanted = PlanInput { price, closely, holds, phase: 0.0, ..input(now, budget, spent) };
        let wanted = wanted.paced(&office(), &even());
        let Some(ahead) = plan(&wanted, &office(), &even()) else { return Ok(()) };
        let free = Horizon {
            cost: Obsolescence::new(&office(), &even(), ahead.starts, ahead.ends),
            probes: ahead.times.len() as u32,
            min_spacing: budget.min_spacing,
            closed: vec![(Span::ZERO, now - ahead.starts)],
            allowance: vec![],
            longest_gap: None,
            end: HorizonEnd::Open,
        };
        let best = optimal::solve(&free, Grid::every(Span::from_mins(1))).unwrap();
        prop_assert!(
            // A coarser grid has a higher bound.
            closely || ahead.lower_bound <= best.expected_cost * (1.0 + 1e-9) + 1e-9,
            "{} above {}", ahead.lower_bound, best.expected_cost
        );
    }
}

/// A plan at a price reaches a few days ahead and is made anew after every probe. Eight weeks of it cost hardly
/// more than one plan of all eight weeks, prices included.
#[test]
fn a_plan_at_a_price_loses_little_by_its_short_reach() {
    let budget = Budget { min_spacing: Span::from_mins(1), ..plenty() };
    for (rate, price) in [(office(), 0.3), (office(), 3.0), (Steps::constant(0.05).unwrap(), 1.0)] {
        let weeks = Span::from_days(56);
        let cost = Obsolescence::new(&rate, &even(), monday(), monday() + weeks);
        let horizon = Horizon {
            cost: cost.clone(),
            probes: u32::MAX,
            min_spacing: budget.min_spacing,
            closed: vec![],
            allowance: vec![],
            longest_gap: None,
            end: HorizonEnd::Open,
        };
        // The step to the end is no probe.
        let best = optimal::priced_cost(&horizon, Grid::every(Span::from_mins(1)), price).unwrap() - price;
        let mut spent = vec![monday()];
        while let Some(&last) = spent.last().filter(|&&last| last < monday() + weeks) {
            let lately = spent[spent.len().saturating_sub(1)..].to_vec();
            let wanted = PlanInput { price, phase: 0.0, ..input(last, budget, lately) };
            spent.push(plan(&wanted.paced(&rate, &even()), &rate, &even()).unwrap().times[0]);
        }
        let times: Vec<Span> =
            spent[1..].iter().map(|&at| at - monday()).filter(|&at| at < weeks).collect();
        let came = cost.cost_of(&times) + price * times.len() as f64;
        assert!(best <= came && came <= 1.002 * best, "price {price}: {came} against {best}");
    }
}

/// The cost of a week in which every day has its own n probes at any times. That exceeds the budget, because
/// windows across midnight may hold too many.
fn by_days(budget: &Budget) -> f64 {
    let day = |number: i64| {
        let from = monday() + Span::from_days(number);
        let cost = Obsolescence::new(&office(), &even(), from, from + Span::from_days(1));
        let (closed, allowance) = (Vec::new(), Vec::new());
        let Budget { probes, min_spacing, .. } = *budget;
        let horizon = Horizon {
            cost,
            probes,
            min_spacing,
            closed,
            allowance,
            longest_gap: None,
            end: HorizonEnd::Probed,
        };
        optimal::solve(&horizon, Grid::every(Span::from_mins(1))).unwrap().expected_cost
    };
    (0..7).map(day).sum()
}

/// Three weeks, with a new plan after a number of probes, some of them late. The budget holds throughout, and
/// the cost is close to that of days planned separately.
#[test]
fn rebuilt_plans_spend_nothing_twice_and_waste_little() {
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::from_mins(10) };
    let (second, until) = (monday() + Span::from_days(7), monday() + Span::from_days(21));
    let cost = Obsolescence::new(&office(), &even(), second, until);
    for (renewed_every, late_share, above_days) in [(1, 0.0, 1.05), (12, 0.0, 1.06), (3, 0.2, 1.25)] {
        let mut chance = Stream::new(3, format!("rolling {renewed_every}"));
        let mut spent: Vec<Timestamp> = Vec::new();
        let mut now = monday();
        while now < until {
            let ahead = plan(&input(now, budget, spent.clone()), &office(), &even()).unwrap();
            for &at in ahead.times.iter().take(renewed_every) {
                let late = chance.unit() < late_share;
                let late = if late { Span::from_mins(40).scaled(chance.unit()) } else { Span::ZERO };
                // The gate's limits, as in the engine.
                let nth =
                    spent.len().checked_sub(budget.probes as usize).map(|nth| spent[nth] + budget.per);
                let spaced = spent.last().map_or(at, |&last| last + budget.min_spacing);
                let sent = (at + late).max(spaced).max(nth.unwrap_or(at));
                spent.push(sent + Span::from_millis(1 + (chance.unit() * 5000.0) as i64));
                now = *spent.last().unwrap();
            }
        }
        check(&spent, &budget);
        let times: Vec<Span> =
            spent.iter().filter(|at| (second..until).contains(at)).map(|&at| at - second).collect();
        let (came, days) = (cost.cost_of(&times), 2.0 * by_days(&budget));
        assert!(came <= above_days * days, "{came} against {days} with a plan every {renewed_every}");
        let hourly: Vec<Span> = (1..=14 * 24).map(Span::from_hours).collect();
        assert!(came < 0.65 * cost.cost_of(&hourly), "{came}");
    }
}

#[test]
fn probes_are_planned_where_updates_are_expected() {
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::from_mins(10) };
    let ahead = plan(&input(monday(), budget, vec![]), &office(), &even()).unwrap();
    let busy = ahead.times.iter().filter(|at| (9..17).contains(&at.utc_hour())).count();
    assert_eq!(ahead.times.len(), 24);
    assert!(busy >= 16, "{busy} in office hours");
    // Ten minutes past the end of office hours at most: there the last updates wait.
    assert!(ahead.times.iter().any(|at| at.utc_hour() == 17));
    assert!(ahead.expected_cost - ahead.lower_bound <= 1e-9 * ahead.expected_cost);
}

#[test]
fn a_feed_that_holds_few_items_is_probed_before_they_are_lost() {
    let budget = Budget { probes: 24, per: Span::from_days(1), min_spacing: Span::from_mins(10) };
    // By importance alone, the night and its 5 updates would have no probe.
    let hours = WeekWindow { days: 0b111_1111, from_minute: 540, until_minute: 1020 };
    let weight = Steps::windows(jiff::tz::TimeZone::UTC, 0.001, &[(hours, 3.0)]).unwrap();
    let rate = Steps::constant(1.0).unwrap();
    let planned = |holds, probes| {
        let budget = Budget { probes, ..budget };
        plan(&PlanInput { holds, ..input(monday(), budget, vec![]) }, &rate, &weight).unwrap()
    };
    let careless = planned(None, 24);
    let gap = |times: &[Timestamp]| {
        let mut last = monday();
        times.iter().fold(Span::ZERO, |most, &at| {
            let gap = at - last;
            last = at;
            most.max(gap)
        })
    };
    assert!(gap(&careless.times) > Span::from_hours(4), "{}", gap(&careless.times));
    let careful = planned(Some(5), 24);
    assert!(careful.overflow.unwrap() <= RISK, "{:?}", careful.overflow);
    assert!(gap(&careful.times).as_secs_f64() / 3600.0 <= most_expected(5, RISK, 1.0) + 0.02);
    assert!(careful.expected_cost > careless.expected_cost);
    // Four probes cannot keep 24 updates apart in fives; the best they can do is even.
    let poor = planned(Some(5), 4);
    let best = exceeds(24.0 / 5.0, 5, 1.0);
    assert!((poor.overflow.unwrap() - best).abs() < 0.01, "{:?} against {best}", poor.overflow);
}

/// A budget that never limits a plan.
fn plenty() -> Budget {
    Budget { probes: 5_000, per: Span::from_days(1), min_spacing: Span::ZERO }
}

fn at_price(price: f64, rate: &Steps, budget: Budget) -> Vec<Timestamp> {
    let wanted = PlanInput { price, ..input(monday(), budget, vec![monday()]) };
    plan(&wanted.paced(rate, &even()), rate, &even()).unwrap().times
}

/// λ·gap²/2 = z where nothing changes.
#[test]
fn at_a_price_the_mean_probe_saves_its_price() {
    for (rate, price, minutes) in
        [(1.0, 0.5, 60.0), (4.0, 0.5, 30.0), (1.0, 2.0, 120.0), (0.25, 0.125, 60.0)]
    {
        let times = at_price(price, &Steps::constant(rate).unwrap(), plenty());
        let gap = (times[8] - times[0]).as_secs_f64() / 8.0 / 60.0;
        assert!((gap / minutes - 1.0).abs() < 0.05, "{gap} minutes, not {minutes}");
    }
}

/// At this price per probe, no other schedule has a lower total cost.
#[test]
fn at_a_price_no_other_number_of_probes_is_cheaper() {
    let (rate, price) = (office(), 0.3);
    let wanted = PlanInput { price, ..input(monday(), plenty(), vec![monday()]) }.paced(&rate, &even());
    let ahead = plan(&wanted, &rate, &even()).unwrap();
    let cost = Obsolescence::new(&rate, &even(), ahead.starts, ahead.ends);
    let total_cost = |times: &[Span]| cost.cost_of(times) + price * times.len() as f64;
    let planned: Vec<Span> = ahead.times.iter().map(|&at| at - ahead.starts).collect();
    let ours = total_cost(&planned);
    for probes in [planned.len() as u32 / 2, planned.len() as u32 * 2] {
        let horizon = Horizon {
            cost: cost.clone(),
            probes,
            min_spacing: Span::ZERO,
            closed: vec![],
            allowance: vec![],
            longest_gap: None,
            end: HorizonEnd::Open,
        };
        let best = optimal::solve(&horizon, Grid::every(Span::from_mins(1))).unwrap();
        assert!(ours < total_cost(&best.times), "{} probes are cheaper", best.times.len());
    }
    for leave_out in 0..planned.len() {
        let fewer: Vec<Span> =
            planned.iter().enumerate().filter(|(n, _)| *n != leave_out).map(|(_, &at)| at).collect();
        assert!(ours <= total_cost(&fewer) + 1e-9, "{} is not worth it", planned[leave_out]);
    }
}

#[test]
fn at_any_price_the_budget_holds_and_probes_continue() {
    let budget = Budget::default();
    let cheap = at_price(1e-6, &office(), budget);
    check(&cheap, &budget);
    assert_eq!(cheap, at_price(0.0, &office(), budget), "the budget decides");
    let seldom = at_price(50.0, &Steps::constant(1e-5).unwrap(), budget);
    assert!(seldom[0] - monday() <= Span::from_days(1) + Span::from_mins(1), "{}", seldom[0]);
}
