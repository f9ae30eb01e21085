//! The cost accumulated since a probe: updates, and their delay.
//!
//! Two callers walk the cells of an [`Obsolescence`] until a cost is reached: the next probe by a level, and
//! the search for the level. In a cell of rate λ and importance a, w undetected updates cost a·x·(w + λx/2)
//! over x more hours; this is solved for x. May not know the threshold's meaning.

use crate::model::obsolescence::{CostCell, Obsolescence, hours};
use crate::model::steps::Steps;
use crate::model::week::HOUR_MS;
use crate::time::{Span, Timestamp};

/// Undetected updates and cost since a probe.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct CostAccumulator {
    waiting: f64,
    cost: f64,
}

impl CostAccumulator {
    /// Hours in this cell until the cost reaches `level`; infinite or NaN if never.
    fn hours_until(self, level: f64, cell: &CostCell) -> f64 {
        let missing = (level - self.cost) / cell.weight;
        // The form of the root without subtraction, which is also valid for a rate of zero.
        2.0 * missing / (self.waiting + (self.waiting.powi(2) + 2.0 * cell.rate * missing).sqrt())
    }

    fn pass(&mut self, hours: f64, cell: &CostCell) {
        self.cost += cell.weight * hours * (self.waiting + cell.rate * hours / 2.0);
        self.waiting += cell.rate * hours;
    }
}

/// The time at which the expected cost since a probe at `last` reaches the level, rounded up to a
/// millisecond; `None` if not within `ahead`.
pub fn reaches(
    rate: &Steps,
    importance: &Steps,
    level: f64,
    last: Timestamp,
    ahead: Span,
) -> Option<Timestamp> {
    let mut accumulator = CostAccumulator::default();
    let cost = Obsolescence::new(rate, importance, last, last + ahead);
    for cell in cost.cells() {
        let (wait, left) = (accumulator.hours_until(level, cell), hours(cell.until - cell.from));
        if wait <= left {
            let into = Span::from_millis((wait * HOUR_MS as f64).ceil() as i64);
            return Some(last + (cell.from + into).min(cell.until));
        }
        accumulator.pass(left, cell);
    }
    None
}

/// Whether probes at each time the cost reaches the level, the first at the start of the horizon, number at
/// most `probes` before its end.
pub fn suffices(cost: &Obsolescence, level: f64, probes: u32) -> bool {
    let (mut accumulator, mut sent) = (CostAccumulator::default(), 1);
    for cell in cost.cells() {
        let mut left = hours(cell.until - cell.from);
        loop {
            let wait = accumulator.hours_until(level, cell);
            // A probe exactly at the end does not count.
            if wait.is_nan() || wait >= left {
                break;
            }
            sent += 1;
            if sent > probes {
                return false;
            }
            left -= wait;
            accumulator = CostAccumulator::default();
        }
        accumulator.pass(left, cell);
    }
    true
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::*;
    use crate::model::importance::WeekWindow;

    fn monday() -> Timestamp {
        Timestamp::parse_iso("2026-11-16T00:00:00Z").unwrap()
    }

    #[test]
    fn reaches_matches_hand_computed_times() {
        let (two, one) = (Steps::constant(2.0).unwrap(), Steps::constant(1.0).unwrap());
        // x² = 4.
        let day = Span::from_days(1);
        assert_eq!(reaches(&two, &one, 4.0, monday(), day), Some(monday() + Span::from_hours(2)));
        assert_eq!(reaches(&two, &one, 1000.0, monday(), day), None);
        // Two updates by one o'clock and none later: cost 1 by then, 2 per hour afterwards.
        let first_hour = WeekWindow { days: 1, from_minute: 0, until_minute: 60 };
        let morning = Steps::windows(TimeZone::UTC, 0.0, &[(first_hour, 2.0)]).unwrap();
        assert_eq!(reaches(&morning, &one, 5.0, monday(), day), Some(monday() + Span::from_hours(3)));
        // Zero importance or zero rate: never.
        let zero = Steps::constant(0.0).unwrap();
        assert_eq!(reaches(&two, &zero, 1.0, monday(), day), None);
        assert_eq!(reaches(&zero, &one, 1.0, monday(), day), None);
    }

    #[test]
    fn suffices_counts_the_probes_of_a_level() {
        let cost = Obsolescence::of_cells([(Span::from_hours(24), 2.0, 1.0)]);
        // Every two hours: at 0, 2, … 22.
        assert!(suffices(&cost, 4.0 + 1e-9, 12));
        assert!(!suffices(&cost, 4.0 - 1e-9, 12));
        assert!(!suffices(&cost, 4.0, 11));
    }
}
