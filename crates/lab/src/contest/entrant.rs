//! One policy on all sources of a contest.

use std::sync::Arc;

use crate::score::Score;
use tidewatch_core::time::Timestamp;

use super::lateness::Lateness;
use super::who::Who;

/// One policy on one source.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// Where its knob ended up; what that means is the policy's own. For `auto` it is the price of a probe,
    /// in hours that an update would wait.
    pub knob: f64,
    /// When it probed, training included.
    pub probes: Vec<Timestamp>,
    /// What that was worth.
    pub score: Score,
    /// How well its deadlines were kept, if it has any.
    pub lateness: Option<Lateness>,
    /// Probes that were sent because of rules, with their names.
    pub for_rules: Vec<(Timestamp, Arc<str>)>,
}

/// One policy on all sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Entrant {
    /// Which.
    pub who: Who,
    /// In the order of the traces; `None` where it cannot take part, as the oracle without the truth.
    pub runs: Vec<Option<Run>>,
}
