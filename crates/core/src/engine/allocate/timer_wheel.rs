//! A timer wheel: one short list for each step of the near future.
//!
//! An entry beyond the wheel's range is in the list of its time modulo the range, and is skipped until
//! then. Insertion is O(1); entries are taken out list by list. Knows times and indices; must not know
//! their meaning.

use serde::{Deserialize, Serialize};

/// Lists on the wheel.
const LISTS: usize = 4096;

/// Ticks per list.
const TICKS: u32 = 4;

/// An empty list with a larger capacity is freed.
const ROOMY: usize = 1024;

/// Indices by time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wheel {
    lists: Vec<Vec<(u32, u32)>>,
    /// One bit per list that is not empty, so that empty lists are skipped.
    filled: Vec<u64>,
    /// All lists up to this one were taken out.
    at: u32,
    waiting: usize,
    /// Consecutive lists without a due entry.
    idle: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Self { lists: vec![Vec::new(); LISTS], filled: vec![0; LISTS / 64], at: 0, waiting: 0, idle: 0 }
    }
}

impl Wheel {
    /// Inserts an index at this time. Returns false if the wheel has passed it.
    pub fn put(&mut self, time: u32, place: u32) -> bool {
        let list = time / TICKS;
        if list <= self.at {
            return false;
        }
        let list = list as usize % LISTS;
        self.lists[list].push((time, place));
        self.filled[list / 64] |= 1 << (list % 64);
        self.waiting += 1;
        true
    }

    /// Advances by one list and hands out its due entries (time, index). Returns false if the wheel is
    /// empty.
    pub fn advance(&mut self, mut hand_out: impl FnMut(u32, u32)) -> bool {
        if self.waiting == 0 {
            return false;
        }
        if self.idle >= LISTS {
            // A whole round had no due entry: jump to the first one.
            let first = self.lists.iter().flatten().map(|&(time, _)| time / TICKS).min();
            self.at = first.map_or(self.at, |first| self.at.max(first - 1));
        }
        self.at += 1;
        let (at, before) = (self.at, self.waiting);
        let number = at as usize % LISTS;
        if self.filled[number / 64] & (1 << (number % 64)) == 0 {
            self.idle += 1;
            return true;
        }
        let list = &mut self.lists[number];
        list.retain(|&(time, place)| {
            let later = time / TICKS > at;
            if !later {
                hand_out(time, place);
                self.waiting -= 1;
            }
            later
        });
        if list.is_empty() {
            self.filled[number / 64] &= !(1 << (number % 64));
            if list.capacity() > ROOMY {
                // Frees the memory of a rare peak.
                *list = Vec::new();
            }
        }
        self.idle = if self.waiting == before { self.idle + 1 } else { 0 };
        true
    }

    /// Whether the wheel has not reached this time.
    pub fn is_before(&self, time: u32) -> bool {
        self.at < time / TICKS
    }

    /// Moves back to an earlier time. All entries since then were taken out.
    pub fn rewind(&mut self, time: u32) {
        self.at = self.at.min(time / TICKS);
    }
}
