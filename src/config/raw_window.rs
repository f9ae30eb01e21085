//! Stage one for a window of the week: days and hours, and a weight in `[importance]`.

use super::fault::Faults;
use super::reader::{At, TomlTable};

/// One of `importance.windows`, or of a rule's `active.windows`.
#[derive(Debug, Default)]
pub struct RawWindow {
    pub days: Option<At<String>>,
    pub hours: Option<At<String>>,
    pub weight: Option<At<f64>>,
}

impl RawWindow {
    /// Reads a window with a weight.
    pub(super) fn read(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let window = Self {
            days: table.text("days", faults),
            hours: table.text("hours", faults),
            weight: table.needed_number("weight", faults),
        };
        table.finish(faults);
        window
    }

    /// Reads a window without a weight.
    pub(super) fn read_unweighted(mut table: TomlTable<'_>, faults: &mut Faults) -> Self {
        let window =
            Self { days: table.text("days", faults), hours: table.text("hours", faults), weight: None };
        table.finish(faults);
        window
    }
}
