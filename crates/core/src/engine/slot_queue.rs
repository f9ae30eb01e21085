//! The queue of sources that may be probed at once and wait for a slot.
//!
//! All have passed the gate and have an open host, so each slot that is handed out is used. Sources with a
//! deadline are ordered by it. Due sources are ordered by the cost of waiting, which is Whittle's index
//! for every allocator. Remaining slots are assigned to sampled sources by the configured allocator.
//! Knows indices and rates; must not know why a source is queued.

use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::source_id::SourceId;
use crate::step::{Step, StepLength};
use crate::time::{Span, Timestamp};

use super::allocate::{Allocation, OpenSource};
use super::garden::Work;
use super::params::{Allocator, FleetParams};
use super::wait_state::SlotClass;

/// Sources that wait for a slot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct SlotQueue {
    /// Sources by deadline, and the deadline of each index.
    ends: BTreeSet<(SlotDeadline, u32)>,
    end_of: BTreeMap<u32, SlotDeadline>,
    due: Allocation,
    spare: Allocation,
    waiting: usize,
    /// The source at each index.
    places: Vec<Option<SourceId>>,
    free: Vec<u32>,
    /// Steps are counted from this time.
    began: Timestamp,
    step: StepLength,
}

/// The deadline of a queued source: by step, then the cheapest and the longest window first (MEDD), then by
/// time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct SlotDeadline {
    pub step: Step,
    pub cost: Work,
    pub window: Reverse<u32>,
    pub at: Timestamp,
}

/// The largest age that is distinguished; older sources are chosen first in any case.
const LONGEST_AGE: Span = Span::from_days(60);

/// Allocators count ages in quarters of a step, in 32 bits; half of the range is left as margin. With steps
/// of ten seconds that is 170 years, with steps of a millisecond six days.
const MOST_STEPS: f64 = (1_u64 << 29) as f64;

impl SlotQueue {
    pub fn new(params: &FleetParams, seed: u64, now: Timestamp) -> Self {
        let step = StepLength::new(params.step);
        Self {
            ends: BTreeSet::new(),
            end_of: BTreeMap::new(),
            due: Allocation::new(Allocator::Index, seed),
            spare: Allocation::new(params.allocator, seed),
            waiting: 0,
            places: Vec::new(),
            free: Vec::new(),
            began: now - LONGEST_AGE.min(step.span().scaled(MOST_STEPS / 2.0)),
            step,
        }
    }

    /// Empties the queue; sources keep their indices.
    pub fn reset(&mut self, params: &FleetParams, seed: u64, now: Timestamp) {
        let (places, free) = (std::mem::take(&mut self.places), std::mem::take(&mut self.free));
        *self = Self { places, free, ..Self::new(params, seed, now) };
    }

    /// Assigns an index to a source.
    pub fn place(&mut self, id: SourceId) -> u32 {
        match self.free.pop() {
            Some(place) => {
                self.places[place as usize] = Some(id);
                place
            }
            None => {
                self.places.push(Some(id));
                u32::try_from(self.places.len() - 1).unwrap_or(u32::MAX)
            }
        }
    }

    /// Removes a source and frees its index.
    pub fn leave(&mut self, place: u32) {
        self.close_end(place);
        self.due.forget(place);
        self.spare.forget(place);
        self.places[place as usize] = None;
        self.free.push(place);
    }

    /// Whether the step counter is near its limit, so that all sources must be queued again.
    pub fn is_full(&self, now: Timestamp) -> bool {
        self.steps(now) > MOST_STEPS
    }

    /// The step of a time, as the engine counts them.
    pub fn step_of(&self, at: Timestamp) -> Step {
        self.step.step_of(at)
    }

    /// A time in steps.
    pub fn steps(&self, at: Timestamp) -> f64 {
        (at - self.began).max(Span::ZERO).as_secs_f64() / self.step.span().as_secs_f64()
    }

    /// Moves all times after the clock was set; ages stay the same.
    pub fn shift(&mut self, by: Span) {
        let steps = self.step.whole_steps_in(by);
        self.end_of.values_mut().for_each(|end| (end.step, end.at) = (end.step.plus(steps), end.at + by));
        self.ends = self.end_of.iter().map(|(&place, &end)| (end, place)).collect();
        self.began += by;
    }

    /// The step length in hours.
    pub fn step_hours(&self) -> f64 {
        self.step.hours()
    }

    /// Queues a source for a slot.
    pub fn open(&mut self, place: u32, source: OpenSource, class: SlotClass) {
        self.waiting += 1;
        self.of(class).open(place, source);
    }

    /// Queues a source that needs a slot by a deadline.
    pub fn open_until(&mut self, place: u32, until: SlotDeadline) {
        self.waiting += 1;
        self.close_end(place);
        self.end_of.insert(place, until);
        self.ends.insert((until, place));
    }

    fn close_end(&mut self, place: u32) {
        if let Some(until) = self.end_of.remove(&place) {
            self.ends.remove(&(until, place));
        }
    }

    /// Removes a source from the queue.
    pub fn close(&mut self, place: u32, class: SlotClass) {
        self.waiting -= 1;
        match class {
            SlotClass::Deadline => self.close_end(place),
            class => self.of(class).close(place),
        }
    }

    /// Takes out the sources to probe now, at most `most`.
    pub fn choose(&mut self, class: SlotClass, now: Timestamp, most: usize) -> Vec<SourceId> {
        let mut chosen = Vec::new();
        if self.waiting > 0 && most > 0 {
            if class == SlotClass::Deadline {
                chosen.extend(self.ends.iter().take(most).map(|&(_, place)| place));
                chosen.iter().for_each(|&place| self.close_end(place));
            } else {
                let now = self.steps(now);
                self.of(class).choose(now, most, &mut chosen);
            }
        }
        self.waiting -= chosen.len();
        chosen.into_iter().filter_map(|place| self.places[place as usize]).collect()
    }

    /// The source at an index.
    pub fn source_at(&self, place: u32) -> Option<SourceId> {
        self.places.get(place as usize).copied().flatten()
    }

    /// How many sources are queued.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    fn of(&mut self, class: SlotClass) -> &mut Allocation {
        if class == SlotClass::Sampled { &mut self.spare } else { &mut self.due }
    }
}
