//! Who comes when: a wheel of short lists, one for each step of the near future.
//!
//! Who comes later than the wheel reaches waits in the list that it will be in then, and is passed
//! over until that. Putting in costs the same whatever waits, and taking out is one list after the
//! other. Knows times and places, and that they are taken in order; must not know what they mean.

use serde::{Deserialize, Serialize};

/// Lists on the wheel.
const LISTS: usize = 4096;

/// Ticks that share a list.
const TICKS: u32 = 4;

/// An empty list that had room for more gives it back.
const ROOMY: usize = 1024;

/// Places by time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Wheel {
    lists: Vec<Vec<(u32, u32)>>,
    /// A bit for each list that is not empty, so that the others need not be looked at.
    filled: Vec<u64>,
    /// Everything up to this list was taken out.
    at: u32,
    waiting: usize,
    /// So many lists in a row held nobody whose time had come.
    idle: usize,
}

impl Default for Wheel {
    fn default() -> Self {
        Self { lists: vec![Vec::new(); LISTS], filled: vec![0; LISTS / 64], at: 0, waiting: 0, idle: 0 }
    }
}

impl Wheel {
    /// Puts in a place that comes at this time; refused when the wheel has passed it.
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

    /// Turns on by one list and hands out who is in it, time and place; says whether anyone waited.
    pub fn turn(&mut self, mut hand_out: impl FnMut(u32, u32)) -> bool {
        if self.waiting == 0 {
            return false;
        }
        if self.idle >= LISTS {
            // Nobody came within a whole turn: on to the first who does.
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
                // A crowd came at once, and need not be reckoned with on every turn.
                *list = Vec::new();
            }
        }
        self.idle = if self.waiting == before { self.idle + 1 } else { 0 };
        true
    }

    /// Whether it has not yet come to this time.
    pub fn stands_before(&self, time: u32) -> bool {
        self.at < time / TICKS
    }

    /// Goes back to an earlier time, since when all was handed out.
    pub fn turn_back(&mut self, time: u32) {
        self.at = self.at.min(time / TICKS);
    }
}
