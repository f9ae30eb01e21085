//! Steps: the time units in which slots are counted.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// The number of a step, counted from the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step(pub i64);

impl Step {
    /// The earliest step.
    pub const FIRST: Self = Self(i64::MIN);

    /// The step `steps` later.
    pub fn plus(self, steps: i64) -> Self {
        Self(self.0.saturating_add(steps))
    }
}

/// The length of a step: at least a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLength(Span);

impl StepLength {
    /// A step of this length.
    pub fn new(length: Span) -> Self {
        Self(length.max(Span::from_millis(1)))
    }

    /// As a span.
    pub fn span(self) -> Span {
        self.0
    }

    /// In hours.
    pub fn hours(self) -> f64 {
        self.0.as_secs_f64() / 3600.0
    }

    /// The step that contains a time.
    ///
    /// ```
    /// # use tidewatch_core::step::{Step, StepLength};
    /// # use tidewatch_core::time::{Span, Timestamp};
    /// let length = StepLength::new(Span::from_secs(10));
    /// assert_eq!(length.step_of(Timestamp::from_secs(29)), Step(2));
    /// assert_eq!(length.start_of(Step(2)), Timestamp::from_secs(20));
    /// ```
    pub fn step_of(self, at: Timestamp) -> Step {
        Step(at.as_millis().div_euclid(self.0.as_millis()))
    }

    /// The start of a step.
    pub fn start_of(self, step: Step) -> Timestamp {
        Timestamp::from_millis(step.0.saturating_mul(self.0.as_millis()))
    }

    /// The number of whole steps in a span.
    pub fn whole_steps_in(self, span: Span) -> i64 {
        span.as_millis().div_euclid(self.0.as_millis())
    }

    /// The number of steps that cover a span.
    pub fn steps_to_cover(self, span: Span) -> i64 {
        span.as_millis().saturating_add(self.0.as_millis() - 1) / self.0.as_millis()
    }
}
