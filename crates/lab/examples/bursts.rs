//! How often burst tests are wrong, and how many bursts they find, on simulated sources of a known
//! rate: `cargo run --release -p tidewatch-lab --example bursts`.
//!
//! False alarms per 1,000 updates, from 30,000 each, and for bursts of ten updates at 4, 10 and 30 times
//! the rate: how many of 300 were found, after how many of their updates, and how many mean gaps after
//! the last one they were over.

#[allow(dead_code, reason = "shared with the tests, which use all of it")]
#[path = "../tests/papers/bursts/world.rs"]
mod world;

use std::io::Write;

use world::{BurstParams, Found, Test, WINDOW_COUNTS, detection, false_alarms};

fn main() -> std::io::Result<()> {
    let out = &mut std::io::stdout().lock();
    for test in [Test::Filter, Test::Tail] {
        for in_window in WINDOW_COUNTS {
            let params = BurstParams { test, ..BurstParams::default() };
            let alarms = false_alarms(in_window, 30_000, &params) / 30.0;
            write!(out, "{} Λ(W) = {in_window}: {alarms:.2} false alarms per 1,000;", test.name())?;
            for times in [4.0, 10.0, 30.0] {
                let Found { share, updates, gaps_to_end } = detection(in_window, times, 300, &params);
                write!(
                    out,
                    " ×{times}: {:.0} % after {updates:.1}, over in {gaps_to_end:.1};",
                    share * 100.0
                )?;
            }
            writeln!(out)?;
        }
    }
    Ok(())
}
