//! The comparison of Eckstein, Gal, Reiner, §5, with their rates (Tables 2 and 3), and what this
//! planner makes of the same: `cargo run --release -p tidewatch-lab --example plans`.
//!
//! Expected cost in update·days over four weeks, δ = 0, on the model alone: uniform, threshold, first
//! arrival and DOE (Algorithms 1, 2 and 4 on the hourly grid, N = 672), each as it is and after
//! Algorithm 10, then the best on the minute grid with the exact exact_descent, and how far above the lower
//! bound for all schedules that is at most. Fails if it is not the smallest in its row.

use std::io::{Error, Write};

use jiff::tz::TimeZone;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::horizon::{Grid, Horizon, HorizonEnd};
use tidewatch_core::planning::optimal;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::plans::moves::{Moves, improve};
use tidewatch_lab::plans::{baselines, bound, exact_descent, reference};

const COUNTS: [u32; 7] = [7, 14, 28, 56, 84, 168, 336];

const MON_FRI: u8 = 0b001_1111;
const SAT: u8 = 0b010_0000;
const SUN: u8 = 0b100_0000;

/// Days as bits from Monday on, from and until which hour, updates per day.
type Segment = (u8, u16, u16, f64);

/// The rates of Table 2.
const DBWORLD: [Segment; 8] = [
    (MON_FRI, 0, 3, 2.40),
    (MON_FRI, 3, 6, 5.96),
    (MON_FRI, 6, 9, 6.04),
    (MON_FRI, 9, 18, 7.50),
    (MON_FRI, 18, 21, 3.03),
    (MON_FRI, 21, 24, 2.41),
    (SAT, 0, 24, 1.50),
    (SUN, 0, 24, 1.15),
];

/// The rates of Table 3.
const MICRONET: [Segment; 4] =
    [(MON_FRI, 0, 9, 0.25), (MON_FRI, 9, 19, 2.60), (MON_FRI, 19, 24, 0.14), (SAT | SUN, 0, 24, 0.08)];

/// Each trace: its rates, and until when its office hours run.
const TRACES: [(&str, &[Segment], u16); 2] = [("DBWorld", &DBWORLD, 18), ("MicroNet", &MICRONET, 19)];

/// In updates per hour.
fn rate(segments: &[Segment]) -> Result<Steps, Error> {
    let window = |&(days, from, until, per_day): &Segment| {
        (WeekWindow { days, from_minute: from * 60, until_minute: until * 60 }, per_day / 24.0)
    };
    let windows: Vec<(WeekWindow, f64)> = segments.iter().map(window).collect();
    Steps::windows(TimeZone::UTC, 0.0, &windows).map_err(Error::other)
}

fn main() -> Result<(), Error> {
    let out = &mut std::io::stdout().lock();
    let monday =
        Timestamp::parse_iso("2026-11-16T00:00:00Z").ok_or_else(|| Error::other("no such time"))?;
    let ways = "uniform | + 10 | threshold | + 10 | first arrival | + 10 | DOE | + 10 | optimal | within";
    writeln!(out, "| trace | a₁/a₂ | n | {ways} |")?;
    writeln!(out, "|---|--:|--:|{}", "--:|".repeat(10))?;
    for (name, segments, office_until) in TRACES {
        let rate = rate(segments)?;
        for ratio in [1.0, 3.0] {
            let office = WeekWindow { days: 0b1_1111, from_minute: 540, until_minute: office_until * 60 };
            let importance =
                Steps::windows(rate.zone().clone(), 1.0, &[(office, ratio)]).map_err(Error::other)?;
            let cost = Obsolescence::new(&rate, &importance, monday, monday + Span::from_days(28));
            for probes in COUNTS {
                write!(out, "| {name} | {ratio} ")?;
                row(out, &cost, probes)?;
            }
        }
    }
    Ok(())
}

fn row(out: &mut impl Write, cost: &Obsolescence, probes: u32) -> Result<(), Error> {
    let horizon = Horizon {
        cost: cost.clone(),
        probes,
        min_spacing: Span::ZERO,
        closed: Vec::new(),
        allowance: Vec::new(),
        longest_gap: None,
        end: HorizonEnd::Probed,
    };
    let hourly = Grid::every(Span::from_hours(1));
    let minute = Grid::every(Span::from_mins(1));
    let starts = [
        baselines::uniform(&horizon),
        baselines::threshold(&horizon),
        baselines::first_arrival(&horizon),
        reference::solve(&horizon, hourly).map(|doe| doe.times),
    ];
    let days = |times: &[Span]| horizon.cost.cost_of(times) / 24.0;
    write!(out, "| {probes} |")?;
    let mut smallest = f64::INFINITY;
    for start in starts {
        let times = start.map_err(Error::other)?;
        let improved = improve(&horizon, times.clone(), &Moves::default()).times;
        smallest = smallest.min(days(&times)).min(days(&improved));
        write!(out, " {:.4} | {:.4} |", days(&times), days(&improved))?;
    }
    let best = optimal::solve(&horizon, minute).map_err(Error::other)?;
    let bound = bound::continuous(&horizon, minute, &best).map_err(Error::other)? / 24.0;
    let finished = days(&exact_descent::descend(&horizon, best.times).times);
    writeln!(out, " {finished:.4} | {:.0e} |", finished / bound - 1.0)?;
    match finished <= smallest * (1.0 + 1e-12) {
        true => Ok(()),
        false => Err(Error::other(format!("{finished} is not below {smallest}"))),
    }
}
