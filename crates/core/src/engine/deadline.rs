//! The deadline of one source: by when its next probe must start.

use serde::{Deserialize, Serialize};

use crate::step::Step;
use crate::time::{Span, Timestamp};

use super::garden::Task;
use super::hosts::HostIx;

/// The deadline of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Deadline {
    /// When its last counted probe started.
    pub seen: Timestamp,
    /// The latest start of the next probe.
    pub by: Timestamp,
    /// The last whole step before that, …
    pub step: Step,
    /// … and its start.
    pub probe_at: Timestamp,
    /// The longest gap between two probes that plans may use.
    pub apart: Span,
    /// The cost of a probe and the longest gap in steps.
    pub task: Task,
    /// The source's host group.
    pub host: HostIx,
    /// The missed deadline was reported.
    pub reported: bool,
}
