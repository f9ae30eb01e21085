//! Steps: the pieces of time that slots are counted in.

use serde::{Deserialize, Serialize};

use crate::time::{Span, Timestamp};

/// The number of a step, counted from the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Step(pub i64);

impl Step {
    /// Before all others.
    pub const FIRST: Self = Self(i64::MIN);

    /// So many steps later.
    pub fn plus(self, steps: i64) -> Self {
        Self(self.0.saturating_add(steps))
    }
}

/// How long a step is: at least a millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLength(Span);

impl StepLength {
    /// Of this length.
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

    /// The step that a time is in.
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

    /// When a step begins.
    pub fn start_of(self, step: Step) -> Timestamp {
        Timestamp::from_millis(step.0.saturating_mul(self.0.as_millis()))
    }

    /// How many whole steps are in a span.
    pub fn whole_steps_in(self, span: Span) -> i64 {
        span.as_millis().div_euclid(self.0.as_millis())
    }

    /// How many steps cover a span.
    pub fn steps_to_cover(self, span: Span) -> i64 {
        span.as_millis().saturating_add(self.0.as_millis() - 1) / self.0.as_millis()
    }
}
