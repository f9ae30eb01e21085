//! The gain of `auto` where bursts break a rhythm, and its cost where none do:
//! `cargo run --release -p tidewatch-lab --example responses`.
//!
//! The table has the mean delay of updates in minutes, at the number of probes a day of `auto`. It compares
//! a plan without knowledge of bursts, time to live, and a planner that knows all bursts beforehand.

#[allow(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../tests/papers/responses/world.rs"]
mod world;

use std::io::Write;

use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::Span;
use world::{KINDS, Score, Source, TestedPolicy, at_equal_probes, run, ttl_at};

fn main() -> std::io::Result<()> {
    let out = &mut std::io::stdout().lock();
    let sources: u64 = std::env::args().nth(1).and_then(|number| number.parse().ok()).unwrap_or(6);
    for (probes, spacing) in [(48, 15), (96, 5)] {
        let budget = Budget { probes, per: Span::from_days(1), min_spacing: Span::from_mins(spacing) };
        for kind in KINDS {
            let list: Vec<Source> = (0..sources).map(|number| Source::new(kind, number)).collect();
            writeln!(
                out,
                "{probes} probes a day, {spacing} minutes apart; {} updates an hour by day, a tenth by night; {} more for \
                 {} hours a week",
                kind.by_day, kind.burst, kind.hours
            )?;
            let plan = run(&list, TestedPolicy::Plan, budget);
            line(out, "plan, with all of the budget", &plan)?;
            let auto = run(&list, TestedPolicy::Auto, budget);
            let taken = auto.probes;
            line(out, "auto", &auto)?;
            line(
                out,
                "  plan at equal probes",
                &at_equal_probes(&list, TestedPolicy::Plan, budget, taken),
            )?;
            if kind.burst > 0.0 {
                line(
                    out,
                    "knows all bursts beforehand",
                    &at_equal_probes(&list, TestedPolicy::KnowsAllBursts, budget, taken),
                )?;
            }
            line(out, "ttl at equal probes", &ttl_at(&list, budget, taken))?;
        }
    }
    Ok(())
}

fn line(out: &mut impl Write, label: &str, score: &Score) -> std::io::Result<()> {
    let Score { probes, by_ttl, delay, calm_delay, burst_delay } = score;
    writeln!(
        out,
        "  {label:<30} {probes:>5.1} probes a day ({by_ttl:>4.1} by ttl), waits {delay:>6.2} \
         (calm {calm_delay:>6.2}, burst {burst_delay:>6.2})"
    )
}
