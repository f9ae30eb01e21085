//! Sources whose probes were in progress when the process died: one of them may be the cause.
//!
//! After one death they are probed one at a time among themselves, beside the other sources. A source of two deaths
//! is probed while nothing else is in progress. If the process dies during that, the source gets a backoff like
//! one that fails. A finished probe ends the suspicion. Must not know how the process died.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

use crate::source_id::SourceId;

/// A source that was in progress at this many deaths is probed alone.
pub(super) const ALONE_AFTER: u32 = 2;

/// The suspects, and which of them is probed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CrashSuspects {
    /// How often the process died while each was in progress.
    deaths: BTreeMap<SourceId, u32>,
    /// The suspect in progress.
    in_progress: Option<SourceId>,
    /// Ready, until the suspect in progress has ended.
    next: BTreeSet<SourceId>,
    /// The source that is to be alone in progress, or is. No other probe starts.
    alone: Option<SourceId>,
}

/// Whether a source may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Now.
    Now,
    /// After the source that is probed alone, or when nothing else is in progress.
    LaterInQueue,
    /// After the suspect in progress.
    AfterSuspect,
}

impl CrashSuspects {
    /// Adds a source that was in progress at this number of deaths.
    pub fn add(&mut self, id: SourceId, deaths: u32) {
        self.deaths.insert(id, deaths);
    }

    /// Whether this source may start while this number of probes is in progress.
    pub fn admit(&mut self, id: SourceId, in_progress: usize) -> Admission {
        if self.alone.is_some_and(|alone| alone != id) {
            return Admission::LaterInQueue;
        }
        let Some(&deaths) = self.deaths.get(&id) else { return Admission::Now };
        if deaths >= ALONE_AFTER {
            self.alone = Some(id);
            if in_progress > 0 {
                return Admission::LaterInQueue;
            }
        } else if self.in_progress.is_some() {
            self.next.insert(id);
            return Admission::AfterSuspect;
        }
        Admission::Now
    }

    /// The probe of an admitted source started.
    pub fn started(&mut self, id: SourceId) {
        if self.deaths.contains_key(&id) {
            self.in_progress = Some(id);
        }
    }

    /// A source is not probed now, though admitted.
    pub fn not_started(&mut self, id: SourceId) {
        self.alone = self.alone.filter(|&alone| alone != id);
    }

    /// A probe is over, ended or cancelled. Returns the suspect that comes next.
    pub fn over(&mut self, id: SourceId) -> Option<SourceId> {
        self.not_started(id);
        if self.in_progress != Some(id) {
            return None;
        }
        self.in_progress = None;
        self.next.pop_first()
    }

    /// Ends a suspicion. Returns whether there was one.
    pub fn clear(&mut self, id: SourceId) -> bool {
        self.deaths.remove(&id).is_some()
    }

    /// The source that is to be alone in progress, or is.
    pub fn alone(&self) -> Option<SourceId> {
        self.alone
    }
}
