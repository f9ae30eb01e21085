//! A planning problem, with what is needed to show its result.

use jiff::tz::TimeZone;

use tidewatch_core::planning::horizon::{Grid, Horizon};
use tidewatch_core::time::{Span, Timestamp};

/// The problem.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// Its title: a source's name or a file.
    pub title: String,
    /// Start of the horizon.
    pub start: Timestamp,
    /// The time zone of the output.
    pub zone: TimeZone,
    /// The constraints and costs of a schedule.
    pub horizon: Horizon,
    /// The grid step of the search.
    pub step: Span,
    /// Notes for the user.
    pub notes: Vec<String>,
}

impl Problem {
    /// End of the horizon.
    pub fn end(&self) -> Timestamp {
        self.start + self.horizon.length()
    }

    /// The grid of the search.
    pub fn grid(&self) -> Grid {
        Grid::every(self.step)
    }

    /// Expected number of updates in the horizon.
    pub fn updates(&self) -> f64 {
        self.horizon.cost.expected_updates(Span::ZERO, self.horizon.length())
    }

    /// Whether the importance is 1 at all times.
    pub fn is_unweighted(&self) -> bool {
        self.horizon.cost.cells().iter().all(|cell| cell.weight == 1.0)
    }
}
