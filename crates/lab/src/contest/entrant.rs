//! One policy on all sources of a contest.

use std::sync::Arc;

use crate::calibration::Calibration;
use crate::score::Score;
use tidewatch_core::time::Timestamp;

use super::deadline_score::DeadlineScore;
use super::entrant_policy::EntrantPolicy;

/// One policy on one source.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceRun {
    /// The final setting of its knob; its meaning depends on the policy. For `auto` it is the price of a
    /// probe, in hours of delay of one update; for the rules of papers it is their price in hours.
    pub knob: f64,
    /// Probe times, including training.
    pub probes: Vec<Timestamp>,
    /// Their score.
    pub score: Score,
    /// How well its deadlines were met, if it has any.
    pub lateness: Option<DeadlineScore>,
    /// Probes that were sent because of rules, with their names.
    pub for_rules: Vec<(Timestamp, Arc<str>)>,
    /// What its model stated, training included, and what came of it.
    pub calibration: Calibration,
}

/// One policy on all sources.
#[derive(Debug, Clone, PartialEq)]
pub struct Entrant {
    /// The policy.
    pub policy: EntrantPolicy,
    /// In the order of the traces; `None` if it cannot run, such as the oracle without a true rate.
    pub runs: Vec<Option<SourceRun>>,
}
