//! Round robin: sources in the order in which they were opened.
//!
//! Uses no rates. It is the baseline for comparisons.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// A queue of sources.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RoundRobin {
    line: VecDeque<(u32, u32)>,
    /// The current ticket of each source: odd while it is queued, else even.
    tickets: Vec<u32>,
}

impl RoundRobin {
    /// Opens a source.
    pub fn open(&mut self, place: u32) {
        let at = place as usize;
        if self.tickets.len() <= at {
            self.tickets.resize(at + 1, 0);
        }
        if self.tickets[at].is_multiple_of(2) {
            self.tickets[at] = self.tickets[at].wrapping_add(1);
            self.line.push_back((place, self.tickets[at]));
        }
    }

    /// Closes a source. Its queue entry is void and is dropped when it is reached.
    pub fn close(&mut self, place: u32) {
        if let Some(ticket) = self.tickets.get_mut(place as usize).filter(|ticket| **ticket % 2 == 1) {
            *ticket = ticket.wrapping_add(1);
        }
    }

    /// Takes out the first sources, at most `most`.
    pub fn choose(&mut self, most: usize, chosen: &mut Vec<u32>) {
        let enough = chosen.len() + most;
        while chosen.len() < enough
            && let Some((place, ticket)) = self.line.pop_front()
        {
            if self.tickets[place as usize] == ticket {
                self.close(place);
                chosen.push(place);
            }
        }
    }
}
