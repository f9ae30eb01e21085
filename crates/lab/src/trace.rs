//! What a source published when, and which part of that is learned from and which is judged.
//!
//! Knows times. Must not know where they come from, nor who watches.

use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::{Span, Timestamp};

/// The first line of a file of times.
pub const HEADER: &str = "unix_time";

/// What a source published.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Its name.
    pub name: String,
    /// What kind of source it is: sources of one kind are a group, and borrow from each other.
    pub kind: String,
    /// When it published, ascending.
    pub events: Vec<Timestamp>,
    /// Its true rate, updates per hour, where the world is made up.
    pub truth: Option<Steps>,
    /// It is a page, which shows neither dates nor how much is new.
    pub page: bool,
    /// What may be spent on it, if that is its own.
    pub budget: Option<Budget>,
    /// What a probe of it must be worth, if not what all are; in hours that an update would wait.
    pub price: Option<f32>,
    /// It must be probed at least this often, if that is its own.
    pub max_gap: Option<Span>,
    /// When it is to be tried, if not up to its last event.
    pub tried: Option<Exam>,
}

/// The time that a policy is tried in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exam {
    /// From when it watches.
    pub begins: Timestamp,
    /// After this it is judged …
    pub from: Timestamp,
    /// … up to and including this.
    pub to: Timestamp,
}

const DAY_MS: i64 = 86_400_000;

impl Trace {
    /// A feed of which nothing is known but what it published, ascending.
    pub fn new(name: impl Into<String>, kind: impl Into<String>, events: Vec<Timestamp>) -> Self {
        let (name, kind) = (name.into(), kind.into());
        let (truth, page, tried) = (None, false, None);
        Self { name, kind, events, truth, page, budget: None, price: None, max_gap: None, tried }
    }

    /// The last `test` of it is judged, after `train` of watching. It ends with the day (UTC) of the
    /// last event, so that no policy is judged on a moment that was chosen by the event itself.
    pub fn exam(&self, train: Span, test: Span) -> Option<Exam> {
        if self.tried.is_some() {
            return self.tried;
        }
        let last = self.events.last()?.as_millis().div_euclid(DAY_MS);
        let to = Timestamp::from_millis((last + 1) * DAY_MS);
        Some(Exam { begins: to - test - train, from: to - test, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exam_ends_with_the_last_day() {
        let noon = Timestamp::parse_iso("2026-11-16T12:00:00Z").unwrap();
        let trace = Trace::new("a", "b", vec![noon]);
        let exam = trace.exam(Span::from_days(14), Span::from_days(7)).unwrap();
        assert_eq!(exam.to, Timestamp::parse_iso("2026-11-17T00:00:00Z").unwrap());
        assert_eq!(
            (exam.to - exam.from, exam.from - exam.begins),
            (Span::from_days(7), Span::from_days(14))
        );
        let never = Exam { to: noon, ..exam };
        let told = Trace { tried: Some(never), ..trace.clone() };
        assert_eq!(told.exam(Span::ZERO, Span::ZERO), Some(never));
        assert_eq!(Trace { events: Vec::new(), ..trace }.exam(Span::ZERO, Span::ZERO), None);
    }
}
