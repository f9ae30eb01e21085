//! The update times of a source, and the spans for training and test.
//!
//! Must not know the origin of the times, nor the policy.

use tidewatch_core::model::steps::Steps;
use tidewatch_core::planning::budget::Budget;
use tidewatch_core::time::{Span, Timestamp};

/// The first line of a file of times.
pub const HEADER: &str = "unix_time";

/// The updates of a source.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace {
    /// Its name.
    pub name: String,
    /// Its kind. Sources of one kind form a group and share rate information.
    pub kind: String,
    /// Update times, ascending.
    pub events: Vec<Timestamp>,
    /// Its true rate in updates per hour, if the source is simulated.
    pub truth: Option<Steps>,
    /// True if it is a page, which shows neither dates nor the number of updates.
    pub page: bool,
    /// Its own probe budget, if any.
    pub budget: Option<Budget>,
    /// Its own minimum value of a probe, if any, in hours of delay of one update.
    pub price: Option<f32>,
    /// Its own maximum interval between probes, if any.
    pub max_gap: Option<Span>,
    /// Its own test span, if that is not up to its last event.
    pub tried: Option<TestSpan>,
}

/// The span in which a policy is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TestSpan {
    /// The start of training.
    pub begins: Timestamp,
    /// Scores start after this …
    pub from: Timestamp,
    /// … and end at this, inclusive.
    pub to: Timestamp,
}

const DAY_MS: i64 = 86_400_000;

impl Trace {
    /// A feed with these update times, ascending, and no other properties.
    pub fn new(name: impl Into<String>, kind: impl Into<String>, events: Vec<Timestamp>) -> Self {
        let (name, kind) = (name.into(), kind.into());
        let (truth, page, tried) = (None, false, None);
        Self { name, kind, events, truth, page, budget: None, price: None, max_gap: None, tried }
    }

    /// The last `test` is scored, after `train` of training. The span ends with the UTC day of the last
    /// event, so that its end does not depend on the event's time of day.
    pub fn test_span(&self, train: Span, test: Span) -> Option<TestSpan> {
        if self.tried.is_some() {
            return self.tried;
        }
        let last = self.events.last()?.as_millis().div_euclid(DAY_MS);
        let to = Timestamp::from_millis((last + 1) * DAY_MS);
        Some(TestSpan { begins: to - test - train, from: to - test, to })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_span_ends_with_the_day_of_the_last_event() {
        let noon = Timestamp::parse_iso("2026-11-16T12:00:00Z").unwrap();
        let trace = Trace::new("a", "b", vec![noon]);
        let test_span = trace.test_span(Span::from_days(14), Span::from_days(7)).unwrap();
        assert_eq!(test_span.to, Timestamp::parse_iso("2026-11-17T00:00:00Z").unwrap());
        assert_eq!(
            (test_span.to - test_span.from, test_span.from - test_span.begins),
            (Span::from_days(7), Span::from_days(14))
        );
        let never = TestSpan { to: noon, ..test_span };
        let with_span = Trace { tried: Some(never), ..trace.clone() };
        assert_eq!(with_span.test_span(Span::ZERO, Span::ZERO), Some(never));
        assert_eq!(Trace { events: Vec::new(), ..trace }.test_span(Span::ZERO, Span::ZERO), None);
    }
}
