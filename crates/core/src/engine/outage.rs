//! Detects an outage of our own network, so that failures during it do not count against sources.
//!
//! Counts host groups that could not be reached since the last answer from any of them.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

use super::hosts::HostIx;

/// This many unreachable hosts in a row, without any answer, are an outage.
const HOSTS: usize = 4;

/// The detector.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Outage {
    unreachable: BTreeSet<HostIx>,
    on: bool,
}

/// A change of the outage state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OutageChange {
    /// An outage was detected.
    Began,
    /// A host answered again.
    Ended,
}

impl Outage {
    /// A host answered, with any status.
    pub fn answered(&mut self) -> Option<OutageChange> {
        self.unreachable.clear();
        std::mem::take(&mut self.on).then_some(OutageChange::Ended)
    }

    /// A host could not be reached; `hosts` is the number of all hosts.
    pub fn unreachable(&mut self, host: HostIx, hosts: usize) -> Option<OutageChange> {
        self.unreachable.insert(host);
        // With few hosts all of them must fail; a single host is no proof.
        let enough = self.unreachable.len() >= HOSTS.min(hosts.max(2));
        if !self.on && enough {
            self.on = true;
            return Some(OutageChange::Began);
        }
        None
    }

    /// Whether there is an outage.
    pub fn is_outage(&self) -> bool {
        self.on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_unreachable_host_is_no_outage_and_several_are() {
        let mut outage = Outage::default();
        for _ in 0..10 {
            assert_eq!(outage.unreachable(HostIx(0), 50), None);
        }
        assert_eq!(outage.unreachable(HostIx(1), 50), None);
        assert_eq!(outage.unreachable(HostIx(2), 50), None);
        assert_eq!(outage.unreachable(HostIx(3), 50), Some(OutageChange::Began));
        assert!(outage.is_outage());
        assert_eq!(outage.answered(), Some(OutageChange::Ended));
        assert!(!outage.is_outage());
        assert_eq!(outage.unreachable(HostIx(0), 1), None, "a single host is no proof");
    }
}
