//! The cost of the planner: `cargo bench --bench plan`.
//!
//! Ratios within one run, on the DBWorld rates of Eckstein, Gal, Reiner (Table 2) over four weeks
//! with importance 3 in office hours; each time is the best of several. Then ten thousand sources of
//! different rhythms are replanned in mid-week, as the daemon does after a refit.

use std::hint::black_box;
use std::io::Write;

use jiff::tz::TimeZone;
use tidewatch::clock::Stopwatch;
use tidewatch_core::model::importance::WeekWindow;
use tidewatch_core::model::obsolescence::Obsolescence;
use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::planning::horizon::{Grid, Horizon, HorizonEnd};
use tidewatch_core::planning::optimal;
use tidewatch_core::planning::plan_input::{PlanInput, plan};
use tidewatch_core::rng::Stream;
use tidewatch_core::time::{Span, Timestamp};
use tidewatch_lab::plans::reference;

const WORK: u8 = 0b1_1111;

fn window(days: u8, from: u16, until: u16) -> WeekWindow {
    WeekWindow { days, from_minute: from * 60, until_minute: until * 60 }
}

fn monday() -> Timestamp {
    Timestamp::from_secs(1_793_577_600)
}

fn dbworld(probes: u32) -> Horizon {
    let per_day = [(0, 3, 2.40), (3, 6, 5.96), (6, 9, 6.04), (9, 18, 7.50), (18, 21, 3.03), (21, 24, 2.41)];
    let mut rows: Vec<(WeekWindow, f64)> =
        per_day.iter().map(|&(from, until, rate)| (window(WORK, from, until), rate / 24.0)).collect();
    rows.push((window(0b10_0000, 0, 24), 1.50 / 24.0));
    let rate = Steps::windows(TimeZone::UTC, 1.15 / 24.0, &rows).expect("good rates");
    let importance =
        Steps::windows(TimeZone::UTC, 1.0, &[(window(WORK, 9, 18), 3.0)]).expect("good weights");
    let cost = Obsolescence::new(&rate, &importance, monday(), monday() + Span::from_days(28));
    let (closed, allowance) = (Vec::new(), Vec::new());
    Horizon {
        cost,
        probes,
        min_spacing: Span::ZERO,
        closed,
        allowance,
        longest_gap: None,
        end: HorizonEnd::Probed,
    }
}

/// Seconds of the fastest of several runs.
fn best<T>(runs: u32, mut work: impl FnMut() -> T) -> f64 {
    let timed = |_| {
        let stopwatch = Stopwatch::start();
        black_box(work());
        stopwatch.elapsed().as_secs_f64()
    };
    (0..runs).map(timed).fold(f64::INFINITY, f64::min)
}

/// A rhythm like those that are fitted: a few levels on working days and on weekends.
fn rhythm(chance: &mut Stream) -> Steps {
    let level = |chance: &mut Stream| 0.01 * 200_f64.powf(chance.unit());
    let begins = 6 + (chance.unit() * 5.0) as u16;
    let ends = 15 + (chance.unit() * 6.0) as u16;
    let rows = [
        (window(WORK, begins, ends), 4.0 * level(chance)),
        (window(WORK, 12, 13), level(chance)),
        (window(0b110_0000, 10, 20), level(chance)),
    ];
    Steps::windows(TimeZone::UTC, 0.2 * level(chance), &rows).expect("good rates")
}

const SOURCES: u32 = 10_000;

/// Plans for sources that have followed their plan for part of a week, with some latency.
fn replan(out: &mut impl Write) -> std::io::Result<()> {
    let budget = Budget { probes: 336, per: Span::from_days(7), min_spacing: Span::from_mins(5) };
    let importance =
        Steps::windows(TimeZone::UTC, 1.0, &[(window(WORK, 9, 18), 3.0)]).expect("good weights");
    let mut chance = Stream::new(1, "replan");
    let input = |now, spent: Vec<Timestamp>, phase| PlanInput {
        spent,
        holds: Some(30),
        phase,
        ..PlanInput::new(now, budget)
    };
    let (mut seconds, mut first_seconds, mut probes, mut worst) = (0.0, 0.0, 0, 0.0_f64);
    for _ in 0..SOURCES {
        let (rate, phase) = (rhythm(&mut chance), chance.unit());
        let stopwatch = Stopwatch::start();
        let first = black_box(plan(&input(monday(), Vec::new(), phase), &rate, &importance));
        first_seconds += stopwatch.elapsed().as_secs_f64();
        let now = monday() + Span::from_days(7).scaled(0.2 + 0.8 * chance.unit());
        let followed = first.map_or_else(Vec::new, |first| first.times);
        let mut took = || Span::from_millis(50 + (chance.unit() * 2000.0) as i64);
        let spent = followed.into_iter().map(|at| at + took()).filter(|&at| at <= now).collect();
        let later = input(now, spent, phase);
        let stopwatch = Stopwatch::start();
        let ahead = black_box(plan(&later, &rate, &importance));
        seconds += stopwatch.elapsed().as_secs_f64();
        if let Some(ahead) = ahead {
            probes += ahead.times.len();
            worst = worst.max(ahead.expected_cost / ahead.lower_bound.max(1e-12) - 1.0);
        }
    }
    writeln!(out, "\n{SOURCES} sources, one week by the minute, n = 336:")?;
    writeln!(out, "  planned at first      {first_seconds:6.1} CPU-seconds")?;
    writeln!(
        out,
        "  replanned in mid-week {seconds:6.1} CPU-seconds, {:.0} probes each",
        probes as f64 / f64::from(SOURCES)
    )?;
    writeln!(out, "  largest gap to the lower bound {:.4} %", worst * 100.0)
}

fn main() -> std::io::Result<()> {
    let out = &mut std::io::stdout().lock();
    writeln!(out, "     N     n      paper    optimal    ratio")?;
    for (slots, runs) in [(672, 5), (2688, 2)] {
        let grid = Grid::every(Span::from_millis(28 * 86_400_000 / slots));
        for probes in [28, 336] {
            let horizon = dbworld(probes);
            let fast = best(200, || optimal::solve(&horizon, grid));
            let slow = best(runs, || reference::solve(&horizon, grid));
            let ratio = slow / fast;
            writeln!(out, "{slots:6} {probes:5} {:8.2} ms {:7.3} ms {ratio:7.0}x", slow * 1e3, fast * 1e3)?;
        }
    }
    let horizon = dbworld(336);
    let coarse = best(100, || optimal::solve(&horizon, Grid::every(Span::from_mins(10))));
    let fine = best(30, || optimal::solve(&horizon, Grid::every(Span::from_mins(1))));
    writeln!(
        out,
        "\noptimal, n = 336: N = 4032 {:.3} ms, N = 40320 {:.3} ms: {:.1}x for 10x",
        coarse * 1e3,
        fine * 1e3,
        fine / coarse
    )?;
    replan(out)
}
