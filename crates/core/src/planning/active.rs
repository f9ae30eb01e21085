//! The active period of a rule.
//!
//! Venu Gopal et al. give each notification rule a period 𝒯 of support. Here it consists of a range of dates
//! and of hours of some days of the week. Outside of it the rule has no effect.
//!
//! Holds spans of time. May not know the requirement of a rule.

use crate::model::steps::Steps;
use crate::time::{Span, Timestamp};

/// When a rule is in force.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ActiveHours {
    /// Start.
    pub from: Option<Timestamp>,
    /// End.
    pub until: Option<Timestamp>,
    /// Hours of the week: above zero if active; `None`: always.
    pub week: Option<Steps>,
}

impl ActiveHours {
    /// The active spans between two instants; ascending and disjoint, each without its end.
    ///
    /// ```
    /// # use tidewatch_core::model::{importance::WeekWindow, steps::Steps};
    /// # use tidewatch_core::planning::active::ActiveHours;
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let office = WeekWindow { days: 0b1_1111, from_minute: 540, until_minute: 1080 };
    /// let week = Steps::windows(jiff::tz::TimeZone::UTC, 0.0, &[(office, 1.0)]).unwrap();
    /// let friday = Timestamp::parse_iso("2026-11-20T12:00:00Z").unwrap();
    /// let active = ActiveHours { week: Some(week), ..ActiveHours::default() };
    /// let spans = active.spans(friday, friday + Span::from_days(3));
    /// let hours: Vec<i64> = spans.iter().map(|&(from, to)| (to - from).as_millis() / 3_600_000).collect();
    /// assert_eq!(hours, [6, 3], "the end of Friday and the start of Monday");
    /// ```
    pub fn spans(&self, from: Timestamp, until: Timestamp) -> Vec<(Timestamp, Timestamp)> {
        let from = self.from.map_or(from, |begins| begins.max(from));
        let until = self.until.map_or(until, |ends| ends.min(until));
        if from >= until {
            return Vec::new();
        }
        let Some(week) = &self.week else { return vec![(from, until)] };
        let mut spans: Vec<(Timestamp, Timestamp)> = Vec::new();
        let mut begins = from;
        for (ends, value) in week.over(from, until) {
            let ends = from + Span::from_millis(ends);
            if value > 0.0 {
                match spans.last_mut() {
                    Some(last) if last.1 == begins => last.1 = ends,
                    _ => spans.push((begins, ends)),
                }
            }
            begins = ends;
        }
        spans
    }

    /// Whether the rule is active at this time.
    pub fn holds(&self, at: Timestamp) -> bool {
        !self.spans(at, at + Span::from_millis(1)).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_limited_to_the_period() {
        let at = Timestamp::from_secs;
        let active = ActiveHours { from: Some(at(10)), until: Some(at(20)), week: None };
        assert_eq!(active.spans(at(0), at(100)), [(at(10), at(20))]);
        assert_eq!(active.spans(at(12), at(15)), [(at(12), at(15))]);
        assert!(active.spans(at(20), at(100)).is_empty());
        assert!(active.holds(at(10)) && !active.holds(at(20)) && !active.holds(at(9)));
    }
}
