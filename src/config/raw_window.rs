//! Stage one for a window of the week: days and hours, in `[importance]` with a weight.

use super::fault::Faults;
use super::reader::{At, Table};

/// One of `importance.windows`, or of a rule's `active.windows`.
#[derive(Debug, Default)]
pub struct Window {
    pub days: Option<At<String>>,
    pub hours: Option<At<String>>,
    pub weight: Option<At<f64>>,
}

impl Window {
    /// One that needs a weight.
    pub(super) fn read(mut table: Table<'_>, faults: &mut Faults) -> Self {
        let window = Self {
            days: table.text("days", faults),
            hours: table.text("hours", faults),
            weight: table.needed_number("weight", faults),
        };
        table.finish(faults);
        window
    }

    /// One that has no weight: it is in it or not.
    pub(super) fn read_unweighted(mut table: Table<'_>, faults: &mut Faults) -> Self {
        let window =
            Self { days: table.text("days", faults), hours: table.text("hours", faults), weight: None };
        table.finish(faults);
        window
    }
}
