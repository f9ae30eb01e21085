//! The comparison of Eckstein, Gal, Reiner, §5, with their rates (Tables 2 and 3), and what this
//! planner makes of the same: `cargo run --release --example plans`.
//!
//! Expected cost in update·days over four weeks, δ = 0, on the model alone: uniform, threshold, first
//! arrival and DOE (Algorithms 1, 2 and 4 on the hourly grid, N = 672), each as it is and after
//! Algorithm 10, then the best on the minute grid with the exact finish, and how far above the lower
//! bound for all schedules that is at most. Fails if it is not the smallest in its row.

use std::io::{Error, Write};
use std::path::{Path, PathBuf};

use tidewatch::config::curves::{Curve, parse};
use tidewatch::rate::importance::WeekWindow;
use tidewatch::rate::obsolescence::Obsolescence;
use tidewatch::rate::steps::Steps;
use tidewatch::schedule::horizon::{End, Grid, Horizon};
use tidewatch::schedule::moves::{Moves, improve};
use tidewatch::schedule::{baselines, bound, finish, optimal, reference};
use tidewatch::time::{Span, Timestamp};

const COUNTS: [u32; 7] = [7, 14, 28, 56, 84, 168, 336];

/// One trace: its rates, and until when its office hours run.
const TRACES: [(&str, &str, u16); 2] =
    [("DBWorld", "dbworld-rate.toml", 18), ("MicroNet", "micronet-rate.toml", 19)];

fn rate(file: &str) -> Result<Steps, Error> {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("config/examples").join(file);
    let text = std::fs::read_to_string(&path)?;
    let mut curves = parse(&[(Curve::Rate, path, text)])
        .map_err(|faults| Error::other(format!("{} faults in {file}", faults.list().len())))?;
    curves.pop().ok_or_else(|| Error::other("no rate"))
}

fn main() -> Result<(), Error> {
    let out = &mut std::io::stdout().lock();
    let monday =
        Timestamp::parse_iso("2026-11-16T00:00:00Z").ok_or_else(|| Error::other("no such time"))?;
    let ways = "uniform | + 10 | threshold | + 10 | first arrival | + 10 | DOE | + 10 | optimal | within";
    writeln!(out, "| trace | a₁/a₂ | n | {ways} |")?;
    writeln!(out, "|---|--:|--:|{}", "--:|".repeat(10))?;
    for (name, file, office_until) in TRACES {
        let rate = rate(file)?;
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
        end: End::Probed,
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
    let finished = days(&finish::descend(&horizon, best.times).times);
    writeln!(out, " {finished:.4} | {:.0e} |", finished / bound - 1.0)?;
    match finished <= smallest * (1.0 + 1e-12) {
        true => Ok(()),
        false => Err(Error::other(format!("{finished} is not below {smallest}"))),
    }
}
