//! What piles up at a source that is not looked at: updates, and what it costs that they wait.
//!
//! Exists because two subjects walk through the cells of an [`Obsolescence`] until a cost is reached: the
//! next probe by a level, and the search for the level. Within a cell of rate λ and importance a, w
//! updates that wait cost a·x·(w + λx/2) over x hours more, which is solved for x. Must not know what
//! the cost is compared with.

use crate::model::obsolescence::{CostCell, Obsolescence, hours};
use crate::model::steps::Steps;
use crate::model::week::HOUR_MS;
use crate::time::{Span, Timestamp};

/// Since a probe.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Pile {
    waiting: f64,
    cost: f64,
}

impl Pile {
    /// After how many hours in this cell the cost is reached; infinite or not a number if never.
    fn hours_until(self, level: f64, cell: &CostCell) -> f64 {
        let missing = (level - self.cost) / cell.weight;
        // The root that does not subtract, and holds without updates to come.
        2.0 * missing / (self.waiting + (self.waiting.powi(2) + 2.0 * cell.rate * missing).sqrt())
    }

    fn pass(&mut self, hours: f64, cell: &CostCell) {
        self.cost += cell.weight * hours * (self.waiting + cell.rate * hours / 2.0);
        self.waiting += cell.rate * hours;
    }
}

/// When the expected cost since a probe at `last` reaches the level, to the millisecond after; `None` if
/// not within `ahead`.
pub fn reaches(
    rate: &Steps,
    importance: &Steps,
    level: f64,
    last: Timestamp,
    ahead: Span,
) -> Option<Timestamp> {
    let mut pile = Pile::default();
    let cost = Obsolescence::new(rate, importance, last, last + ahead);
    for cell in cost.cells() {
        let (wait, left) = (pile.hours_until(level, cell), hours(cell.until - cell.from));
        if wait <= left {
            let into = Span::from_millis((wait * HOUR_MS as f64).ceil() as i64);
            return Some(last + (cell.from + into).min(cell.until));
        }
        pile.pass(left, cell);
    }
    None
}

/// Whether probes whenever the cost has reached the level, the first at the horizon's beginning, are at
/// most so many before its end.
pub fn suffices(cost: &Obsolescence, level: f64, probes: u32) -> bool {
    let (mut pile, mut sent) = (Pile::default(), 1);
    for cell in cost.cells() {
        let mut left = hours(cell.until - cell.from);
        loop {
            let wait = pile.hours_until(level, cell);
            // One at the horizon's very end is after it.
            if wait.is_nan() || wait >= left {
                break;
            }
            sent += 1;
            if sent > probes {
                return false;
            }
            left -= wait;
            pile = Pile::default();
        }
        pile.pass(left, cell);
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
    fn by_hand() {
        let (two, one) = (Steps::constant(2.0).unwrap(), Steps::constant(1.0).unwrap());
        // x² = 4.
        let day = Span::from_days(1);
        assert_eq!(reaches(&two, &one, 4.0, monday(), day), Some(monday() + Span::from_hours(2)));
        assert_eq!(reaches(&two, &one, 1000.0, monday(), day), None);
        // Two wait at one o'clock, and nothing is added: 1 by then, 2 an hour from then on.
        let first_hour = WeekWindow { days: 1, from_minute: 0, until_minute: 60 };
        let morning = Steps::windows(TimeZone::UTC, 0.0, &[(first_hour, 2.0)]).unwrap();
        assert_eq!(reaches(&morning, &one, 5.0, monday(), day), Some(monday() + Span::from_hours(3)));
        // And while nobody minds, none.
        let zero = Steps::constant(0.0).unwrap();
        assert_eq!(reaches(&two, &zero, 1.0, monday(), day), None);
        assert_eq!(reaches(&zero, &one, 1.0, monday(), day), None);
    }

    #[test]
    fn counts_its_own_steps() {
        let cost = Obsolescence::of_cells([(Span::from_hours(24), 2.0, 1.0)]);
        // Every two hours: at 0, 2, … 22.
        assert!(suffices(&cost, 4.0 + 1e-9, 12));
        assert!(!suffices(&cost, 4.0 - 1e-9, 12));
        assert!(!suffices(&cost, 4.0, 11));
    }
}
