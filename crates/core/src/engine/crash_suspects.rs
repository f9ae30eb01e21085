//! Sources whose probes were in progress when the process died: one of them may be the cause.
//!
//! Suspects with equally many deaths are repeated one at a time, beside all other sources. If they are many and slow,
//! the next one does not wait for the end of the one before. So a few may be in progress at once, and after another
//! death only these are suspects. When a single one is left it is probed while nothing else is in progress. If the process dies during that, it
//! gets a backoff. A finished probe ends the suspicion. Must not know how the process died.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::source_id::SourceId;
use crate::time::{Span, Timestamp};

use super::event::{CrashEvidence, CrashSuspect};

/// A source that was in progress at this many deaths may be the cause by itself.
pub(super) const ALONE_AFTER: u32 = 2;

/// The suspects of one death have begun after this time, however slow they are: a crash must not cost sources their
/// deadlines. Two more deaths multiply it by [`SLOWER`] each, so that fewer and fewer overlap.
const ALL_WITHIN: Span = Span::from_secs(10);
const SLOWER: f64 = 8.0;
const SLOWEST: u32 = 3;

/// The suspects of as many deaths.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct EquallySuspect {
    /// Longest time from one choice to the next.
    longest: Span,
    /// May start when their hosts are free, or are in progress.
    chosen: BTreeSet<SourceId>,
    last_choice: Option<Timestamp>,
    /// Due, in no queue until another one may be chosen.
    next: BTreeSet<SourceId>,
}

impl EquallySuspect {
    /// From when another one may be chosen: now, or after the longest time.
    fn open_from(&self) -> Option<Timestamp> {
        let last = self.last_choice.filter(|_| !self.chosen.is_empty())?;
        Some(last + self.longest)
    }

    fn is_open(&self, now: Timestamp) -> bool {
        self.open_from().is_none_or(|from| from <= now)
    }

    fn choose(&mut self, id: SourceId, now: Timestamp) {
        // Choices that a full step has delayed are made up for.
        let planned = self.open_from().map_or(now, |from| from.max(now - ALL_WITHIN));
        self.next.remove(&id);
        self.chosen.insert(id);
        self.last_choice = Some(planned);
    }
}

/// The suspects, and which of them are probed.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct CrashSuspects {
    /// How often the process died while each was in progress.
    deaths: BTreeMap<SourceId, u32>,
    /// By the number of deaths.
    levels: BTreeMap<u32, EquallySuspect>,
    /// Those that are probed while nothing else is in progress.
    single: BTreeSet<SourceId>,
    /// The one of these that is to be alone in progress, or is. No other probe starts.
    alone: Option<SourceId>,
}

/// Whether a source may start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Admission {
    /// Now.
    Now,
    /// After the source that is probed alone, or when nothing else is in progress.
    LaterInQueue,
    /// After another suspect.
    AfterSuspect,
}

impl CrashSuspects {
    /// The sources that were in progress at earlier deaths.
    pub fn new(suspects: &[CrashSuspect]) -> Self {
        let mut new = Self::default();
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for &CrashSuspect { source, deaths, evidence } in suspects {
            new.deaths.insert(source, deaths);
            match evidence {
                CrashEvidence::BackedOff => drop(new.single.insert(source)),
                CrashEvidence::Beside | CrashEvidence::Alone => *counts.entry(deaths).or_default() += 1,
            }
        }
        for (&deaths, &count) in &counts {
            let slower = SLOWER.powi(deaths.clamp(1, SLOWEST).saturating_sub(1) as i32);
            let longest = ALL_WITHIN.scaled(slower / count as f64);
            new.levels.insert(deaths, EquallySuspect { longest, ..EquallySuspect::default() });
        }
        // The cause was in progress at each of the last deaths.
        if let Some((&deaths, 1)) = counts.last_key_value()
            && deaths >= ALONE_AFTER
        {
            let most = suspects.iter().filter(|suspect| suspect.deaths == deaths);
            new.single.extend(most.map(|suspect| suspect.source));
        }
        new
    }

    /// The level of a suspect that is not probed alone.
    fn level(&mut self, id: SourceId) -> Option<&mut EquallySuspect> {
        let deaths = self.deaths.get(&id).filter(|_| !self.single.contains(&id))?;
        self.levels.get_mut(deaths)
    }

    /// Whether this source may start now, while this number of probes is in progress.
    pub fn admit(&mut self, id: SourceId, in_progress: usize, now: Timestamp) -> Admission {
        if self.alone.is_some_and(|alone| alone != id) {
            return Admission::LaterInQueue;
        }
        if self.single.contains(&id) {
            self.alone = Some(id);
            return if in_progress > 0 { Admission::LaterInQueue } else { Admission::Now };
        }
        let Some(level) = self.level(id).filter(|level| !level.chosen.contains(&id)) else {
            return Admission::Now;
        };
        if level.is_open(now) {
            // It stays chosen if its host is closed: many hosts may open at the same time.
            level.choose(id, now);
            return Admission::Now;
        }
        level.next.insert(id);
        Admission::AfterSuspect
    }

    /// A source is not probed now, though admitted.
    pub fn not_started(&mut self, id: SourceId) {
        self.alone = self.alone.filter(|&alone| alone != id);
    }

    /// A probe is over, ended or cancelled, or its source is removed.
    pub fn over(&mut self, id: SourceId) {
        self.not_started(id);
        // Its suspicion may have ended, and with it its number of deaths.
        for level in self.levels.values_mut() {
            level.chosen.remove(&id);
        }
    }

    /// Chooses suspects that wait, of each number of deaths as many as may be chosen by now.
    pub fn take_next(&mut self, now: Timestamp) -> Vec<SourceId> {
        let mut chosen = Vec::new();
        for level in self.levels.values_mut() {
            while let Some(id) = level.next.first().copied().filter(|_| level.is_open(now)) {
                level.choose(id, now);
                chosen.push(id);
            }
        }
        chosen
    }

    /// When a suspect that waits may be chosen, unless the end of another one comes first.
    pub fn next_start(&self) -> Option<Timestamp> {
        let waiting = self.levels.values().filter(|level| !level.next.is_empty());
        waiting.map(|level| level.open_from().unwrap_or(Timestamp::MIN)).min()
    }

    /// Ends a suspicion. Returns whether there was one.
    pub fn clear(&mut self, id: SourceId) -> bool {
        self.single.remove(&id);
        for level in self.levels.values_mut() {
            level.next.remove(&id);
        }
        self.deaths.remove(&id).is_some()
    }

    /// The source that is to be alone in progress, or is.
    pub fn alone(&self) -> Option<SourceId> {
        self.alone
    }

    /// Moves all times after the clock was set.
    pub fn shift(&mut self, by: Span) {
        for level in self.levels.values_mut() {
            level.last_choice = level.last_choice.map(|at| at + by);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_suspects_are_chosen_in_time_also_if_steps_are_full_meanwhile() {
        let t = |secs: i64| Timestamp::from_secs(1_794_787_200 + secs);
        let suspect = |n| CrashSuspect { source: SourceId(n), deaths: 1, evidence: CrashEvidence::Beside };
        let all: Vec<CrashSuspect> = (0..100).map(suspect).collect();
        let mut suspects = CrashSuspects::new(&all);
        let admitted = all.iter().filter(|it| suspects.admit(it.source, 0, t(0)) == Admission::Now);
        assert_eq!(admitted.count(), 1);
        assert_eq!(suspects.take_next(t(5)).len(), 50);
        assert_eq!(suspects.take_next(t(60)).len(), 49);
    }
}
