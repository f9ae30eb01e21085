//! The deadline of one source: by when its next probe must start.

use serde::{Deserialize, Serialize};

use crate::step::Step;
use crate::time::{Span, Timestamp};

use super::garden::Task;
use super::hosts::HostIx;

/// A deadline of a source.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Deadline {
    /// When its last look began.
    pub seen: Timestamp,
    /// The next must begin by then.
    pub by: Timestamp,
    /// The last step that is whole before that, …
    pub step: Step,
    /// … which begins then.
    pub look_at: Timestamp,
    /// From one look to the next, as plans are to have it.
    pub apart: Span,
    /// What it takes, and how many steps may pass.
    pub plant: Task,
    /// Where it lives.
    pub host: HostIx,
    /// It was said that it is tardy.
    pub said: bool,
}
