//! What a source published when, and which part of that is learned from and which is judged.
//!
//! Knows times. Must not know where they come from, nor who watches.

use crate::rate::steps::Steps;
use crate::time::{Span, Timestamp};

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
    /// The last `test` of it is judged, after `train` of watching. It ends with the day (UTC) of the
    /// last event, so that no policy is judged on a moment that was chosen by the event itself.
    pub fn exam(&self, train: Span, test: Span) -> Option<Exam> {
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
        let trace = Trace { name: "a".into(), kind: "b".into(), events: vec![noon], truth: None };
        let exam = trace.exam(Span::from_days(14), Span::from_days(7)).unwrap();
        assert_eq!(exam.to, Timestamp::parse_iso("2026-11-17T00:00:00Z").unwrap());
        assert_eq!(
            (exam.to - exam.from, exam.from - exam.begins),
            (Span::from_days(7), Span::from_days(14))
        );
        assert_eq!(Trace { events: Vec::new(), ..trace }.exam(Span::ZERO, Span::ZERO), None);
    }
}
