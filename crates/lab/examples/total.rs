//! Fleets of 100 to 100,000 sources under a total of eight probes a day each.
//!
//! `cargo run --release -p tidewatch-lab --example total` changes the number and the rates of the sources by half,
//! restarts, and prints the largest deviation from the total in any week that begins a day after a change. It
//! fails if that is over 2 %. The line of each fleet is the price, twice a day, on a logarithmic scale. It takes a
//! quarter of an hour.

use std::io::Write;
use std::process::ExitCode;

use tidewatch_core::planning::policy::Policy;
use tidewatch_lab::total_fleet::{FleetStep, STEPS, TotalFleet, TotalRun};

/// Changes of a fleet, each with its day.
type Steps<'s> = &'s [(i64, FleetStep)];

/// The price of every twelfth hour, from the lowest to the highest of the run.
fn drawn(run: &TotalRun) -> String {
    let prices: Vec<f64> =
        run.prices.iter().step_by(12).map(|price| f64::from(price.in_force.hours).ln()).collect();
    let low = prices.iter().copied().fold(f64::INFINITY, f64::min);
    let high = prices.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let share = |price: f64| (price - low) / (high - low).max(1e-9);
    prices
        .iter()
        .map(|&price| char::from_u32(0x2581 + (7.0 * share(price)) as u32).unwrap_or(' '))
        .collect()
}

fn main() -> std::io::Result<ExitCode> {
    let mut out = std::io::stdout();
    let short = [(10, FleetStep::Rates(1.5)), (20, FleetStep::Restart)];
    let fleets: [(Policy, i64, Steps<'_>, i64); 5] = [
        (Policy::Auto, 100, &STEPS, 50),
        (Policy::Auto, 1000, &STEPS, 50),
        (Policy::Adaptive, 1000, &STEPS, 50),
        (Policy::Adaptive, 10_000, &STEPS, 50),
        (Policy::Adaptive, 100_000, &short, 22),
    ];
    let mut worst = 0.0_f64;
    for (policy, sources, steps, days) in fleets {
        let fleet = TotalFleet { policy, sources, per_day: 8.0, max_gap: None };
        let run = fleet.run(steps, days);
        let (off, hour) = fleet.worst_week(&run, steps, days);
        worst = worst.max(off.abs());
        let name = policy.name();
        writeln!(
            out,
            "{sources:>7} {name:<8} {:>6.2} % off at most, in the week from hour {hour}",
            100.0 * off
        )?;
        writeln!(out, "        {}", drawn(&run))?;
    }
    Ok(if worst <= 0.02 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
