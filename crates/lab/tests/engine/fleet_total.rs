//! A stated total: the price at which all sources together spend it, across steps and restarts.
//!
//! These tests simulate weeks of a whole fleet and take some seconds each.

use tidewatch_core::planning::policy::Policy;
use tidewatch_core::time::Span;
use tidewatch_lab::total_fleet::{FleetStep, STEPS, TotalFleet, TotalRun, start};

fn holds(fleet: &TotalFleet, steps: &[(i64, FleetStep)], days: i64) -> TotalRun {
    let run = fleet.run(steps, days);
    let (off, hour) = fleet.worst_week(&run, steps, days);
    assert!(off.abs() <= 0.02, "{fleet:?}: {off} from hour {hour}");
    run
}

#[test]
fn a_total_is_spent_within_two_percent_after_every_step() {
    let max_gap = Some(Span::from_hours(2));
    let fleet = TotalFleet { policy: Policy::Auto, sources: 100, per_day: 8.0, max_gap };
    let run = holds(&fleet, &STEPS, 50);
    // A deadline is the last whole step before the gap is over.
    assert!(run.longest[0] <= Span::from_hours(2), "{:?}", run.longest);
    assert!(run.longest[1] <= Span::from_hours(25), "{:?}", run.longest);
    holds(&TotalFleet { policy: Policy::Adaptive, sources: 1000, max_gap: None, ..fleet }, &STEPS, 50);
}

#[test]
fn too_small_a_total_lowers_the_daily_probes_and_no_max_gap() {
    // 0.6 a day go to the source that is probed evenly, and 1.2 to the one with a gap of two hours.
    let max_gap = Some(Span::from_hours(2));
    let fleet = TotalFleet { policy: Policy::Adaptive, sources: 300, per_day: 2.2, max_gap };
    let run = fleet.run(&[], 25);
    // All sources begin at once, so the daily probes come in waves: no week has the mean number of them.
    let sent = run.sent.iter().filter(|&&at| at >= start() + Span::from_days(5)).count();
    let off = sent as f64 / (20.0 * 660.0) - 1.0;
    assert!(off.abs() <= 0.02, "{off}");
    assert!(run.longest[0] <= Span::from_hours(2), "{:?}", run.longest);
    let every = run.prices.last().expect("hourly").in_force.at_least_every;
    assert!(every > Span::from_hours(40) && every < Span::from_hours(56), "{every}");
}

#[test]
fn the_price_does_not_oscillate() {
    let fleet = TotalFleet { policy: Policy::Adaptive, sources: 300, per_day: 8.0, max_gap: None };
    let run = fleet.run(&[(20, FleetStep::Rates(1.5))], 40);
    let price = |day: usize| f64::from(run.prices[day * 24].in_force.hours);
    // It follows the week, because sampled sources have no hourly profile, and repeats itself.
    for day in [12, 31] {
        let prices: Vec<f64> = (day..=day + 7).map(price).collect();
        let (low, high) = prices
            .iter()
            .fold((f64::MAX, 0.0_f64), |(low, high), &price| (low.min(price), high.max(price)));
        assert!(high / low < 1.3 && (prices[7] / prices[0] - 1.0).abs() < 0.05, "{prices:?}");
    }
    // The price grows like the rates; caps and floors take a part of it.
    let ratio = price(38) / price(19);
    assert!((1.2..1.7).contains(&ratio), "{ratio}");
}
