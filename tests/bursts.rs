//! Bursts: what the tests find, and how often they cry wolf, on sources whose truth is known.
//!
//! Sources are drawn from seeds, so every run sees the same. Bounds on false alarms are the
//! configured rate plus three standard errors.

#[path = "bursts/world.rs"]
mod world;

use world::*;

#[test]
#[ignore]
fn table() {
    for test in [Test::Filter, Test::Tail] {
        for in_window in WINDOW_COUNTS {
            let params = Params { test, ..Params::default() };
            let (alarms, updates) = false_alarms(in_window, 100_000, &params);
            print!("{} {in_window}: {:.2} per 1000;", test.name(), 1000.0 * f64::from(alarms) / updates as f64);
            for times in [4.0, 10.0, 30.0] {
                let found = detection(in_window, times, 1000, &params);
                print!(" x{times}: {:.1}% after {:.1} off {:.2};", found.share * 100.0, found.updates, found.gaps_to_end);
            }
            println!();
        }
    }
}
