//! A plan's question, with what is needed to tell its answer.

use jiff::tz::TimeZone;

use tidewatch_core::planning::horizon::{Grid, Horizon};
use tidewatch_core::time::{Span, Timestamp};

/// What is to be planned.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    /// For what: a source's name or a file.
    pub title: String,
    /// When the horizon begins.
    pub start: Timestamp,
    /// Whose days and hours are told.
    pub zone: TimeZone,
    /// What is asked of a schedule.
    pub horizon: Horizon,
    /// How fine it is looked for.
    pub step: Span,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Problem {
    /// When it ends.
    pub fn end(&self) -> Timestamp {
        self.start + self.horizon.length()
    }

    /// The times among which the best are looked for.
    pub fn grid(&self) -> Grid {
        Grid::every(self.step)
    }

    /// Expected updates in all.
    pub fn updates(&self) -> f64 {
        self.horizon.cost.expected_updates(Span::ZERO, self.horizon.length())
    }

    /// All times are alike, and weigh 1.
    pub fn is_unweighted(&self) -> bool {
        self.horizon.cost.cells().iter().all(|cell| cell.weight == 1.0)
    }
}
