//! The round robin: one after the other, in the order in which they came to wait.
//!
//! Knows nothing of rates. Here as the yardstick that everybody knows.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Sources in turn.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct RoundRobin {
    line: VecDeque<(u32, u32)>,
    /// The ticket under which each waits; even while it does not.
    tickets: Vec<u32>,
}

impl RoundRobin {
    /// A source waits from now on.
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

    /// A source waits no longer. Its ticket is found to be void when its turn comes.
    pub fn close(&mut self, place: u32) {
        if let Some(ticket) = self.tickets.get_mut(place as usize).filter(|ticket| **ticket % 2 == 1) {
            *ticket = ticket.wrapping_add(1);
        }
    }

    /// Takes out the first in line, at most `most`.
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
