//! Why there is no plan, and what to do about it.

use std::fmt::Write;

use crate::cli::CliError;
use crate::cli::words::local;
use tidewatch_core::planning::horizon::Impossible;
use tidewatch_core::time::Span;

use super::Problem;

/// So many grid points are not too many for every method.
const OPTIMAL_TAKES: i64 = 1_000_000;

/// The refusal that a user sees.
pub fn refusal(problem: &Problem, why: &Impossible) -> CliError {
    let length = problem.horizon.length();
    let step = problem.step;
    let said = match why {
        Impossible::EmptyHorizon => format!("{why}: give a longer --horizon, such as 7d"),
        Impossible::NoProbes => format!("{why}; give a larger --probes"),
        Impossible::TooTight { most: 0, .. } => {
            format!("{why}; shorten --min-spacing or lengthen --horizon")
        }
        Impossible::TooTight { most, .. } => {
            format!("{why}; use --probes {most}, a shorter --min-spacing or a longer --horizon")
        }
        Impossible::AllClosed => format!("{why}: leave out a --closed, or choose another --start"),
        Impossible::EndClosed(until) => format!(
            "the horizon ends with a probe, and its end ({}) is closed to probes until {}; use --horizon {}",
            local(problem.end(), &problem.zone, "%a %H:%M"),
            local(problem.start + *until, &problem.zone, "%a %H:%M"),
            exact(*until)
        ),
        Impossible::BadGrid if step <= Span::ZERO => {
            "a grid of 0s has no times to choose from; give a --grid such as 1m".to_owned()
        }
        Impossible::BadGrid => format!(
            "a grid of {} is longer than the horizon of {}: give a shorter --grid",
            exact(step),
            exact(length)
        ),
        Impossible::GridTooFine(points, _) if *points <= OPTIMAL_TAKES => {
            format!("{why}; give a longer --grid, or use --method optimal, which takes finer ones")
        }
        Impossible::GridTooFine(..) => format!("{why}; give a longer --grid or a shorter --horizon"),
        Impossible::EndTooEarly => format!("{why}; give a longer --horizon"),
    };
    CliError::Refused(said)
}

/// A duration to the millisecond, as it can be given again.
pub fn exact(span: Span) -> String {
    let mut left = span.as_millis().unsigned_abs();
    let mut text = String::new();
    for (unit, size) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        if left >= size {
            // Writing to a string does not fail.
            let _ = write!(text, "{}{unit}", left / size);
            left %= size;
        }
    }
    if text.is_empty() { "0s".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_durations_can_be_given_again() {
        for text in ["0s", "28d", "1d6h30m", "59s", "1h1ms", "250ms"] {
            let span = Span::parse(text).unwrap();
            assert_eq!(exact(span), text);
        }
    }
}
