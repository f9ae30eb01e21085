//! stub
use super::execution::{Interval, RuleId};
use crate::rate::steps::Steps;
use crate::time::{Span, Timestamp};
/// How long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Y.
    Window(Span),
    /// Until the next.
    Overwrite,
}
/// Want
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Want {
    /// Whose wish it is.
    pub rule: RuleId,
    /// X: every so many updates it is to be told.
    pub every: u32,
    /// Updates since it was last told, as the last look showed.
    pub counted: u32,
    /// How soon.
    pub life: Life,
    /// What share of the X-th updates is to be caught in time.
    pub confidence: f64,
}
/// i
pub fn intervals(
    _rate: &Steps,
    _factor: f64,
    _looked: Timestamp,
    _want: &Want,
    _active: &[(Timestamp, Timestamp)],
    _until: Timestamp,
) -> Vec<Interval> {
    Vec::new()
}
