//! Is it them or us? When everything fails, it is our own network, and no source's fault.
//!
//! Counts host groups that could not be reached since anything last could. Knows nothing of why.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::hosts::HostIx;

/// This many different hosts unreachable in a row, with no answer from anyone, is an outage here.
const HOSTS: usize = 4;

/// Watches for an outage of our own network.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Outage {
    unreachable: BTreeSet<HostIx>,
    on: bool,
}

/// What an observation changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutageChange {
    /// It has just become clear.
    Began,
    /// Something answered again.
    Ended,
}

impl Outage {
    /// Something answered, whatever it said.
    pub fn answered(&mut self) -> Option<OutageChange> {
        self.unreachable.clear();
        std::mem::take(&mut self.on).then_some(OutageChange::Ended)
    }

    /// A host could not be reached; `hosts` is how many there are in all.
    pub fn unreachable(&mut self, host: HostIx, hosts: usize) -> Option<OutageChange> {
        self.unreachable.insert(host);
        // With few hosts all of them must fail; a single one proves nothing.
        let enough = self.unreachable.len() >= HOSTS.min(hosts.max(2));
        if !self.on && enough {
            self.on = true;
            return Some(OutageChange::Began);
        }
        None
    }

    /// Whether an outage is on.
    pub fn is_on(&self) -> bool {
        self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_dead_host_is_its_own_fault_and_all_dead_is_ours() {
        let mut outage = Outage::default();
        for _ in 0..10 {
            assert_eq!(outage.unreachable(HostIx(0), 50), None);
        }
        assert_eq!(outage.unreachable(HostIx(1), 50), None);
        assert_eq!(outage.unreachable(HostIx(2), 50), None);
        assert_eq!(outage.unreachable(HostIx(3), 50), Some(OutageChange::Began));
        assert!(outage.is_on());
        assert_eq!(outage.answered(), Some(OutageChange::Ended));
        assert!(!outage.is_on());
        assert_eq!(outage.unreachable(HostIx(0), 1), None, "a single host proves nothing");
    }
}
