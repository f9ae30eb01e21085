//! Messages for plans that are impossible.

use crate::cli::error::CliError;
use tidewatch_core::planning::horizon::Impossible;
use tidewatch_core::time::Span;
use tidewatch_lab::plans::problem::Problem;
use tidewatch_lab::words::{exact, local};

/// Grid points that the method `optimal` can handle.
const OPTIMAL_TAKES: i64 = 1_000_000;

/// The message for the user: the reason, and what to change.
pub fn refusal(problem: &Problem, why: &Impossible) -> CliError {
    let length = problem.horizon.length();
    let step = problem.step;
    let message = match why {
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
    CliError::Refused(message)
}
